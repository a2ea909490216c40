/** Rows for one table as they go to ClickHouse: columns that grow by whole batches, without an object a row. */
import type { FieldType } from 'svcdb'
import { bytesPerValue, type Column } from 'svcdb/lib/columns'
import { nextTurn } from 'svcdb/lib/event-loop'
import { bytesOf, type WireColumn } from './native/encode.ts'
import { ID_BYTES } from './series-id.ts'
import { columnName, wireType } from './statements.ts'

const FIRST_ROWS = 256
const DAY_NS = 86_400_000_000_000
/** How near to the end of a day, in days, a number is not exact enough. */
const NEAR = 1e-9
const ROWS_A_TURN = 65_536

/** Where a row's values come from: rows of a table of a batch, ascending. */
interface RowSource {
  rows: Int32Array
  time: Int32Array
  /** Ids of the rows' series. */
  ids: readonly Uint8Array[]
}

interface FieldBuffer {
  index: number
  type: FieldType
  scale: number
  /** 1 = NULL. */
  nulls: Uint8Array
  data: Growing
  /** Rows that it has. */
  rows: number
}

class Growing {
  bytes: Uint8Array
  length = 0

  constructor(capacity: number) {
    this.bytes = new Uint8Array(capacity)
  }

  /** Room for n more bytes, zeroed. @returns where they start. */
  reserve(n: number): number {
    const at = this.length
    if (at + n > this.bytes.length) {
      const grown = new Uint8Array(Math.max(this.bytes.length * 2, at + n))
      grown.set(this.bytes.subarray(0, at))
      this.bytes = grown
    }
    this.length = at + n
    return at
  }

  get used(): Uint8Array {
    return this.bytes.subarray(0, this.length)
  }
}

export class Block {
  rows = 0
  /** Of the shared table; undefined in a measurement's own. */
  private readonly lives: Growing | undefined
  private readonly ids = new Growing(FIRST_ROWS * ID_BYTES)
  private readonly times = new Growing(FIRST_ROWS * 8)
  private readonly fields = new Map<number, FieldBuffer>()

  constructor(narrow: boolean) {
    this.lives = narrow ? new Growing(FIRST_ROWS * 8) : undefined
  }

  get narrow(): boolean {
    return this.lives !== undefined
  }

  get bytes(): number {
    let bytes = this.ids.length + this.times.length
    for (const { data, rows } of this.fields.values()) bytes += data.length + rows
    return bytes
  }

  /** Begins rows; their fields follow by `add`. @param life of rows in the shared table. */
  begin({ rows, time, ids }: RowSource, life: number): void {
    const count = rows.length
    const at = this.ids.reserve(count * ID_BYTES)
    for (let i = 0; i < count; i++) this.ids.bytes.set(ids[i], at + i * ID_BYTES)
    const times = pairs(this.times, this.times.reserve(count * 8), count)
    if (whole(rows)) times.set(time.subarray(rows[0] * 2, (rows[0] + count) * 2))
    else
      for (let i = 0; i < count; i++) {
        times[i * 2] = time[rows[i] * 2]
        times[i * 2 + 1] = time[rows[i] * 2 + 1]
      }
    if (this.lives !== undefined) {
      const start = this.lives.reserve(count * 8)
      new BigUint64Array(this.lives.bytes.buffer, start, count).fill(BigInt(life))
    }
    this.rows += count
  }

  /** Values of a field of the rows that were begun last. @param decimals unscaled at the field's scale, by place in `rows`; @param heap of texts. */
  add(field: { index: number; type: FieldType; scale: number }, column: Column, rows: Int32Array, heap: Uint8Array, decimals?: readonly bigint[]): void {
    const buffer = this.buffer(field)
    const before = this.rows - rows.length
    this.fill(buffer, before)
    if (buffer.nulls.length < this.rows) buffer.nulls = grown(buffer.nulls, this.rows)
    if (field.type === 'string' || field.type === 'histogram') addTexts(buffer, column, rows, heap, before)
    else if (decimals !== undefined) addDecimals(buffer, column, rows, decimals, before)
    else addFixed(buffer, column, rows, before)
    buffer.rows = this.rows
  }

  columns(): WireColumn[] {
    const columns: WireColumn[] = []
    if (this.lives !== undefined) columns.push({ name: 'life', type: 'UInt64', data: this.lives.used })
    columns.push({ name: 'series', type: 'UInt128', data: this.ids.used })
    columns.push({ name: 'time', type: "DateTime64(9, 'UTC')", data: this.times.used })
    for (const buffer of this.fields.values()) {
      this.fill(buffer, this.rows)
      const { index, type, scale, nulls, data } = buffer
      if (this.lives !== undefined) columns.push({ name: 'value', type: 'Float64', data: data.used })
      else columns.push({ name: columnName(index), type: `Nullable(${wireType(type, scale)})`, nulls: nulls.subarray(0, this.rows), data: data.used })
    }
    return columns
  }

