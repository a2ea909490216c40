/** What the lane needs from the engine thread it runs in. */
import type { Integers } from 'svcdb/lib/columns'
import type { NewestPlan } from './newest.ts'
import type { NewestTable } from './newest-answer.ts'
import type { ScanPlan } from './plan.ts'
import type { LaneCatalog } from './recognise.ts'

export interface LaneHost extends LaneCatalog {
  /** Bytes of values that all statements of this thread may collect. */
  readonly room: number
  rows(plan: ScanPlan): LaneRows
  /** Undefined where it is not known without a scan. */
  newest(plan: NewestPlan): Promise<NewestTable | undefined>
}

/** No value is outside. */
export interface LaneBounds {
  min: number
  max: number
}

export interface LaneValues {
  /** A value a row, to be divided where there is a divisor. */
  values: Float64Array | Integers
  divisor?: number
  /** All are numbers where the rows meant are. */
  areNumbers?: true
}

/** Some rows, each with a value of every field that was asked for. */
export interface LaneBlock {
  /** Milliseconds of all rows of the block. Who does not need them does not ask: they may be decoded then. */
  readonly times: Float64Array
  /** The rows meant, in runs of one series each: three numbers, its position, the first row, the row after the last. Times ascend within a run. */
  runs: Int32Array
  /** Of a field by its number, as values are read; all of them are finite. Undefined where that is not known. */
  bounds(field: number): LaneBounds | undefined
  /** Right where `runs` are; they hold until the next are asked for. */
  values(field: number): LaneValues
}

export interface LaneScan {
  /** Of the one field, rows without a value are left out. */
  sparse: boolean
  /** How often the caller looks at each row, about. */
  passes: number
}

/** The rows of a plan's measurement, time and tags; filters are not applied. */
export interface LaneRows {
  /** How many series; blocks refer to them by position. */
  readonly series: number
  /** A tag by its name in SQL: of each series the number of its value, negative without one. */
  tag(name: string): { codes: Int32Array; texts: readonly string[] }
  /** Inclusive milliseconds that hold all rows; undefined when there are none. */
  span(): [low: number, high: number] | undefined
  /** A field that every row may have, of a measurement that is asked for rows alone. */
  anyField(): string | undefined
  /** Whether some rows surely have no value of the field, or one that is not to be read here. */
  lacks(field: string): boolean
  /** About how many there are, and whether the values of so many fields of theirs have room to be kept. */
  expected(fields: number): { rows: number; haveRoom: boolean }
  /**
   * Calls back with all rows, each once, until it returns false. Blocks come in parts where a whole one would take long.
   * @returns false where samples do not tell all.
   */
  scan(fields: readonly string[], how: LaneScan, visit: (block: LaneBlock) => boolean): Promise<boolean>
}
