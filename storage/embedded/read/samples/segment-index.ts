/** What is kept of a segment's file to find rows in it: its footer, and whose and when the rows of each row group are. */
import { SERIES_COLUMN, TIME_COLUMN } from '../../memtable/memtable-source.ts'
import type { Footer } from '../../parquet/footer.ts'
import { PageFault } from '../../parquet/page-fault.ts'
import { MEASUREMENT_COLUMN } from '../../segment/segment-source.ts'
import { contains } from '../masks.ts'
import { floorMs } from './millisecond-range.ts'
import { lowerBound } from './search.ts'

/** Times further apart are read by DuckDB: their differences do not fit (parquet/delta.ts). */
const MAX_SPAN = 2n ** 62n
/** Of a row group, beside the footer. */
const GROUP_BYTES = 32

export class SegmentIndex {
  readonly footer: Footer
  readonly series: number
  readonly time: number
  /** -1 in a table of one measurement. */
  readonly measurement: number
  /** Milliseconds; rows of a group lie within, up to rounding down. */
  readonly minTimes: Float64Array
  readonly maxTimes: Float64Array
  private readonly minSeries: Int32Array
  private readonly maxSeries: Int32Array
  private readonly minMeasurements: Int32Array
  private readonly maxMeasurements: Int32Array

  /** @throws PageFault for a file without bounds of series and times. */
  constructor(footer: Footer) {
    const { groups } = footer
    this.footer = footer
    this.series = footer.column(SERIES_COLUMN)
    this.time = footer.column(TIME_COLUMN)
    this.measurement = footer.column(MEASUREMENT_COLUMN)
    this.minTimes = new Float64Array(groups)
    this.maxTimes = new Float64Array(groups)
    this.minSeries = new Int32Array(groups)
    this.maxSeries = new Int32Array(groups)
    const own = this.measurement < 0 ? 0 : groups
    this.minMeasurements = new Int32Array(own)
    this.maxMeasurements = new Int32Array(own)
    if (this.series < 0 || this.time < 0) throw new PageFault('a segment has no series or no times')
    for (let group = 0; group < groups; group++) {
      const series = footer.numbers(group, this.series)
      const times = footer.integers(group, this.time)
      const measurements = own === 0 ? undefined : footer.numbers(group, this.measurement)
      if (series === undefined || times === undefined || (own > 0 && measurements === undefined)) throw new PageFault('a row group has no bounds')
      if (times.max - times.min > MAX_SPAN) throw new PageFault('a row group has times too far apart')
      this.minSeries[group] = series.min
      this.maxSeries[group] = series.max
      this.minTimes[group] = Number(floorMs(times.min))
      this.maxTimes[group] = Number(floorMs(times.max))
      if (measurements !== undefined) {
        this.minMeasurements[group] = measurements.min
        this.maxMeasurements[group] = measurements.max
      }
    }
  }

  get bytes(): number {
    return this.footer.bytes + this.footer.groups * GROUP_BYTES
  }

  /** Row groups that may have rows of some of the series, ascending, within the milliseconds. @param measurement undefined in a table of one. */
  groups(series: Int32Array, lo: number, hi: number, measurement: number | undefined): number[] {
    const out: number[] = []
    const { minSeries, maxSeries, minTimes, maxTimes } = this
    if (measurement !== undefined && this.measurement < 0) throw new PageFault('a segment of a shared table says not whose its rows are')
    for (let group = 0; group < minSeries.length; group++) {
      if (maxTimes[group] < lo || minTimes[group] > hi) continue
      if (measurement !== undefined && (this.minMeasurements[group] > measurement || this.maxMeasurements[group] < measurement)) continue
      if (minSeries[group] === maxSeries[group] ? contains(series, minSeries[group]) : reaches(series, minSeries[group], maxSeries[group])) out.push(group)
    }
    return out
  }
}

/** Whether some of an ascending list lie in a range. */
function reaches(series: Int32Array, min: number, max: number): boolean {
  const at = lowerBound(series, min)
  return at < series.length && series[at] <= max
}
