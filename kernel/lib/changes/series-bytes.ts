/**
 * Text of series as UTF-8, kept one behind the other in one buffer: a row costs a look at two numbers, and no object. A series has one slot, which it may lose to
 * another; texts of what has lost its slot stay until the buffer is full, when all begin anew.
 */
const FIRST_SLOTS = 64
const MOST_SLOTS = 1 << 16
const FIRST_BYTES = 4096
const MOST_BYTES = 8 << 20
const UNKNOWN = -1
const encoder = new TextEncoder()

export class SeriesBytes {
  /** Where the text of the series found last is. */
  bytes = new Uint8Array(FIRST_BYTES)
  start = 0
  end = 0
  private slots = new Slots(FIRST_SLOTS)
  private used = 0
  private known = 0

  /** Sets `start` and `end`. @param textOf a series that has not been asked for lately. */
  find(series: number, textOf: (series: number) => string): void {
    const { slots } = this
    const slot = series & slots.mask
    if (slots.series[slot] !== series) return this.add(series, textOf(series))
    this.start = slots.starts[slot]
    this.end = slots.ends[slot]
  }

  private add(series: number, text: string): void {
    const most = text.length * 3
    if (this.used + most > MOST_BYTES) this.clear()
    if (this.used + most > this.bytes.length) this.grow(this.used + most)
    this.start = this.used
    this.end = this.used + encoder.encodeInto(text, this.bytes.subarray(this.used)).written
    this.used = this.end
    if (this.known++ >= this.slots.mask && this.slots.mask + 1 < MOST_SLOTS) this.widen()
    this.slots.put(series, this.start, this.end)
  }

  private grow(needed: number): void {
    const grown = new Uint8Array(Math.max(needed, Math.min(this.bytes.length * 2, MOST_BYTES)))
    grown.set(this.bytes.subarray(0, this.used))
    this.bytes = grown
  }

  private widen(): void {
    const { series, starts, ends } = this.slots
    this.slots = new Slots(series.length * 2)
    for (let slot = 0; slot < series.length; slot++) if (series[slot] !== UNKNOWN) this.slots.put(series[slot], starts[slot], ends[slot])
  }

  private clear(): void {
    this.slots.series.fill(UNKNOWN)
    this.used = 0
    this.known = 0
  }
}

/** Of a power of two: a series is at its lowest bits. */
class Slots {
  readonly mask: number
  readonly series: Int32Array
  readonly starts: Int32Array
  readonly ends: Int32Array

  constructor(count: number) {
    this.mask = count - 1
    this.series = new Int32Array(count).fill(UNKNOWN)
    this.starts = new Int32Array(count)
    this.ends = new Int32Array(count)
  }

  put(series: number, start: number, end: number): void {
    const slot = series & this.mask
    this.series[slot] = series
    this.starts[slot] = start
    this.ends[slot] = end
  }
}
