/** Where each number of an ascending list of series lies in it. */
import { lowerBound } from '../samples/search.ts'

/** A table of all numbers from the least to the greatest is kept where it is at most so many times longer than the list. */
const SPARSE = 8
const ABSENT = -1

export class SeriesSlots {
  private readonly series: Int32Array
  private readonly first: number
  /** Slot + 1 of each number from `first` on; undefined when they are looked for instead. */
  private readonly table: Int32Array | undefined

  constructor(series: Int32Array) {
    this.series = series
    this.first = series[0] ?? 0
    const span = series.length === 0 ? 0 : series[series.length - 1] - this.first + 1
    if (span > series.length * SPARSE) return
    this.table = new Int32Array(span)
    for (let i = 0; i < series.length; i++) this.table[series[i] - this.first] = i + 1
  }

  /** -1 when the list does not have it. */
  of(number: number): number {
    if (this.table !== undefined) {
      const at = number - this.first
      return at >= 0 && at < this.table.length ? this.table[at] - 1 : ABSENT
    }
    const at = lowerBound(this.series, number)
    return at < this.series.length && this.series[at] === number ? at : ABSENT
  }
}
