/**
 * A sample block: one field's values of some rows, ordered by series and time, as evaluators want them. Sample blocks are made once, from a full
 * memtable chunk or a part of a segment, and kept (block-cache.ts); they never change.
 */
import { type Integers, isIntegers, SAMPLE_FLOAT, SAMPLE_HISTOGRAM, SAMPLE_STALE, TooManySamplesError } from 'svcdb/lib/columns'
import { isStaleHistogram } from 'svcdb/lib/histogram'
import { milliseconds, restOf } from '../../parquet/nanoseconds.ts'

/** The staleness marker's low half; a marker that became a quiet NaN on its way has it too. The high half of every NaN has the bits NAN_HIGH. */
export const STALE_LOW = 2
export const NAN_HIGH = 0x7ff00000
/** Beside its arrays. */
export const BLOCK_BYTES = 256
/** What row-runs.ts keeps of each series of a frame: times of its first and last row. */
export const EDGES_BYTES = 16
const BLOB_BYTES = 64

export interface SampleBlock {
  /** The series in it, ascending, and where their samples start; one more start than series. */
  series: Int32Array
  starts: Int32Array
  /** Whole milliseconds since the Unix epoch, rounded down; ascending within a series, duplicates possible. */
  times: Float64Array
  /** Nanoseconds beyond the millisecond; absent when there are none. */
  rests?: Int32Array
  /** Integers of value * divisor where they are stored as such. */
  values: Float64Array | Integers
  /** Of integers. */
  divisor?: number
  /** Absent when all are floats. */
  kinds?: Uint8Array
  blobs?: (Uint8Array | undefined)[]
  /** Some series has several samples of a millisecond. */
  duplicates?: true
  /** Some rows of these series have no value of the field. */
  sparse?: true
  /** Milliseconds; above the last when there are no samples. */
  minTime: number
  maxTime: number
}

/** What a block without blobs takes. */
export function blockBytes({ series, times, values, kinds, rests }: SampleBlock): number {
  const each = 8 + values.BYTES_PER_ELEMENT + (kinds === undefined ? 0 : 1) + (rests === undefined ? 0 : 4)
  return BLOCK_BYTES + series.length * 8 + times.length * each + zoneBytes(values)
}

/** Room for what SQL keeps of each 64 values of a block that stays (sql/lane/zones.ts): minimum, maximum and sum. */
export function zoneBytes(values: Float64Array | Integers): number {
  return (values.length >> 6) * 3 * (isIntegers(values) ? 4 : 8)
}

/** @param low, high halves of a float's bits. */
export function isStaleMarker(low: number, high: number): boolean {
  return low === STALE_LOW && (high & NAN_HIGH) === NAN_HIGH
}

/** A sample's value. */
export function valueAt({ values, divisor }: SampleBlock, position: number): number {
  return divisor === undefined ? values[position] : values[position] / divisor
}

/** Adds rows in order; series must ascend, times within a series too. */
export class SampleBlockBuilder {
  private series: Int32Array = new Int32Array(64)
  private starts: Int32Array = new Int32Array(65)
  private seriesCount = 0
  private times: Float64Array
  private values: Float64Array
  private bits: Int32Array
  private rests: Int32Array | undefined
  private kinds: Uint8Array | undefined
  private blobs: (Uint8Array | undefined)[] | undefined
  private blobBytes = 0
  private duplicates = false
  private sparse = false
  private rows = 0
  private last = -1
  private min = Number.POSITIVE_INFINITY
  private max = Number.NEGATIVE_INFINITY

  private readonly maxSamples: number

  /** @param maxSamples samples; @throws TooManySamplesError for more. */
  constructor(capacity: number, maxSamples: number = Number.POSITIVE_INFINITY) {
    this.maxSamples = maxSamples
    const room = Math.max(16, capacity)
    this.times = new Float64Array(room)
    this.values = new Float64Array(room)
    this.bits = new Int32Array(this.values.buffer)
  }

  get length(): number {
    return this.rows
  }

  /** A float by its bits, so that no NaN is lost. Times are nanoseconds in two halves. */
  addFloat(series: number, timeLow: number, timeHigh: number, low: number, high: number): void {
    const row = this.row(series, timeLow, timeHigh)
    this.bits[row * 2] = low
    this.bits[row * 2 + 1] = high
    if (isStaleMarker(low, high)) this.kind(row, SAMPLE_STALE)
    else if (this.kinds !== undefined) this.kinds[row] = SAMPLE_FLOAT
  }

