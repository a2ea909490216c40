/**
 * When a trigger has fired for a series, by the times of the points: the memory behind the cooldown, and behind "never twice for one point".
 *
 * A point is silent when its time is within a cooldown of a time that fired, before or after: late points and replayed ones are judged by their own time, whenever
 * they arrive. Times that fired and lie less than two cooldowns apart are one span, since every time between them is silent. Of spans a bounded number is kept: when
 * the oldest is forgotten, all up to its end stays silent.
 */

const MAX_SPANS = 32
const HIGH = 2 ** 32
/** Doubles of today's nanoseconds are 256 apart. */
const ROUNDING = 4096

/** What is kept of them: times as decimal text, start and end of each span; before them the floor. */
export interface KeptSpans {
  floor?: string
  spans: string[]
}

export class Spans {
  private readonly starts: bigint[] = []
  private readonly ends: bigint[] = []
  private floor: bigint | undefined
  /** Times for sure within the newest span's cooldown. */
  private surelyFrom = Number.POSITIVE_INFINITY
  private surelyTo = Number.NEGATIVE_INFINITY

  /** @param floor up to which all is silent. */
  constructor(floor?: bigint) {
    this.floor = floor
  }

  static from({ floor, spans }: KeptSpans, cooldown: bigint): Spans {
    const made = new Spans(floor === undefined ? undefined : BigInt(floor))
    for (let i = 0; i + 1 < spans.length; i += 2) {
      made.starts.push(BigInt(spans[i]))
      made.ends.push(BigInt(spans[i + 1]))
    }
    made.remember(cooldown)
    return made
  }

  kept(): KeptSpans {
    const spans = this.starts.flatMap((start, i) => [String(start), String(this.ends[i])])
    return this.floor === undefined ? { spans } : { floor: String(this.floor), spans }
  }

  /** The newest time that fired. */
  get newest(): bigint {
    return this.ends[this.ends.length - 1] ?? this.floor ?? 0n
  }

  /** Whether the time, in two halves, is for sure silent; false says nothing. */
  isSurelySilent(low: number, high: number): boolean {
    const time = high * HIGH + (low >>> 0)
    return time > this.surelyFrom && time < this.surelyTo
  }

  isSilent(time: bigint, cooldown: bigint): boolean {
    if (this.floor !== undefined && time <= this.floor) return true
    for (let i = this.ends.length - 1; i >= 0; i--) {
      const [start, end] = [this.starts[i], this.ends[i]]
      if (time >= start && time <= end) return true
      if (time > start - cooldown && time < end + cooldown) return true
    }
    return false
  }

  /** @param time one that is not silent. @param most spans that are kept. */
  add(time: bigint, cooldown: bigint, most = MAX_SPANS): void {
    let at = this.starts.length
    while (at > 0 && this.starts[at - 1] > time) at--
    this.starts.splice(at, 0, time)
    this.ends.splice(at, 0, time)
    this.join(at, cooldown)
    this.join(at - 1, cooldown)
    while (this.starts.length > most) {
      this.starts.shift()
      this.floor = this.ends.shift()
    }
    this.remember(cooldown)
  }

  /** Makes one span of this and the next where they are near enough. */
  private join(i: number, cooldown: bigint): void {
    if (i < 0 || i + 1 >= this.starts.length || this.starts[i + 1] - this.ends[i] >= 2n * cooldown) return
    this.ends.splice(i, 2, this.ends[i + 1])
    this.starts.splice(i + 1, 1)
  }

  private remember(cooldown: bigint): void {
    const last = this.ends.length - 1
    if (last < 0) return
    this.surelyFrom = Number(this.starts[last] - cooldown) + ROUNDING
    this.surelyTo = Number(this.ends[last] + cooldown) - ROUNDING
  }
}
