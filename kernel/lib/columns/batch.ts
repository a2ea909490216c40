/**
 * One write as columns, in order of arrival: what every decoder builds and every engine takes.
 *
 * A row belongs to a series (a number from `SeriesResolver`), has a time (nanoseconds, two 32-bit halves, low first) and sets some
 * columns. Buffers are reused: a batch belongs to its decoder until `write` is called, then to the storage, which empties it.
 * A row that turns out bad half-way is taken back with `dropRow`.
 */

import { SvcError } from '../errors/index.ts'
import type { FieldType, MeasurementRef, SeriesResolver, WriteLimits } from './schema.ts'

const FIRST_CAPACITY = 16
const FIRST_HEAP = 1024
/** Of a row: its series, its time, its position. */
const ROW_BYTES = 16
/** A pooled batch keeps the tables of at most this many measurements, with so many columns; more would hold memory for names seen once. */
const KEPT_TABLES = 64
const KEPT_COLUMNS = 2 ** 15
/**
 * Of an engine that names none. Cells are rows times columns, set or not, that the tables of one write grow to together: a small body that names ever new fields
 * must not reserve memory without end. A body of 10 MiB can set about 2.5 million values; what is far above that is mostly gaps. Fields are columns of all tables:
 * each takes a kilobyte and more, set or not, and such a body can name a million.
 */
const WRITE_LIMITS: WriteLimits = { fields: 2 ** 17, cells: 2 ** 24 }
/** Bytes that a batch which is used again keeps; what a large write has grown beyond them is let go. Engines keep up to 16 batches. */
const KEPT_BYTES = 8 << 20
/** Above so many columns of a table those that its last row has set are listed: to look at all of them for each row that is taken back would be quadratic. */
const WIDE = 256
const encoder = new TextEncoder()

/** Bytes of strings and histograms of one batch; a value is (offset, length). */
export class ByteHeap {
  bytes: Uint8Array = new Uint8Array(FIRST_HEAP)
  length = 0

  /** Makes room for n bytes and returns where they start; the caller fills `bytes` there. */
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
}

/**
 * One field's values. `lanes` is the number of 32-bit halves a value takes: float64, int64, uint64 2; string and histogram 2
 * (offset and length in the heap); decimal 4 (128-bit two's complement, low first); bool 1 byte.
 */
export class Column {
  readonly name: string
  readonly nameBytes: Uint8Array
  readonly type: FieldType
  /** Decimals: the most fractional digits of any value so far; values are stored at their own scale in `scales`. */
  scale = 0
  buffer: ArrayBuffer
  f64: Float64Array
  i32: Int32Array
  u8: Uint8Array
  /** Decimals only: fractional digits of each value. */
  scales: Uint8Array | undefined
  /** Row after the last one that was set. Rows before it without a value have validity 0. */
  next = 0
  /** One byte a row, 1 = present; undefined while no row was left out. */
  validity: Uint8Array | undefined
  /** float64: some value may be NaN or infinite. Found out by the storage, not by who fills the column. */
  nonFinite = false
  /** Row of the first value, so that taking that value back leaves the column empty. */
  private first = 0
  private spareValidity: Uint8Array | undefined
  /** Of a wide table: where the column says that it was set. */
  listed: Column[] | undefined
  /** Its place in the table. */
  place = 0
  left = false // of an earlier write, and not asked for by this one: it does not grow with the rows

  constructor(name: string, type: FieldType, capacity: number) {
    this.name = name
    this.nameBytes = encoder.encode(name)
    this.type = type
    this.buffer = new ArrayBuffer(capacity * bytesPerValue(type))
    this.f64 = type === 'bool' ? EMPTY_F64 : new Float64Array(this.buffer)
    this.i32 = type === 'bool' ? EMPTY_I32 : new Int32Array(this.buffer)
    this.u8 = new Uint8Array(this.buffer)
    if (type === 'decimal') this.scales = new Uint8Array(capacity)
  }

  /** Call before storing the value of `row`; keeps validity when rows were left out. */
  mark(row: number): void {
    if (row !== this.next || this.listed !== undefined) this.markWithCare(row)
    else if (this.validity !== undefined) this.validity[row] = 1
    this.next = row + 1
  }

  setF64(row: number, value: number): void {
    this.mark(row)
    this.f64[row] = value
  }

  /** int64 and uint64 (two's complement halves), string and histogram (offset, length); float64 whose bits count: a NaN in a JavaScript number may lose its own. */
  setPair(row: number, low: number, high: number): void {
    this.mark(row)
    this.i32[row * 2] = low
    this.i32[row * 2 + 1] = high
  }

  setBool(row: number, value: boolean): void {
    this.mark(row)
    this.u8[row] = value ? 1 : 0
  }

