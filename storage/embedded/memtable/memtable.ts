/**
 * Rows not yet in a segment: columns in shared memory, append-only in order of arrival, with a link from each row to the previous row
 * of its series. Layout and reader rules: ../threads/memtable-layout.ts; on threads: docs/formats/memtable.md.
 *
 * Invariants: only applied (durable) batches come in; a row below a chunk's published count never changes; a series keeps its rows
 * in one table of a memtable.
 */
import { bytesPerValue, type Column } from 'svcdb/lib/columns'
import type { FieldDef } from '../threads/definitions.ts'
import {
  CHUNK_HAS_NON_FINITE,
  CHUNK_HAS_NULLS,
  CHUNK_HEADER_FLAGS,
  CHUNK_HEADER_ROWS,
  CHUNK_ROWS,
  HEAP_BITS,
  HEAP_BUFFER,
  HEAP_BUFFERS,
  MAX_CHUNKS,
  NO_ROW,
  ROW_BITS,
  Summary,
} from '../threads/memtable-layout.ts'
import type { StateEvent } from '../threads/messages.ts'
import { type Chunk, type ColumnWidth, chunkRows, copyChunk, newChunk, ROW_BYTES, rowBytes, SPARSE } from './chunk.ts'
import { bytesOfParts, type RowPart, rowParts } from './row-parts.ts'
import { behind, type SeriesTimes } from './series-times.ts'
import type { MemtableMemory } from './slabs.ts'
import { storeNarrow, ValueWidths } from './value-widths.ts'

/** Of a chunk that begins: a wide one has room for fewer. */
const FIRST_ROWS = 256
const FIRST_BYTES = 256 << 10
const LEAST_ROWS = 16
/** A table that has so many chunks does not get one for each new field: a chunk of so few bytes is copied to have it. Its memory is lost until the memtable is gone. */
const FEW_CHUNKS = 8
const COPIED_BYTES = 8 << 10
const OFFSET = CHUNK_ROWS - 1
/** Above the rounding error of a difference of two times as a double. */
const COARSEST = 4096
/** Rows of a series looked at to prove that a late row repeats none: covers senders that write in parallel. */
const LATE_SEARCH = 64

/** Rows to append: a decoder's table or a replayed one. */
export interface AppendedRows {
  rows: number
  series: Int32Array
  /** Low and high half of each time. */
  time: Int32Array
  columns: Column[]
  /** Where they are known already. */
  parts?: RowPart[]
}

class MemtableTable {
  readonly id: number
  readonly chunks: Chunk[] = []
  readonly widths = new ValueWidths()
  readonly summary = new BigInt64Array(new SharedArrayBuffer(Summary.SLOTS * 8))
  rows = 0
  bytes = 0
  /** As Summary.LATENESS. */
  lateness = 0

  constructor(id: number) {
    this.id = id
    const { summary } = this
    summary[Summary.MIN_TIME] = summary[Summary.DIRTY_MIN] = summary[Summary.DUPLICATE_MIN] = 0x7fffffffffffffffn
    summary[Summary.MAX_TIME] = summary[Summary.DIRTY_MAX] = summary[Summary.DUPLICATE_MAX] = -0x8000000000000000n
  }
}

interface MemtableOptions {
  id: number
  sequence: number
  firstWal: number
  /** Series to expect. */
  seriesCapacity: number
  memory: MemtableMemory
  /** Bytes of each table's rows in the memtable before. */
  before?: ReadonlyMap<number, number>
  publish(event: StateEvent): void
  /** Events published so far; 0 where nobody counts them. */
  published?(): number
  /** Bytes of a heap buffer, at most HEAP_BUFFER. */
  heapBuffer?: number
}

/** What rows of a namespace take. */
export interface Taken {
  /** Of `bytes`. */
  bytes: number
  /** Of `allocated`: a chunk that several namespaces share counts for the one whose row began it. */
  memory: number
}

const NO_BYTES: ReadonlyMap<number, number> = new Map()

export class Memtable {
  readonly id: number
  readonly sequence: number
  /** The first WAL file with rows of this memtable; moves on while there are none. */
  firstWal: number
  readonly tables = new Map<number, MemtableTable>()
  heads: Int32Array
  /** Events published when it was there. */
  readonly since: number
  /** Bytes of rows and text in use. */
  bytes = 0
  /** By namespace. */
  readonly taken = new Map<string, Taken>()
  rows = 0
  /** It has rows of series that were given back later: read from the log. */
  ownerless = false
  private heap: Uint8Array[] = []
  private heapBytes: Uint8Array = new Uint8Array(0)
  private heapUsed: number
  private readonly heapBuffer: number
  /** Chunks of the table that has most. */
  private chunks = 0
  private readonly memory: MemtableMemory
  private readonly before: ReadonlyMap<number, number>
  private readonly publish: (event: StateEvent) => void

