/**
 * SQL over the sources of a measurement (segments, memtables): a plain UNION ALL where no two sources can hold the same (series, time),
 * and a merge by field, last write first, in the time ranges that may have duplicates.
 */
import { join } from 'node:path'
import { staleHistogram } from 'svcdb/lib/histogram'
import { earlier, later } from '../../common/time.ts'
import { comparedTime } from '../duckdb/compared-time.ts'
import { type Duck, sqlName, sqlText, sqlType } from '../duckdb/duckdb.ts'
import { decryptedColumn } from '../encryption/encrypted-sql.ts'
import { memtableSource, ORDER_COLUMN, SERIES_COLUMN, TIME_COLUMN } from '../memtable/memtable-source.ts'
import { bitsColumn, bitsSql } from '../segment/bits-column.ts'
import { mayBeNonFinite } from '../segment/encoding.ts'
import { numberSource } from '../series/number-source.ts'
import type { FieldDef } from '../threads/definitions.ts'
import type { SegmentColumn, SegmentMeta } from '../threads/segment-entry.ts'
import type { MemtablePart } from '../threads/state.ts'
import { type MaskBounds, MaskedRows, maskBounds } from './mask-sql.ts'
import type { Mask } from './masks.ts'

/** docs/formats/histogram.md */
const STALE_HISTOGRAM = `'${Array.from(staleHistogram(), (byte) => `\\x${byte.toString(16).padStart(2, '0')}`).join('')}'::BLOB`

export type Interval = [lo: bigint, hi: bigint]

/** Empty, with its ends the other way round, where they have nothing in common. */
export function commonInterval(a: Interval, b: Interval): Interval {
  return [later(a[0], b[0]), earlier(a[1], b[1])]
}

export interface Source {
  minTime: bigint
  maxTime: bigint
  dirty: Interval | null
  segment?: SegmentMeta
  memtable?: { part: MemtablePart; linked: boolean; series: Int32Array | undefined }
  /** The measurement whose rows are wanted, when the source holds those of others too. */
  measurement: number | undefined
  /** It has rows of other namespaces. */
  mixed?: boolean
  /** Rows that deletes and retention have taken away. */
  masks: readonly Mask[]
}

export interface UnionRequest {
  duck: Duck
  dataDir: string
  /** Oldest first. */
  sources: Source[]
  time: Interval
  fields: FieldDef[]
  /** Ascending; all when absent. */
  series?: Int32Array
  /** Collects the calls of row sources made, to be removed when the statement is over. */
  calls: string[]
  /** How a segment's column is read; decoded to the field's type when absent. */
  read?: (segment: SegmentMeta, field: FieldDef) => string
  /** Conditions on the rows of segments as they are stored: all of them hold. */
  stored?: readonly string[]
  /** NaN and infinities come as they are stored, bit for bit; without it they are null. */
  raw?: true
  /**
   * Where duplicates may be, rows that have none, and those that were written once more with all that they had, are passed on beside the merge, which holds
   * all of its texts in memory. For large reads with texts.
   */
  sparesTexts?: boolean
  /** A caller's expressions are computed over it. */
  fence?: boolean
}

const KEY = `${SERIES_COLUMN}, ${TIME_COLUMN}`
/** Tables of a merge that spares texts: keys that come twice, and where their values are. */
const [REPEATED, NEWEST] = ['svc_repeated', 'svc_newest']
/** A source's row numbers stay below this. */
const ORDER_BITS = 32n
/** A longer list of series is a table of its own instead of a list of constants. */
const SERIES_LISTED = 1000
/** More conditions for what is masked of a source are not made: it is looked up (mask-sql.ts). */
const MASKS_LISTED = 1