  /** @param unscaled the digits without the point, within 128 bits (at most 38 digits). */
  setDecimal(row: number, unscaled: bigint, scale: number): void {
    this.mark(row)
    const at = row * 4
    this.i32[at] = Number(BigInt.asIntN(32, unscaled))
    this.i32[at + 1] = Number(BigInt.asIntN(32, unscaled >> 32n))
    this.i32[at + 2] = Number(BigInt.asIntN(32, unscaled >> 64n))
    this.i32[at + 3] = Number(BigInt.asIntN(32, unscaled >> 96n))
    ;(this.scales as Uint8Array)[row] = scale
    if (scale > this.scale) this.scale = scale
  }

  /** Sets `count` rows from `row` on to values as they lie in `buffer`: for all types but those with a part elsewhere (text, histograms, decimals). */
  setRun(row: number, values: Uint8Array, count: number): void {
    if (count === 0) return
    this.mark(row)
    this.validity?.fill(1, row, row + count)
    this.u8.set(values, row * bytesPerValue(this.type))
    this.next = row + count
  }

  has(row: number): boolean {
    return row < this.next && (this.validity === undefined || this.validity[row] === 1)
  }

  /** Takes values back, so that there are none behind the first `rows`. */
  cut(rows: number): void {
    if (this.next <= rows) return
    this.next = this.first >= rows ? 0 : rows
    if (this.next === 0) this.first = 0
  }

  private markWithCare(row: number): void {
    this.listed?.push(this)
    if (row !== this.next) this.skipTo(row)
    else if (this.validity !== undefined) this.validity[row] = 1
  }

  private skipTo(row: number): void {
    if (row < this.next) return // the same field twice in one row: the later value replaces the earlier
    if (this.next === 0) this.first = row
    if (this.validity === undefined) {
      const { capacity, spareValidity } = this
      this.validity = spareValidity !== undefined && spareValidity.length >= capacity ? spareValidity : new Uint8Array(capacity)
      this.validity.fill(1, 0, this.next)
    }
    this.validity.fill(0, this.next, row)
    this.validity[row] = 1
  }

  grow(capacity: number): void {
    if (capacity <= this.capacity) return
    const grown = new ArrayBuffer(capacity * bytesPerValue(this.type))
    new Uint8Array(grown).set(this.u8)
    this.buffer = grown
    if (this.type !== 'bool') {
      this.f64 = new Float64Array(grown)
      this.i32 = new Int32Array(grown)
    }
    this.u8 = new Uint8Array(grown)
    if (this.scales !== undefined) this.scales = copyInto(new Uint8Array(capacity), this.scales)
    if (this.validity !== undefined) this.validity = copyInto(new Uint8Array(capacity), this.validity)
  }

  /** Rows that it has room for. */
  get capacity(): number {
    return this.u8.length / bytesPerValue(this.type)
  }

  /** Bytes that it takes, also when it is empty. */
  get reserved(): number {
    return this.u8.length + (this.scales?.length ?? 0) + ((this.validity ?? this.spareValidity)?.length ?? 0)
  }

  /** Lets go of its memory: decoders remember columns that are not used again. */
  free(): void {
    this.reset()
    this.listed = undefined
    this.buffer = EMPTY_BUFFER
    this.f64 = EMPTY_F64
    this.i32 = EMPTY_I32
    this.u8 = EMPTY_U8
    this.scales = undefined
    this.spareValidity = undefined
  }

  reset(): void {
    this.next = 0
    this.first = 0
    this.scale = 0
    this.nonFinite = false
    if (this.validity !== undefined) this.spareValidity = this.validity
    this.validity = undefined
  }
}

/** What the tables of a batch have together. */
class Room {
  /** Rows times columns that they have grown to since the batch was empty, beyond their first rows. */
  cells = 0
  columns = 0
  /** Of the columns, those of earlier writes: which of them this one has set nobody counts. */
  kept = 0
  readonly limits: WriteLimits

  constructor(limits = WRITE_LIMITS) {
    this.limits = limits
  }
}

/** The rows of one measurement, or (measurement null) rows of many measurements that all have just these fields. */
export class TableBatch {
  readonly measurement: MeasurementRef | null
  rows = 0
  /** Rows that the columns asked for have room for; what an earlier write has left may have more. */
  capacity = FIRST_CAPACITY
  series: Int32Array = new Int32Array(FIRST_CAPACITY)
  /** Low and high half of each time. */
  time: Int32Array = new Int32Array(FIRST_CAPACITY * 2)
  /** Where in the request the row came from: line number or array index, for messages. */
  position: Int32Array = new Int32Array(FIRST_CAPACITY)
  readonly columns: Column[] = []
  /** The part of the batch (`WriteBatch.begin`) that has asked for it last. */
  part = -1
  private readonly byName = new Map<string, Column>()
  private readonly room: Room
  /** Of a wide table: the columns that were set since a row was added last, some more than once. */
  private listed: Column[] | undefined
  private addedLast = -1
  /** Columns that are not left. */
  private asked = 0

