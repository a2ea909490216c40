/**
 * Measurements as SQL sees them, and their rows as a SELECT of ClickHouse. All in it is made here: names of databases, tables and columns follow from the
 * catalog, tags' keys and values are literals.
 */

import { INT64_MAX, INT64_MIN } from '../../common/time.ts'
import type { RelationRequest, SqlMeasurement, SqlMeasurementColumn } from '../../embedded/sql/bind.ts'
import { type Life, ownFields, type StoredField } from '../catalog.ts'
import { OF_SERIES } from '../fence.ts'
import { timeLiteral } from '../rows-query.ts'
import { columnName, databaseOf, ownTable, type Place, wireType } from '../statements.ts'
import { textLiteral } from './literals.ts'
import type { ScanColumn } from './plan.ts'

export interface SqlLife {
  life: Life
  measurement: SqlMeasurement
  /** Of columns that are tags. */
  tags: ReadonlyMap<string, string>
  fields: ReadonlyMap<string, StoredField>
}

/** Names that no field's column has. */
const RESERVED = ['_time', '_series', '_measurement', '_order']

/** Columns are called as the embedded engine calls them. @param keys of the measurement's tags, sorted. */
export function sqlLife(life: Life, keys: readonly string[]): SqlLife {
  const taken = new Set(RESERVED)
  const fields = new Map<string, StoredField>()
  for (const field of life.fields.values()) {
    let column = field.info.name
    for (let n = 2; taken.has(column.toLowerCase()); n++) column = `${field.info.name}_${n}`
    taken.add(column.toLowerCase())
    fields.set(column, field)
  }
  const used = new Set(['_series', '_time', ...[...fields.keys()].map((column) => column.toLowerCase())])
  const tags = new Map<string, string>()
  for (const key of keys) {
    let column = key
    for (let n = 1; used.has(column.toLowerCase()); n++) column = n === 1 ? `${key}_tag` : `${key}_tag${n}`
    used.add(column.toLowerCase())
    tags.set(column, key)
  }
  const columns: SqlMeasurementColumn[] = [
    { name: '_time', role: 'time' },
    ...[...tags.keys()].map((name) => ({ name, role: 'tag' as const })),
    ...[...fields].map(([name, { info }]) => ({
      name,
      role: 'field' as const,
      type: info.type,
      ...(info.type === 'decimal' ? { scale: info.scale ?? 0 } : {}),
    })),
  ]
  return { life, measurement: { name: life.name, columns }, tags, fields }
}

export interface ScanOf {
  sql: SqlLife
  request: RelationRequest
  /** First time that retention keeps. */
  keptFrom: bigint
}

export function timesOf({ request, keptFrom }: ScanOf): readonly [bigint, bigint] {
  return [request.time[0] > keptFrom ? request.time[0] : keptFrom, request.time[1]]
}

/** Places of tags among the columns of a request. */
export function tagPlaces({ sql, request }: ScanOf): ReadonlySet<number> {
  return new Set(request.columns.flatMap((name, i) => (sql.tags.has(name) ? [i] : [])))
}

/** @param columns of the request, and what to call each. @param id what to call the series' ids, if they are wanted. */
export function relationStatement(place: Place, scan: ScanOf, columns: readonly ScanColumn[], id?: string): string {
  const { sql, request } = scan
  const names = request.columns
  const tags = columns.flatMap(({ place: at, name }) => (sql.tags.has(names[at]) ? [{ name, key: sql.tags.get(names[at]) as string }] : []))
  const fields = columns.flatMap(({ place: at, name }) => (sql.fields.has(names[at]) ? [{ name, field: sql.fields.get(names[at]) as StoredField }] : []))
  const series = seriesOf(place, scan)
  const within = request.tags.length === 0 ? undefined : `series GLOBAL IN (SELECT series ${series})`
  const rows = rowsStatement(
    place,
    scan,
    fields.map(({ field }) => field),
    within,
  )
  const list = columns.map(({ place: at, name }) => {
    const column = names[at]
    if (column === '_time') return `toUnixTimestamp64Nano(r.time) AS ${name}`
    if (sql.tags.has(column)) return `s.${name}_t AS ${name}`
    const i = fields.findIndex((one) => one.name === name)
    return `r.v${i} AS ${name}`
  })
  if (id !== undefined) list.push(`r.series AS ${id}`)
  if (tags.length === 0) return `SELECT ${list.join(', ') || '1'} FROM (${rows}) AS r`
  const values = tags.map(({ name, key }) => `${tagValue(key)} AS ${name}_t`)
  return `SELECT ${list.join(', ')} FROM (${rows}) AS r INNER JOIN (SELECT series, ${values.join(', ')} ${series}) AS s ON r.series = s.series`
}

