/**
 * Writes the rows of a frozen memtable into segments, one a table. Rows go in already sorted, through a row source, so that DuckDB
 * neither sorts nor holds them. Format: docs/formats/segments.md.
 */
import { join } from 'node:path'
import duckdb from '@duckdb/node-bindings'
import { fileCrc } from '../damage/file-crc.ts'
import type { FieldDef, SegmentColumn, SegmentEncoding, SegmentMeta, TableDef, WorkerConfig } from '../layout.ts'
import { ROW_BITS, segmentFiles } from '../layout.ts'
import { removeSegmentFiles, segmentPath, writeSegmentFile } from '../segment-file.ts'
import { bitsColumn, keepOnly, withBitsColumns } from './bits-column.ts'
import { BLOCK_ROWS, type ChunkView, valueBytes } from './chunk-view.ts'
import { type Duck, logicalType, type RowSource, type RowStream, sqlText } from './duck.ts'
import { EncodingChoice, needsExactBits } from './encoding.ts'
import { flushEncrypted, isEncrypted, namedForRowNumbers } from './encrypted-write.ts'
import { gatherTimes, SERIES_COLUMN, TIME_COLUMN, writeField } from './memtable-source.ts'
import { Gathered, GatheredColumn } from './row-gather.ts'
import { groupRepeats, type OrderedRows, orderRows } from './row-order.ts'
import { type MemtablePart, type MemtableState, takePart, type WorkerState } from './state.ts'
import { copyValues, writeGathered } from './vector-writer.ts'

