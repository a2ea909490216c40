/** The series that have rows in a segment and, in a shared table, whose they are: found once for all measurements, of which there may be thousands. */
import { IntList } from '../../memtable/int-list.ts'
import { PageFault } from '../../parquet/page-fault.ts'
import { lowerBound } from './search.ts'

const FIRST_SERIES = 256

export interface OwnedSeries {
  /** Ascending; in a shared table by measurement, then ascending. */
  series: Int32Array
  /** Of each series, in a shared table. */
  measurements: Int32Array | undefined
}

/** A measurement's series among them, ascending. @param measurement undefined in a table of one. */
export function seriesOfMeasurement({ series, measurements }: OwnedSeries, measurement: number | undefined): Int32Array {
  if (measurement === undefined || measurements === undefined) return series
  const from = lowerBound(measurements, measurement)
  return series.subarray(from, lowerBound(measurements, measurement + 1, from))
}

/** Rows are added in the order of a segment. */
export class OwnedSeriesBuilder {
  private readonly series = new IntList(FIRST_SERIES)
  private readonly measurements = new IntList(FIRST_SERIES)
  private owned = false
  private lastSeries = -1
  private lastMeasurement = -1

  /** @throws PageFault for rows that are not in order. */
  add(series: Int32Array, measurements: Int32Array | undefined, rows: number): void {
    this.owned ||= measurements !== undefined
    for (let i = 0; i < rows; i++) {
      const measurement = measurements === undefined ? 0 : measurements[i]
      if (series[i] === this.lastSeries && measurement === this.lastMeasurement) continue
      if (measurement < this.lastMeasurement || (measurement === this.lastMeasurement && series[i] < this.lastSeries))
        throw new PageFault('the rows of a row group do not come in order')
      this.series.push((this.lastSeries = series[i]))
      if (measurements !== undefined) this.measurements.push(measurement)
      this.lastMeasurement = measurement
    }
  }

  build(): OwnedSeries {
    return { series: this.series.view().slice(), measurements: this.owned ? this.measurements.view().slice() : undefined }
  }
}
