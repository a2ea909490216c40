/** Typed views over a memtable chunk (../threads/memtable-layout.ts), made once; all reads of shared memory go through here. */

import type { FieldType } from 'svcdb'
import {
  CHUNK_HAS_NON_FINITE,
  CHUNK_HAS_NULLS,
  CHUNK_HEADER_FLAGS,
  CHUNK_HEADER_ROWS,
  type ChunkDef,
  columnAt,
  columnsOf,
  fieldAt,
} from '../threads/memtable-layout.ts'

/** Rows a DuckDB vector holds; chunk capacities are powers of two, so that blocks of this size never cross a chunk. */
export const BLOCK_ROWS = 2048

export interface ColumnView {
  type: FieldType
  /** Bytes a value takes. */
  width: number
  offset: number
  flagsSlot: number
  /** Of float64, but for what `ints` has. */
  f64: Float64Array
  /** Halves of 8 bytes and lanes of 16: what `ints` has is not here. */
  i32: Int32Array
  /** float64, int64 and uint64 that have less than 8 bytes, as numbers; undefined for others. */
  ints: Int16Array | Int32Array | undefined
  u8: Uint8Array
  validity: Uint8Array
  validityOffset: number
}

const NO_F64 = new Float64Array(0)
const NO_I32 = new Int32Array(0)

/** Of a value by itself; a chunk may have numbers in fewer. */
export function valueBytes(type: FieldType): number {
  return type === 'bool' ? 1 : type === 'decimal' ? 16 : 8
}

/** The columns of a chunk by field. Views are made when they are asked for: most threads read few of those that very many wide tables have. */
class ChunkColumns {
  private readonly def: ChunkDef
  private readonly views: (ColumnView | undefined)[] = []
  private places: Map<number, number> | undefined

  constructor(def: ChunkDef) {
    this.def = def
  }

  get size(): number {
    return columnsOf(this.def)
  }

  has(field: number): boolean {
    return this.place(field) !== undefined
  }

  get(field: number): ColumnView | undefined {
    const place = this.place(field)
    return place === undefined ? undefined : this.at(place)
  }

  private place(field: number): number | undefined {
    this.places ??= new Map(this.fields().map((id, place) => [id, place]))
    return this.places.get(field)
  }

  /** Ids, in their order. */
  fields(): number[] {
    return Array.from({ length: this.size }, (_, place) => fieldAt(this.def, place))
  }

  private at(place: number): ColumnView {
    return (this.views[place] ??= viewOf(this.def, place))
  }
}

function viewOf(def: ChunkDef, place: number): ColumnView {
  const { buffer, capacity } = def
  const { type, width, offset, validityOffset } = columnAt(def, place)
  const narrow = width < valueBytes(type)
  return {
    type,
    width,
    offset,
    flagsSlot: CHUNK_HEADER_FLAGS + place,
    f64: type === 'float64' && !narrow ? new Float64Array(buffer, offset, capacity) : NO_F64,
    i32: type === 'bool' || narrow ? NO_I32 : new Int32Array(buffer, offset, (capacity * width) / 4),
    ints: narrow ? (width === 2 ? new Int16Array(buffer, offset, capacity) : new Int32Array(buffer, offset, capacity)) : undefined,
    u8: new Uint8Array(buffer, offset, capacity * width),
    validity: new Uint8Array(buffer, validityOffset, capacity >> 3),
    validityOffset,
  }
}

export class ChunkView {
  readonly def: ChunkDef
  readonly header: Int32Array
  readonly series: Int32Array
  /** Low and high half of each time. */
  readonly time: Int32Array
  readonly prev: Int32Array
  readonly columns: ChunkColumns
  private readonly bigTimes: BigInt64Array
  /** Least and greatest time of each full block, once asked for. */
  private readonly zones: ([bigint, bigint] | undefined)[] = []

  constructor(def: ChunkDef) {
    const { buffer, capacity } = def
    this.def = def
    this.header = new Int32Array(buffer, def.headerOffset, CHUNK_HEADER_FLAGS + columnsOf(def))
    this.series = new Int32Array(buffer, def.seriesOffset, capacity)
    this.time = new Int32Array(buffer, def.timeOffset, capacity * 2)
    this.bigTimes = new BigInt64Array(buffer, def.timeOffset, capacity)
    this.prev = new Int32Array(buffer, def.prevOffset, capacity)
    this.columns = new ChunkColumns(def)
  }

  published(): number {
    return Atomics.load(this.header, CHUNK_HEADER_ROWS)
  }

  hasNulls(column: ColumnView): boolean {
    return (Atomics.load(this.header, column.flagsSlot) & CHUNK_HAS_NULLS) !== 0
  }

  /** Whether a float64 column may hold NaN or infinities. */
  hasNonFinite(column: ColumnView): boolean {
    return (Atomics.load(this.header, column.flagsSlot) & CHUNK_HAS_NON_FINITE) !== 0
  }

  /** The float64 fields that may hold NaN or infinities. */
  *nonFinite(): Generator<number> {
    for (let i = 0; i < this.columns.size; i++) {
      if ((Atomics.load(this.header, CHUNK_HEADER_FLAGS + i) & CHUNK_HAS_NON_FINITE) !== 0) yield fieldAt(this.def, i)
    }
  }

  timeAt(row: number): bigint {
    return this.bigTimes[row]
  }

  /** Whether rows [from, from + n) of one block may hold times within [lo, hi]. Full blocks never change, so their range is kept. */
  blockIntersects(from: number, n: number, lo: bigint, hi: bigint): boolean {
    if (n < BLOCK_ROWS) return true
    const block = from / BLOCK_ROWS
    let zone = this.zones[block]
    if (zone === undefined) zone = this.zones[block] = timeRange(this.time, from, n)
    return zone[1] >= lo && zone[0] <= hi
  }
}

function timeRange(time: Int32Array, from: number, n: number): [bigint, bigint] {
  let min = from
  let max = from
  for (let i = from + 1; i < from + n; i++) {
    if (timeBefore(time, i, time, min)) min = i
    else if (timeBefore(time, max, time, i)) max = i
  }
  return [timeOf(time, min), timeOf(time, max)]
}

export function timeBefore(a: Int32Array, i: number, b: Int32Array, j: number): boolean {
  const high = a[i * 2 + 1] - b[j * 2 + 1]
  return high < 0 || (high === 0 && a[i * 2] >>> 0 < b[j * 2] >>> 0)
}

export function timeOf(time: Int32Array, row: number): bigint {
  return (BigInt(time[row * 2 + 1]) << 32n) | BigInt(time[row * 2] >>> 0)
}
