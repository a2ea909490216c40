/** Merges segments of a table into one, slice by slice (merge-slices.ts). DuckDB sorts each, within its memory limit and the scratch space. */
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { sqlName, sqlText } from '../duckdb/duckdb.ts'
import { encryptedBytes, isEncrypted, type MergeSource, mergeEncrypted, namedForRowNumbers } from '../encryption/encrypted-write.ts'
import { fileCrc } from '../integrity/file-crc.ts'
import { mergeMasks, type Removals } from '../read/masks.ts'
import { type Interval, rawColumn, readSql, type Source, type UnionRequest, unionSql } from '../read/sources.ts'
import { apartSql, bitsColumn, joinedSql, valuesSql, withBitsColumns } from '../segment/bits-column.ts'
import { mayBeNonFinite, needsExactBits } from '../segment/encoding.ts'
import { fixedBytes, rowGroupBytes, rowGroupRows } from '../segment/row-group-bytes.ts'
import { removeSegmentFiles, segmentPath, writeSegmentFile } from '../segment/segment-file.ts'
import { haveNames, ownersOf } from '../segment/segment-owners.ts'
import { MEASUREMENT_COLUMN } from '../segment/segment-source.ts'
import { copyOptions, type SegmentTarget } from '../segment/segment-writer.ts'
import type { FieldDef, MeasurementDef } from '../threads/definitions.ts'
import type { ToWorker, WorkerConfig } from '../threads/messages.ts'
import { type SegmentColumn, type SegmentEncoding, type SegmentMeta, sidecarFile } from '../threads/segment-entry.ts'
import { type MergeSlice, mergeSlices, type SliceSize, sliceConditions } from './merge-slices.ts'
import { SlicedWrite } from './sliced-write.ts'

export type CompactRequest = Omit<Extract<ToWorker, { kind: 'compact' }>, 'kind' | 'id'>

const INT32_LIMIT = 2n ** 31n
const EXACT_LIMIT = 2n ** 53n
/** Of a slice's rows; more gain nothing. */
const SLICE_BYTES = 32 << 20
const SLICE_SHARE = 1 / 8
const ALL_TIME: Interval = [-(2n ** 63n), 2n ** 63n - 1n]

/** What a merge has to know of the rows beside their segments. */
export interface MergedTable {
  /** That of the table; undefined when it is shared. */
  measurement: number | undefined
  removals: Removals
  /** The key by which a field is to be encrypted; absent, and undefined: none. */
  keyOf?(field: number): string | undefined
  /** Those there are. */
  measurements?: ReadonlyMap<number, MeasurementDef>
}

/** @param inputs in the order of their sequence, at least one. @returns null when no rows are left. */
export async function compactSegments(
  inputs: readonly SegmentMeta[],
  request: CompactRequest,
  target: SegmentTarget,
  { measurement, removals, keyOf = () => undefined, measurements = new Map() }: MergedTable,
): Promise<SegmentMeta | null> {
  const columns = await mergedColumns(inputs, target, keyOf)
  const stored = columns.filter((column) => !isEncrypted(column))
  const shared = measurement === undefined
  const sources = mergeSources(inputs, request, measurement, removals)
  const time: Interval = request.from === undefined ? ALL_TIME : [BigInt(request.from), ALL_TIME[1]]
  const [minTime, maxTime] = rangeLeft(sources, time)
  const statements = new MergeStatements({ inputs, sources, time, shared, target })
  const apart = new Map<SegmentMeta, number>()
  for (const input of inputs) apart.set(input, await encryptedBytes(input, columns, target))
  const apartBytes = (input: SegmentMeta): number => apart.get(input) ?? 0
  const { slices, rowBytes, keyBytes, sliceBytes } = mergeSlices(target.dataDir, inputs, shared, sliceSize(columns, target.config), undefined, apartBytes)
  const files = readSql(inputs.map((input) => join(target.dataDir, input.file)))
  const sliced = (count: number): SlicedWrite => new SlicedWrite({ duck: target.duck, files, shared, columns: count, keyBytes, sliceBytes })

  const file = segmentPath(request.segment, minTime)
  const encodings = new Map(columns.map((column) => [column.field, column.encoding]))
  const read = (segment: SegmentMeta, field: FieldDef): string => storedColumn(segment, field, encodings.get(field.id)!)
  const outputs = [
    ...stored.map((column) => valuesSql(column, outputName({ column: column.name }))),
    ...stored.flatMap((column) => apartSql(column, outputName({ column: column.name }))),
  ]
  let rows = 0
  const bytes = await writeSegmentFile(target.dataDir, file, async (path) => {
    const options = copyOptions(target.config, stored, rowGroupRows(target.config, fixedBytes(stored) + rowBytes))
    rows = await sliced(stored.length).write(slices, path, target.config.tempDir, (slice, to) =>
      statements.whileRun(async () => {
        const text = statements.text(stored.map(storedField), read, slice, outputs)
        const [result] = await target.duck.run(`COPY (${text}) TO ${sqlText(to)} (${options})`)
        return Number(result.Count)
      }),
    )
  })
  const ordered: MergeSource = {
    inputs,
    statement: (fields, read, slice) => statements.text(fields, read, slice),
    each: (fields, work) => sliced(fields).read(slices, (slice) => statements.whileRun(() => work(slice))),
  }
  const path = join(target.dataDir, file)
  try {
    if (rows === 0) {
      await rm(path)
      return null
    }
    return {
      id: request.segment,
      table: request.table,
      sequence: request.sequence,
      level: request.level,
      cleared: request.cleared,
      file,
      ...(await mergeEncrypted(target, { id: request.segment, file, rows }, columns, ordered)),
      rows,
      bytes,
      crc: (await fileCrc(path)).crc,
      minTime: String(minTime),
      maxTime: String(maxTime),
      dirty: request.dirty,
      minSeries: Math.min(...inputs.map((input) => input.minSeries)),
      maxSeries: Math.max(...inputs.map((input) => input.maxSeries)),
      ...(shared && haveNames(measurements) ? ownersOf(await countMerged(path, target), measurements) : {}),
      columns,
    }
  } catch (error) {
    // Nobody names them: the next try writes others.
    await removeSegmentFiles([path, sidecarFile(path)])
    throw error
  }
}