  /** A time of each day that it has rows of, in nanoseconds: days are partitions. */
  async days(): Promise<bigint[]> {
    const times = pairs(this.times, 0, this.rows)
    const found = new Map<number, number>()
    for (let row = 0; row < this.rows; row++) {
      if (row > 0 && row % ROWS_A_TURN === 0) await nextTurn()
      let day = (times[row * 2 + 1] * 2 ** 32 + (times[row * 2] >>> 0)) / DAY_NS
      if (Math.abs(day - Math.round(day)) < NEAR) day = Number(timeAt(times, row) / BigInt(DAY_NS))
      day = Math.trunc(day)
      if (!found.has(day)) found.set(day, row)
    }
    return Array.from(found.values(), (row) => timeAt(times, row))
  }

  private buffer({ index, type, scale }: { index: number; type: FieldType; scale: number }): FieldBuffer {
    let buffer = this.fields.get(index)
    if (buffer === undefined) {
      buffer = { index, type, scale, nulls: new Uint8Array(Math.max(this.rows, FIRST_ROWS)), data: new Growing(FIRST_ROWS * 8), rows: 0 }
      this.fields.set(index, buffer)
    }
    return buffer
  }

  /** Rows up to `rows` that have no value. */
  private fill(buffer: FieldBuffer, rows: number): void {
    const missing = rows - buffer.rows
    if (missing <= 0) return
    if (buffer.nulls.length < rows) buffer.nulls = grown(buffer.nulls, rows)
    buffer.nulls.fill(1, buffer.rows, rows)
    // Zeros: also of texts, whose length is 0 in one byte.
    buffer.data.reserve(missing * widthOf(buffer.type))
    buffer.rows = rows
  }
}

const widthOf = (type: FieldType): number => (type === 'string' || type === 'histogram' ? 1 : bytesPerValue(type))

function addFixed({ type, nulls, data }: FieldBuffer, column: Column, rows: Int32Array, before: number): void {
  const width = bytesPerValue(type)
  const count = rows.length
  const at = data.reserve(count * width)
  if (column.validity === undefined && whole(rows) && rows[0] + count <= column.next) {
    data.bytes.set(column.u8.subarray(rows[0] * width, (rows[0] + count) * width), at)
    return
  }
  // Not as numbers: a NaN may lose its bits.
  const pair = width === 8 ? pairs(data, at, count) : undefined
  for (let i = 0; i < count; i++) {
    const row = rows[i]
    if (!column.has(row)) nulls[before + i] = 1
    else if (pair === undefined) data.bytes[at + i] = column.u8[row]
    else {
      pair[i * 2] = column.i32[row * 2]
      pair[i * 2 + 1] = column.i32[row * 2 + 1]
    }
  }
}

function addDecimals({ nulls, data }: FieldBuffer, column: Column, rows: Int32Array, decimals: readonly bigint[], before: number): void {
  const at = data.reserve(rows.length * 16)
  const view = new DataView(data.bytes.buffer, data.bytes.byteOffset)
  for (let i = 0; i < rows.length; i++) {
    if (!column.has(rows[i])) {
      nulls[before + i] = 1
      continue
    }
    view.setBigUint64(at + i * 16, BigInt.asUintN(64, decimals[i]), true)
    view.setBigInt64(at + i * 16 + 8, BigInt.asIntN(64, decimals[i] >> 64n), true)
  }
}

function addTexts({ nulls, data }: FieldBuffer, column: Column, rows: Int32Array, heap: Uint8Array, before: number): void {
  for (let i = 0; i < rows.length; i++) {
    const row = rows[i]
    const has = column.has(row)
    if (!has) nulls[before + i] = 1
    const length = has ? column.i32[row * 2 + 1] : 0
    for (let rest = length; ; rest >>>= 7) {
      const at = data.reserve(1)
      data.bytes[at] = rest < 128 ? rest : (rest & 127) | 128
      if (rest < 128) break
    }
    if (length === 0) continue
    const start = column.i32[row * 2]
    const at = data.reserve(length)
    data.bytes.set(heap.subarray(start, start + length), at)
  }
}

/** One run of rows. */
function whole(rows: Int32Array): boolean {
  return rows.length > 0 && rows[rows.length - 1] - rows[0] === rows.length - 1
}

function timeAt(times: Int32Array, row: number): bigint {
  return (BigInt(times[row * 2 + 1]) << 32n) | BigInt(times[row * 2] >>> 0)
}

/** 32-bit halves of values of 8 bytes. */
function pairs(data: Growing, at: number, count: number): Int32Array {
  const bytes = bytesOf(data.bytes)
  return new Int32Array(bytes.buffer, bytes.byteOffset + at, count * 2)
}

function grown(bytes: Uint8Array, length: number): Uint8Array {
  const out = new Uint8Array(Math.max(bytes.length * 2, length))
  out.set(bytes)
  return out
}