  constructor({ id, sequence, firstWal, seriesCapacity, memory, before = NO_BYTES, publish, published, heapBuffer = HEAP_BUFFER }: MemtableOptions) {
    this.id = id
    this.sequence = sequence
    this.firstWal = firstWal
    this.memory = memory
    this.before = before
    this.publish = publish
    this.heapBuffer = this.heapUsed = heapBuffer
    this.heads = this.newHeads(Math.max(1024, seriesCapacity))
    publish({ kind: 'memtable', id, sequence, heads: this.heads })
    this.since = published?.() ?? 0
  }

  /** Bytes of memory taken. */
  get allocated(): number {
    return this.memory.bytes
  }

  /** Bytes of each table's rows. */
  get bytesOfTables(): ReadonlyMap<number, number> {
    return new Map([...this.tables.values()].map(({ id, bytes }) => [id, bytes]))
  }

  /** Nobody writes or flushes it any more. @param unread as of MemtableMemory.release. */
  release(unread: (done: () => void) => void): void {
    this.memory.release(unread)
  }

  /** Whether it must be frozen before the next record: a record, which has 1 GiB at most, may take the other half of the addresses. */
  get full(): boolean {
    return this.heap.length >= HEAP_BUFFERS / 2 || this.chunks >= MAX_CHUNKS / 2
  }

  /** Whether it has rows of the series. */
  has(series: number): boolean {
    return series < this.heads.length && this.heads[series] !== 0
  }

  /** Whether it has rows of any of them. */
  hasAny(series: Int32Array): boolean {
    const { heads } = this
    for (let i = 0; i < series.length; i++) if (series[i] < heads.length && heads[series[i]] !== 0) return true
    return false
  }

  /** What a thread that starts late must know. */
  events(): StateEvent[] {
    const events: StateEvent[] = [{ kind: 'memtable', id: this.id, sequence: this.sequence, heads: this.heads }]
    for (const bytes of this.heap) events.push({ kind: 'heap', memtable: this.id, bytes })
    for (const table of this.tables.values()) {
      events.push({ kind: 'memtable-table', memtable: this.id, table: table.id, summary: table.summary })
      for (const chunk of table.chunks) events.push({ kind: 'chunk', memtable: this.id, table: table.id, chunk: chunk.def })
    }
    return events
  }

  /**
   * Appends all rows of one table of a batch. The caller holds the sequence lock.
   * @param fields the table's fields, all of them; `columns[i]` of the batch stores field `targets[i]`.
   */
  append(tableId: number, batch: AppendedRows, heapBytes: Uint8Array, fields: readonly FieldDef[], targets: readonly FieldDef[], times: SeriesTimes): void {
    let table = this.tables.get(tableId)
    if (table === undefined) {
      table = new MemtableTable(tableId)
      this.tables.set(tableId, table)
      this.publish({ kind: 'memtable-table', memtable: this.id, table: tableId, summary: table.summary })
    }
    table.widths.take(batch, targets)
    const parts = batch.parts ?? rowParts(batch)
    for (const part of parts) this.appendPart(table, part, batch, heapBytes, fields, targets, times)
    const bytes = bytesOfParts(batch, parts)
    this.rows += batch.rows
    table.bytes += bytes
    this.bytes += bytes
  }

  private appendPart(
    table: MemtableTable,
    part: RowPart,
    batch: AppendedRows,
    heapBytes: Uint8Array,
    fields: readonly FieldDef[],
    targets: readonly FieldDef[],
    times: SeriesTimes,
  ): void {
    const wanted = part.columns.map((i) => ({ field: targets[i], width: table.widths.of(targets[i]) }))
    const bytes = rowBytes(wanted)
    for (let { from } = part, left = part.rows; left > 0; ) {
      const index = this.chunkFor(table, fields, wanted, left)
      const chunk = table.chunks[index]
      const n = Math.min(chunk.def.capacity - chunk.rows, left)
      this.link(table, chunk, index, batch, from, n, times)
      for (let i = 0; i < chunk.columns.length; i++) {
        const { field } = chunk.columns[i]
        const source = targets[i] === field ? i : targets.indexOf(field)
        this.store(chunk, i, source < 0 ? undefined : batch.columns[source], from, n, heapBytes)
      }
      chunk.rows += n
      chunk.wanted += n * bytes
      Atomics.store(chunk.header, CHUNK_HEADER_ROWS, chunk.rows)
      table.rows += n
      from += n
      left -= n
    }
  }

