/** A chunk of a memtable table as its writer has it; layout: ../threads/memtable-layout.ts. */
import type { FieldDef } from '../threads/definitions.ts'
import { CHUNK_HAS_NULLS, CHUNK_HEADER_FLAGS, type ChunkColumn, type ChunkDef } from '../threads/memtable-layout.ts'
import type { MemtableMemory } from './slabs.ts'
import { copyWider } from './value-widths.ts'

export interface Chunk {
  def: ChunkDef
  header: Int32Array
  series: Int32Array
  time: Int32Array
  prev: Int32Array
  columns: WrittenColumn[]
  rows: number
  /** Bytes that the rows would take if the chunk had only the columns that came with each of them. */
  wanted: number
}

/** A field, and the bytes that each of its values takes in a chunk. */
export interface ColumnWidth {
  field: FieldDef
  width: number
}

interface WrittenColumn extends ColumnWidth {
  bytes: Uint8Array
  /** The same bytes; of numbers of 2 bytes `i16` alone, of booleans neither. */
  i32: Int32Array
  i16: Int16Array
  validity: Uint8Array
  nulls: boolean
}

const ALIGNMENT = 8
const NO_I32 = new Int32Array(0)
const NO_I16 = new Int16Array(0)
const align = (offset: number): number => (offset + ALIGNMENT - 1) & -ALIGNMENT

/** Of each column, for the alignment of its values and of its validity; and of header, series, time and links. */
const COLUMN_SLACK = 4 + 2 * ALIGNMENT
const CHUNK_SLACK = 4 + 4 * ALIGNMENT

/** Series, time and link of a row. */
export const ROW_BYTES = 16
/** Rows may take so many times what they would take without the columns that they have no value of; more chunks take more to read. */
export const SPARSE = 4

/** Bytes of a row with its values. */
export const rowBytes = (columns: readonly ColumnWidth[]): number => columns.reduce((sum, { width }) => sum + width, ROW_BYTES)

/** Rows of a chunk that lies in one slab: a power of two. A wide table's holds fewer. */
export function chunkRows(slabBytes: number, columns: readonly ColumnWidth[]): number {
  return 2 ** Math.floor(Math.log2((slabBytes - CHUNK_SLACK - columns.length * COLUMN_SLACK) / (rowBytes(columns) + columns.length / 8)))
}

/** Without rows. Of memory that was used before only what tells of rows is cleared. @param capacity rows, a power of two of at least 8. */
export function newChunk(memory: MemtableMemory, fields: readonly ColumnWidth[], capacity: number): Chunk {
  const size = CHUNK_SLACK + fields.length * COLUMN_SLACK + capacity * (rowBytes(fields) + fields.length / 8)
  const { buffer, offset } = memory.allocate(size)
  let next = offset
  const take = (bytes: number): number => {
    const at = next
    next = align(next + bytes)
    return at
  }
  const headerOffset = take(4 * (1 + fields.length))
  const seriesOffset = take(capacity * 4)
  const timeOffset = take(capacity * 8)
  const prevOffset = take(capacity * 4)
  const columns: ChunkColumn[] = fields.map(({ field, width }) => ({
    field: field.id,
    type: field.type,
    width,
    offset: take(capacity * width),
    validityOffset: take(capacity / 8),
  }))
  const def: ChunkDef = { buffer, capacity, headerOffset, seriesOffset, timeOffset, prevOffset, columns }
  return {
    def,
    header: new Int32Array(buffer, headerOffset, 1 + fields.length).fill(0),
    series: new Int32Array(buffer, seriesOffset, capacity),
    time: new Int32Array(buffer, timeOffset, capacity * 2),
    prev: new Int32Array(buffer, prevOffset, capacity),
    columns: columns.map((column, i) => writtenColumn(fields[i].field, column, buffer, capacity)),
    rows: 0,
    wanted: 0,
  }
}

/** Copies all rows to an empty chunk that has the same columns, and maybe more behind them, as wide or wider, and as much room or more. */
export function copyChunk(from: Chunk, to: Chunk): void {
  to.series.set(from.series)
  to.time.set(from.time)
  to.prev.set(from.prev)
  to.header.set(from.header)
  for (const [i, column] of to.columns.entries()) {
    const old = from.columns[i]
    if (old === undefined) {
      markMissing(column, from.rows)
      to.header[CHUNK_HEADER_FLAGS + i] = CHUNK_HAS_NULLS
      continue
    }
    if (column.width === old.width) column.bytes.set(old.bytes)
    else copyWider(column, old, from.rows)
    column.validity.set(old.validity)
    column.nulls = old.nulls
  }
  to.rows = from.rows
  to.wanted = from.wanted
}

/** No row has a value so far. Missing texts have the address of no text. */
function markMissing(column: WrittenColumn, rows: number): void {
  const { type } = column.field
  column.validity.fill(0, 0, (rows + 7) >> 3)
  column.nulls = true
  if (type === 'string' || type === 'histogram') column.i32.fill(0, 0, rows * 2)
}

function writtenColumn(field: FieldDef, { width, offset, validityOffset }: ChunkColumn, buffer: SharedArrayBuffer, capacity: number): WrittenColumn {
  return {
    field,
    width,
    bytes: new Uint8Array(buffer, offset, capacity * width),
    i32: width < 4 ? NO_I32 : new Int32Array(buffer, offset, (capacity * width) / 4),
    i16: width === 2 ? new Int16Array(buffer, offset, capacity) : NO_I16,
    validity: new Uint8Array(buffer, validityOffset, capacity / 8),
    nulls: false,
  }
}
