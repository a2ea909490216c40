/**
 * The change cursor: what writes, deletes, drops and restores have done, in the order in which they took effect, each once, after it is durable and visible.
 *
 * Rows come in columns, a measurement at a time, without an object a point; `changedRows` makes objects for those who need them. A cursor that stays behind is
 * served out of the log; one that stays behind further than the log reaches is told so by a `gap`. Writers wait for no cursor.
 */
import type { Column, FieldInfo } from '../lib/columns/index.ts'
import { isShown, valueAt } from '../lib/columns/index.ts'

/**
 * A place between two changes, for the state store and for clients: text without spaces that orders as the changes do. It holds after a restart, under another
 * configuration too; in another database, or one restored from a backup, it is answered with a `gap`. It begins with its history and a "-" (`historyOf` of `svcdb/lib/changes`).
 */
export type ChangePosition = string

/** Which changes a cursor gives, and from where on. */
export interface ChangeRequest {
  /** Absent = all. */
  namespace?: string
  /** Names, or what says whether a measurement is wanted, asked once for each of them (`ChangeCursor.select` has it asked again). Absent = all. */
  measurements?: MeasurementFilter
  /** Absent = all. A `gap` always comes. */
  kinds?: readonly ChangeKind[]
  /** Absent = what takes effect after the call. */
  after?: ChangePosition
  /** Ends the cursor, as `close` does. */
  signal?: AbortSignal
}

/** Names of measurements, or what says of one whether it is wanted. */
export type MeasurementFilter = readonly string[] | ((measurement: string, namespace: string) => boolean)

/** `rows`, `series_deleted`, `measurement_dropped`, `measurement_restored` or `gap`. */
export type ChangeKind = Change['kind']

/** One change, or a gap where changes cannot be told any more. Its `kind` says which. */
export type Change = RowsChanged | SeriesDeleted | MeasurementDropped | MeasurementRestored | ChangeGap

interface Placed {
  /** The place after this change. */
  position: ChangePosition
  /** Of the write, delete, drop or restore, counted over the whole database: rises from one to the next, with holes. */
  sequence: number
  namespace: string
  measurement: string
}

/** Rows of one measurement of one write, in order of arrival. Everything in it is lent: it is another's when the cursor is asked for the next change. */
export interface RowsChanged extends Placed {
  kind: 'rows'
  /** The write was a backfill (`WriteOptions`). */
  backfill: boolean
  rows: number
  /** Two halves a row, low first: nanoseconds since the Unix epoch. This and other arrays may be longer than the rows. */
  times: Int32Array
  /** A number a row. For as long as the process lives, a number stands for one series. */
  series: Int32Array
  fields: readonly FieldInfo[]
  /** `columns[i]` has the values of `fields[i]`, decimals at its scale. A row has a value that counts where `isShown` of `svcdb/lib/columns` says so. */
  columns: readonly Column[]
  /** Texts and histograms of the columns. */
  heap: Uint8Array
  tagsOf(series: number): Record<string, string>
}

/** Points of a measurement were deleted. Times in nanoseconds since the Unix epoch. */
export interface SeriesDeleted extends Placed {
  kind: 'series_deleted'
  /** The range deleted, end excluded; absent = unbounded. */
  start?: bigint
  end?: bigint
  /** Tags of each series; absent = all that the measurement had. */
  series?(): Iterable<Record<string, string>>
}

/** A measurement was dropped. It may be restored, as long as its drop can be undone. */
export interface MeasurementDropped extends Placed {
  kind: 'measurement_dropped'
}

/** A drop was undone: the points from before it are there again. */
export interface MeasurementRestored extends Placed {
  kind: 'measurement_restored'
}

/** What was between two places can no longer be told; the cursor goes on behind it. */
export interface ChangeGap {
  kind: 'gap'
  /** As `to`. */
  position: ChangePosition
  sequence: number
  /** Where the cursor stood, or the place that it was given. */
  from: ChangePosition
  to: ChangePosition
  /** `expired`: the log no longer has it. `other_history`: the place is of another database, or of one before its backup was restored. `damaged`: it cannot be read. */
  cause: 'expired' | 'other_history' | 'damaged'
}

/** For one reader: the next change may be asked for when the one before was used. Ends when it, its signal or the storage is closed. */
export interface ChangeCursor extends AsyncIterable<Change> {
  /** Waits for the next change. @throws what keeps the log from being read. */
  next(): Promise<IteratorResult<Change, undefined>>
  /** Where the cursor stands: all before it that is wanted was handed out. It moves on over what is not wanted, and is where the next one goes on. */
  position(): Promise<ChangePosition>
  /** Commits that it has not looked at, as far as is known here. */
  readonly behind: number
  /** Another choice of measurements, for what takes effect from now on; of what has before, only the former choice is sure to come. */
  select(measurements: MeasurementFilter | undefined): void
  close(): void
}

/** A row as an object. */
export interface ChangedRow {
  measurement: string
  tags: Record<string, string>
  time: bigint
  /** Empty when the write has set nothing but non-finite values, which are left out. */
  fields: (FieldInfo & { value: number | bigint | boolean | string | Uint8Array })[]
}

/** Takes a change apart into an object a row. Slow and plain. */
export function* changedRows(change: RowsChanged): Generator<ChangedRow> {
  const { measurement, rows, times, series, fields, columns, heap } = change
  for (let row = 0; row < rows; row++) {
    const found: ChangedRow['fields'] = []
    for (const [i, column] of columns.entries()) if (isShown(column, row, heap)) found.push({ ...fields[i], value: valueAt(column, row, heap) })
    const time = (BigInt(times[row * 2 + 1]) << 32n) | BigInt(times[row * 2] >>> 0)
    yield { measurement, tags: change.tagsOf(series[row]), time, fields: found }
  }
}
