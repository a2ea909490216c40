/** Statements of an export: what there is to write, and the rows of a slice as a Parquet file. Columns are called `c0`, `c1`, ...: names are put in when slices are joined. */
import { ROW_GROUP_ROWS } from '../../common/export/join-export.ts'
import type { Life, StoredField } from '../catalog.ts'
import { OF_SERIES } from '../fence.ts'
import { betweenIds, conditionOf, NS, type RowsQuery, rowsOf } from '../rows-query.ts'
import { param } from '../series-store.ts'
import { WITHIN_DAYS } from '../settings.ts'
import { columnName, databaseOf, ownTable, type Place } from '../statements.ts'

export interface ExportScope {
  place: Place
  life: Life
  /** In the order of the file's columns, behind `_time` and the tags. */
  fields: readonly StoredField[]
  tagKeys: readonly string[]
}

/** Times from `start` to before `end`; undefined = without a bound. */
export interface TimeRange {
  start: bigint | undefined
  end: bigint | undefined
}

/** Ids of series, as numbers. */
export type Ids = readonly [first: bigint, last: bigint]

export interface Slice extends TimeRange {
  between: Ids
}

/** The joiner takes neither page indexes nor bloom filters. */
export const PARQUET_SETTINGS = [
  WITHIN_DAYS,
  `output_format_parquet_row_group_size = ${ROW_GROUP_ROWS}`,
  'output_format_parquet_write_page_index = 0',
  'output_format_parquet_write_bloom_filter = 0',
  'output_format_parquet_string_as_string = 1',
  "output_format_parquet_compression_method = 'zstd'",
]
const DAY_NS = 86_400_000_000_000n

/** Columns: the time, tags, fields. Series that are gone, and those with a tag that has come meanwhile, are left out. */
export function sliceStatement({ place, life, fields, tagKeys }: ExportScope, slice: Slice): { statement: string; params: Record<string, string> } {
  const params: Record<string, string> = {}
  const keys = tagKeys.map((key) => param(params, key))
  const tags = keys.map((key, i) => `nullIf(tags[${key}], '') AS t${i}`)
  const known = keys.length === 0 ? 'empty(mapKeys(tags))' : `hasAll([${keys.join(', ')}], CAST(mapKeys(tags) AS Array(String)))`
  const series = `FROM ${databaseOf(place, life.namespace)}.series FINAL WHERE life = ${life.number} AND ${betweenIds(slice.between)} AND ${known}`
  const columns = ['toNullable(r.time)', ...tags.map((_, i) => `s.t${i}`), ...fields.map(({ type }, i) => shown(type, `r.v${i}`))]
  const list = columns.map((column, i) => `${column} AS c${i}`).join(', ')
  const rows = rowsOf(place, { life, fields, series: undefined, ...slice })
  const statement = `SELECT ${list} FROM (${rows}) AS r INNER JOIN (SELECT ${['series', ...tags].join(', ')} ${series}) AS s ON r.series = s.series ORDER BY r.series, r.time`
  return { statement, params }
}

/** A field's value as readers see it. */
function shown(type: StoredField['type'], value: string): string {
  if (type === 'float64') return `if(isFinite(${value}), ${value}, NULL)`
  if (type === 'bool') return `CAST(${value} AS Nullable(Bool))`
  // A marker of staleness, which is no histogram, has two bytes.
  return type === 'histogram' ? `if(length(${value}) = 2, NULL, ${value})` : value
}

/** Columns: whole days since the Unix epoch, rounded towards it, ascending; rows of each, repeated ones included. */
export function daysStatement(scope: ExportScope, time: TimeRange): string {
  // The key of the partitions: without a range of times ClickHouse knows the answer.
  const day = `intDiv(${NS}, ${DAY_NS})`
  const parts = tablesOf(scope).map(
    ([table, narrow]) =>
      `SELECT ${day} AS day, count() AS n FROM ${table} WHERE ${conditionOf({ life: scope.life, series: undefined, ...time }, narrow)} GROUP BY day`,
  )
  return `SELECT day, toFloat64(sum(n)) FROM (${parts.join(' UNION ALL ')}) GROUP BY day ORDER BY day`
}

/** Columns: the first and the last time in nanoseconds, rows. */
export function extentStatement(scope: ExportScope, slice: Slice): string {
  return `SELECT min(ns), max(ns), toFloat64(count()) FROM (${unmerged(scope, slice)})`
}

/**
 * Columns: a part of the ids, ascending; bytes of its rows, repeated ones included; 1 where it is of one series.
 * @param shift parts are told apart by bits from this one on. @param rowBytes of a row, beside its texts.
 */
export function seriesStatement(scope: ExportScope, slice: Slice, shift: number, mask: number, rowBytes: number): string {
  const part = `toUInt32(bitAnd(bitShiftRight(series, ${shift}), ${mask}))`
  return `SELECT ${part} AS part, ${bytesOf(rowBytes)}, toUInt8(min(series) = max(series)) FROM (${unmerged(scope, slice)}) GROUP BY part ORDER BY part`
}

/** Columns: a part of the times, ascending; bytes of its rows, repeated ones included. @param width of a part, nanoseconds. */
export function timesStatement(scope: ExportScope, slice: Slice, first: bigint, width: bigint, rowBytes: number): string {
  // What the difference may have too much for its sign comes right as a number without one.
  const part = `toUInt32(intDiv(toUInt64(ns - toInt64('${first}')), toUInt64('${width}')))`
  return `SELECT ${part} AS part, ${bytesOf(rowBytes)} FROM (${unmerged(scope, slice)}) GROUP BY part ORDER BY part`
}

/** Rows as they are stored: what is read counts, not what comes out. */
function unmerged(scope: ExportScope, slice: Slice): string {
  const texts = scope.fields.filter(({ type }) => type === 'string' || type === 'histogram')
  const own = texts.map(({ index }) => `toUInt64(ifNull(length(${columnName(index)}), 0))`).join(' + ')
  const query: RowsQuery = { life: scope.life, fields: scope.fields, series: undefined, ...slice }
  return tablesOf(scope)
    .map(
      ([table, narrow]) =>
        `SELECT series, ${NS} AS ns, ${(narrow ? '' : own) || 'toUInt64(0)'} AS texts FROM ${table} WHERE ${narrow ? '' : `${OF_SERIES} AND `}${conditionOf(query, narrow)}`,
    )
    .join(' UNION ALL ')
}

function bytesOf(rowBytes: number): string {
  return `toFloat64(count()) * ${rowBytes} + toFloat64(sum(texts))`
}

function tablesOf({ place, life, fields }: ExportScope): [table: string, narrow: boolean][] {
  const database = databaseOf(place, life.namespace)
  return [
    ...(fields.some(({ narrow }) => narrow) ? [[`${database}.narrow`, true] as [string, boolean]] : []),
    ...(fields.some(({ narrow }) => !narrow) ? [[`${database}.${ownTable(life.number)}`, false] as [string, boolean]] : []),
  ]
}
