/**
 * Writes the rows of a table's day to a file that any tool reads by itself: the series' tags are columns beside svc's own, values are decoded. Format:
 * docs/formats/archive.md.
 */
import { rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { measurementsSql, mergeSources, sliceSize, unionFields } from '../compaction/compactor.ts'
import { type MergeSlice, mergeSlices, sliceConditions } from '../compaction/merge-slices.ts'
import { SlicedWrite } from '../compaction/sliced-write.ts'
import { comparedTime } from '../duckdb/compared-time.ts'
import { sqlName, sqlText } from '../duckdb/duckdb.ts'
import { streamSql } from '../duckdb/stream.ts'
import { fileCrc } from '../integrity/file-crc.ts'
import { SERIES_COLUMN, TIME_COLUMN } from '../memtable/memtable-source.ts'
import type { Removals } from '../read/masks.ts'
import { lowerBound } from '../read/samples/search.ts'
import { type Interval, readSql, type Source, unionSql } from '../read/sources.ts'
import { mayBeNonFinite, NO_DICTIONARIES, needsExactBits } from '../segment/encoding.ts'
import { fixedBytes, rowGroupRows } from '../segment/row-group-bytes.ts'
import { MEASUREMENT_COLUMN } from '../segment/segment-source.ts'
import type { SegmentTarget } from '../segment/segment-writer.ts'
import { type Dictionary, dictionariesOf, type TagDictionaries, tagSource } from '../series/tag-source.ts'
import type { FieldDef } from '../threads/definitions.ts'
import type { ArchiveTask } from '../threads/messages.ts'
import type { SegmentColumn, SegmentEncoding, SegmentMeta } from '../threads/segment-entry.ts'
import type { WorkerState } from '../threads/state.ts'
import { DAY_NS } from './object-key.ts'

/** What Hive partitioning adds to the columns of a file, and what a shared table has beside. Compared without case. */
const RESERVED = [SERIES_COLUMN, TIME_COLUMN, MEASUREMENT_COLUMN, 'namespace', 'measurement', 'shared', 'date']
/** Of more values a tag is text: an ENUM's whole dictionary goes into every row group. Sorted as rows are, text gets a small one each. */
const ENUM_VALUES = 256
/** More than a time can lie before it. */
const DAYS_BEFORE_1970 = 200_000n
const FIRST_TIME = -(2n ** 63n)

/** The first instant of each UTC day before a time that has rows, as decimal text, ascending. */
export async function daysBefore(
  inputs: readonly SegmentMeta[],
  before: bigint,
  measurement: number | undefined,
  removals: Removals,
  { duck, dataDir }: SegmentTarget,
): Promise<string[]> {
  const calls: string[] = []
  // Every tombstone counts: a day of nothing but masked rows gets no object.
  const sources = mergeSources(inputs, { deduplicate: false, cleared: Number.MAX_SAFE_INTEGER }, measurement, removals)
  const { sql } = unionSql({ duck, dataDir, sources, time: [FIRST_TIME, before - 1n], fields: [], calls })
  try {
    // The sum keeps the quotient of times before 1970 from being rounded up.
    const day = `(epoch_ns(${TIME_COLUMN})::HUGEINT + ${DAY_NS * DAYS_BEFORE_1970}::HUGEINT) // ${DAY_NS} - ${DAYS_BEFORE_1970}`
    const rows = await duck.run(`SELECT DISTINCT (${day})::BIGINT AS day FROM (${sql}) ORDER BY day`)
    return rows.map((row) => String((row.day as bigint) * DAY_NS))
  } finally {
    for (const call of calls) duck.removeSource(call)
  }
}

/**
 * Slice by slice, as a merge does: the rows of a day may take any number of bytes.
 * @param inputs in the order of their sequence.
 * @param measurement that of the table; undefined when it is shared.
 * @returns the segment without its key, or null when no rows are left.
 */
export async function archiveDay(
  inputs: readonly SegmentMeta[],
  task: ArchiveTask,
  measurement: number | undefined,
  state: WorkerState,
  target: SegmentTarget,
): Promise<SegmentMeta | null> {
  const { duck } = target
  const time: Interval = [BigInt(task.time[0]), BigInt(task.time[1])]
  const sources = mergeSources(inputs, task, measurement, state)
  const day: Day = { inputs, sources, time, measurement, state, target, calls: [] }
  const fields = unionFields(inputs)
  try {
    const extent = await rowExtent(day)
    if (extent === undefined) return null
    const { statement, columns } = writing(day, extent, fields)
    const rows = await writeSlices(day, columns, statement, task.path)
    const { crc } = await fileCrc(task.path)
    const { table, segment: id, sequence, cleared, dirty } = task
    return {
      id,
      table,
      sequence,
      level: 0,
      cleared,
      file: '',
      rows,
      bytes: (await stat(task.path)).size,
      crc,
      minTime: String(extent.minTime),
      maxTime: String(extent.maxTime),
      dirty,
      minSeries: extent.series[0],
      maxSeries: extent.series[extent.series.length - 1],
      columns,
    }
  } catch (error) {
    await rm(task.path, { force: true })
    throw error
  } finally {
    for (const call of day.calls) duck.removeSource(call)
  }
}

/** @returns rows. */
function writeSlices(day: Day, columns: readonly SegmentColumn[], statement: (slice: MergeSlice) => string, path: string): Promise<number> {
  const { inputs, time, measurement, target, calls } = day
  const { duck, dataDir, config } = target
  const shared = measurement === undefined
  const { slices, rowBytes, keyBytes, sliceBytes } = mergeSlices(dataDir, inputs, shared, sliceSize(columns, config), time)
  const options = copyOptions(config, columns, rowGroupRows(config, fixedBytes(columns) + rowBytes))
  const copy = async (slice: MergeSlice, to: string): Promise<number> => {
    const before = calls.length
    try {
      const [result] = await duck.run(`COPY (${statement(slice)}) TO ${sqlText(to)} (${options})`)
      return Number(result.Count)
    } finally {
      for (const call of calls.splice(before)) duck.removeSource(call)
    }
  }
  const within = `${comparedTime(TIME_COLUMN, '>=', time[0])} AND ${comparedTime(TIME_COLUMN, '<=', time[1])}`
  const files = `(FROM ${readSql(inputs.map((input) => join(dataDir, input.file)))} WHERE ${within})`
  return new SlicedWrite({ duck, files, shared, columns: columns.length, keyBytes, sliceBytes }).write(slices, path, config.tempDir, copy)
}

function copyOptions({ compression, zstdLevel }: SegmentTarget['config'], columns: readonly SegmentColumn[], groupRows: number): string {
  const codec = compression === 'none' ? 'UNCOMPRESSED' : compression === 'lz4' ? 'LZ4_RAW' : `ZSTD, COMPRESSION_LEVEL ${zstdLevel}`
  const plain = columns.some(needsExactBits) ? NO_DICTIONARIES : ''
  return `FORMAT PARQUET, PARQUET_VERSION V2, COMPRESSION ${codec}, ROW_GROUP_SIZE ${groupRows}, USE_TMP_FILE false${plain}`
}

interface Day {
  inputs: readonly SegmentMeta[]
  sources: Source[]
  time: Interval
  measurement: number | undefined
  state: WorkerState
  target: SegmentTarget
  calls: string[]
}

interface RowExtent {
  /** Those with rows, ascending. */
  series: Int32Array
  minTime: bigint
  maxTime: bigint
}

function rowsSql({ sources, time, target, calls }: Day, fields: FieldDef[], stored: readonly string[] = []): string {
  return unionSql({ duck: target.duck, dataDir: target.dataDir, sources, time, fields, calls, raw: true, stored }).sql
}

async function rowExtent(day: Day): Promise<RowExtent | undefined> {
  const times = `epoch_ns(min(${TIME_COLUMN})), epoch_ns(max(${TIME_COLUMN}))`
  const sql = `SELECT ${SERIES_COLUMN}, ${times} FROM (${rowsSql(day, [])}) GROUP BY ${SERIES_COLUMN} ORDER BY ${SERIES_COLUMN}`
  const parts: Int32Array[] = []
  let [minTime, maxTime] = [day.time[1], day.time[0]]
  for await (const { rows, columns } of streamSql(day.target.duck, sql, undefined)) {
    parts.push(Int32Array.from(columns[0].values as Int32Array))
    for (let i = 0; i < rows; i++) {
      const [first, last] = [(columns[1].values as BigInt64Array)[i], (columns[2].values as BigInt64Array)[i]]
      if (first < minTime) minTime = first
      if (last > maxTime) maxTime = last
    }
  }
  if (parts.length === 0) return undefined
  const series = new Int32Array(parts.reduce((sum, part) => sum + part.length, 0))
  let at = 0
  for (const part of parts) {
    series.set(part, at)
    at += part.length
  }
  return { series, minTime, maxTime }
}

function writing(day: Day, { series }: RowExtent, fields: FieldDef[]): { statement(slice: MergeSlice): string; columns: SegmentColumn[] } {
  const { state, target, calls, measurement, inputs } = day
  const { series: view } = state
  const taken = new Set<string>(RESERVED.map((name) => name.toLowerCase()))
  const columns = fields.map(({ id, column, type, scale }): SegmentColumn => {
    const stored = inputs.flatMap((input) => input.columns.filter((one) => one.field === id))
    return { field: id, name: freeName(column, 'field', taken), type, scale, encoding: archivedEncoding(stored) }
  })
  const owners = measurement === undefined ? new Set(Array.from(series, (number) => view.measurementOf(number))) : new Set([measurement])
  const keys = new Set([...owners].flatMap((owner) => view.tagKeys(owner)))
  // From here on the key's symbol is known whichever measurement it is asked for.
  for (const owner of owners) for (const key of view.tagKeys(owner)) view.keySymbol(owner, key)
  const tags = [...keys].sort().map((key) => ({ key, column: freeName(key, 'tag', taken), enumerated: true }))
  const of = measurement ?? owners.values().next().value ?? 0
  // Of the whole day, so that all slices have the same columns.
  const dictionaries = keptDictionaries(smallDictionaries(dictionariesOf(view, series)))
  const names = [
    ...tags.map(({ column }) => `t.${sqlName(column)}`),
    ...columns.map(({ name }, i) => `p.${sqlName(fields[i].column)} AS ${sqlName(name)}`),
  ].map((name) => `, ${name}`)
  const own = `p.${SERIES_COLUMN}, p.${TIME_COLUMN}`
  const statement = (slice: MergeSlice): string => {
    const within = sliceConditions(slice, measurement === undefined)
    const some = measurement === undefined ? series : seriesWithin(series, slice)
    const call = target.duck.addSource(tagSource(view, dictionaries, of, some, tags))
    calls.push(call)
    const from = `(${rowsSql(day, fields, within)}) p LEFT JOIN ${call} t ON t.${SERIES_COLUMN} = p.${SERIES_COLUMN}`
    if (measurement !== undefined) return `SELECT ${own}${names.join('')} FROM ${from} ORDER BY ${own}`
    return (
      `SELECT m.m AS ${MEASUREMENT_COLUMN}, ${own}, n.namespace, n.measurement${names.join('')} FROM ${from} ` +
      `JOIN (${measurementsSql(inputs, target.dataDir, within)}) m ON m.s = p.${SERIES_COLUMN} LEFT JOIN ${namesSql(state, owners)} ON n.id = m.m ORDER BY m.m, ${own}`
    )
  }
  return { statement, columns }
}

/** Those that a slice of a measurement's own table can have rows of. */
function seriesWithin(series: Int32Array, { from, to }: MergeSlice): Int32Array {
  return series.subarray(from === undefined ? 0 : lowerBound(series, Number(from[0])), to === undefined ? series.length : lowerBound(series, Number(to[0]) + 1))
}

function archivedEncoding(stored: readonly SegmentColumn[]): SegmentEncoding {
  if (stored.some(mayBeNonFinite)) return { kind: 'plain', nonFinite: true }
  return stored.some(needsExactBits) ? { kind: 'plain', negativeZero: true } : { kind: 'plain' }
}

/** Names of measurements; of one whose drop is pending there is none. */
function namesSql({ measurements }: WorkerState, ids: ReadonlySet<number>): string {
  const rows = [...ids].flatMap((id) => {
    const def = measurements.get(id)
    return def === undefined ? [] : [`(${id}, ${sqlText(def.namespace)}, ${sqlText(def.name)})`]
  })
  return `(VALUES ${rows.length === 0 ? `(-1, '', '')` : rows.join(', ')}) n(id, namespace, measurement)`
}

function freeName(name: string, kind: 'tag' | 'field', taken: Set<string>): string {
  let free = name
  for (let n = 1; taken.has(free.toLowerCase()); n++) free = `${name}_${kind}${n === 1 ? '' : n}`
  taken.add(free.toLowerCase())
  return free
}

function smallDictionaries(all: Pick<TagDictionaries, 'get'>): Pick<TagDictionaries, 'get'> {
  return {
    get(measurement, key) {
      const dictionary = all.get(measurement, key)
      return dictionary !== undefined && dictionary.codes.size <= ENUM_VALUES ? dictionary : undefined
    },
  }
}

function keptDictionaries(all: Pick<TagDictionaries, 'get'>): Pick<TagDictionaries, 'get'> {
  const kept = new Map<number, Dictionary | undefined>()
  return {
    get(measurement, key) {
      if (!kept.has(key)) kept.set(key, all.get(measurement, key))
      return kept.get(key)
    },
  }
}
