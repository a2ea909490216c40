/**
 * Writes the rows of a frozen memtable into segments, one a table. Rows go in already sorted, through a row source, so that DuckDB
 * neither sorts nor holds them. Format: docs/formats/segments.md.
 */
import { join } from 'node:path'
import { type Duck, type RowSource, sqlText } from '../duckdb/duckdb.ts'
import { flushEncrypted, isEncrypted, namedForRowNumbers } from '../encryption/encrypted-write.ts'
import { fileCrc } from '../integrity/file-crc.ts'
import type { ChunkView } from '../memtable/chunk-view.ts'
import { groupDuplicates, orderRows } from '../memtable/row-order.ts'
import type { FieldDef, TableDef } from '../threads/definitions.ts'
import type { WorkerConfig } from '../threads/messages.ts'
import type { SegmentColumn, SegmentEncoding, SegmentMeta } from '../threads/segment-entry.ts'
import { segmentFiles } from '../threads/segment-entry.ts'
import { type MemtablePart, type MemtableState, takePart, type WorkerState } from '../threads/state.ts'
import { withBitsColumns } from './bits-column.ts'
import { EncodingChoice, needsExactBits } from './encoding.ts'
import { writeJoined } from './joined-parts.ts'
import { partEnds } from './row-group-bytes.ts'
import { removeSegmentFiles, segmentPath, writeSegmentFile } from './segment-file.ts'
import { countByMeasurement, haveNames, ownersOf } from './segment-owners.ts'
import { SegmentSource } from './segment-source.ts'

export interface SegmentTarget {
  duck: Duck
  dataDir: string
  config: WorkerConfig
  /** Wall clock, milliseconds since the Unix epoch. */
  now(): number
}

/** @returns the segments written, tables in ascending order; ids from `firstSegment` on. */
export async function flushMemtable(state: WorkerState, memtable: MemtableState, firstSegment: number, target: SegmentTarget): Promise<SegmentMeta[]> {
  const written: SegmentMeta[] = []
  for (const id of [...memtable.tables.keys()].sort((a, b) => a - b)) {
    if (state.goneTables.has(id)) continue
    const table = state.tables.get(id)
    if (table === undefined) throw new Error(`cannot flush table ${id}: it was not announced to this thread`)
    try {
      const segment = await flushTable(state, memtable, table, firstSegment + written.length, target)
      if (segment !== undefined) written.push(segment)
    } catch (error) {
      await removeSegmentFiles(written.flatMap((segment) => segmentFiles(segment)).map((file) => join(target.dataDir, file)))
      throw error
    }
  }
  return written
}

async function flushTable(state: WorkerState, memtable: MemtableState, table: TableDef, id: number, target: SegmentTarget): Promise<SegmentMeta | undefined> {
  const part = takePart(memtable, memtable.tables.get(table.id)!)
  if (part.rows === 0) return undefined
  const shared = table.measurement < 0
  const measurementOf = shared ? state.series.measurementArray : undefined
  const ordered = orderRows(part, {}, measurementOf)
  const groups = ordered.duplicates ? groupDuplicates(part.chunks, ordered) : undefined
  const named = namedForRowNumbers(
    table.fields
      .filter((field) => part.chunks.some((chunk) => chunk.columns.has(field.id)))
      .map((field) => ({ field: field.id, name: field.column, type: field.type, scale: field.scale, encoding: encodingOf(field, part, target) })),
  )
  const columns = withBitsColumns(named, (field) => part.chunks.some((chunk) => hasNonFinite(chunk, field)))
  const stored = columns.filter((column) => !isEncrypted(column))
  const source = new SegmentSource({ chunks: part.chunks, heap: memtable.heap, ordered, groups, measurementOf }, stored)
  const file = segmentPath(id, part.minTime)
  const ends = partEnds({ chunks: part.chunks, ordered, groups, rows: source.rows }, stored, target.config)
  const write = async (path: string): Promise<void> => {
    if (ends.length === 1) return copySource(target, source, stored, path)
    const parts = ends.map((end, i) => source.part(ends[i - 1] ?? 0, end))
    await writeJoined(parts, path, target.config.tempDir, async (rows, to) => {
      await copySource(target, rows, stored, to)
      return undefined
    })
  }
  const bytes = await writeSegmentFile(target.dataDir, file, (path) => target.duck.withColumns(stored.length, () => write(path)))
  const sidecar = await flushEncrypted(target, { id, file, rows: source.rows }, columns, { chunks: part.chunks, heap: memtable.heap, ordered, groups })
  const { series } = ordered
  let minSeries = series[0]
  let maxSeries = series[0]
  for (const s of series) {
    if (s < minSeries) minSeries = s
    if (s > maxSeries) maxSeries = s
  }
  return {
    id,
    table: table.id,
    sequence: memtable.sequence,
    level: 0,
    file,
    ...sidecar,
    rows: source.rows,
    bytes,
    crc: (await fileCrc(join(target.dataDir, file))).crc,
    minTime: String(part.minTime),
    maxTime: String(part.maxTime),
    dirty: part.dirty === null ? null : [String(part.dirty[0]), String(part.dirty[1])],
    minSeries,
    maxSeries,
    ...(measurementOf !== undefined && haveNames(state.measurements) ? ownersOf(countByMeasurement(ordered, measurementOf), state.measurements) : {}),
    columns,
  }
}

