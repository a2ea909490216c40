/** Rows of (series, milliseconds, value), sorted, as blocks of samples. */
import type { FieldInfo } from 'svcdb'
import { SAMPLE_HISTOGRAM, SAMPLE_STALE, type SampleRows, TooManySamplesError } from 'svcdb/lib/columns'
import { isStaleHistogram } from 'svcdb/lib/histogram'
import type { ReadBlock, ReadColumn } from './native/decode.ts'
import { idAt } from './series-store.ts'
import { decimalAt } from './values.ts'

/** Samples after which a block ends with its series. */
const ENOUGH = 65_536
/** Prometheus' mark for the end of a series, in halves. */
const STALE_LOW = 2
const STALE_HIGH = 0x7ff00000

/** @param places of the series in the set, by id. @param count series of the set. */
export async function* sampleBlocks(
  answers: AsyncIterable<ReadBlock>,
  field: FieldInfo,
  places: ReadonlyMap<string, number>,
  count: number,
  max = Number.POSITIVE_INFINITY,
): AsyncGenerator<SampleRows> {
  const block = new Builder(field)
  for await (const { rows, columns } of answers) {
    const [ids, times, values] = columns
    const ms = new Float64Array(times.bytes.buffer)
    let from = 0
    for (let row = 1; row <= rows; row++) {
      if (row < rows && sameId(ids.bytes, row, row - 1)) continue
      const place = places.get(idAt(ids.bytes, from))
      if (place !== undefined) {
        if (place !== block.current) {
          if (block.samples >= ENOUGH || block.samples > max) yield* block.take(max)
          block.open(place)
        }
        block.add(ms, values, from, row)
        if (block.inCurrent > max) throw new TooManySamplesError(max)
      }
      from = row
    }
  }
  yield* block.take(max)
  yield* block.rest(count)
}

function sameId({ buffer, byteOffset }: Uint8Array, a: number, b: number): boolean {
  const words = new BigUint64Array(buffer, byteOffset)
  return words[a * 2] === words[b * 2] && words[a * 2 + 1] === words[b * 2 + 1]
}

class Builder {
  /** Place of the series whose samples come. */
  current = -1
  samples = 0
  private readonly field: FieldInfo
  /** Place of the first series of the block. */
  private first = 0
  /** Of each series from `first` to `current`. */
  private starts: number[] = []
  private times = new Float64Array(1024)
  private values = new Float64Array(1024)
  private kinds: Uint8Array | undefined
  private histograms: (Uint8Array | undefined)[] | undefined

  constructor(field: FieldInfo) {
    this.field = field
  }

  get inCurrent(): number {
    return this.samples - (this.starts.at(-1) ?? 0)
  }

  open(place: number): void {
    while (this.first + this.starts.length <= place) this.starts.push(this.samples)
    this.current = place
  }

  add(ms: Float64Array, column: ReadColumn, from: number, to: number): void {
    this.room(to - from)
    for (let row = from; row < to; row++) {
      // Of the samples within a millisecond the last.
      const at = this.inCurrent > 0 && this.times[this.samples - 1] === ms[row] ? this.samples - 1 : this.samples++
      this.times[at] = ms[row]
      if (this.kinds !== undefined) this.kinds[at] = 0
      this.set(at, column, row)
    }
  }

  /** What is complete, in blocks of at most `max` samples. The series that came last is complete. */
  *take(max: number): Generator<SampleRows> {
    if (this.starts.length === 0) return
    const ends = [...this.starts.slice(1), this.samples]
    for (let i = 0; i < this.starts.length; ) {
      let next = i + 1
      while (next < this.starts.length && ends[next] - this.starts[i] <= max) next++
      yield this.cut(i, next, ends[next - 1])
      i = next
    }
    this.first += this.starts.length
    this.starts = []
    this.samples = 0
    this.kinds = undefined
    this.histograms = undefined
  }

  /** Series behind the last one that had samples. */
  *rest(count: number): Generator<SampleRows> {
    if (this.first >= count) return
    yield { first: this.first, starts: new Int32Array(count - this.first + 1), times: new Float64Array(0), values: new Float64Array(0) }
  }

  private cut(i: number, next: number, end: number): SampleRows {
    const from = this.starts[i]
    const starts = Int32Array.from({ length: next - i + 1 }, (_, k) => (k === next - i ? end : this.starts[i + k]) - from)
    return {
      first: this.first + i,
      starts,
      times: this.times.slice(from, end),
      values: this.values.slice(from, end),
      ...(this.kinds === undefined ? {} : { kinds: this.kinds.slice(from, end) }),
      ...(this.histograms === undefined ? {} : { histograms: this.histograms.slice(from, end) }),
    }
  }

  private set(at: number, column: ReadColumn, row: number): void {
    const { type, scale = 0 } = this.field
    if (type === 'float64') {
      // Not as a number: a NaN may lose its bits.
      const words = new Int32Array(column.bytes.buffer, row * 8, 2)
      const own = new Int32Array(this.values.buffer, at * 8, 2)
      own[0] = words[0]
      own[1] = words[1]
      if (words[0] === STALE_LOW && words[1] === STALE_HIGH) this.mark(at, SAMPLE_STALE)
    } else if (type === 'histogram') {
      const bytes = column.texts?.[row] as Uint8Array
      this.mark(at, isStaleHistogram(bytes) ? SAMPLE_STALE : SAMPLE_HISTOGRAM)
      this.histograms ??= []
      this.histograms[at] = bytes
      this.values[at] = 0
    } else this.values[at] = numberOf(type, scale, column, row)
  }

  private mark(at: number, kind: number): void {
    this.kinds ??= new Uint8Array(this.times.length)
    this.kinds[at] = kind
  }

  private room(more: number): void {
    const needed = this.samples + more
    if (needed <= this.times.length) return
    const length = Math.max(needed, this.times.length * 2)
    const [times, values] = [new Float64Array(length), new Float64Array(length)]
    times.set(this.times)
    // As bytes: a NaN may lose its bits.
    new Uint8Array(values.buffer).set(new Uint8Array(this.values.buffer))
    this.times = times
    this.values = values
    if (this.kinds === undefined) return
    const kinds = new Uint8Array(length)
    kinds.set(this.kinds)
    this.kinds = kinds
  }
}

function numberOf(type: FieldInfo['type'], scale: number, column: ReadColumn, row: number): number {
  const { buffer } = column.bytes
  switch (type) {
    case 'int64':
      return Number(new BigInt64Array(buffer, row * 8, 1)[0])
    case 'uint64':
      return Number(new BigUint64Array(buffer, row * 8, 1)[0])
    case 'bool':
      return column.bytes[row]
    default:
      return Number(decimalAt(column, row)) / 10 ** scale
  }
}
