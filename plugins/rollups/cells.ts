/**
 * The values of one field, bucket by bucket: a slot holds what one bucket of one group has come to so far. Runs of rows are added in loops over columns; nothing is
 * made for a row. What is kept for a slot is what the aggregations need.
 */
import type { ColumnChunk, FieldInfo } from 'svcdb'
import { encodeHistogram, HistogramSum } from 'svcdb/lib/histogram'
import { type Aggregation, isExact } from './aggregations.ts'

export type Value = number | bigint | boolean | string | Uint8Array

const HISTOGRAM_BYTES = 4096
const MAX_DECIMAL = 10n ** 38n

export class Cells {
  readonly field: FieldInfo
  /** About what the slots take beyond a fixed part each. */
  extraBytes = 0
  private readonly wants: ReadonlySet<string>
  private readonly exact: boolean
  private readonly numeric: boolean
  private readonly unit: number
  private n = new Float64Array(64)
  private sum = new Float64Array(64)
  private low = new Float64Array(64)
  private high = new Float64Array(64)
  private mean = new Float64Array(0)
  private m2 = new Float64Array(0)
  private readonly exactSum: bigint[] = []
  private readonly exactLow: bigint[] = []
  private readonly exactHigh: bigint[] = []
  private readonly ends: { firstTime: bigint; first: Value; firstTie: string; lastTime: bigint; last: Value; lastTie: string }[] = []
  private readonly samples: Float64Array[] = []
  private readonly sums: HistogramSum[] = []
  private scratch = new Float64Array(0)

  constructor(field: FieldInfo, aggregations: readonly Aggregation[]) {
    this.field = field
    this.wants = new Set(aggregations.map(({ kind }) => kind))
    this.exact = isExact(field.type)
    this.numeric = field.type === 'float64' || this.exact
    this.unit = field.type === 'decimal' ? 10 ** -(field.scale ?? 0) : 1
    if (this.wants.has('stddev')) {
      this.mean = new Float64Array(64)
      this.m2 = new Float64Array(64)
    }
  }

  grow(slots: number): void {
    if (slots <= this.n.length) return
    const size = Math.max(slots, this.n.length * 2)
    this.n = grown(this.n, size)
    this.sum = grown(this.sum, size)
    this.low = grown(this.low, size)
    this.high = grown(this.high, size)
    if (this.mean.length > 0) {
      this.mean = grown(this.mean, size)
      this.m2 = grown(this.m2, size)
    }
  }

  /** Adds rows [from, to) of a column, in ascending time. @param tie orders values of one time that series have which share a group. */
  add(slot: number, column: ColumnChunk, times: BigInt64Array, from: number, to: number, tie: string): void {
    const { validity } = column
    let rows = to - from
    if (validity !== undefined) {
      rows = 0
      for (let i = from; i < to; i++) rows += validity[i]
      if (rows === 0) return
    }
    if (this.wants.has('first') || this.wants.has('last')) this.addEnds(slot, column, times, from, to, tie)
    if (this.numeric) this.addNumbers(slot, column, from, to, rows)
    else if (column.type === 'histogram' && (this.wants.has('sum') || this.wants.has('avg'))) this.addHistograms(slot, column, from, to)
    this.n[slot] += rows
  }

  /** The value of an aggregation; undefined where there is none. */
  value(slot: number, { kind, q }: Aggregation): Value | undefined {
    const n = this.n[slot]
    if (n === 0) return undefined
    switch (kind) {
      case 'count':
        return BigInt(n)
      case 'first':
        return this.ends[slot].first
      case 'last':
        return this.ends[slot].last
      case 'min':
        return this.exact ? this.exactLow[slot] : this.low[slot]
      case 'max':
        return this.exact ? this.exactHigh[slot] : this.high[slot]
      case 'sum':
        return this.total(slot)
      case 'avg':
        if (this.field.type === 'histogram')
          return this.sums[slot] === undefined ? undefined : encodeHistogram(this.sums[slot].result(1 / this.sums[slot].terms))
        return finite(this.sum[slot] / n)
      case 'stddev':
        return n < 2 ? undefined : finite(Math.sqrt(Math.max(0, this.m2[slot]) / (n - 1)))
      case 'quantile':
        return finite(quantileOf(this.sorted(slot, n), q))
    }
  }

  private total(slot: number): Value | undefined {
    if (this.field.type === 'histogram') return this.sums[slot] === undefined ? undefined : encodeHistogram(this.sums[slot].result())
    if (this.field.type !== 'decimal') return finite(this.sum[slot])
    const sum = this.exactSum[slot]
    return sum < MAX_DECIMAL && sum > -MAX_DECIMAL ? sum : undefined
  }

  private addNumbers(slot: number, column: ColumnChunk, from: number, to: number, rows: number): void {
    const dense = column.validity === undefined && column.type === 'float64'
    const values = dense ? (column.values as Float64Array) : this.numbers(column, from, to, rows)
    const start = dense ? from : 0
    const end = start + rows
    let sum = 0
    let low = Number.POSITIVE_INFINITY
    let high = Number.NEGATIVE_INFINITY
    for (let i = start; i < end; i++) {
      const v = values[i]
      sum += v
      if (v < low) low = v
      if (v > high) high = v
    }
    const n = this.n[slot]
    if (this.mean.length > 0) this.addSquares(slot, values, start, end, sum)
    this.sum[slot] += sum
    if (n === 0 || low < this.low[slot]) this.low[slot] = low
    if (n === 0 || high > this.high[slot]) this.high[slot] = high
    if (this.exact) this.addExact(slot, column, from, to)
    if (this.wants.has('quantile')) this.keepSamples(slot, values, start, rows, n)
  }

