/**
 * SQL on ClickHouse: the embedded engine's gate checks a statement, DuckDB binds it over empty tables, and its plan is printed as one statement of ClickHouse,
 * which runs under limits of its own. See docs/decisions/087-points-in-clickhouse.md.
 */
import type { DeclaredSqlFunction, SqlChunk, SqlCursor, SqlRequest } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import { INT64_MAX, INT64_MIN } from '../../common/time.ts'
import { type Binder, type BoundScan, hintText, type PlanNode } from '../../embedded/sql/bind.ts'
import type { Life } from '../catalog.ts'
import { CAUSES, type Client, CODES } from '../client.ts'
import { daysOf } from '../measures.ts'
import type { SeriesStore } from '../series-store.ts'
import { WITHIN_DAYS } from '../settings.ts'
import { ownTable, type Place } from '../statements.ts'
import { AGGREGATE_NAMES } from './aggregates.ts'
import { chunksOf } from './answer.ts'
import { COMPUTED } from './functions.ts'
import { printPlan, type ScanPrinter } from './plan.ts'
import { relationStatement, type ScanOf, type SqlLife, seriesStatement, sqlLife, tagPlaces, timesOf } from './relation.ts'
import { type Range, raise } from './types.ts'

export interface SqlContext {
  client: Client
  place: Place
  series: SeriesStore
  binder(): Promise<Binder>
  lives(namespace: string): readonly Life[]
  keptFrom(life: Life): bigint
  ready(life: Life): Promise<void>
  /** Nanoseconds. */
  now(): bigint
  limits: SqlLimits
  /** Of plugins, by name. */
  functions: ReadonlyMap<string, DeclaredSqlFunction>
}

export interface SqlLimits {
  rows: number
}

const COMPUTES: ReadonlySet<string> = new Set([...COMPUTED, ...AGGREGATE_NAMES])
const DAY_NS = 86_400_000_000_000n
/** ClickHouse reads no longer ones unless it is configured to. */
const MAX_STATEMENT = 250_000

export async function openSql(
  context: SqlContext,
  request: SqlRequest,
  options: { signal?: AbortSignal | undefined; timeoutMs?: number | undefined; asker?: string | undefined },
): Promise<SqlCursor> {
  const { namespace } = request
  const known = await livesOf(context, request)
  const binder = await context.binder()
  const measurements = [...known.values()].map(({ measurement }) => measurement)
  const bound = await binder.bind({ ...request, measurements, now: context.now(), computes: COMPUTES }, options.signal)
  if (bound.kind === 'answered') return bound.cursor
  const scans = new Map(bound.scans.map((scan) => [scan.table, scanOf(context, known, scan)]))
  for (const { sql } of scans.values()) await context.ready(sql.life)
  const times = await timesRead(context, namespace, bound.plan, [...scans.values()])
  const { sql, columns } = printPlan(bound.plan, scanPrinter(context.place, scans), { times, functions: context.functions })
  if (bound.kind === 'explained') return explained([...scans.values()])
  const described = bound.columns
  if (described.length !== columns.length) throw new Error(`a statement has ${described.length} columns, its plan ${columns.length}`)
  if (sql.length > MAX_STATEMENT) raise('room for a statement as long as this one becomes')
  const { signal, asker } = options
  const blocks = context.client.blocks(sql, {
    settings: settings(context.limits),
    timeoutMs: options.timeoutMs ?? 0,
    meaning: (code, message) => sqlError(code, message),
    ...(signal === undefined ? {} : { signal }),
    ...(asker === undefined ? {} : { asker }),
  })
  const textBytes = request.textBytes === true
  return { columns: described, parameters: [], [Symbol.asyncIterator]: () => chunksOf(blocks, columns, described, textBytes, signal) }
}

/** Those that a statement may mean: their names stand in it. */
async function livesOf({ lives, series }: SqlContext, { namespace, query }: SqlRequest): Promise<Map<string, SqlLife>> {
  const text = query.toLowerCase()
  const quoted = text.replaceAll('""', '"')
  const all = text.includes('information_schema')
  const named = lives(namespace)
  const wanted = named.filter(({ name }) => all || text.includes(name.toLowerCase()) || quoted.includes(name.toLowerCase()))
  const keys = wanted.length === 0 ? new Map<number, string[]>() : await series.tagKeys(namespace, all ? undefined : wanted)
  return new Map(named.map((life) => [life.name, sqlLife(life, keys.get(life.number) ?? [])]))
}

