/** Statements of SQL that are answered from samples, and those that are DuckDB's. */
import type { SqlChunk, SqlCursor, SqlRequest } from 'svcdb'
import { tagColumns } from '../series/tag-source.ts'
import {
  explainsLane,
  type LaneHost,
  type LaneOptions,
  type LaneRows,
  type NewestPlan,
  type NewestTable,
  type OpenedLane,
  oldestNewest,
  openLane,
  parse,
  parsedBefore,
  type ScanPlan,
  sqlError,
  type TagHint,
} from '../sql/index.ts'
import type { FieldDef, MeasurementDef } from '../threads/definitions.ts'
import type { Snapshot } from '../threads/state.ts'
import { newestOfSeries } from './newest/newest-table.ts'
import type { RelationContext } from './relation.ts'
import { FieldRows, positionsOf } from './samples/field-rows.ts'
import { millisecondRange } from './samples/millisecond-range.ts'
import { SelectedTags } from './samples/tag-sets.ts'
import type { Interval } from './sources.ts'
import { sqlMeasurement } from './sql-measurement.ts'

const NS_PER_MS = 1_000_000n
/** Of fields whose samples are numbers. */
const PLAIN_TYPES: ReadonlySet<FieldDef['type']> = new Set(['float64', 'int64', 'uint64', 'bool'])
const EXPLAINED: Record<'samples' | 'duckdb', string> = {
  samples: 'Samples: no scan by DuckDB, where every row has its values and a time of whole milliseconds',
  duckdb: 'DuckDB',
}

/** @param reads is told the times of the rows that are asked for. @param inDuckDb runs the statement there. */
export async function lane(
  context: RelationContext,
  snapshot: Snapshot,
  request: SqlRequest,
  signal: AbortSignal | undefined,
  reads: (times: Interval) => void,
  inDuckDb: () => Promise<SqlCursor>,
): Promise<SqlCursor> {
  const host = laneHost(context, snapshot, request.namespace, signal, reads)
  const options: LaneOptions = { limits: context.sqlLimits, parse: (text) => parseAnywhere(context, text) }
  const opened = await openLane(host, request, options)
  if (opened !== undefined) return { columns: opened.columns, parameters: [], [Symbol.asyncIterator]: () => rowsOf(opened, signal, inDuckDb) }
  const cursor = await inDuckDb()
  const explains = await explainsLane(host, request, options)
  return explains === undefined ? cursor : { ...cursor, [Symbol.asyncIterator]: () => explained(cursor, explains) }
}

async function parseAnywhere({ duck }: RelationContext, text: string): ReturnType<LaneOptions['parse']> {
  const before = parsedBefore(text)
  if (before !== undefined) return before
  const connection = await duck.connect()
  try {
    return await parse({ connection }, text)
  } finally {
    duck.release(connection, true)
  }
}

async function* rowsOf(opened: OpenedLane, signal: AbortSignal | undefined, inDuckDb: () => Promise<SqlCursor>): AsyncGenerator<SqlChunk> {
  let chunks: Iterable<SqlChunk> | undefined
  try {
    signal?.throwIfAborted()
    chunks = await opened.rows()
  } catch (error) {
    throw sqlError(error, signal, undefined)
  }
  yield* chunks ?? (await inDuckDb())
}

/** The last row says which way the statement goes. */
async function* explained(cursor: SqlCursor, fromSamples: boolean): AsyncGenerator<SqlChunk> {
  yield* cursor
  yield { rows: 1, columns: [{ values: ['path'] }, { values: [EXPLAINED[fromSamples ? 'samples' : 'duckdb']] }] }
}

function laneHost(
  context: RelationContext,
  snapshot: Snapshot,
  namespace: string,
  signal: AbortSignal | undefined,
  reads: (times: Interval) => void,
): LaneHost {
  const { state } = context
  return {
    measurement(name) {
      const def = state.measurement(namespace, name)
      return def === undefined ? undefined : sqlMeasurement(state, def)
    },
    now: () => BigInt(Date.now()) * NS_PER_MS,
    newest(plan) {
      reads(plan.time)
      return newestTable(context, snapshot, state.measurement(namespace, plan.measurement) as MeasurementDef, plan, signal)
    },
    rows(plan) {
      reads(plan.time)
      return laneRows(context, snapshot, state.measurement(namespace, plan.measurement.name) as MeasurementDef, plan, signal)
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
  let wanted: Int32Array | undefined
  for (const { tag, values } of tags)
    wanted = series.withTag(measurement.id, wanted ?? series.of(measurement.id), series.keySymbol(measurement.id, keyOf(tag)), values)
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
    scan: (fields, sparse, visit) => rows.scan({ fields: fields.map(fieldOf), sparse, visit }),
  }
}
