/**
 * How a memtable lies in shared memory.
 *
 * Invariants
 * - A chunk's rows below its published count never change.
 * - A row is addressed by chunk << ROW_BITS | offset. `prev` and the memtable's heads link the rows of a series, newest first; heads hold the
 *   complement of the address, 0 for none. A reader may meet links to rows it does not see yet: it follows them down to the rows it does, as long as
 *   those in between are published.
 */
import type { FieldType } from 'svcdb'

export const ROW_BITS = 16
/** Chunks of a table of a memtable: rows are ordered by their addresses, as signed numbers. */
export const MAX_CHUNKS = 1 << (31 - ROW_BITS)
export const CHUNK_ROWS = 1 << ROW_BITS
export const NO_ROW = -1

/** A column of a memtable chunk; offsets in bytes from the buffer's start. Validity is a bit a row, least significant first, valid only when the header's flag says so. */
export interface ChunkColumn {
  field: number
  type: FieldType
  /** Bytes of a value: of float64, int64 and uint64 2, 4 or 8, as the values of this chunk need. */
  width: number
  offset: number
  validityOffset: number
}

/**
 * One chunk, which shares its buffer with others: header (Int32: published rows, then the flags of each column, CHUNK_HAS_*), series Int32, time Int64, prev Int32, columns.
 * float64, int64, uint64: 8 bytes, or signed integers of 2 or 4 where all values are such; bool 1; decimal 16 (little endian 128 bit, at the field's scale); string and histogram:
 * two Uint32 (address in the memtable's heap: heap buffer index << HEAP_BITS | offset; length).
 */
export interface ChunkDef {
  buffer: SharedArrayBuffer
  capacity: number
  headerOffset: number
  seriesOffset: number
  timeOffset: number
  prevOffset: number
  /** COLUMN_INTS of each: there may be very many, and each thread has them. */
  columns: Int32Array
}

/** A column's id of its field, number of its type, width, offset and validity offset. */
export const COLUMN_INTS = 5
const TYPES: readonly FieldType[] = ['float64', 'int64', 'uint64', 'bool', 'string', 'decimal', 'histogram']

export const columnsOf = ({ columns }: Pick<ChunkDef, 'columns'>): number => columns.length / COLUMN_INTS

export function columnAt({ columns }: Pick<ChunkDef, 'columns'>, place: number): ChunkColumn {
  const at = place * COLUMN_INTS
  return { field: columns[at], type: TYPES[columns[at + 1]], width: columns[at + 2], offset: columns[at + 3], validityOffset: columns[at + 4] }
}

export const fieldAt = ({ columns }: Pick<ChunkDef, 'columns'>, place: number): number => columns[place * COLUMN_INTS]

export function putColumn(columns: Int32Array, place: number, { field, type, width, offset, validityOffset }: ChunkColumn): void {
  const at = place * COLUMN_INTS
  columns[at] = field
  columns[at + 1] = TYPES.indexOf(type)
  columns[at + 2] = width
  columns[at + 3] = offset
  columns[at + 4] = validityOffset
}
export const CHUNK_HEADER_ROWS = 0
export const CHUNK_HEADER_FLAGS = 1
/** Flags of a column: rows without a value, NaN or infinities among its values. Set before the rows they are true of are published. */
export const CHUNK_HAS_NULLS = 1
export const CHUNK_HAS_NON_FINITE = 2

export const HEAP_BITS = 20
export const HEAP_BUFFER = 1 << HEAP_BITS
/** Buffers that an address of 32 bits can tell apart. */
export const HEAP_BUFFERS = 2 ** (32 - HEAP_BITS)

/**
 * BigInt64 slots of a memtable table's summary. DIRTY_*: times of rows that may repeat a row of an older memtable or of a segment; DUPLICATE_*: of
 * rows that may repeat a row of this memtable; a minimum above the maximum = none. LATENESS (unsigned): no row is older than its series' newest row
 * before it by more than this many nanoseconds.
 */
export const Summary = { MIN_TIME: 0, MAX_TIME: 1, DIRTY_MIN: 2, DIRTY_MAX: 3, DUPLICATE_MIN: 4, DUPLICATE_MAX: 5, LATENESS: 6, SLOTS: 7 } as const