function scanOf({ keptFrom }: SqlContext, known: ReadonlyMap<string, SqlLife>, { request }: BoundScan): ScanOf {
  const sql = known.get(request.measurement) as SqlLife
  return { sql, request, keptFrom: keptFrom(sql.life) }
}

function scanPrinter(place: Place, scans: ReadonlyMap<string, ScanOf>): ScanPrinter {
  const find = (table: string): ScanOf => {
    const scan = scans.get(table)
    // Of a name that is none of the statement's own.
    if (scan === undefined) throw new Error('a plan reads a table that the statement has not')
    return scan
  }
  return {
    print: (table, columns, series) => relationStatement(place, find(table), columns, series),
    tags: (table) => tagPlaces(find(table)),
    series: (table, columns, id) => seriesStatement(place, find(table), columns, id),
    times: (table) => timesOf(find(table)),
  }
}

/** What times there are to read, for buckets of calendars; others need not know. */
async function timesRead({ client, place }: SqlContext, namespace: string, plan: PlanNode, scans: readonly ScanOf[]): Promise<Range> {
  if (!JSON.stringify(plan).includes('__svc_bucket')) return [INT64_MIN, INT64_MAX]
  const days = await daysOf(client, place, namespace)
  let [low, high] = [INT64_MAX, INT64_MIN]
  for (const scan of scans) {
    const [first, last] = timesOf(scan)
    for (const name of ['narrow', ownTable(scan.sql.life.number)]) {
      const held = days.get(name)
      if (held === undefined) continue
      const [from, to] = [(held.oldest - 1n) * DAY_NS, (held.newest + 1n) * DAY_NS]
      const [a, b] = [from > first ? from : first, to < last ? to : last]
      if (a < low) low = a
      if (b > high) high = b
    }
  }
  return [low, high]
}

function settings({ rows }: SqlLimits): string[] {
  return [
    WITHIN_DAYS,
    ...[
      'join_use_nulls = 1',
      'group_by_use_nulls = 1',
      'transform_null_in = 0',
      'aggregate_functions_null_for_empty = 0',
      "short_circuit_function_evaluation = 'enable'",
    ],
    `max_result_rows = ${rows}`,
    "result_overflow_mode = 'throw'",
  ]
}

/** ClickHouse's own texts tell of tables that are nobody's business. */
function sqlError(code: string, message: string): SvcError | undefined {
  const cannot = (cause: string): SvcError => new SvcError('SQL_ERROR', `cannot run this query: ${cause}`)
  switch (code) {
    case '395': {
      const [, cause] = /^(.*?)(?:: (?:while|In scope)|\.?$)/s.exec(message) ?? []
      return cannot((cause ?? 'an error in an expression').slice(0, 200))
    }
    case '70':
    case '407':
      return cannot('a number is out of the range of its type')
    case '153':
      return cannot('division by zero')
    case '158':
    case '396':
      return cannot('the answer has more rows than clickhouse.query_rows allows; add a LIMIT, or aggregate')
    case '241':
      // Of all statements, or those of the user, together.
      if (/\((total|for user)\)|^User memory/i.test(message))
        return new SvcError('OVERLOADED', 'cannot run this query: ClickHouse has no memory left beside its other work; try again')
      return cannot('it needs more memory than clickhouse.query_memory allows; narrow the time range, group less finely or raise the limit')
    case '159':
    case '160':
      return new SvcError('QUERY_TIMEOUT', 'cannot finish the query: it took longer than it may; narrow the time range')
    case '427':
      return cannot('a regular expression does not parse')
    default:
      if (CAUSES.has(code)) return undefined
      return new SvcError(CODES.get(code) ?? 'DATABASE_ERROR', `cannot run this query: ClickHouse answers with error ${code}; its log says more`)
  }
}

function explained(scans: readonly ScanOf[]): SqlCursor {
  const rows = scans.map((scan) => {
    const [low, high] = timesOf(scan)
    const { measurement, columns, tags } = scan.request
    return `Scan: ${measurement} time=[${low}..${high}] columns=[${columns.join(', ')}]${tags.map(hintText).join('')}`
  })
  async function* chunks(): AsyncGenerator<SqlChunk> {
    yield { rows: rows.length, columns: [{ values: rows.map(() => 'scan') }, { values: rows }] }
  }
  return { columns: ['plan_type', 'plan'].map((name) => ({ name, type: 'Utf8' })), parameters: [], [Symbol.asyncIterator]: () => chunks() }
}