async function mergedColumns(inputs: readonly SegmentMeta[], target: SegmentTarget, keyOf: (field: number) => string | undefined): Promise<SegmentColumn[]> {
  const all: SegmentColumn[] = []
  for (const field of unionFields(inputs)) {
    const key = keyOf(field.id)
    const encoding = key === undefined ? await chooseEncoding(inputs, field, target) : encryptedEncoding(inputs, field, key)
    all.push({ field: field.id, name: field.column, type: field.type, scale: field.scale, encoding })
  }
  return withBitsColumns(namedForRowNumbers(all), (field) => holdNonFinite(inputs, field))
}

/** Statements over slices of all inputs, in the order of the output. */
class MergeStatements {
  private readonly options: { inputs: readonly SegmentMeta[]; sources: Source[]; time: Interval; shared: boolean; target: SegmentTarget }
  /** What statements have had DuckDB know by a name. */
  private readonly calls: string[] = []

  constructor(options: MergeStatements['options']) {
    this.options = options
  }

  /** @param read what is read of an input for a field. @param outputs what is selected beside series and time. */
  text(fields: FieldDef[], read: UnionRequest['read'], slice: MergeSlice, outputs = fields.map(outputName)): string {
    const { inputs, sources, time, shared, target } = this.options
    const { duck, dataDir } = target
    const within = sliceConditions(slice, shared)
    const union = unionSql({ duck, dataDir, sources, time, fields, calls: this.calls, read, raw: true, stored: within })
    const names = outputs.map((output) => `, ${output}`).join('')
    return !shared
      ? `SELECT p._series, p._time${names} FROM (${union.sql}) p ORDER BY p._series, p._time`
      : `SELECT m.m AS ${MEASUREMENT_COLUMN}, p._series, p._time${names} FROM (${union.sql}) p JOIN (${measurementsSql(inputs, dataDir, within)}) m ON m.s = p._series ORDER BY m.m, p._series, p._time`
  }

  /** For who makes statements and runs them: what these need goes with them. */
  async whileRun<T>(body: () => Promise<T>): Promise<T> {
    const before = this.calls.length
    try {
      return await body()
    } finally {
      for (const call of this.calls.splice(before)) this.options.target.duck.removeSource(call)
    }
  }
}

/** What is being merged takes several times its size in memory. */
export function sliceSize(columns: readonly SegmentColumn[], config: WorkerConfig): SliceSize {
  return { rows: Math.ceil(Math.min(SLICE_BYTES, config.memoryLimitBytes * SLICE_SHARE) / fixedBytes(columns)), bytes: rowGroupBytes(config) }
}

async function countMerged(path: string, { duck }: SegmentTarget): Promise<[measurement: number, rows: number][]> {
  const sql = `SELECT ${MEASUREMENT_COLUMN} AS m, count(*)::DOUBLE AS n FROM ${readSql([path])} WHERE m IS NOT NULL GROUP BY m`
  const counts = await duck.turns.either(() => duck.run(sql))
  return counts.map(({ m, n }) => [Number(m), Number(n)])
}

/** What is left of the inputs, ready to be merged. */
export function mergeSources(
  inputs: readonly SegmentMeta[],
  { deduplicate, cleared }: Pick<CompactRequest, 'deduplicate' | 'cleared'>,
  measurement: number | undefined,
  removals: Removals,
): Source[] {
  return inputs.map((segment) => {
    const [minTime, maxTime] = [BigInt(segment.minTime), BigInt(segment.maxTime)]
    return {
      minTime,
      maxTime,
      dirty: deduplicate && segment.dirty !== null ? [BigInt(segment.dirty[0]), BigInt(segment.dirty[1])] : null,
      segment,
      measurement: undefined,
      masks: mergeMasks(removals, measurement, { ...segment, minTime, maxTime, cleared: segment.cleared ?? 0 }, cleared),
    }
  })
}