  /** Room for the heads of all series up to this one. */
  ensureSeries(series: number): void {
    if (series < this.heads.length) return
    const grown = this.newHeads(Math.max(this.heads.length * 2, series + 1))
    grown.set(this.heads)
    this.heads = grown
    this.publish({ kind: 'heads', memtable: this.id, heads: grown })
  }

  private newHeads(length: number): Int32Array {
    const { buffer, offset } = this.memory.allocate(length * 4)
    return new Int32Array(buffer, offset, length).fill(0)
  }

  /** Writes series, time and links of n rows and keeps the summary. */
  private link(table: MemtableTable, chunk: Chunk, index: number, batch: AppendedRows, from: number, n: number, times: SeriesTimes): void {
    const { series, time } = batch
    const { heads } = this
    const at = chunk.rows
    chunk.series.set(series.subarray(from, from + n), at)
    chunk.time.set(time.subarray(from * 2, (from + n) * 2), at * 2)
    const prev = chunk.prev
    let row = (index << ROW_BITS) | at
    for (let i = from, j = at, end = from + n; i < end; i++, j++, row++) {
      const s = series[i]
      prev[j] = ~heads[s]
      heads[s] = ~row
      if (!times.advance(s, time[i * 2], time[i * 2 + 1])) this.late(table, s, prev[j], time[i * 2], time[i * 2 + 1], times)
    }
    const [min, max] = timeRange(time, from, n)
    if (min < table.summary[Summary.MIN_TIME]) Atomics.store(table.summary, Summary.MIN_TIME, min)
    if (max > table.summary[Summary.MAX_TIME]) Atomics.store(table.summary, Summary.MAX_TIME, max)
  }

  /** A row that is not the newest of its series: may it repeat another one, and of which source? */
  private late(table: MemtableTable, series: number, previous: number, low: number, high: number, times: SeriesTimes): void {
    const { summary } = table
    const lateness = times.lateness(series, low, high)
    if (lateness > table.lateness) {
      // Rounded up where doubles are coarser than a nanosecond. Unsigned: from the first time there is to now is more than 63 bits tell.
      table.lateness = lateness > Number.MAX_SAFE_INTEGER ? lateness + COARSEST : lateness
      Atomics.store(summary, Summary.LATENESS, BigInt.asIntN(64, BigInt(table.lateness)))
    }
    if (!times.aboveBase(series, low, high)) widen(summary, Summary.DIRTY_MIN, low, high)
    else if (this.mayRepeat(table, previous, low, high)) widen(summary, Summary.DUPLICATE_MIN, low, high)
  }

  /**
   * Looks for the time among the rows of its series, newest first. A row lies at most the table's lateness below the newest before it, so one that
   * is further below the time than that ends the search. A long search counts as found.
   */
  private mayRepeat(table: MemtableTable, previous: number, low: number, high: number): boolean {
    const { chunks, lateness } = table
    let address = previous
    for (let steps = 0; address !== NO_ROW; steps++) {
      if (steps === LATE_SEARCH) return true
      const { time, prev } = chunks[address >>> ROW_BITS]
      const row = address & OFFSET
      const gap = behind(low, high, time[row * 2], time[row * 2 + 1])
      if (gap === 0) return true
      if (gap > lateness) return false
      address = prev[row]
    }
    return false
  }

  /** @param place of the column. */
  private store(chunk: Chunk, place: number, source: Column | undefined, from: number, n: number, heapBytes: Uint8Array): void {
    const { u8, i32 } = chunk.views
    const column = chunk.columns[place]
    const { offset, validityOffset } = column
    const at = chunk.rows
    const present = source === undefined ? 0 : Math.max(0, Math.min(source.next, from + n) - from)
    const sparse = source === undefined || source.validity !== undefined || present < n
    if (sparse && !column.nulls) {
      u8.fill(0xff, validityOffset, validityOffset + ((at + 7) >> 3))
      column.nulls = true
      // Who sees the flag sees the bits of the rows before.
      Atomics.or(chunk.header, CHUNK_HEADER_FLAGS + place, CHUNK_HAS_NULLS)
    }
    if (source?.nonFinite) Atomics.or(chunk.header, CHUNK_HEADER_FLAGS + place, CHUNK_HAS_NON_FINITE)
    if (column.nulls) setBits(u8, validityOffset, at, n, source, from, present)
    const { type } = column.field
    const text = type === 'string' || type === 'histogram'
    const pairs = (offset >> 2) + at * 2
    // Missing ones have the address of no text.
    if (text && sparse) i32.fill(0, pairs, pairs + n * 2)
    if (source === undefined || present === 0) return
    if (text) this.storeText(i32, pairs, source, from, present, heapBytes)
    else if (column.width < bytesPerValue(type)) storeNarrow(chunk.views, column, at, source, from, present)
    else u8.set(source.u8.subarray(from * column.width, (from + present) * column.width), offset + at * column.width)
  }

