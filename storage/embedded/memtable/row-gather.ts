/** Collects the values of one column for rows given by position, into buffers that copy straight into a DuckDB vector. */
import { CHUNK_ROWS, HEAP_BITS, HEAP_BUFFER, ROW_BITS } from '../threads/memtable-layout.ts'
import { BLOCK_ROWS, type ChunkView, type ColumnView } from './chunk-view.ts'
import type { FieldViews } from './field-views.ts'

const OFFSET = CHUNK_ROWS - 1
const NO_POSITION = -1

/** Room for one block of one column, or more: values at the column's width, and a validity bit a row. */
export class Gathered {
  readonly buffer: ArrayBuffer
  readonly f64: Float64Array
  readonly i32: Int32Array
  readonly u8: Uint8Array
  readonly bits: Uint8Array
  readonly rows: number
  hasNulls = false

  /** @param width bytes of the widest value. */
  constructor(rows: number = BLOCK_ROWS, width = 16) {
    this.rows = rows
    this.buffer = new ArrayBuffer(rows * width)
    this.f64 = new Float64Array(this.buffer)
    this.i32 = new Int32Array(this.buffer)
    this.u8 = new Uint8Array(this.buffer)
    this.bits = new Uint8Array((rows + 63) >> 3)
  }

  isNull(i: number): boolean {
    return this.hasNulls && (this.bits[i >> 3] & (1 << (i & 7))) === 0
  }
}

/** A number of a column that has `ints`, in its 8 bytes. */
export function putNumber({ type, ints }: ColumnView, row: number, out: Pick<Gathered, 'f64' | 'i32'>, i: number): void {
  const value = (ints as Int16Array | Int32Array)[row]
  if (type === 'float64') out.f64[i] = value
  else {
    out.i32[i * 2] = value
    out.i32[i * 2 + 1] = value >> 31
  }
}

/** A column over several chunks; entries are undefined where a chunk does not have the field. */
export class GatheredColumn {
  readonly chunks: readonly ChunkView[]
  readonly views: (ColumnView | undefined)[]
  private readonly mayBeNull: Uint8Array
  readonly anyNull: boolean

  /** @param fields the field among them. */
  constructor(fields: FieldViews, field: number) {
    const { chunks } = fields
    const own = fields.of(field)
    this.chunks = chunks
    this.views = new Array(chunks.length).fill(undefined)
    this.mayBeNull = new Uint8Array(chunks.length)
    for (const { chunk, view, mayBeNull } of own) {
      this.views[chunk] = view
      if (mayBeNull) this.mayBeNull[chunk] = 1
    }
    this.anyNull = own.length < chunks.length || this.mayBeNull.includes(1)
  }

  has(position: number): boolean {
    const c = position >>> ROW_BITS
    const view = this.views[c]
    if (view === undefined) return false
    const row = position & OFFSET
    return this.mayBeNull[c] === 0 || (view.validity[row >> 3] & (1 << (row & 7))) !== 0
  }

  /** The last position of rows[from, to) with a value: the write that wins. */
  lastSet(rows: Int32Array, from: number, to: number): number {
    for (let i = to - 1; i >= from; i--) if (this.has(rows[i])) return rows[i]
    return NO_POSITION
  }

  /** Values of rows[from, from + n); text and blobs as (address, length). */
  gather(rows: Int32Array, from: number, n: number, width: number, out: Gathered): void {
    out.hasNulls = this.anyNull || rows.length === 0
    if (this.anyNull) this.gatherBits(rows, from, n, out)
    const { views } = this
    if (width === 1) {
      for (let i = 0; i < n; i++) {
        const position = rows[from + i]
        if (position !== NO_POSITION) out.u8[i] = views[position >>> ROW_BITS]?.u8[position & OFFSET] ?? 0
      }
      return
    }
    const lanes = width >> 2
    const { i32 } = out
    for (let i = 0, j = 0; i < n; i++, j += lanes) {
      const position = rows[from + i]
      if (position === NO_POSITION) continue
      const view = views[position >>> ROW_BITS]
      if (view === undefined) continue
      if (view.ints !== undefined) {
        putNumber(view, position & OFFSET, out, i)
        continue
      }
      const at = (position & OFFSET) * lanes
      const source = view.i32
      i32[j] = source[at]
      i32[j + 1] = source[at + 1]
      if (lanes === 4) {
        i32[j + 2] = source[at + 2]
        i32[j + 3] = source[at + 3]
      }
    }
  }

  /** Values of the first n of `rows`, looked up in the order of `sequence`: each of [0, n) once. */
  gatherAs(rows: Int32Array, sequence: Int32Array, n: number, width: number, out: Gathered): void {
    this.gatherNulls(rows, n, out)
    const { views } = this
    if (width !== 8) {
      const lanes = width >> 2
      for (let k = 0; k < n; k++) {
        const i = sequence[k]
        const position = rows[i]
        const view = position === NO_POSITION ? undefined : views[position >>> ROW_BITS]
        if (view === undefined) continue
        const row = position & OFFSET
        if (width === 1) out.u8[i] = view.u8[row]
        else for (let lane = 0; lane < lanes; lane++) out.i32[i * lanes + lane] = view.i32[row * lanes + lane]
      }
      return
    }
    const { i32 } = out
    for (let k = 0; k < n; k++) {
      const i = sequence[k]
      const position = rows[i]
      const view = position === NO_POSITION ? undefined : views[position >>> ROW_BITS]
      if (view === undefined) continue
      if (view.ints !== undefined) {
        putNumber(view, position & OFFSET, out, i)
        continue
      }
      const at = (position & OFFSET) * 2
      const source = view.i32
      i32[i * 2] = source[at]
      i32[i * 2 + 1] = source[at + 1]
    }
  }

  /** The same for floats, as 32-bit integers of value * power. */
  gatherScaled(rows: Int32Array, sequence: Int32Array, n: number, power: number, out: Gathered): void {
    this.gatherNulls(rows, n, out)
    const { views } = this
    const { i32 } = out
    for (let k = 0; k < n; k++) {
      const i = sequence[k]
      const position = rows[i]
      const view = position === NO_POSITION ? undefined : views[position >>> ROW_BITS]
      if (view !== undefined) i32[i] = Math.round((view.ints ?? view.f64)[position & OFFSET] * power)
    }
  }

  private gatherNulls(rows: Int32Array, n: number, out: Gathered): void {
    out.hasNulls = this.anyNull
    if (this.anyNull) this.gatherBits(rows, 0, n, out)
  }

  private gatherBits(rows: Int32Array, from: number, n: number, out: Gathered): void {
    out.bits.fill(0, 0, (n + 7) >> 3)
    for (let i = 0; i < n; i++) {
      const position = rows[from + i]
      if (position !== NO_POSITION && this.has(position)) out.bits[i >> 3] |= 1 << (i & 7)
    }
  }
}

/** Times of the first n of `rows`, looked up in the order of `sequence`. @param out low and high halves. */
export function gatherTimesAs(chunks: readonly ChunkView[], rows: Int32Array, sequence: Int32Array, n: number, out: Int32Array): void {
  for (let k = 0; k < n; k++) {
    const i = sequence[k]
    const position = rows[i]
    const { time } = chunks[position >>> ROW_BITS]
    const at = (position & OFFSET) * 2
    out[i * 2] = time[at]
    out[i * 2 + 1] = time[at + 1]
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