/** The inputs say themselves which measurement a series is of, dropped ones included. */
export function measurementsSql(inputs: readonly SegmentMeta[], dataDir: string, within: readonly string[] = []): string {
  // Rows of a series that was released before they were flushed carry no measurement.
  return `SELECT _series AS s, max(${MEASUREMENT_COLUMN}) AS m FROM ${readSql(inputs.map((input) => join(dataDir, input.file)))}${within.length === 0 ? '' : ` WHERE ${within.join(' AND ')}`} GROUP BY _series`
}

const outputName = ({ column }: Pick<FieldDef, 'column'>): string => `p.${sqlName(column)}`

const storedField = ({ field, name, type, scale }: SegmentColumn): FieldDef => ({ id: field, name, type, scale, column: name })

export function unionFields(inputs: readonly SegmentMeta[]): FieldDef[] {
  const fields = new Map<number, FieldDef>()
  for (const { columns } of inputs) for (const { field, name, type, scale } of columns) fields.set(field, { id: field, name, type, scale, column: name })
  return [...fields.values()].sort((a, b) => a.id - b.id)
}

/** Integers stay integers, at the largest scale of all inputs, as long as the largest of them still fits. */
async function chooseEncoding(inputs: readonly SegmentMeta[], field: FieldDef, { duck, dataDir }: SegmentTarget): Promise<SegmentEncoding> {
  const found = inputs.flatMap((input) => {
    const column = input.columns.find((c) => c.field === field.id)
    return column === undefined ? [] : [{ input, column }]
  })
  // Nobody has looked for the sign of zero in what was encrypted.
  if (found.some(({ column }) => isEncrypted(column))) return field.type === 'float64' ? { kind: 'plain', negativeZero: true } : { kind: 'plain' }
  const scales = new Set<number>()
  let wide = false
  for (const { column } of found) {
    if (column.encoding.kind !== 'scaled')
      return found.some((other) => needsExactBits(other.column)) ? { kind: 'plain', negativeZero: true } : { kind: 'plain' }
    scales.add(column.encoding.scale)
    wide ||= column.encoding.wide === true
  }
  const scale = Math.max(...scales)
  if (scales.size === 1 && !wide) return { kind: 'scaled', scale }
  const branches = found.map(
    ({ input, column }) =>
      `SELECT max(abs(${sqlName(column.name)}::HUGEINT)) * ${10n ** BigInt(scale - (column.encoding as { scale: number }).scale)}::HUGEINT AS n FROM ${readSql([join(dataDir, input.file)])}`,
  )
  const [row] = await duck.run(`SELECT coalesce(max(n), 0)::HUGEINT AS n FROM (${branches.join(' UNION ALL ')})`)
  const largest = row.n as bigint
  if (largest >= EXACT_LIMIT) return { kind: 'plain' }
  return largest < INT32_LIMIT ? { kind: 'scaled', scale } : { kind: 'scaled', scale, wide: true }
}

/** The column of one input as it will lie in the output. */
function storedColumn(segment: SegmentMeta, field: FieldDef, encoding: SegmentEncoding): string {
  const column = segment.columns.find((c) => c.field === field.id)
  if (encoding.kind !== 'scaled') return rawColumn(segment, field)
  const type = encoding.wide || encoding.nonFiniteIn !== undefined ? 'BIGINT' : 'INTEGER'
  if (column?.encoding.kind !== 'scaled') return `NULL::${type}`
  return joinedSql(`(${sqlName(column.name)}::BIGINT * ${10n ** BigInt(encoding.scale - column.encoding.scale)})::${type}`, bitsColumn(column))
}

function encryptedEncoding(inputs: readonly SegmentMeta[], { id }: FieldDef, key: string): SegmentEncoding {
  return holdNonFinite(inputs, id) ? { kind: 'encrypted', key, nonFinite: true } : { kind: 'encrypted', key }
}

function holdNonFinite(inputs: readonly SegmentMeta[], field: number): boolean {
  return inputs.some(({ columns }) => columns.some((column) => column.field === field && mayBeNonFinite(column)))
}

/** Where the source begins once what retention masks of it is gone. */
export function firstLeft({ minTime, maxTime, masks }: Source): bigint {
  let first = minTime
  for (const { measurements, series, lo, hi } of masks) if (measurements === undefined && series === undefined && lo <= first && hi >= first) first = hi + 1n
  return before(maxTime, first) ? maxTime : first
}

/** What the output spans at most. */
function rangeLeft(sources: readonly Source[], [from]: Interval): [min: bigint, max: bigint] {
  const firsts = sources.map(firstLeft)
  const first = firsts.reduce((min, time) => (before(time, min) ? time : min), firsts[0])
  const maxTime = sources.reduce((max, source) => (before(max, source.maxTime) ? source.maxTime : max), sources[0].maxTime)
  return [before(first, from) ? from : first, maxTime]
}

/** Math.min takes no bigint. */
function before(a: bigint, b: bigint): boolean {
  return a < b
}