export const MEASUREMENT_COLUMN = '_measurement'

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
  const groups = ordered.repeats ? groupRepeats(part.chunks, ordered) : undefined
  const named = namedForRowNumbers(
    table.fields
      .filter((field) => part.chunks.some((chunk) => chunk.columns.has(field.id)))
      .map((field) => ({ field: field.id, name: field.column, type: field.type, scale: field.scale, encoding: encodingOf(field, part, target) })),
  )
  const columns = withBitsColumns(named, (field) => part.chunks.some((chunk) => hasNonFinite(chunk, field)))
  const stored = columns.filter((column) => !isEncrypted(column))
  const source = new SegmentSource(part.chunks, memtable.heap, ordered, groups, stored, measurementOf)
  const file = segmentPath(id, part.minTime)
  const bytes = await writeSegmentFile(target.dataDir, file, (path) => copySource(target, source, stored, path))
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
export function copyOptions(config: WorkerConfig, columns: readonly SegmentColumn[]): string {
  const compression = config.compression === 'none' ? 'UNCOMPRESSED' : config.compression.toUpperCase()
  const level = config.compression === 'zstd' ? `, COMPRESSION_LEVEL ${config.zstdLevel}` : ''
  const whole = columns.filter(({ encoding, type }) => encoding.kind === 'scaled' || type === 'int64' || type === 'uint64').length
  const booleans = columns.filter(({ type }) => type === 'bool').length
  const delta = columns.some(needsExactBits) || whole * 2 >= columns.length - booleans ? ', DICTIONARY_SIZE_LIMIT 1' : ''
  return `FORMAT PARQUET, PARQUET_VERSION V2, COMPRESSION ${compression}${level}, ROW_GROUP_SIZE ${config.rowGroupRows}${delta}`
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

/** Rows in segment order, repeats merged field by field: the last write that sets a field wins. */
class SegmentSource implements RowSource {
  readonly rows: number
  readonly columns: RowSource['columns']
  private readonly chunks: readonly ChunkView[]
  private readonly heap: readonly Uint8Array[]
  private readonly ordered: OrderedRows
  private readonly groups: Int32Array | undefined
  private readonly fields: SegmentColumn[]
  /** Those of `fields` that have a column of bits; these columns are the last. */
  private readonly apart: SegmentColumn[]
  private readonly measurementOf: Int32Array | undefined

  constructor(
    chunks: readonly ChunkView[],
    heap: readonly Uint8Array[],
    ordered: OrderedRows,
    groups: Int32Array | undefined,
    fields: SegmentColumn[],
    measurementOf: Int32Array | undefined,
  ) {
    this.chunks = chunks
    this.heap = heap
    this.ordered = ordered
    this.groups = groups
    this.fields = fields
    this.apart = fields.filter((field) => bitsColumn(field) !== undefined)
    this.measurementOf = measurementOf
    this.rows = groups === undefined ? ordered.rows.length : groups.length - 1
    const integer = () => duckdb.create_logical_type(duckdb.Type.INTEGER)
    const bigint = () => duckdb.create_logical_type(duckdb.Type.BIGINT)
    this.columns = [
      ...(measurementOf === undefined ? [] : [{ name: MEASUREMENT_COLUMN, type: integer() }]),
      { name: SERIES_COLUMN, type: integer() },
      { name: TIME_COLUMN, type: duckdb.create_logical_type(duckdb.Type.TIMESTAMP_NS) },
      ...fields.map(({ name, type, scale, encoding }) => ({
        name,
        type: encoding.kind !== 'scaled' ? logicalType(type, scale) : encoding.wide ? bigint() : integer(),
      })),
      ...this.apart.map((field) => ({ name: bitsColumn(field)!, type: bigint() })),
    ]
  }

  open(projected: number[]): RowStream {
    const { chunks, ordered, groups, measurementOf, heap } = this
    const out = new Gathered()
    const fields = [...this.fields, ...this.apart]
    const gathered = fields.map((field) => new GatheredColumn(chunks, field.field))
    const picked = new Int32Array(BLOCK_ROWS)
    const first = measurementOf === undefined ? 2 : 3
    let at = 0
    /** A place for each output row from `at` on, its first one. */
    const firsts = (n: number): Int32Array => {
      if (groups === undefined) return ordered.rows.subarray(at, at + n)
      for (let i = 0; i < n; i++) picked[i] = ordered.rows[groups[at + i]]
      return picked
    }
    const winners = (column: GatheredColumn, n: number): Int32Array => {
      if (groups === undefined) return ordered.rows.subarray(at, at + n)
      for (let i = 0; i < n; i++) picked[i] = column.lastSet(ordered.rows, groups[at + i], groups[at + i + 1])
      return picked
    }
    const write = (vector: duckdb.Vector, column: number, n: number): void => {
      if (column < first) {
        if (column === first - 1) {
          gatherTimes(chunks, firsts(n), 0, n, out.i32)
          copyValues(vector, out.buffer, 0, n * 8)
          return
        }
        const places = firsts(n)
        for (let i = 0; i < n; i++) out.i32[i] = seriesAt(chunks, places[i])
        if (measurementOf !== undefined && column === 0) for (let i = 0; i < n; i++) out.i32[i] = measurementOf[out.i32[i]]
        copyValues(vector, out.buffer, 0, n * 4)
        return
      }
      const field = fields[column - first]
      const source = gathered[column - first]
      const places = winners(source, n)
      const apart = bitsColumn(field) !== undefined
      const { encoding } = field
      // A row of which no write set the field has no place; `gather` marks it null only when it looks for nulls.
      if (encoding.kind !== 'scaled' && !apart) return writeField(vector, field, source, heap, places, 0, n, out)
      source.gather(places, 0, n, valueBytes(field.type), out)
      const isBits = column - first >= this.fields.length
      if (apart) keepOnly(out, n, !isBits)
      if (encoding.kind === 'scaled' && !isBits) {
        scaleInPlace(out, n, encoding)
        writeGathered(vector, out, n, encoding.wide ? 8 : 4)
      } else writeGathered(vector, out, n, valueBytes(field.type))
    }
    return {
      next: (vectors) => {
        const n = Math.min(BLOCK_ROWS, this.rows - at)
        if (n <= 0) return 0
        for (let i = 0; i < vectors.length; i++) write(vectors[i], projected[i], n)
        at += n
        return n
      },
    }
  }
}

const OFFSET_MASK = (1 << ROW_BITS) - 1
function seriesAt(chunks: readonly ChunkView[], place: number): number {
  return chunks[place >>> ROW_BITS].series[place & OFFSET_MASK]
}

/** Turns gathered doubles into their integers, in the same buffer. */
function scaleInPlace(out: Gathered, n: number, { scale, wide }: { scale: number; wide?: true }): void {
  const { f64, i32 } = out
  const power = 10 ** scale
  if (!wide) {
    // The i-th integer lies at or before the i-th double, which has been read by then.
    for (let i = 0; i < n; i++) i32[i] = Math.round(f64[i] * power)
    return
  }
  for (let i = 0; i < n; i++) {
    const value = Math.round(f64[i] * power)
    const high = Math.floor(value / 4294967296)
    i32[i * 2 + 1] = high
    i32[i * 2] = value - high * 4294967296
  }
}
