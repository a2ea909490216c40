/** Statements that read rows of a measurement, sorted by series and time, each time once (with the setting `WITHIN_DAYS`). All in them is made here: names, numbers, ids. */
import type { Life, StoredField } from './catalog.ts'
import { OF_SERIES } from './fence.ts'
import { IDS_AT_ONCE, inGroups } from './series-store.ts'
import { columnName, databaseOf, ownTable, type Place, wireType } from './statements.ts'

export const NS = 'toUnixTimestamp64Nano(time)'
/** Whole milliseconds, rounded down. */
export const MS = `intDiv(${NS}, 1000000) - toInt64(modulo(${NS}, 1000000) < 0)`

export interface RowsQuery {
  life: Life
  /** At least one. They come as columns from the third on: `series`, `time`, ... */
  fields: readonly StoredField[]
  /** Ids; undefined = all, or those of `within`. Of too many to be named rows of others come as well. */
  series: readonly string[] | undefined
  /** A statement that finds the ids, for when they are too many or not known. */
  within?: string | undefined
  /** Ids from the first to the last, as numbers. */
  between?: readonly [first: bigint, last: bigint]
  start: bigint | undefined
  end: bigint | undefined
}

export function rowsStatement(place: Place, query: RowsQuery): string {
  return `SELECT * FROM (${rowsOf(place, query)}) ORDER BY series, time`
}

/** Times in whole milliseconds, rounded down, and one field that has a value. */
export function samplesStatement(place: Place, query: RowsQuery, newestOnly: boolean): string {
  const order = newestOnly ? 'ORDER BY series, time DESC LIMIT 1 BY series' : 'ORDER BY series, time'
  return `SELECT series, toFloat64(${MS}) AS ms, v0 FROM (${rowsOf(place, query)}) WHERE isNotNull(v0) ${order}`
}

/** Ids of series that have rows. */
export function activeStatement(place: Place, query: RowsQuery): string {
  return `SELECT DISTINCT series FROM (${rowsOf(place, query)}) WHERE v0 IS NOT NULL`
}

export function conditionOf(
  { life, series, within, between, start, end }: Pick<RowsQuery, 'series' | 'within' | 'between' | 'start' | 'end'> & { life: Life | undefined },
  narrow: boolean,
): string {
  const conditions = narrow && life !== undefined ? [`life = ${life.number}`] : []
  if (series !== undefined && series.length <= IDS_AT_ONCE) conditions.push(`series IN (${[...inGroups(series)].join(', ') || 'toUInt128(0)'})`)
  else if (within !== undefined) conditions.push(`series GLOBAL IN (${within})`)
  if (between !== undefined) conditions.push(betweenIds(between))
  if (start !== undefined) conditions.push(`time >= ${timeLiteral(start)}`)
  if (end !== undefined) conditions.push(`time < ${timeLiteral(end)}`)
  return conditions.length === 0 ? '1' : conditions.join(' AND ')
}

export function betweenIds([first, last]: readonly [bigint, bigint]): string {
  return `series BETWEEN toUInt128('${first}') AND toUInt128('${last}')`
}

export function timeLiteral(time: bigint): string {
  return `fromUnixTimestamp64Nano(toInt64('${time}'), 'UTC')`
}

/** Rows in no order. */
export function rowsOf(place: Place, query: RowsQuery): string {
  const { life, fields } = query
  const database = databaseOf(place, life.namespace)
  const columns = (has: (field: StoredField) => boolean): string =>
    fields
      .map((field, i) =>
        has(field) ? `${field.narrow ? 'value' : columnName(field.index)} AS v${i}` : `CAST(NULL AS Nullable(${wireType(field.type, field.scale)})) AS v${i}`,
      )
      .join(', ')
  const narrow = `SELECT series, time, ${columns((field) => field.narrow)} FROM ${database}.narrow FINAL WHERE ${conditionOf(query, true)}`
  const own = `SELECT series, time, ${columns((field) => !field.narrow)} FROM ${database}.${ownTable(life.number)} FINAL WHERE ${OF_SERIES} AND ${conditionOf(query, false)}`
  if (fields.every((field) => field.narrow)) return narrow
  if (fields.every((field) => !field.narrow)) return own
  // A field's value is in one of the two.
  const merged = fields.map((_, i) => `any(a.v${i}) AS v${i}`).join(', ')
  return `SELECT series, time, ${merged} FROM (${narrow} UNION ALL ${own}) AS a GROUP BY series, time`
}