/** A SELECT with _series, _time and the fields. `merged` says whether rows had to be merged. By the words of its parts `sql/staged.ts` knows what DuckDB may not end. */
export function unionSql(request: UnionRequest): { sql: string; merged: boolean } {
  const sources = request.sources.filter((source) => source.maxTime >= request.time[0] && source.minTime <= request.time[1])
  const dirty = dirtyIntervals(sources, request.time)
  const branches = plainBranches(request, sources, dirty)
  const merge = dirty.length > 0 ? mergedBranch(request, sources, dirty) : undefined
  if (merge !== undefined) branches.push(merge)
  if (branches.length === 0) return { sql: emptySql(request.fields), merged: false }
  return { sql: branches.join(' UNION ALL '), merged: merge !== undefined }
}

/** Where rows may have duplicates: disjoint, ascending, within the range asked for. */
export function dirtyIntervals(sources: readonly Source[], [lo, hi]: Interval): Interval[] {
  const found: Interval[] = []
  for (const { dirty } of sources)
    if (dirty !== null && dirty[1] >= lo && dirty[0] <= hi) found.push([dirty[0] > lo ? dirty[0] : lo, dirty[1] < hi ? dirty[1] : hi])
  found.sort((a, b) => (a[0] < b[0] ? -1 : a[0] > b[0] ? 1 : 0))
  const out: Interval[] = []
  for (const interval of found) {
    const last = out[out.length - 1]
    if (last === undefined || interval[0] > last[1]) out.push([...interval])
    else if (interval[1] > last[1]) last[1] = interval[1]
  }
  return out
}

function plainBranches(request: UnionRequest, sources: readonly Source[], dirty: readonly Interval[]): string[] {
  const branches: string[] = []
  // Segments that are read alike share one read_parquet. A time bound that only some of them need costs the others nothing: their statistics settle it.
  const groups = new Map<string, { files: string[]; head: string; conditions: string[]; bounds: Set<string> }>()
  for (const source of sources) {
    if (dirty.some(([lo, hi]) => lo <= source.minTime && hi >= source.maxTime)) continue
    const bounds = timeConditions(source, request.time)
    const conditions = [
      ...dirty.filter(([lo, hi]) => lo <= source.maxTime && hi >= source.minTime).map((interval) => `NOT ${within(interval)}`),
      ...seriesConditions(request, source),
      ...maskConditions(request, source),
    ]
    if (source.segment === undefined) {
      const fields = fieldList(request.fields, (field) => shown(request, [source], field, sqlName(field.column)))
      branches.push(`SELECT ${SERIES_COLUMN}, ${TIME_COLUMN}${fields} FROM ${memtableCall(request, source, 0n)}${whereSql([...bounds, ...conditions])}`)
      continue
    }
    const head = `SELECT ${SERIES_COLUMN}, ${timeColumn(request, source)}${segmentFields(request, source, [source])}`
    const key = [head, storedTypes(request, source.segment), ...conditions].join('\n')
    const file = segmentPathOf(request.duck, request.dataDir, source.segment)
    const group = groups.get(key)
    if (group === undefined) groups.set(key, { files: [file], head, conditions, bounds: new Set(bounds) })
    else {
      group.files.push(file)
      for (const bound of bounds) group.bounds.add(bound)
    }
  }
  for (const { files, head, conditions, bounds } of groups.values()) branches.push(`${head} FROM ${readSql(files)}${whereSql([...bounds, ...conditions])}`)
  return branches
}

/** Which columns are 64-bit integers: files read together must have the same types. */
function storedTypes(request: UnionRequest, segment: SegmentMeta): string {
  const wide = (field: FieldDef): boolean => {
    const encoding = segment.columns.find((column) => column.field === field.id)?.encoding
    return encoding?.kind === 'scaled' && encoding.wide === true
  }
  return request.fields.map((field) => (wide(field) ? 'w' : '-')).join('')
}

