/** A vector value under construction, series by series, when it is not known beforehand how many series will have samples. */
import type { FloatHistogram } from '../histogram/float-histogram.ts'
import type { LabelSets } from '../labels.ts'
import { type Budget, histogramBytes, vectorBytes } from './context.ts'
import type { RowSink } from './row-sink.ts'
import { someOf } from './series-sets.ts'
import { FLOAT, HISTOGRAM, type VectorValue } from './value.ts'

const FIRST_ROWS = 16
/** Up to this many cells are made room for at once, and up to this share of the budget: memory that nobody writes to costs nothing. */
const EAGER_CELLS = 1 << 21
const EAGER_SHARE = 8

export class VectorRows implements RowSink {
  values: Float64Array
  kinds: Uint8Array
  histograms: (FloatHistogram | undefined)[] | undefined
  /** Where the row under construction begins. */
  base = 0
  private readonly steps: number
  private readonly budget: Budget
  private readonly most: number
  private series: Int32Array
  private rows = 0
  private room: number
  private held = 0
  private newest: FloatHistogram | undefined

  /** @param most rows that may come. */
  constructor(steps: number, most: number, budget: Budget) {
    this.steps = steps
    this.budget = budget
    this.most = most
    const eager = Math.min(EAGER_CELLS, Math.floor(budget.limit / EAGER_SHARE / vectorBytes(1, 1, false)))
    this.room = most * steps <= eager ? most : Math.min(most, Math.max(FIRST_ROWS, Math.floor(eager / steps)))
    this.hold(vectorBytes(this.room, steps, false))
    const cells = this.room * steps
    // One buffer for all: of what a small query costs, buffers are a part that can be seen.
    const buffer = new ArrayBuffer(cells * 9 + this.room * 4)
    this.values = new Float64Array(buffer, 0, cells)
    this.series = new Int32Array(buffer, cells * 8, this.room)
    this.kinds = new Uint8Array(buffer, cells * 8 + this.room * 4, cells)
  }

  float(step: number, value: number): void {
    this.values[this.base + step] = value
    this.kinds[this.base + step] = FLOAT
  }

  histogram(step: number, value: FloatHistogram): void {
    // Made as long as it is needed: far beyond its end an array would become a table.
    this.histograms ??= new Array(this.base)
    this.histograms[this.base + step] = value
    if (value !== this.newest) this.hold(this.held + histogramBytes(value))
    this.newest = value
    this.kinds[this.base + step] = HISTOGRAM
  }

  /** Keeps the row under construction, for one series of the selection, and begins the next. */
  keep(series: number): void {
    this.series[this.rows++] = series
    this.base += this.steps
    if (this.rows === this.room && this.room < this.most) this.grow()
  }

  /** The rows kept; what was counted in the budget is given back, for the value is counted by who gets it. */
  finish(labels: LabelSets): VectorValue {
    const { rows, steps } = this
    this.budget.give(this.held)
    const cells = rows * steps
    const all = rows === labels.length && isIdentity(this.series)
    const own = all ? labels : someOf(labels, this.series.slice(0, rows))
    // A view keeps the whole buffer alive: not worth it for a small part.
    const cut = rows * 2 < this.room
    const values = cut ? this.values.slice(0, cells) : this.values.subarray(0, cells)
    const kinds = cut ? this.kinds.slice(0, cells) : this.kinds.subarray(0, cells)
    const value: VectorValue = { type: 'vector', labels: own, steps, values, kinds }
    if (this.histograms !== undefined) {
      this.histograms.length = cells
      value.histograms = this.histograms
    }
    return value
  }

  /** The series that the rows are of, in their order. */
  get kept(): Int32Array {
    return this.series.subarray(0, this.rows)
  }

  private grow(): void {
    const more = Math.min(this.most, this.room * 2) - this.room
    this.hold(this.held + vectorBytes(more, this.steps, false))
    this.room += more
    this.values = copyInto(new Float64Array(this.room * this.steps), this.values)
    this.kinds = copyInto(new Uint8Array(this.room * this.steps), this.kinds)
    this.series = copyInto(new Int32Array(this.room), this.series)
  }

  private hold(bytes: number): void {
    this.budget.take(bytes - this.held)
    this.held = bytes
  }
}

function copyInto<T extends Float64Array | Uint8Array | Int32Array>(target: T, source: T): T {
  target.set(source as never)
  return target
}

function isIdentity(series: Int32Array): boolean {
  for (let i = 0; i < series.length; i++) if (series[i] !== i) return false
  return true
}
