/** What is encoded, as the change cursor hands it out. */
import type { Column, FieldInfo } from '../columns/index.ts'

/** Rows of one measurement. */
export interface ChangedColumns {
  measurement: string
  sequence: number
  rows: number
  /** Two halves a row, low first: nanoseconds since the Unix epoch. */
  times: Int32Array
  /** A number a row, that stands for the same series as long as the process lives. */
  series: Int32Array
  fields: readonly FieldInfo[]
  /** `columns[i]` has the values of `fields[i]`. */
  columns: readonly Column[]
  /** Texts and histograms of the columns. */
  heap: Uint8Array
  tagsOf(series: number): Record<string, string>
}

/** Points of a measurement were deleted. Times in nanoseconds since the Unix epoch. */
export interface DeletedSeries {
  measurement: string
  sequence: number
  /** The range deleted, end excluded; absent = unbounded. */
  start?: bigint
  end?: bigint
  /** Tags of each series; absent = all that the measurement had. */
  series?(): Iterable<Record<string, string>>
}