  /** The values of the rows that have one, as doubles, from 0 on. */
  private numbers(column: ColumnChunk, from: number, to: number, rows: number): Float64Array {
    if (this.scratch.length < rows) this.scratch = new Float64Array(Math.max(rows, this.scratch.length * 2))
    const { scratch, unit } = this
    const { values, validity, type } = column
    let n = 0
    if (type === 'float64') {
      const floats = values as Float64Array
      for (let i = from; i < to; i++) if ((validity as Uint8Array)[i] === 1) scratch[n++] = floats[i]
    } else if (type === 'decimal') {
      const digits = values as bigint[]
      for (let i = from; i < to; i++) if (validity === undefined || validity[i] === 1) scratch[n++] = Number(digits[i]) * unit
    } else {
      const { buffer, byteOffset, length } = values as BigInt64Array
      const halves = new Int32Array(buffer, byteOffset, length * 2)
      const signed = type === 'int64'
      for (let i = from; i < to; i++) {
        if (validity !== undefined && validity[i] === 0) continue
        const high = halves[i * 2 + 1]
        scratch[n++] = (signed ? high : high >>> 0) * 4294967296 + (halves[i * 2] >>> 0)
      }
    }
    return scratch
  }

  /** Sums of squares about the mean, put together as Chan, Golub and LeVeque do. */
  private addSquares(slot: number, values: Float64Array, start: number, end: number, sum: number): void {
    const rows = end - start
    const mean = sum / rows
    let squares = 0
    for (let i = start; i < end; i++) {
      const off = values[i] - mean
      squares += off * off
    }
    const n = this.n[slot]
    const delta = mean - this.mean[slot]
    this.mean[slot] += (delta * rows) / (n + rows)
    this.m2[slot] += squares + (delta * delta * n * rows) / (n + rows)
  }

  /** Integers beyond 2^53 and decimals are compared, and decimals added, digit by digit. */
  private addExact(slot: number, column: ColumnChunk, from: number, to: number): void {
    const values = column.values as BigInt64Array | bigint[]
    const decimal = column.type === 'decimal'
    const extremes = this.wants.has('min') || this.wants.has('max')
    if (!decimal && !extremes) return
    let low = this.exactLow[slot]
    let high = this.exactHigh[slot]
    let sum = this.exactSum[slot] ?? 0n
    for (let i = from; i < to; i++) {
      if (column.validity !== undefined && column.validity[i] === 0) continue
      const v = values[i]
      if (low === undefined || v < low) low = v
      if (high === undefined || v > high) high = v
      if (decimal) sum += v
    }
    this.exactLow[slot] = low
    this.exactHigh[slot] = high
    if (decimal) this.exactSum[slot] = sum
  }

  private addEnds(slot: number, column: ColumnChunk, times: BigInt64Array, from: number, to: number, tie: string): void {
    const { validity } = column
    let a = from
    let b = to - 1
    if (validity !== undefined) {
      while (validity[a] === 0) a++
      while (validity[b] === 0) b--
    }
    const end = this.ends[slot]
    if (end === undefined) {
      const [first, last] = [valueAt(column, a), valueAt(column, b)]
      this.ends[slot] = { firstTime: times[a], first, firstTie: tie, lastTime: times[b], last, lastTie: tie }
      return
    }
    if (times[a] < end.firstTime || (times[a] === end.firstTime && tie < end.firstTie)) {
      end.firstTime = times[a]
      end.first = valueAt(column, a)
      end.firstTie = tie
    }
    if (times[b] > end.lastTime || (times[b] === end.lastTime && tie >= end.lastTie)) {
      end.lastTime = times[b]
      end.last = valueAt(column, b)
      end.lastTie = tie
    }
  }

  private addHistograms(slot: number, column: ColumnChunk, from: number, to: number): void {
    const values = column.values as Uint8Array[]
    for (let i = from; i < to; i++) {
      if (column.validity !== undefined && column.validity[i] === 0) continue
      if (this.sums[slot] === undefined) {
        this.sums[slot] = new HistogramSum()
        this.extraBytes += HISTOGRAM_BYTES
      }
      this.sums[slot].add(values[i])
    }
  }

  private keepSamples(slot: number, values: Float64Array, start: number, rows: number, n: number): void {
    let kept = this.samples[slot] ?? new Float64Array(0)
    if (kept.length < n + rows) {
      const size = n === 0 ? rows : Math.max(n + rows, kept.length * 2)
      this.extraBytes += (size - kept.length) * 8
      kept = grown(kept, size)
      this.samples[slot] = kept
    }
    for (let i = 0; i < rows; i++) kept[n + i] = values[start + i]
  }

  private sorted(slot: number, n: number): Float64Array {
    return this.samples[slot].subarray(0, n).sort()
  }
}

/** Linear between the two nearest ranks, as SQL's quantile_cont. @param sorted ascending, not empty. */
export function quantileOf(sorted: Float64Array, q: number): number {
  const rank = q * (sorted.length - 1)
  const below = Math.floor(rank)
  const above = Math.min(below + 1, sorted.length - 1)
  return sorted[below] + (sorted[above] - sorted[below]) * (rank - below)
}

function valueAt({ type, values }: ColumnChunk, row: number): Value {
  if (type === 'bool') return (values as Uint8Array)[row] === 1
  // What is read lies in memory that is used again.
  return type === 'histogram' ? (values as Uint8Array[])[row].slice() : (values[row] as Value)
}

/** A sum can overflow where no value does; what is not finite cannot be stored. */
const finite = (value: number): number | undefined => (Number.isFinite(value) ? value : undefined)

function grown(from: Float64Array, size: number): Float64Array<ArrayBuffer> {
  const to = new Float64Array(size)
  to.set(from)
  return to
}