  /** @param at where the first row's address and length go. */
  private storeText(target: Int32Array, at: number, source: Column, from: number, n: number, heapBytes: Uint8Array): void {
    let lastStart = -1
    let lastLength = -1
    let lastPlace = 0
    for (let i = from, j = at; i < from + n; i++, j += 2) {
      if (source.validity !== undefined && source.validity[i] === 0) continue
      const start = source.i32[i * 2]
      const length = source.i32[i * 2 + 1]
      // Runs of one text are common (states, messages): keep it once.
      if (length !== lastLength || !sameBytes(heapBytes, start, lastStart, length)) lastPlace = this.keep(heapBytes, start, length)
      lastStart = start
      lastLength = length
      target[j] = lastPlace
      target[j + 1] = length
    }
  }

  private keep(source: Uint8Array, start: number, length: number): number {
    if (this.heapUsed + length > this.heapBuffer || this.heap.length === 0) {
      if (this.heap.length === HEAP_BUFFERS) throw new RangeError('cannot keep text in the memtable: it has no addresses left')
      // A text longer than a buffer gets one of its own size: the address needs only its start.
      const size = Math.max(this.heapBuffer, length)
      const { buffer, offset } = this.memory.allocate(size)
      this.heapBytes = new Uint8Array(buffer, offset, size)
      this.heap.push(this.heapBytes)
      this.heapUsed = 0
      this.publish({ kind: 'heap', memtable: this.id, bytes: this.heapBytes })
    }
    const at = this.heapUsed
    this.heapBytes.set(source.subarray(start, start + length), at)
    this.heapUsed += length
    this.bytes += length
    return ((this.heap.length - 1) << HEAP_BITS) | at
  }

  /** The chunk to append to: the last one with room and all columns wanted, wide enough, or a new or larger one. */
  private chunkFor(table: MemtableTable, fields: readonly FieldDef[], wanted: readonly ColumnWidth[], rows: number): number {
    const { chunks, widths } = table
    const index = chunks.length - 1
    const last = chunks[index]
    if (last === undefined) {
      const all = fields.map((field) => ({ field, width: widths.of(field) }))
      const columns = rowBytes(all) <= SPARSE * rowBytes(wanted) ? all : wanted
      // It does not grow again to what the memtable before had of it.
      const before = Math.floor((this.before.get(table.id) ?? 0) / rowBytesOf(columns.map(({ field }) => field)))
      return this.begun(table, columns, Math.max(firstRows(columns), rows, before))
    }
    const room = roomOf(last, wanted)
    const isSparse = (columns: readonly ColumnWidth[]): boolean => (last.rows + rows) * rowBytes(columns) > SPARSE * (last.wanted + rows * rowBytes(wanted))
    const columns = room === 'all' ? last.columns : joined(last.columns, wanted)
    if (isSparse(columns)) return this.begun(table, wanted, Math.max(LEAST_ROWS, rows))
    if (room === 'all' && last.rows < last.def.capacity) return index
    const most = this.mostRows(columns)
    const isCopied = room !== 'lacking' || (index >= FEW_CHUNKS && mayBeCopied(last, columns))
    if (isCopied && last.def.capacity < most) {
      chunks[index] = this.grown(table, last, columns, Math.max(last.def.capacity, Math.min(most, powerOfTwo(last.rows + rows))))
      return index
    }
    // A table that has filled a chunk goes on: the next one is not grown step by step, copied each time.
    const isFilled = last.rows === this.mostRows(last.columns)
    const all = fields.map((field) => ({ field, width: widths.of(field) }))
    return this.begun(table, isSparse(all) ? columns : all, isFilled ? CHUNK_ROWS : Math.max(LEAST_ROWS, rows))
  }

  private begun(table: MemtableTable, columns: readonly ColumnWidth[], rows: number): number {
    const chunk = newChunk(this.memory, columns, Math.min(this.mostRows(columns), powerOfTwo(rows)))
    table.chunks.push(chunk)
    this.chunks = Math.max(this.chunks, table.chunks.length)
    this.publish({ kind: 'chunk', memtable: this.id, table: table.id, chunk: chunk.def })
    return table.chunks.length - 1
  }

