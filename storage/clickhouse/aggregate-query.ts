/**
 * Statements that compute values of windows, series by series, and bring them together by groups. All in them is made here: names, numbers, and texts of
 * callers as parameters.
 */
import type { AggregateRequest, GroupFunction } from 'svcdb/lib/columns'
import { type Grid, gridOf, timeOnGrid } from './grid-functions.ts'
import { MS, NS, type RowsQuery, rowsOf } from './rows-query.ts'
import { param, type SeriesSource } from './series-store.ts'
import type { Place } from './statements.ts'

/** How fine times are: whole seconds, whole milliseconds, or finer, so that of the samples within a millisecond the last has to be found. */
export const SECONDS = 0
export const MILLISECONDS = 1
const FINER = 2
export type Precision = typeof SECONDS | typeof MILLISECONDS | typeof FINER

export interface AggregateQuery extends Pick<AggregateRequest, 'windows' | 'window' | 'group' | 'tags' | 'without'> {
  /** Of one field, a number. */
  rows: RowsQuery
  series: SeriesSource
  precision: Precision
  /** Groups at most, and one more when there are more. */
  maxGroups: number
}

/** Prometheus' mark for the end of a series. */
const STALE = 'reinterpretAsUInt64(x) = 9218868437227405314'

/** Columns of its answer, behind those of the groups' tags: see `answerOf` in aggregates.ts. */
export function aggregateStatement(place: Place, query: AggregateQuery): { statement: string; params: Record<string, string> } {
  const params = { ...query.series.params }
  const groups = groupsOf(query, params)
  const names = groups.map((_, i) => `g${i}`)
  const columns = [
    ...names.map((name) => `CAST(${name} AS ${query.without ? 'Array(String)' : 'String'})`),
    GROUPS[query.group],
    query.group === 'avg' ? 'countForEach(grid)' : 'CAST([] AS Array(UInt64))',
    signed(query) ? 'sumForEach(arrayMap(v -> abs(v), grid))' : 'CAST([] AS Array(Float64))',
    'toUInt64(sum(samples)), max(nonFinite), max(precision), max(fractional), max(negative), max(largest)',
  ]
  const series = `SELECT ${['series', ...groups.map((group, i) => `${group} AS ${names[i]}`)].join(', ')} ${query.series.from}`
  const by = names.length === 0 ? '' : ` GROUP BY ${names.join(', ')}`
  const statement = `SELECT ${columns.join(', ')} FROM (${gridsOf(place, query)}) AS a JOIN (${series}) AS b USING series${by} LIMIT ${query.maxGroups + 1}`
  return { statement, params }
}

/** Whether values may cancel each other out where they are added. */
export function signed({ window, group }: Pick<AggregateQuery, 'window' | 'group'>): boolean {
  return (group === 'sum' || group === 'avg') && (window === 'last' || window === 'delta' || window === 'idelta')
}

const GROUPS: Readonly<Record<GroupFunction, string>> = {
  sum: 'sumKahanForEach(grid)',
  avg: 'sumKahanForEach(grid)',
  min: 'minForEach(grid)',
  max: 'maxForEach(grid)',
  count: 'CAST(countForEach(grid) AS Array(Nullable(Float64)))',
}

/** What makes groups: values of tags, or keys and values of all others. */
function groupsOf({ tags, without }: AggregateQuery, params: Record<string, string>): string[] {
  const names = tags.map((tag) => param(params, tag))
  if (!without) return names.map((name) => `tags[${name}]`)
  const others = names.length === 0 ? 'tags' : `mapFilter((k, v) -> k NOT IN (${names.join(', ')}), tags)`
  return [`mapKeys(${others})`, `mapValues(${others})`]
}

/** A row a series: its values, how many samples it has, and what says whether ClickHouse computes with them as an evaluator does. */
function gridsOf(place: Place, query: AggregateQuery): string {
  const { windows, window, precision, rows } = query
  const grid: Grid = {
    scale: precision === SECONDS ? 0 : 3,
    first: windows.first,
    last: windows.first + (windows.count - 1) * windows.interval,
    step: windows.interval,
    range: windows.range,
  }
  const isFloat = rows.fields[0].type === 'float64'
  const values = gridOf(window, grid, 'at', 'x')
  // A marker is the newest sample as any other, and is nothing itself.
  const marked = isFloat && window === 'last'
  const columns = [
    `${marked ? `arrayMap(x -> if(${STALE.replace('(x)', '(assumeNotNull(x))')}, NULL, x), ${values})` : values} AS grid`,
    'count() AS samples',
    `max(NOT isFinite(x)${marked ? ` AND NOT ${STALE}` : ''}) AS nonFinite`,
    'max(fine) AS precision',
    'max(x != trunc(x) AND isFinite(x)) AS fractional',
    'max(x < 0) AS negative',
    'maxIf(abs(x), isFinite(x)) AS largest',
  ]
  const left = isFloat && !marked ? ` WHERE NOT ${STALE}` : ''
  return `SELECT series, ${columns.join(', ')} FROM (${samplesOf(place, query, grid.scale)})${left} GROUP BY series`
}

/** Rows of (series, at, x, fine). */
function samplesOf(place: Place, { rows, precision }: AggregateQuery, scale: Grid['scale']): string {
  const value = 'toFloat64(assumeNotNull(v0))'
  const from = `FROM (${rowsOf(place, rows)}) WHERE isNotNull(v0)`
  if (precision === FINER)
    return `SELECT series, fromUnixTimestamp64Milli(${MS}, 'UTC') AS at, argMax(${value}, time) AS x, 0 AS fine ${from} GROUP BY series, at`
  const whole = (ns: number): string => `modulo(${NS}, ${ns}) = 0`
  const fine =
    precision === SECONDS ? `multiIf(${whole(1e9)}, ${SECONDS}, ${whole(1e6)}, ${MILLISECONDS}, ${FINER})` : `if(${whole(1e6)}, ${MILLISECONDS}, ${FINER})`
  return `SELECT series, ${timeOnGrid('time', scale)} AS at, ${value} AS x, ${fine} AS fine ${from}`
}
