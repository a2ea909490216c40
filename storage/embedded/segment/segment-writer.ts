/**
 * Writes the rows of a frozen memtable into segments, one a table. Rows go in already sorted, through a row source, so that DuckDB
 * neither sorts nor holds them. Format: docs/formats/segments.md.
 */
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { type Duck, type RowSource, sqlText } from '../duckdb/duckdb.ts'
import { flushEncrypted, isEncrypted, namedForRowNumbers } from '../encryption/encrypted-write.ts'
import { fileCrc } from '../integrity/file-crc.ts'
import { FieldViews } from '../memtable/field-views.ts'
import { groupDuplicates, orderRows } from '../memtable/row-order.ts'
import type { FieldDef, TableDef } from '../threads/definitions.ts'
import type { WorkerConfig } from '../threads/messages.ts'
import type { SegmentColumn, SegmentEncoding, SegmentMeta } from '../threads/segment-entry.ts'
import { type MemtablePart, type MemtableState, takePart, type WorkerState } from '../threads/state.ts'
import { withBitsColumns } from './bits-column.ts'
import { EncodingChoice, NO_DICTIONARIES, needsExactBits } from './encoding.ts'
import { writeJoined } from './joined-parts.ts'
import { hasLength, partsOf } from './row-group-bytes.ts'
import { SegmentFiles, segmentPath } from './segment-file.ts'
import { countByMeasurement, haveNames, ownersOf } from './segment-owners.ts'
import { SegmentSource } from './segment-source.ts'

export interface SegmentTarget {
  duck: Duck
  dataDir: string
  config: WorkerConfig
  /** Wall clock, milliseconds since the Unix epoch. */
  now(): number
}

interface FlushTarget extends SegmentTarget {
  /** Those of this flush. */
  files: SegmentFiles
}

/** Tables written at once, so that they do not wait for the disk one after the other: thousands may have a few rows each. */
const FILES_AT_ONCE = 8
/** More rows, or columns, are written alone. */
const FEW_ROWS = 2048
const FEW_COLUMNS = 16
/** Bytes that the texts of `FEW_ROWS` rows may take. */
const FEW_BYTES = 4 << 20

/** @returns the segments written, tables in ascending order; ids from `firstSegment` on. */
export async function flushMemtable(state: WorkerState, memtable: MemtableState, firstSegment: number, target: SegmentTarget): Promise<SegmentMeta[]> {
  const files = new SegmentFiles(target.dataDir)
  const underWay = new Set<Promise<void>>()
  const written: SegmentMeta[] = []
  let next = firstSegment
  try {
    for (const id of [...memtable.tables.keys()].sort((a, b) => a - b)) {
      if (state.goneTables.has(id)) continue
      const table = state.tables.get(id)
      if (table === undefined) throw new Error(`cannot flush table ${id}: it was not announced to this thread`)
      const part = takePart(memtable, memtable.tables.get(id)!)
      if (part.rows === 0) continue
      const few = isFew(part, table)
      while (underWay.size >= (few ? FILES_AT_ONCE : 1)) await Promise.race(underWay)
      const writing = flushTable(state, part, table, next++, { ...target, files }).then((segment) => {
        written.push(segment)
        underWay.delete(writing)
      })
      underWay.add(writing)
      if (!few) await writing
    }
    await Promise.all(underWay)
    await files.named()
    return written.sort((a, b) => a.table - b.table)
  } catch (error) {
    await Promise.allSettled(underWay)
    await files.remove()
    throw error
  }
}

/** Whether several tables like this one may be in memory at once, as DuckDB writes them. */
function isFew({ rows, chunks, counts }: MemtablePart, { fields }: TableDef): boolean {
  if (rows > FEW_ROWS || fields.length > FEW_COLUMNS) return false
  const texts = fields.filter(({ type }) => hasLength(type))
  let bytes = 0
  for (const [c, chunk] of chunks.entries()) {
    for (const { id } of texts) {
      const view = chunk.columns.get(id)
      if (view !== undefined) for (let row = 0; row < counts[c]; row++) bytes += view.i32[row * 2 + 1]
    }
  }
  return bytes <= FEW_BYTES
}

async function flushTable(state: WorkerState, part: MemtablePart, table: TableDef, id: number, target: FlushTarget): Promise<SegmentMeta> {
  const { memtable } = part
  const shared = table.measurement < 0
  const measurementOf = shared ? state.series.measurementArray : undefined
  const ordered = orderRows(part, {}, measurementOf)
  const groups = ordered.duplicates ? groupDuplicates(part.chunks, ordered) : undefined
  const views = new FieldViews(
    part.chunks,
    table.fields.map(({ id }) => id),
  )
  const named = namedForRowNumbers(
    table.fields
      .filter((field) => views.of(field.id).length > 0)
      .map((field) => ({ field: field.id, name: field.column, type: field.type, scale: field.scale, encoding: encodingOf(field, views, part.counts, target) })),
  )
  const columns = withBitsColumns(named, (field) => views.hasNonFinite(field))
  const stored = columns.filter((column) => !isEncrypted(column))
  const source = new SegmentSource({ chunks: part.chunks, heap: memtable.heap, ordered, groups, measurementOf }, stored)
  const file = segmentPath(id, part.minTime)
  // Those that are encrypted count, too: whoever reads a row group has their values beside it.
  const { ends, rowBytes } = partsOf({ chunks: part.chunks, ordered, groups, rows: source.rows }, columns, target.config)
  const write = async (path: string): Promise<void> => {
    if (ends.length === 1) return copySource(target, source, stored, path)
    const parts = ends.map((end, i) => source.part(ends[i - 1] ?? 0, end))
    await writeJoined(parts, path, target.config.tempDir, async (rows, to) => {
      await copySource(target, rows, stored, to)
      return undefined
    })
  }
  const bytes = await target.files.write(file, (path) => target.duck.withRoom(stored.length, rowBytes, () => write(path)))
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
  const { duck, config } = target
  await duck.turns.either(async () => {
    await rm(path, { force: true })
    const call = duck.addSource(source)
    try {
      await duck.run(`COPY (SELECT * FROM ${call}) TO ${sqlText(path)} (${copyOptions(config, columns)})`)
    } finally {
      duck.removeSource(call)
    }
  })
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
  const delta = whole * 2 >= columns.length - booleans ? ', DICTIONARY_SIZE_LIMIT 1' : ''
  const dictionaries = columns.some(needsExactBits) ? NO_DICTIONARIES : delta
  return `FORMAT PARQUET, PARQUET_VERSION V2, COMPRESSION ${compression}${level}, ROW_GROUP_SIZE ${rowGroupRows}${dictionaries}`
}

function encodingOf(field: FieldDef, views: FieldViews, counts: readonly number[], { duck }: SegmentTarget): SegmentEncoding {
  const key = duck.encrypted.keys.keyOf(field.name)
  if (key !== undefined) return views.hasNonFinite(field.id) ? { kind: 'encrypted', key, nonFinite: true } : { kind: 'encrypted', key }
  return field.type === 'float64' ? chooseEncoding(views, counts, field.id) : { kind: 'plain' }
}

function chooseEncoding(views: FieldViews, counts: readonly number[], field: number): SegmentEncoding {
  const choice = new EncodingChoice()
  do {
    for (const { chunk, view, mayBeNull } of views.of(field)) {
      const bits = mayBeNull ? view.validity : undefined
      if (!choice.offer(view.ints ?? view.f64, 0, counts[chunk], bits, views.chunks[chunk].hasNonFinite(view))) break
    }
  } while (!choice.settled())
  return choice.result()
}