async function copySource(target: SegmentTarget, source: RowSource, columns: SegmentColumn[], path: string): Promise<void> {
  const call = target.duck.addSource(source)
  try {
    await target.duck.run(`COPY (SELECT * FROM ${call}) TO ${sqlText(path)} (${copyOptions(target.config, columns)})`)
  } finally {
    target.duck.removeSource(call)
  }
}

/**
 * Version 2 pages write integers as DELTA_BINARY_PACKED, but only where no dictionary is used, and dictionaries can be had for all columns
 * or none. On random walks deltas take a quarter less than dictionaries; text and floats that cannot be scaled fare better with
 * dictionaries, so a table that has more of those keeps them (flush.bench.ts).
 */
export function copyOptions(config: WorkerConfig, columns: readonly SegmentColumn[], rowGroupRows = config.rowGroupRows): string {
  const compression = config.compression === 'none' ? 'UNCOMPRESSED' : config.compression.toUpperCase()
  const level = config.compression === 'zstd' ? `, COMPRESSION_LEVEL ${config.zstdLevel}` : ''
  const whole = columns.filter(({ encoding, type }) => encoding.kind === 'scaled' || type === 'int64' || type === 'uint64').length
  const booleans = columns.filter(({ type }) => type === 'bool').length
  const delta = columns.some(needsExactBits) || whole * 2 >= columns.length - booleans ? ', DICTIONARY_SIZE_LIMIT 1' : ''
  return `FORMAT PARQUET, PARQUET_VERSION V2, COMPRESSION ${compression}${level}, ROW_GROUP_SIZE ${rowGroupRows}${delta}`
}

function encodingOf(field: FieldDef, { chunks, counts }: MemtablePart, { duck }: SegmentTarget): SegmentEncoding {
  const key = duck.encrypted.keys.keyOf(field.name)
  if (key !== undefined) return chunks.some((chunk) => hasNonFinite(chunk, field.id)) ? { kind: 'encrypted', key, nonFinite: true } : { kind: 'encrypted', key }
  return field.type === 'float64' ? chooseEncoding(chunks, counts, field.id) : { kind: 'plain' }
}

function hasNonFinite(chunk: ChunkView, field: number): boolean {
  const view = chunk.columns.get(field)
  return view !== undefined && chunk.hasNonFinite(view)
}

function chooseEncoding(chunks: readonly ChunkView[], counts: readonly number[], field: number): SegmentEncoding {
  const choice = new EncodingChoice()
  do {
    for (const [c, chunk] of chunks.entries()) {
      const view = chunk.columns.get(field)
      if (view === undefined) continue
      const bits = chunk.hasNulls(view) ? view.validity : undefined
      if (!choice.offer(view.f64, 0, counts[c], bits, chunk.hasNonFinite(view))) break
    }
  } while (!choice.settled())
  return choice.result()
}