function mergedBranch(request: UnionRequest, sources: readonly Source[], dirty: readonly Interval[]): string | undefined {
  const branches: string[] = []
  const merged: Source[] = []
  for (const [i, source] of sources.entries()) {
    const touching = dirty.filter(([lo, hi]) => lo <= source.maxTime && hi >= source.minTime)
    if (touching.length === 0) continue
    merged.push(source)
    const order = BigInt(i) << ORDER_BITS
    const tail = whereSql([`(${touching.map(within).join(' OR ')})`, ...seriesConditions(request, source), ...maskConditions(request, source)])
    branches.push(
      source.segment === undefined
        ? `SELECT ${SERIES_COLUMN}, ${TIME_COLUMN}, ${ORDER_COLUMN}${fieldList(request.fields, (field) => sqlName(field.column))} FROM ${memtableCall(request, source, order)}${tail}`
        : `SELECT ${SERIES_COLUMN}, ${timeColumn(request, source)}, ${order}::BIGINT AS ${ORDER_COLUMN}${segmentFields(request, source)} FROM ${readSql([segmentPathOf(request.duck, request.dataDir, source.segment)])}${tail}`,
    )
  }
  if (branches.length === 0) return undefined
  const rows = `(${branches.join(' UNION ALL ')})`
  // arg_max passes over rows whose value is NULL, so that each field comes from the last write that set it, be it to a value that is not shown.
  const fields = fieldList(request.fields, (field) => shown(request, merged, field, `arg_max(${sqlName(field.column)}, ${ORDER_COLUMN})`))
  const mergedRows = (from: string): string => `SELECT ${KEY}${fields} FROM ${from} GROUP BY ${KEY}`
  if (!request.sparesTexts || !request.fields.some(({ type }) => type === 'string' || type === 'histogram')) return mergedRows(rows)
  // Of keys that come twice: the row that each field is taken from. Where it is one row for all of them, that row is passed on as it is.
  const lasts = request.fields.map(({ column }) => `max(${ORDER_COLUMN}) FILTER (${sqlName(column)} IS NOT NULL)`).join(', ')
  const repeated = `${REPEATED} AS MATERIALIZED (SELECT ${KEY} FROM ${rows} GROUP BY ${KEY} HAVING count(*) > 1)`
  const last = `coalesce(greatest(${lasts}), max(${ORDER_COLUMN})) AS last, least(${lasts}) IS NOT DISTINCT FROM greatest(${lasts}) AS whole`
  const newest = `${NEWEST} AS MATERIALIZED (SELECT ${KEY}, ${last} FROM ${rows} SEMI JOIN ${REPEATED} USING (${KEY}) GROUP BY ${KEY})`
  const single = fieldList(request.fields, (field) => shown(request, merged, field, `r.${sqlName(field.column)}`))
  const whole = `SELECT ${KEY}${single} FROM ${rows} r LEFT JOIN ${NEWEST} n USING (${KEY}) WHERE n.last IS NULL OR (n.whole AND n.last = r.${ORDER_COLUMN})`
  return `(WITH ${repeated}, ${newest} ${whole} UNION ALL ${mergedRows(`(FROM ${rows} SEMI JOIN (FROM ${NEWEST} WHERE NOT whole) USING (${KEY}))`)})`
}

function memtableCall(request: UnionRequest, source: Source, order: bigint): string {
  const { part, linked, series } = source.memtable!
  const call = request.duck.addSource(memtableSource({ part, linked, series, fields: request.fields, lo: request.time[0], hi: request.time[1], order }))
  request.calls.push(call)
  return call
}

/** A segment's path as statements name it. */
export function segmentPathOf(duck: Duck, dataDir: string, { file, archived }: SegmentMeta): string {
  return join(archived ? (duck.archiveDirectory ?? '') : dataDir, file)
}

export function readSql(files: readonly string[]): string {
  return `read_parquet([${files.map(sqlText).join(', ')}], hive_partitioning = false)`
}

/** @param shownTo where values end that are not to be seen; none when rows are merged first. */
function segmentFields(request: UnionRequest, source: Source, shownTo: readonly Source[] = []): string {
  const segment = source.segment!
  const read = request.read ?? rawColumn
  return fieldList(request.fields, (field) => {
    const column = segment.columns.find((c) => c.field === field.id)
    const own = (value: string): string => fenced(request, source, value, column?.encoding.kind === 'encrypted')
    // What is not to be seen lies in another column.
    if (column !== undefined && bitsColumn(column) !== undefined && !request.raw && shownTo.length > 0) return named(field, own(valueColumn(segment, column)))
    return shown(request, shownTo, field, own(read(segment, field)))
  })
}