  private mostRows(columns: readonly ColumnWidth[]): number {
    return Math.max(FIRST_ROWS, Math.min(CHUNK_ROWS, chunkRows(this.memory.slabBytes, columns)))
  }

  private grown(table: MemtableTable, old: Chunk, columns: readonly ColumnWidth[], capacity: number): Chunk {
    const chunk = newChunk(this.memory, columns, capacity)
    copyChunk(old, chunk)
    this.publish({ kind: 'chunk-grown', memtable: this.id, table: table.id, chunk: chunk.def })
    return chunk
  }
}

/** Bytes of a row without its texts, numbers counted at 8: how many rows fill a memtable does not depend on their size. */
const rowBytesOf = (fields: readonly FieldDef[]): number => fields.reduce((sum, { type }) => sum + bytesPerValue(type), ROW_BYTES)

const firstRows = (columns: readonly ColumnWidth[]): number => Math.max(LEAST_ROWS, Math.min(FIRST_ROWS, powerOfTwo(FIRST_BYTES / rowBytes(columns))))

/** The columns of a chunk, wide enough for what has come and as they are defined now, and behind them those that it lacks. */
function joined(columns: readonly ColumnWidth[], wanted: readonly ColumnWidth[]): ColumnWidth[] {
  const byField = new Map(columns.map(({ field, width }) => [field.id, { field, width }]))
  for (const { field, width } of wanted) byField.set(field.id, { field, width: Math.max(width, byField.get(field.id)?.width ?? 0) })
  return [...byField.values()]
}

/** Small, and with the same definitions. */
const mayBeCopied = ({ def, columns }: Chunk, to: readonly ColumnWidth[]): boolean =>
  def.capacity * rowBytes(to) <= COPIED_BYTES && columns.every(({ field }, i) => to[i].field === field)

/** Whether a chunk has columns for all of these fields, wide enough for what has come, too narrow, or not. */
function roomOf({ columns }: Chunk, wanted: readonly ColumnWidth[]): 'all' | 'narrow' | 'lacking' {
  let room: 'all' | 'narrow' = 'all'
  for (let i = 0; i < wanted.length; i++) {
    const { field, width } = wanted[i]
    const column = columns[i]?.field === field ? columns[i] : columns.find((each) => each.field === field)
    if (column === undefined) return 'lacking'
    if (column.width < width) room = 'narrow'
  }
  return room
}

const powerOfTwo = (n: number): number => 1 << (32 - Math.clz32(n - 1))

/** Marks rows [at, at + n) in the bits that begin at a byte: present ones from the source's validity, those past `present` and of no source absent. */
function setBits(bytes: Uint8Array, start: number, at: number, n: number, source: Column | undefined, from: number, present: number): void {
  const validity = source?.validity
  for (let i = 0; i < n; i++) {
    const row = at + i
    const has = i < present && (validity === undefined || validity[from + i] === 1)
    if (has) bytes[start + (row >> 3)] |= 1 << (row & 7)
    else bytes[start + (row >> 3)] &= ~(1 << (row & 7))
  }
}

/** Widens the range whose minimum is in `slot` and its maximum in the next one. */
function widen(summary: BigInt64Array, slot: number, low: number, high: number): void {
  const time = (BigInt(high) << 32n) | BigInt(low >>> 0)
  if (time < summary[slot]) Atomics.store(summary, slot, time)
  if (time > summary[slot + 1]) Atomics.store(summary, slot + 1, time)
}

function sameBytes(bytes: Uint8Array, a: number, b: number, length: number): boolean {
  for (let i = 0; i < length; i++) if (bytes[a + i] !== bytes[b + i]) return false
  return true
}

/** The minimum and maximum of n times from row `from` on. */
function timeRange(time: Int32Array, from: number, n: number): [min: bigint, max: bigint] {
  let minHigh = time[from * 2 + 1]
  let minLow = time[from * 2] >>> 0
  let maxHigh = minHigh
  let maxLow = minLow
  for (let i = from + 1, end = from + n; i < end; i++) {
    const high = time[i * 2 + 1]
    const low = time[i * 2] >>> 0
    if (high > maxHigh || (high === maxHigh && low > maxLow)) {
      maxHigh = high
      maxLow = low
    } else if (high < minHigh || (high === minHigh && low < minLow)) {
      minHigh = high
      minLow = low
    }
  }
  return [(BigInt(minHigh) << 32n) | BigInt(minLow), (BigInt(maxHigh) << 32n) | BigInt(maxLow)]
}
