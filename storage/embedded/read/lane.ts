/** Statements of SQL that are answered from samples, and those that are DuckDB's. */
import type { SqlChunk, SqlCursor, SqlRequest } from 'svcdb'
import { INT64_MAX, INT64_MIN } from '../../common/time.ts'
import { tagColumns } from '../series/tag-source.ts'
import {
  checkedTree,
  isLanes,
  type LaneCatalog,
  type LaneHost,
  type LaneOptions,
  type LaneRows,
  type NewestPlan,
  type NewestTable,
  type Node,
  type OpenedLane,
  oldestNewest,
  openLane,
  parse,
  parsedBefore,
  recogniseTimeOrder,
  type ScanPlan,
  sqlError,
  type TagHint,
  type TimeOrder,
  withFirstRows,
} from '../sql/index.ts'
import type { FieldDef, MeasurementDef } from '../threads/definitions.ts'
import type { Snapshot } from '../threads/state.ts'
import { hintedSeries } from './hinted-series.ts'
import { newestOfSeries } from './newest/newest-table.ts'
import { type RelationContext, sourcesOf } from './relation.ts'
import { FieldRows, positionsOf } from './samples/field-rows.ts'
import { millisecondRange } from './samples/millisecond-range.ts'
import { SelectedTags } from './samples/tag-sets.ts'
import { commonInterval, type Interval } from './sources.ts'
import { sqlMeasurement } from './sql-measurement.ts'
import { firstRowsOf, inSlices, sortedRows, timeSlices } from './time-slices.ts'

const NS_PER_MS = 1_000_000n
/** Of fields whose samples are numbers. */
const PLAIN_TYPES: ReadonlySet<FieldDef['type']> = new Set(['float64', 'int64', 'uint64', 'bool'])
/** Of what a query may take in DuckDB. */
const COLLECTED_SHARE = 4
const EVER: Interval = [INT64_MIN, INT64_MAX]
const PATHS = {
  samples: 'Samples: no scan by DuckDB, where every row has its values and a time of whole milliseconds',
  duckdb: 'DuckDB',
}
const IN_SLICES = 'In slices of the time, from its end on, until the answer is there'

/**
 * @param reads is told the times of the rows that are asked for.
 * @param inDuckDb runs the statement there, over rows of the times given; with a number for the first rows of its answer, in place of those that its LIMIT and OFFSET choose.
 */
export async function lane(
  context: RelationContext,
  snapshot: Snapshot,
  request: SqlRequest,
  signal: AbortSignal | undefined,
  reads: (times: Interval) => void,
  inDuckDb: (times: Interval, firstRows?: number) => Promise<SqlCursor>,
): Promise<SqlCursor> {
  const { state } = context
  // One time for all slices.
  const now = BigInt(Date.now()) * NS_PER_MS
  const catalog: LaneCatalog = {
    measurement(name) {
      const def = state.measurement(request.namespace, name)
      return def === undefined ? undefined : sqlMeasurement(state, def)
    },
    now: () => now,
  }
  const options: LaneOptions = { limits: context.sqlLimits, parse: (text) => parseAnywhere(context, text, signal) }
  const tree = await checkedTree(request, options)
  if (tree === undefined) {
    const cursor = await inDuckDb(EVER)
    const explained = await checkedTree(request, options, true)
    return explained === undefined ? cursor : { ...cursor, [Symbol.asyncIterator]: () => withPath(cursor, pathOf(catalog, explained)) }
  }
  const order = recogniseTimeOrder(tree, catalog)
  const run = async (times: Interval, firstRows?: number): Promise<SqlCursor> => {
    const wanted = firstRows === undefined ? tree : withFirstRows(tree, firstRows)
    const opened = openLane(laneHost(context, snapshot, catalog, request.namespace, times, signal, reads), wanted, request.textBytes === true)
    if (opened === undefined) return inDuckDb(times, firstRows)
    return { columns: opened.columns, parameters: [], [Symbol.asyncIterator]: () => rowsOf(opened, signal, () => inDuckDb(times, firstRows)) }
  }
  if (order === undefined) return run(EVER)
  return inSlices(order, slicesOf(context, snapshot, request.namespace, order), run, sortedRows(order.columns, context.duck.memoryLimit))
}

function slicesOf(context: RelationContext, snapshot: Snapshot, namespace: string, order: TimeOrder): (newestFirst: boolean) => Interval[] {
  const { state, firstSliceRows } = context
  const measurement = state.measurement(namespace, order.measurement) as MeasurementDef
  const { wanted } = resolved(context, measurement, order.tags)
  const sources = wanted?.length === 0 ? [] : sourcesOf(state, snapshot, measurement, order.time, wanted)
  const share = wanted === undefined ? 1 : wanted.length / state.series.of(measurement.id).length
  const { rows, bucket } = order.kind === 'rows' ? { rows: order.offset + order.limit, bucket: order.bucket } : { rows: 1 }
  const firstRows = firstSliceRows ?? firstRowsOf(order.columns)
  return (newestFirst) => timeSlices(sources, order.time, { rows, share, newestFirst, bucket, firstRows })
}

