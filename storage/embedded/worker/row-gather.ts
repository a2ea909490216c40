/** Collects the values of one column for rows given by place, into buffers that copy straight into a DuckDB vector. */
import { CHUNK_ROWS, HEAP_BITS, HEAP_BUFFER, ROW_BITS } from '../layout.ts'
import { BLOCK_ROWS, type ChunkView, type ColumnView } from './chunk-view.ts'

const OFFSET = CHUNK_ROWS - 1
export const NO_PLACE = -1

/** Room for one block of one column: values at the column's width, and a validity bit a row. */
export class Gathered {
  readonly buffer: ArrayBuffer
  readonly f64: Float64Array
  readonly i32: Int32Array
  readonly u8: Uint8Array
  readonly bits: Uint8Array
  readonly rows: number
  hasNulls = false

  constructor(rows: number = BLOCK_ROWS) {
    this.rows = rows
    this.buffer = new ArrayBuffer(rows * 16)
    this.f64 = new Float64Array(this.buffer)
    this.i32 = new Int32Array(this.buffer)
    this.u8 = new Uint8Array(this.buffer)
    this.bits = new Uint8Array((rows + 63) >> 3)
  }

  isNull(i: number): boolean {
    return this.hasNulls && (this.bits[i >> 3] & (1 << (i & 7))) === 0
  }
}

/** A column over several chunks; entries are undefined where a chunk does not have the field. */
export class GatheredColumn {
  readonly chunks: readonly ChunkView[]
  readonly views: (ColumnView | undefined)[]
  private readonly mayBeNull: boolean[]
  readonly anyNull: boolean

  constructor(chunks: readonly ChunkView[], field: number) {
    this.chunks = chunks
    this.views = chunks.map((chunk) => chunk.columns.get(field))
    this.mayBeNull = chunks.map((chunk, i) => this.views[i] !== undefined && chunk.hasNulls(this.views[i]!))
    this.anyNull = this.mayBeNull.includes(true) || this.views.includes(undefined)
  }

  has(place: number): boolean {
    const c = place >>> ROW_BITS
    const view = this.views[c]
    if (view === undefined) return false
    const row = place & OFFSET
    return !this.mayBeNull[c] || (view.validity[row >> 3] & (1 << (row & 7))) !== 0
  }

  /** The last place of rows[from, to) with a value: the write that wins. */
  lastSet(rows: Int32Array, from: number, to: number): number {
    for (let i = to - 1; i >= from; i--) if (this.has(rows[i])) return rows[i]
    return NO_PLACE
  }

  /** Values of rows[from, from + n); text and blobs as (address, length). */
  gather(rows: Int32Array, from: number, n: number, width: number, out: Gathered): void {
    out.hasNulls = this.anyNull || rows.length === 0
    if (this.anyNull) this.gatherBits(rows, from, n, out)
    const { views } = this
    if (width === 1) {
      for (let i = 0; i < n; i++) {
        const place = rows[from + i]
        if (place !== NO_PLACE) out.u8[i] = views[place >>> ROW_BITS]?.u8[place & OFFSET] ?? 0
      }
      return
    }
    const lanes = width >> 2
    const { i32 } = out
    for (let i = 0, j = 0; i < n; i++, j += lanes) {
      const place = rows[from + i]
      if (place === NO_PLACE) continue
      const view = views[place >>> ROW_BITS]
      if (view === undefined) continue
      const at = (place & OFFSET) * lanes
      const source = view.i32
      i32[j] = source[at]
      i32[j + 1] = source[at + 1]
      if (lanes === 4) {
        i32[j + 2] = source[at + 2]
        i32[j + 3] = source[at + 3]
      }
    }
  }

  private gatherBits(rows: Int32Array, from: number, n: number, out: Gathered): void {
    out.bits.fill(0, 0, (n + 7) >> 3)
    for (let i = 0; i < n; i++) {
      const place = rows[from + i]
      if (place !== NO_PLACE && this.has(place)) out.bits[i >> 3] |= 1 << (i & 7)
    }
  }
}

/**
 * A text's bytes. Heap buffers are HEAP_BUFFER long, but for one that holds a single longer text.
 * @param address heap buffer index << HEAP_BITS | offset, as an unsigned 32-bit number.
 */
export function heapBytes(heap: readonly Uint8Array[], address: number, length: number): Uint8Array {
  const at = (address >>> 0) & (HEAP_BUFFER - 1)
  return heap[address >>> HEAP_BITS].subarray(at, at + length)
}
