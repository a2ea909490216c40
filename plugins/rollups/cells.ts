/**
 * The values of one field, bucket by bucket: a slot holds what one bucket of one group has come to so far. What is kept for a slot is what the aggregations need.
 * Rows are summed up in runs (run.ts), and a run is added as a whole.
 */
import type { ColumnChunk, FieldInfo } from 'svcdb'
import { encodeHistogram, HistogramSum } from 'svcdb/lib/histogram'
import { type Aggregation, isExact } from './aggregations.ts'
import type { Run } from './run.ts'

export type Value = number | bigint | boolean | string | Uint8Array

const HISTOGRAM_BYTES = 4096
const MAX_DECIMAL = 10n ** 38n
const FIRST_SLOTS = 64

export class Cells {
  /** About what the slots take beyond a fixed part each. */
  extraBytes = 0
  private readonly field: FieldInfo
  private readonly exact: boolean
  private readonly wantsEnds: boolean
  private readonly wantsHistograms: boolean
  private readonly wantsSamples: boolean
  private n = new Float64Array(FIRST_SLOTS)
  private sum = new Float64Array(FIRST_SLOTS)
  private low = new Float64Array(FIRST_SLOTS)
  private high = new Float64Array(FIRST_SLOTS)
  /** Empty where they are not wanted. */
  private mean: Float64Array<ArrayBuffer>
  private m2: Float64Array<ArrayBuffer>
  private firstTime: BigInt64Array<ArrayBuffer>
  private lastTime: BigInt64Array<ArrayBuffer>
  private readonly first: Value[] = []
  private readonly last: Value[] = []
  private readonly firstTie: string[] = []
  private readonly lastTie: string[] = []
  private readonly exactSum: bigint[] = []
  private readonly exactLow: (bigint | undefined)[] = []
  private readonly exactHigh: (bigint | undefined)[] = []
  private readonly samples: Float64Array[] = []
  private readonly sums: HistogramSum[] = []

  constructor(field: FieldInfo, aggregations: readonly Aggregation[]) {
    const wants = new Set(aggregations.map(({ kind }) => kind))
    this.field = field
    this.exact = isExact(field.type)
    this.wantsEnds = wants.has('first') || wants.has('last')
    this.wantsHistograms = field.type === 'histogram' && (wants.has('sum') || wants.has('avg'))
    this.wantsSamples = wants.has('quantile')
    this.mean = new Float64Array(wants.has('stddev') ? FIRST_SLOTS : 0)
    this.m2 = new Float64Array(this.mean.length)
    this.firstTime = new BigInt64Array(this.wantsEnds ? FIRST_SLOTS : 0)
    this.lastTime = new BigInt64Array(this.firstTime.length)
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
    if (this.wantsEnds) {
      this.firstTime = grownTimes(this.firstTime, size)
      this.lastTime = grownTimes(this.lastTime, size)
    }
  }

  /** Adds a run that has values. @param tie orders values of one time that series have which share a group. */
  add(slot: number, run: Run, times: BigInt64Array, tie: string): void {
    const n = this.n[slot]
    if (this.wantsEnds) this.addEnds(slot, n, run, times, tie)
    if (this.mean.length > 0) this.addSquares(slot, n, run)
    this.sum[slot] += run.sum
    if (n === 0 || run.low < this.low[slot]) this.low[slot] = run.low
    if (n === 0 || run.high > this.high[slot]) this.high[slot] = run.high
    if (this.exact) this.addExact(slot, run)
    if (this.wantsSamples) this.keepSamples(slot, n, run)
    if (this.wantsHistograms) this.addHistograms(slot, run)
    this.n[slot] = n + run.rows
  }

  /** The value of an aggregation; undefined where there is none. */
  value(slot: number, { kind, q }: Aggregation): Value | undefined {
    const n = this.n[slot]
    if (n === 0) return undefined
    switch (kind) {
      case 'count':
        return n
      case 'first':
        return this.first[slot]
      case 'last':
        return this.last[slot]
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
        return finite(quantileOf(this.samples[slot].subarray(0, n).sort(), q))
    }
  }