  /** @param room of all tables of a batch. */
  constructor(measurement: MeasurementRef | null, room = new Room()) {
    this.measurement = measurement
    this.room = room
  }

  /** Starts a row and returns its number. @throws INVALID_POINT when rows times fields are too many. */
  addRow(series: number, timeLow: number, timeHigh: number, position: number): number {
    const row = this.rows
    if (row === this.capacity) this.grow()
    this.series[row] = series
    this.time[row * 2] = timeLow
    this.time[row * 2 + 1] = timeHigh
    this.position[row] = position
    this.rows = row + 1
    this.addedLast = row
    if (this.listed !== undefined) this.listed.length = 0
    return row
  }

  /** Takes the last row back, with whatever columns it had set. Several are for `dropRows`. */
  dropRow(): void {
    const row = --this.rows
    for (const column of row === this.addedLast ? (this.listed ?? this.columns) : this.columns) column.cut(row)
  }

  /** Takes all rows back but the first `kept`. */
  dropRows(kept: number): void {
    if (this.rows <= kept) return
    this.rows = kept
    for (const column of this.columns) column.cut(kept)
  }

  find(name: string): Column | undefined {
    return this.byName.get(name)
  }

  /** @throws SCHEMA_ERROR when the field is known under another type. A column without values may be replaced by the one returned. */
  column(name: string, type: FieldType): Column {
    const known = this.byName.get(name)
    if (known !== undefined) {
      if (known.type === type) return known.left ? this.again(known) : known
      // Without a value it is left over from a row that was taken back, and binds nobody.
      if (known.next > 0) throw typeConflict(this.measurement?.name ?? '', name, known.type, type)
    }
    const declared = this.measurement?.fields.get(name)
    if (declared !== undefined && declared.type !== type) throw typeConflict(this.measurement?.name ?? '', name, declared.type, type)
    const { limits, columns, kept } = this.room
    if (known === undefined && columns - kept >= limits.fields) {
      throw new SvcError(
        'INVALID_POINT',
        `cannot hold more than ${limits.fields} fields of all measurements in one write; send smaller batches, or raise max_fields_per_write`,
      )
    }
    this.take(this.capacity - FIRST_CAPACITY, this.asked + 1, this.capacity)
    const column = new Column(name, type, this.capacity)
    if (known === undefined) this.room.columns++
    if (known === undefined || known.left) this.asked++
    column.place = known === undefined ? this.columns.length : known.place
    column.listed = this.listed
    this.columns[column.place] = column
    this.byName.set(name, column)
    if (this.listed === undefined && this.columns.length > WIDE) this.list()
    return column
  }

  /** Bytes that it takes, also when it is empty. */
  get reserved(): number {
    return this.columns.reduce((sum, { reserved }) => sum + reserved, this.series.length * ROW_BYTES)
  }

  /** As new, without its memory: decoders remember tables, too. */
  free(): void {
    for (const column of this.columns) column.free()
    this.room.columns -= this.columns.length
    this.columns.length = 0
    this.byName.clear()
    this.listed = undefined
    this.addedLast = -1
    this.rows = this.asked = 0
    this.capacity = FIRST_CAPACITY
    if (this.series.length === FIRST_CAPACITY) return
    this.series = new Int32Array(FIRST_CAPACITY)
    this.time = new Int32Array(FIRST_CAPACITY * 2)
    this.position = new Int32Array(FIRST_CAPACITY)
  }

  reset(): void {
    this.rows = this.asked = 0
    this.capacity = FIRST_CAPACITY
    // One that the last write did not set may have been of a refused type: forget it.
    let kept = 0
    for (const column of this.columns) {
      if (column.next === 0) this.byName.delete(column.name)
      else {
        column.reset()
        column.left = true
        column.place = kept
        this.columns[kept++] = column
      }
    }
    this.room.columns -= this.columns.length - kept
    this.columns.length = kept
    this.addedLast = -1
    if (this.listed !== undefined) this.listed.length = 0
  }

  private list(): void {
    this.listed = this.columns.filter(({ next }) => next === this.rows && next > 0)
    for (const column of this.columns) column.listed = this.listed
  }

  /** A column of an earlier write, with room for the rows there are. */
  private again(column: Column): Column {
    this.take(Math.max(0, this.capacity - column.capacity), this.asked + 1, this.capacity)
    column.grow(this.capacity)
    column.left = false
    this.asked++
    return column
  }

