/** Merges segments of a table into one. DuckDB sorts, within its memory limit and the scratch space. */
import { join } from 'node:path'
import type { FieldDef, SegmentColumn, SegmentEncoding, SegmentMeta, ToWorker } from '../layout.ts'
import { sqlName, sqlText } from './duck.ts'
import { decodedColumn, type Piece, readSql, unionSql } from './pieces.ts'
import { segmentPath, writeSegmentFile } from './segment-file.ts'
import { copyOptions, MEASUREMENT_COLUMN, type SegmentTarget } from './segment-writer.ts'

export type CompactRequest = Omit<Extract<ToWorker, { kind: 'compact' }>, 'kind' | 'id'>

const INT32_LIMIT = 2n ** 31n
const EXACT_LIMIT = 2n ** 53n
const ALL_TIME: [bigint, bigint] = [-(2n ** 63n), 2n ** 63n - 1n]

/** @param inputs in the order of their sequence. @returns null when they hold no rows. */
export async function compactSegments(
  inputs: readonly SegmentMeta[],
  request: CompactRequest,
  shared: boolean,
  target: SegmentTarget,
): Promise<SegmentMeta | null> {
  if (inputs.length === 0) return null
  const fields = unionFields(inputs)
  const columns: SegmentColumn[] = []
  for (const field of fields)
    columns.push({ field: field.id, name: field.column, type: field.type, scale: field.scale, encoding: await chooseEncoding(inputs, field, target) })
  const encodings = new Map(columns.map((column) => [column.field, column.encoding]))
  const pieces: Piece[] = inputs.map((segment) => ({
    minTime: BigInt(segment.minTime),
    maxTime: BigInt(segment.maxTime),
    dirty: request.deduplicate && segment.dirty !== null ? [BigInt(segment.dirty[0]), BigInt(segment.dirty[1])] : null,
    segment,
    measurement: undefined,
  }))
  const union = unionSql({
    duck: target.duck,
    dataDir: target.dataDir,
    pieces,
    time: ALL_TIME,
    fields,
    sources: [],
    read: (segment, field) => storedColumn(segment, field, encodings.get(field.id)!),
  })
  const names = columns.map((column) => `, ${sqlName(column.name)}`).join('')
  const sorted = !shared
    ? `SELECT _series, _time${names} FROM (${union.sql}) ORDER BY _series, _time`
    : `SELECT m.m AS ${MEASUREMENT_COLUMN}, p._series, p._time${columns.map((column) => `, p.${sqlName(column.name)}`).join('')} FROM (${union.sql}) p JOIN (${measurementsSql(inputs, target.dataDir)}) m ON m.s = p._series ORDER BY m.m, p._series, p._time`
  const minTime = pieces.reduce((min, piece) => (before(piece.minTime, min) ? piece.minTime : min), pieces[0].minTime)
  const maxTime = pieces.reduce((max, piece) => (before(max, piece.maxTime) ? piece.maxTime : max), pieces[0].maxTime)
  const file = segmentPath(request.segment, minTime)
  let rows = 0
  const bytes = await writeSegmentFile(target.dataDir, file, async (path) => {
    const [result] = await target.duck.run(`COPY (${sorted}) TO ${sqlText(path)} (${copyOptions(target.config, columns)})`)
    rows = Number(result.Count)
  })
  return {
    id: request.segment,
    table: request.table,
    sequence: request.sequence,
    level: request.level,
    file,
    rows,
    bytes,
    minTime: String(minTime),
    maxTime: String(maxTime),
    dirty: request.dirty,
    minSeries: Math.min(...inputs.map((input) => input.minSeries)),
    maxSeries: Math.max(...inputs.map((input) => input.maxSeries)),
    columns,
  }
}

/** The inputs say themselves which measurement a series is of, dropped ones included. */
function measurementsSql(inputs: readonly SegmentMeta[], dataDir: string): string {
  return `SELECT DISTINCT _series AS s, ${MEASUREMENT_COLUMN} AS m FROM ${readSql(inputs.map((input) => join(dataDir, input.file)))}`
}

function unionFields(inputs: readonly SegmentMeta[]): FieldDef[] {
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
  const scales = new Set<number>()
  let wide = false
  for (const { column } of found) {
    if (column.encoding.kind === 'plain') return found.some((other) => negativeZero(other.column)) ? { kind: 'plain', negativeZero: true } : { kind: 'plain' }
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
  if (encoding.kind === 'plain') return decodedColumn(segment, field)
  const type = encoding.wide ? 'BIGINT' : 'INTEGER'
  if (column === undefined || column.encoding.kind === 'plain') return `NULL::${type}`
  return `(${sqlName(column.name)}::BIGINT * ${10n ** BigInt(encoding.scale - column.encoding.scale)})::${type}`
}

function negativeZero({ encoding }: SegmentColumn): boolean {
  return encoding.kind === 'plain' && encoding.negativeZero === true
}

/** Math.min takes no bigint. */
function before(a: bigint, b: bigint): boolean {
  return a < b
}