/** The series of a scan. @param columns tags of the request, and what to call each. */
export function seriesStatement(place: Place, scan: ScanOf, columns: readonly ScanColumn[], id: string): string {
  const values = columns.map(({ place: at, name }) => `${tagValue(scan.sql.tags.get(scan.request.columns[at]) as string)} AS ${name}`)
  return `SELECT ${[`series AS ${id}`, ...values].join(', ')} ${seriesOf(place, scan)}`
}

/** An absent tag reads as the empty text, which none has. */
const tagValue = (key: string): string => `nullIf(tags[${textLiteral(key)}], '')`

function seriesOf(place: Place, { sql, request }: ScanOf): string {
  const conditions = [`life = ${sql.life.number}`, ...request.tags.map((hint) => hintCondition(sql, hint))]
  return `FROM ${databaseOf(place, sql.life.namespace)}.series FINAL WHERE ${conditions.join(' AND ')}`
}

function hintCondition({ tags }: SqlLife, hint: RelationRequest['tags'][number]): string {
  const value = `tags[${textLiteral(tags.get(hint.tag) as string)}]`
  if ('values' in hint) return `${value} IN (${hint.values.map(textLiteral).join(', ')})`
  return 'like' in hint ? `${value} LIKE ${textLiteral(hint.like)}` : `match(${value}, ${textLiteral(`(?s)^${hint.regex}$`)})`
}

/** Columns `series`, `time`, `v0` ...; rows whose values readers do not see are there, with NULL. */
function rowsStatement(place: Place, scan: ScanOf, fields: readonly StoredField[], within: string | undefined): string {
  const { life } = scan.sql
  const database = databaseOf(place, life.namespace)
  const all = [...life.fields.values()]
  const own = ownFields(life)
  const [low, high] = timesOf(scan)
  const conditions = [
    ...(within === undefined ? [] : [within]),
    ...(low > INT64_MIN ? [`time >= ${timeLiteral(low)}`] : []),
    ...(high < INT64_MAX ? [`time <= ${timeLiteral(high)}`] : []),
    ...(low > high ? ['0'] : []),
  ]
  const where = (more: readonly string[]): string => {
    const list = [...more, ...conditions]
    return list.length === 0 ? '' : ` WHERE ${list.join(' AND ')}`
  }
  const narrow = (list: string): string => `SELECT series, time${list} FROM ${database}.narrow FINAL${where([`life = ${life.number}`])}`
  const value = 'if(isFinite(value), value, NULL)'
  if (own.length === 0) return narrow(fields.map((_, i) => `, ${value} AS v${i}`).join(''))
  const table = (list: string): string => `SELECT series, time${list} FROM ${database}.${ownTable(life.number)} FINAL${where([OF_SERIES])}`
  if (own.length === all.length) return table(fields.map((field, i) => `, ${shownValue(field, scan.sql.life)} AS v${i}`).join(''))
  const missing = ({ type, scale }: StoredField): string => `CAST(NULL AS Nullable(${type === 'decimal' ? 'Int128' : wireType(type, scale)}))`
  const first = narrow(fields.map((field, i) => `, ${field.narrow ? value : missing(field)} AS v${i}`).join(''))
  const second = table(fields.map((field, i) => `, ${field.narrow ? missing(field) : shownValue(field, scan.sql.life)} AS v${i}`).join(''))
  // A field's value is in one of the two.
  return `SELECT series, time${fields.map((_, i) => `, any(a.v${i}) AS v${i}`).join('')} FROM (${first} UNION ALL ${second}) AS a GROUP BY series, time`
}

/** A field's value as statements compute with it; NULL where readers see none. */
function shownValue({ index, type }: StoredField, { infinite }: Life): string {
  const column = columnName(index)
  if (type === 'float64' && infinite) return `if(isFinite(${column}), ${column}, NULL)`
  if (type === 'decimal') return `reinterpret(${column}, 'Int128')`
  // A marker of staleness, which is no histogram, has two bytes.
  return type === 'histogram' ? `if(length(${column}) = 2, NULL, ${column})` : column
}