function timeColumn(request: UnionRequest, source: Source): string {
  const time = fenced(request, source, TIME_COLUMN)
  return time === TIME_COLUMN ? time : `${time} AS ${TIME_COLUMN}`
}

/**
 * A segment's column without the values of other namespaces, wherever DuckDB computes with it. It moves conditions into the scan, beside that on the measurement,
 * computes functions for all of a row group's dictionary, and lets the file's statistics decide conditions: an error, or a plan, would tell of those values.
 * With CASE there are no others; of TRY there are neither a dictionary nor statistics, as there are none of an encrypted column, whose errors are to be seen.
 */
function fenced({ fence }: UnionRequest, { mixed, measurement }: Source, value: string, encrypted = false): string {
  return fence && mixed ? `CASE WHEN _measurement = ${measurement} THEN ${encrypted ? value : `TRY(${value})`} END` : value
}

/** A field's value as it is asked for. @param sources it may come from. */
function shown({ raw }: UnionRequest, sources: readonly Source[], field: FieldDef, value: string): string {
  return named(field, raw || sources.length === 0 ? value : readable(sources, field, value))
}

function named({ column }: FieldDef, value: string): string {
  const name = sqlName(column)
  return value === name ? name : `${value} AS ${name}`
}

/** Without NaN, infinities and staleness markers. */
function readable(sources: readonly Source[], field: FieldDef, value: string): string {
  if (field.type === 'histogram') return `nullif(${value}, ${STALE_HISTOGRAM})`
  return sources.some((source) => holdsNonFinite(source, field)) ? `CASE WHEN isfinite(${value}) THEN ${value} END` : value
}

/** More chunks of a memtable have few fields each: they are looked through once for all fields. */
const MANY_CHUNKS = 256
const nonFinite = new WeakMap<MemtablePart, ReadonlySet<number>>()

/** Whether some values of a source's field may be NaN or infinite. */
export function holdsNonFinite({ segment, memtable }: Pick<Source, 'segment' | 'memtable'>, { id, type }: FieldDef): boolean {
  if (type !== 'float64') return false
  if (segment !== undefined) return segment.columns.some((column) => column.field === id && mayBeNonFinite(column))
  const { part } = memtable!
  if (part.chunks.length > MANY_CHUNKS) return nonFiniteOf(part).has(id)
  return part.chunks.some((chunk) => chunk.columns.has(id) && chunk.hasNonFinite(chunk.columns.get(id)!))
}

function nonFiniteOf(part: MemtablePart): ReadonlySet<number> {
  let fields = nonFinite.get(part)
  if (fields === undefined) nonFinite.set(part, (fields = new Set(part.chunks.flatMap((chunk) => [...chunk.nonFinite()]))))
  return fields
}

/** A segment's column as a value of the field's type, NaN and infinities included. */
export function rawColumn(segment: SegmentMeta, field: FieldDef): string {
  const column = segment.columns.find((c) => c.field === field.id)
  if (column === undefined) return `NULL::${sqlType(field.type, field.scale)}`
  const bits = bitsColumn(column)
  return bits === undefined ? valueColumn(segment, column) : `coalesce(${valueColumn(segment, column)}, ${bitsSql(bits)})`
}

/** The column itself as a value of the field's type, without its column of bits. */
function valueColumn(segment: SegmentMeta, column: SegmentColumn): string {
  if (column.encoding.kind === 'encrypted') return decryptedColumn(segment, column)
  const name = sqlName(column.name)
  if (column.encoding.kind === 'plain') return name
  return column.encoding.scale === 0 ? `${name}::DOUBLE` : `${name}::DOUBLE / 1e${column.encoding.scale}`
}