  private total(slot: number): Value | undefined {
    if (this.field.type === 'histogram') return this.sums[slot] === undefined ? undefined : encodeHistogram(this.sums[slot].result())
    if (this.field.type !== 'decimal') return finite(this.sum[slot])
    const sum = this.exactSum[slot]
    return sum < MAX_DECIMAL && sum > -MAX_DECIMAL ? sum : undefined
  }

  /** Sums of squares about the mean, put together as Chan, Golub and LeVeque do. */
  private addSquares(slot: number, n: number, { rows, sum, squares }: Run): void {
    const delta = sum / rows - this.mean[slot]
    this.mean[slot] += (delta * rows) / (n + rows)
    this.m2[slot] += squares + (delta * delta * n * rows) / (n + rows)
  }

  private addExact(slot: number, { exactLow, exactHigh, exactSum }: Run): void {
    const [low, high] = [this.exactLow[slot], this.exactHigh[slot]]
    this.exactLow[slot] = low === undefined || (exactLow !== undefined && exactLow < low) ? exactLow : low
    this.exactHigh[slot] = high === undefined || (exactHigh !== undefined && exactHigh > high) ? exactHigh : high
    if (this.field.type === 'decimal') this.exactSum[slot] = (this.exactSum[slot] ?? 0n) + exactSum
  }

  private addEnds(slot: number, n: number, { column, first, last }: Run, times: BigInt64Array, tie: string): void {
    if (n === 0 || times[first] < this.firstTime[slot] || (times[first] === this.firstTime[slot] && tie < this.firstTie[slot])) {
      this.firstTime[slot] = times[first]
      this.keepEnd(this.first, slot, valueAt(column, first))
      this.firstTie[slot] = tie
    }
    if (n === 0 || times[last] > this.lastTime[slot] || (times[last] === this.lastTime[slot] && tie >= this.lastTie[slot])) {
      this.lastTime[slot] = times[last]
      this.keepEnd(this.last, slot, valueAt(column, last))
      this.lastTie[slot] = tie
    }
  }

  private keepEnd(ends: Value[], slot: number, value: Value): void {
    this.extraBytes += bytesOf(value) - bytesOf(ends[slot])
    ends[slot] = value
  }

  private addHistograms(slot: number, { column: { values, validity }, first, last }: Run): void {
    if (this.sums[slot] === undefined) {
      this.sums[slot] = new HistogramSum()
      this.extraBytes += HISTOGRAM_BYTES
    }
    for (let i = first; i <= last; i++) if (validity === undefined || validity[i] === 1) this.sums[slot].add((values as Uint8Array[])[i])
  }

  private keepSamples(slot: number, n: number, { values, start, rows }: Run): void {
    let kept = this.samples[slot] ?? new Float64Array(0)
    if (kept.length < n + rows) {
      const size = n === 0 ? rows : Math.max(n + rows, kept.length * 2)
      this.extraBytes += (size - kept.length) * 8
      kept = grown(kept, size)
      this.samples[slot] = kept
    }
    for (let i = 0; i < rows; i++) kept[n + i] = values[start + i]
  }
}

/** Linear between the two nearest ranks, as SQL's quantile_cont. @param sorted ascending, not empty. */
function quantileOf(sorted: Float64Array, q: number): number {
  const rank = q * (sorted.length - 1)
  const below = Math.floor(rank)
  const above = Math.min(below + 1, sorted.length - 1)
  return sorted[below] + (sorted[above] - sorted[below]) * (rank - below)
}

/** What a value takes beside its slot: a text, or a histogram. */
export const bytesOf = (value: Value | undefined): number => (typeof value === 'string' || value instanceof Uint8Array ? value.length : 0)

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

function grownTimes(from: BigInt64Array, size: number): BigInt64Array<ArrayBuffer> {
  const to = new BigInt64Array(size)
  to.set(from)
  return to
}