async function parseAnywhere({ duck }: RelationContext, text: string, signal: AbortSignal | undefined): ReturnType<LaneOptions['parse']> {
  const before = parsedBefore(text)
  if (before !== undefined) return before
  const connection = await duck.connect()
  try {
    return await parse({ connection, place: duck.place(signal) }, text)
  } finally {
    duck.release(connection, true)
  }
}

async function* rowsOf(opened: OpenedLane, signal: AbortSignal | undefined, inDuckDb: () => Promise<SqlCursor>): AsyncGenerator<SqlChunk> {
  let chunks: Iterable<SqlChunk> | AsyncIterable<SqlChunk> | undefined
  try {
    signal?.throwIfAborted()
    chunks = await opened.rows(signal)
  } catch (error) {
    throw sqlError(error, signal, undefined)
  }
  yield* chunks ?? (await inDuckDb())
}

function pathOf(catalog: LaneCatalog, tree: Node): string {
  const path = isLanes(catalog, tree) ? PATHS.samples : PATHS.duckdb
  return recogniseTimeOrder(tree, catalog) === undefined ? path : `${path}. ${IN_SLICES}`
}

/** The last row says which way the statement goes. */
async function* withPath(cursor: SqlCursor, path: string): AsyncGenerator<SqlChunk> {
  yield* cursor
  yield { rows: 1, columns: [{ values: ['path'] }, { values: [path] }] }
}

/** @param times no row outside of these is read. */
function laneHost(
  context: RelationContext,
  snapshot: Snapshot,
  catalog: LaneCatalog,
  namespace: string,
  times: Interval,
  signal: AbortSignal | undefined,
  reads: (times: Interval) => void,
): LaneHost {
  const { state } = context
  const definition = (name: string): MeasurementDef => state.measurement(namespace, name) as MeasurementDef
  return {
    ...catalog,
    room: context.duck.memoryLimit / COLLECTED_SHARE,
    newest(plan) {
      reads(plan.time)
      return newestTable(context, snapshot, definition(plan.measurement), plan, signal)
    },
    rows(plan) {
      const time = commonInterval(plan.time, times)
      reads(time)
      return laneRows(context, snapshot, definition(plan.measurement.name), { ...plan, time }, signal)
    },
  }
}

interface Resolved {
  keyOf(column: string): string
  fieldOf(column: string): FieldDef
  wanted: Int32Array | undefined
}

/** What a plan's names mean: the series that its tags leave, and a tag by its name in SQL. */
function resolved({ state: { series } }: RelationContext, measurement: MeasurementDef, tags: readonly TagHint[]): Resolved {
  const named = tagColumns(measurement, series.tagKeys(measurement.id))
  const keyOf = (column: string): string => (named.find((tag) => tag.column === column) as (typeof named)[number]).key
  const wanted = hintedSeries(series, measurement, tags)
  return { keyOf, wanted, fieldOf: (column: string): FieldDef => measurement.fields.find((field) => field.column === column) as FieldDef }
}

/** As of the snapshot. */
export async function newestFrom(
  context: RelationContext,
  snapshot: Snapshot,
  namespace: string,
  plan: NewestPlan,
  signal: AbortSignal | undefined,
): Promise<bigint | undefined> {
  const measurement = context.state.measurement(namespace, plan.measurement)
  const table = measurement === undefined ? undefined : await newestTable(context, snapshot, measurement, plan, signal, 1)
  return table === undefined ? undefined : oldestNewest(plan, table)
}

async function newestTable(
  context: RelationContext,
  snapshot: Snapshot,
  measurement: MeasurementDef,
  { tags, fields, time }: NewestPlan,
  signal: AbortSignal | undefined,
  attempts?: number,
): Promise<NewestTable | undefined> {
  const { series: view } = context.state
  const { keyOf, wanted, fieldOf } = resolved(context, measurement, tags)
  const series = wanted ?? view.of(measurement.id)
  const names = [...fields.keys()]
  const found = await newestOfSeries(context, snapshot, { measurement, fields: names.map(fieldOf), series, time, signal }, attempts)
  if (found === undefined) return undefined
  const [rows, ...values] = found
  const columns = new SelectedTags(view, measurement.id, series, wanted === undefined ? undefined : positionsOf(series, view.of(measurement.id)))
  return { series: series.length, tag: (name) => columns.column(keyOf(name)), rows, fields: new Map(names.map((name, i) => [name, values[i]])) }
}

function laneRows(context: RelationContext, snapshot: Snapshot, measurement: MeasurementDef, plan: ScanPlan, signal: AbortSignal | undefined): LaneRows {
  const { keyOf, wanted, fieldOf } = resolved(context, measurement, plan.tags)
  const rows = new FieldRows(context, snapshot, { measurement, time: plan.time, series: wanted, signal })
  return {
    series: rows.series.length,
    tag: (name) => rows.tags.column(keyOf(name)),
    span() {
      const span = rows.span()
      return span === undefined ? undefined : millisecondRange(span)
    },
    anyField: () => measurement.fields.find((field) => PLAIN_TYPES.has(field.type) && !rows.lacks(field))?.column,
    lacks: (field) => rows.lacks(fieldOf(field)),
    expected: (fields) => rows.expected(fields),
    scan: (fields, how, visit) => rows.scan({ ...how, fields: fields.map(fieldOf), visit }),
  }
}
