/** A chunk of a memtable table as its writer has it; layout: ../threads/memtable-layout.ts. */
import type { FieldDef } from '../threads/definitions.ts'
import { CHUNK_HAS_NULLS, CHUNK_HEADER_FLAGS, type ChunkDef, COLUMN_INTS, putColumn } from '../threads/memtable-layout.ts'
import type { MemtableMemory, SlabViews } from './slabs.ts'
import { copyWider } from './value-widths.ts'

export interface Chunk {
  def: ChunkDef
  header: Int32Array
  series: Int32Array
  time: Int32Array
  prev: Int32Array
  /** Of the whole buffer. */
  views: SlabViews
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

/** Without arrays of its own: there may be very many. Offsets are bytes of the chunk's buffer. */
export interface WrittenColumn extends ColumnWidth {
  offset: number
  validityOffset: number
  nulls: boolean
}

const ALIGNMENT = 8
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
  const { buffer, offset, views } = memory.allocate(size)
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
  const packed = new Int32Array(COLUMN_INTS * fields.length)
  const columns = fields.map(({ field, width }, place): WrittenColumn => {
    const column = { field, width, offset: take(capacity * width), validityOffset: take(capacity / 8), nulls: false }
    putColumn(packed, place, { ...column, field: field.id, type: field.type })
    return column
  })
  return {
    def: { buffer, capacity, headerOffset, seriesOffset, timeOffset, prevOffset, columns: packed },
    header: new Int32Array(buffer, headerOffset, 1 + fields.length).fill(0),
    series: new Int32Array(buffer, seriesOffset, capacity),
    time: new Int32Array(buffer, timeOffset, capacity * 2),
    prev: new Int32Array(buffer, prevOffset, capacity),
    views,
    columns,
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
      markMissing(to.views, column, from.rows)
      to.header[CHUNK_HEADER_FLAGS + i] = CHUNK_HAS_NULLS
      continue
    }
    const { capacity } = from.def
    if (column.width === old.width) copyBytes(to, column.offset, from, old.offset, capacity * old.width)
    else copyWider(to.views, column, from.views, old, from.rows)
    copyBytes(to, column.validityOffset, from, old.validityOffset, capacity / 8)
    column.nulls = old.nulls
  }
  to.rows = from.rows
  to.wanted = from.wanted
}

function copyBytes(to: Chunk, at: number, from: Chunk, start: number, length: number): void {
  to.views.u8.set(from.views.u8.subarray(start, start + length), at)
}

/** No row has a value so far. Missing texts have the address of no text. */
function markMissing({ u8, i32 }: SlabViews, column: WrittenColumn, rows: number): void {
  const { type } = column.field
  u8.fill(0, column.validityOffset, column.validityOffset + ((rows + 7) >> 3))
  column.nulls = true
  if (type === 'string' || type === 'histogram') i32.fill(0, column.offset >> 2, (column.offset >> 2) + rows * 2)
}