  /** Takes cells, so that there are so many columns of so many rows. @throws INVALID_POINT when the batch has no room for them. */
  private take(cells: number, columns: number, rows: number): void {
    const { room } = this
    if (room.cells + cells <= room.limits.cells) {
      room.cells += cells
      return
    }
    const name = this.measurement === null ? '' : ` of measurement "${this.measurement.name}"`
    throw new SvcError(
      'INVALID_POINT',
      `cannot hold ${columns} fields${name} for ${rows} points in one write; send fewer points at once, or fewer different fields, or raise max_cells_per_write`,
    )
  }

  private grow(): void {
    const capacity = this.capacity * 2
    const cells = this.columns.reduce((sum, column) => sum + (column.left ? 0 : Math.max(0, capacity - column.capacity)), 0)
    this.take(cells, this.asked, capacity)
    this.capacity = capacity
    for (const column of this.columns) if (!column.left) column.grow(capacity)
    if (this.series.length >= capacity) return
    this.series = copyInto(new Int32Array(capacity), this.series)
    this.time = copyInto(new Int32Array(capacity * 2), this.time)
    this.position = copyInto(new Int32Array(capacity), this.position)
  }
}

export class WriteBatch {
  namespace = ''
  readonly resolver: SeriesResolver
  readonly heap = new ByteHeap()
  readonly tables: TableBatch[] = []
  private byMeasurement = new Map<MeasurementRef, TableBatch>()
  /** Tables that were asked for since `begin`: there, and nowhere else, rows may have come. */
  readonly touched: TableBatch[] = []
  private last: TableBatch | undefined
  private anyMeasurement: TableBatch | undefined
  private part = 0
  private readonly room: Room

  constructor(resolver: SeriesResolver) {
    this.resolver = resolver
    this.room = new Room(resolver.writeLimits)
  }

  /** Begins a part of the batch, such as the rows of a message: `touched` is empty. */
  begin(): void {
    this.part++
    this.touched.length = 0
    this.last = undefined
  }

  get rows(): number {
    let rows = 0
    for (const table of this.tables) rows += table.rows
    return rows
  }

  table(measurement: MeasurementRef): TableBatch {
    if (this.last !== undefined && this.last.measurement === measurement) return this.last
    let table = this.byMeasurement.get(measurement)
    if (table === undefined) {
      table = new TableBatch(measurement, this.room)
      this.tables.push(table)
      this.byMeasurement.set(measurement, table)
    }
    this.last = table
    if (table.part !== this.part) this.touch(table)
    return table
  }

  /** A table for rows of any measurement, all with the same few fields: how metrics with one value travel without a table each. */
  mixed(): TableBatch {
    let table = this.anyMeasurement
    if (table === undefined) {
      table = this.anyMeasurement = new TableBatch(null, this.room)
      this.tables.push(table)
    }
    if (table.part !== this.part) this.touch(table)
    return table
  }

  private touch(table: TableBatch): void {
    table.part = this.part
    this.touched.push(table)
  }

  /** Adds text to the heap and returns its offset; its length in bytes is `heap.length - offset`. */
  text(value: string): number {
    const at = this.heap.reserve(value.length * 3)
    const { written } = encoder.encodeInto(value, this.heap.bytes.subarray(at))
    this.heap.length = at + written
    return at
  }

  reset(): void {
    const { heap, tables } = this
    heap.length = 0
    this.begin()
    this.room.cells = 0
    if (heap.bytes.length > KEPT_BYTES) heap.bytes = new Uint8Array(FIRST_HEAP)
    const isMany = tables.length > KEPT_TABLES
    const isWide = this.room.columns > Math.min(KEPT_COLUMNS, this.room.limits.fields)
    const isLarge = isMany || isWide || tables.reduce((sum, { reserved }) => sum + reserved, heap.bytes.length) > KEPT_BYTES
    for (const table of tables) isLarge ? table.free() : table.reset()
    this.room.kept = this.room.columns
    if (!isMany) return
    tables.length = 0
    this.anyMeasurement = undefined
    this.byMeasurement = new Map()
  }
}

export function bytesPerValue(type: FieldType): number {
  return type === 'bool' ? 1 : type === 'decimal' ? 16 : 8
}

export function typeConflict(measurement: string, field: string, existing: FieldType, given: FieldType): SvcError {
  return new SvcError(
    'SCHEMA_ERROR',
    `cannot write field "${field}" of measurement "${measurement}": it is of type ${existing}, the point has ${given}; write it as ${existing} or under another field name`,
  )
}

function copyInto<T extends Uint8Array | Int32Array>(target: T, source: T): T {
  target.set(source)
  return target
}

const EMPTY_BUFFER = new ArrayBuffer(0)
const EMPTY_U8 = new Uint8Array(0)
const EMPTY_F64 = new Float64Array(0)
const EMPTY_I32 = new Int32Array(0)