  addNumber(series: number, timeLow: number, timeHigh: number, value: number): void {
    const row = this.row(series, timeLow, timeHigh)
    this.values[row] = value
    if (this.kinds !== undefined) this.kinds[row] = SAMPLE_FLOAT
  }

  /** @param blob an encoded histogram, kept. */
  addBlob(series: number, timeLow: number, timeHigh: number, blob: Uint8Array): void {
    const row = this.row(series, timeLow, timeHigh)
    this.blobs ??= []
    this.blobs[row] = blob
    this.blobBytes += blob.length + BLOB_BYTES
    this.values[row] = 0
    this.kind(row, isStaleHistogram(blob) ? SAMPLE_STALE : SAMPLE_HISTOGRAM)
  }

  /** @param fit whether arrays are made to fit, for a block that is kept. */
  build(fit: boolean): SampleBlock {
    const { rows, seriesCount } = this
    this.starts[seriesCount] = rows
    const fitted = <T extends Float64Array | Int32Array | Uint8Array>(array: T, n: number): T =>
      (fit && array.length > n ? array.slice(0, n) : array.subarray(0, n)) as T
    return {
      series: fitted(this.series, seriesCount),
      starts: fitted(this.starts, seriesCount + 1),
      times: fitted(this.times, rows),
      ...(this.rests === undefined ? {} : { rests: fitted(this.rests, rows) }),
      values: fitted(this.values, rows),
      ...(this.kinds === undefined ? {} : { kinds: fitted(this.kinds, rows) }),
      ...(this.blobs === undefined ? {} : { blobs: this.blobs }),
      ...(this.duplicates ? { duplicates: true as const } : {}),
      ...(this.sparse ? { sparse: true as const } : {}),
      minTime: this.min,
      maxTime: this.max,
    }
  }

  /** Bytes of what `build` gives. */
  get bytes(): number {
    const each = 16 + (this.kinds === undefined ? 0 : 1) + (this.rests === undefined ? 0 : 4)
    return BLOCK_BYTES + this.seriesCount * 8 + this.rows * each + (this.rows >> 6) * 24 + this.blobBytes
  }

  /** A row without a value. */
  skip(): void {
    this.sparse = true
  }

  private row(series: number, low: number, high: number): number {
    if (this.rows === this.times.length) this.grow()
    const row = this.rows++
    const time = milliseconds(low, high)
    if (series !== this.last || this.seriesCount === 0) this.begin(series, row)
    else if (!(this.times[row - 1] < time)) this.duplicates = true
    const rest = restOf(low, time)
    if (rest !== 0) this.rests ??= new Int32Array(this.times.length)
    if (this.rests !== undefined) this.rests[row] = rest
    this.times[row] = time
    if (time < this.min) this.min = time
    if (time > this.max) this.max = time
    return row
  }

  private begin(series: number, row: number): void {
    if (this.seriesCount + 1 >= this.series.length) {
      this.series = widened(this.series, this.series.length * 2)
      this.starts = widened(this.starts, this.series.length + 1)
    }
    this.series[this.seriesCount] = series
    this.starts[this.seriesCount++] = row
    this.last = series
  }

  private kind(row: number, kind: number): void {
    this.kinds ??= new Uint8Array(this.times.length)
    this.kinds[row] = kind
  }

  private grow(): void {
    if (this.rows >= this.maxSamples) throw new TooManySamplesError(this.maxSamples)
    const room = this.times.length * 2
    const times = new Float64Array(room)
    times.set(this.times)
    this.times = times
    // By bits: an element-wise copy might change a NaN.
    const bits = new Int32Array(room * 2)
    bits.set(this.bits)
    this.bits = bits
    this.values = new Float64Array(bits.buffer)
    if (this.rests !== undefined) this.rests = widened(this.rests, room)
    if (this.kinds !== undefined) {
      const kinds = new Uint8Array(room)
      kinds.set(this.kinds)
      this.kinds = kinds
    }
  }
}

function widened(array: Int32Array, length: number): Int32Array {
  const grown = new Int32Array(length)
  grown.set(array)
  return grown
}