/** The bounds that the source's own times do not settle. */
export function timeConditions(source: Source, [lo, hi]: readonly [bigint, bigint]): string[] {
  const out: string[] = []
  if (source.minTime < lo) out.push(comparedTime(TIME_COLUMN, '>=', lo))
  if (source.maxTime > hi) out.push(comparedTime(TIME_COLUMN, '<=', hi))
  return out
}

function within([lo, hi]: Interval): string {
  return `(${comparedTime(TIME_COLUMN, '>=', lo)} AND ${comparedTime(TIME_COLUMN, '<=', hi)})`
}

/** The range prunes row groups, the list decides. Memtable sources hold nothing but the series wanted. */
function seriesConditions(request: UnionRequest, source: Source): string[] {
  if (source.segment === undefined) return []
  const out = [...(request.stored ?? []), ...(source.measurement === undefined ? [] : [`_measurement = ${source.measurement}`])]
  const { series } = request
  return series === undefined ? out : [...out, ...isAmong(request, series)]
}

function isAmong(request: UnionRequest, series: Int32Array): string[] {
  const first = series[0]
  const last = series[series.length - 1]
  if (first === last) return [`${SERIES_COLUMN} = ${first}`]
  const range = `${SERIES_COLUMN} BETWEEN ${first} AND ${last}`
  if (last - first + 1 === series.length) return [range]
  if (series.length <= SERIES_LISTED) return [range, `${SERIES_COLUMN} IN (${series.join(', ')})`]
  return [range, `${SERIES_COLUMN} IN (FROM ${seriesCall(request, series)})`]
}

function maskConditions(request: UnionRequest, source: Source): string[] {
  const [from, to] = request.time
  const masks = source.masks.filter(({ lo, hi }) => lo <= to && hi >= from)
  const looked = masks.length > MASKS_LISTED ? masks.filter(({ measurements }) => measurements === undefined) : []
  const listed = looked.length === 0 ? masks : masks.filter(({ measurements }) => measurements !== undefined)
  const conditions = listed.map(({ measurements, series, lo, hi }) => {
    const parts = [
      ...(measurements === undefined ? [] : [`_measurement ${measurements.but ? 'NOT IN' : 'IN'} (${measurements.ids.join(', ')})`]),
      ...(series === undefined ? [] : isAmong(request, series)),
      ...(lo > source.minTime ? [comparedTime(TIME_COLUMN, '>=', lo)] : []),
      ...(hi < source.maxTime ? [comparedTime(TIME_COLUMN, '<=', hi)] : []),
    ]
    return parts.length === 0 ? 'false' : `NOT (${parts.join(' AND ')})`
  })
  if (looked.length === 0) return conditions
  const call = request.duck.addMask(new MaskedRows(looked), [SERIES_COLUMN, TIME_COLUMN])
  request.calls.push(call)
  // CASE looks at the rest of the rows only; both sides of AND are computed for all.
  return [...conditions, `CASE WHEN ${maskBounds(looked).map(bounded).join(' OR ')} THEN NOT ${call} ELSE true END`]
}

function bounded({ series, lo, hi }: MaskBounds): string {
  return `(${series === undefined ? '' : `${SERIES_COLUMN} IN (${series.join(', ')}) AND `}${within([lo, hi])})`
}

function seriesCall(request: UnionRequest, series: Int32Array): string {
  const call = request.duck.addSource(numberSource(series))
  request.calls.push(call)
  return call
}

function whereSql(conditions: readonly string[]): string {
  return conditions.length === 0 ? '' : ` WHERE ${conditions.join(' AND ')}`
}

function fieldList(fields: readonly FieldDef[], one: (field: FieldDef) => string): string {
  return fields.map((field) => `, ${one(field)}`).join('')
}

function emptySql(fields: readonly FieldDef[]): string {
  return `SELECT 0::INTEGER AS ${SERIES_COLUMN}, NULL::TIMESTAMP_NS AS ${TIME_COLUMN}${fieldList(fields, (field) => `NULL::${sqlType(field.type, field.scale)} AS ${sqlName(field.column)}`)} WHERE false`
}
