/** A chunk of a memtable table as its writer has it; layout: ../threads/memtable-layout.ts. */
import { bytesPerValue } from 'svcdb/lib/columns'
import type { FieldDef } from '../threads/definitions.ts'
import type { ChunkColumn, ChunkDef } from '../threads/memtable-layout.ts'
import type { MemtableMemory } from './slabs.ts'

export interface Chunk {
  def: ChunkDef
  header: Int32Array
  series: Int32Array
  time: Int32Array
  prev: Int32Array
  columns: { field: FieldDef; bytes: Uint8Array; i32: Int32Array; validity: Uint8Array; nulls: boolean }[]
  rows: number
}

const ALIGNMENT = 8
const EMPTY = new Int32Array(0)
const align = (offset: number): number => (offset + ALIGNMENT - 1) & -ALIGNMENT

/** Of each column, for the alignment of its values and of its validity; and of header, series, time and links. */
const COLUMN_SLACK = 4 + 2 * ALIGNMENT
const CHUNK_SLACK = 4 + 4 * ALIGNMENT

/** Rows of a chunk that lies in one slab: a power of two. A wide table's holds fewer. */
export function chunkRows(slabBytes: number, fields: number, rowBytes: number): number {
  return 2 ** Math.floor(Math.log2((slabBytes - CHUNK_SLACK - fields * COLUMN_SLACK) / (rowBytes + fields / 8)))
}

/** Without rows. Of memory that was used before only what tells of rows is cleared. @param capacity rows, a power of two of at least 64. */
export function newChunk(memory: MemtableMemory, fields: readonly FieldDef[], capacity: number): Chunk {
  const rowBytes = 16 + fields.reduce((sum, field) => sum + bytesPerValue(field.type), 0)
  const size = CHUNK_SLACK + fields.length * COLUMN_SLACK + capacity * (rowBytes + fields.length / 8)
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
  const columns: ChunkColumn[] = fields.map((field) => ({
    field: field.id,
    type: field.type,
    offset: take(capacity * bytesPerValue(field.type)),
    validityOffset: take(capacity / 8),
  }))
  const def: ChunkDef = { buffer, capacity, headerOffset, seriesOffset, timeOffset, prevOffset, columns }
  return {
    def,
    header: new Int32Array(buffer, headerOffset, 1 + fields.length).fill(0),
    series: new Int32Array(buffer, seriesOffset, capacity),
    time: new Int32Array(buffer, timeOffset, capacity * 2),
    prev: new Int32Array(buffer, prevOffset, capacity),
    columns: columns.map((column, i) => ({
      field: fields[i],
      bytes: new Uint8Array(buffer, column.offset, capacity * bytesPerValue(column.type)),
      i32: column.type === 'bool' ? EMPTY : new Int32Array(buffer, column.offset, (capacity * bytesPerValue(column.type)) / 4),
      validity: new Uint8Array(buffer, column.validityOffset, capacity / 8),
      nulls: false,
    })),
    rows: 0,
  }
}
