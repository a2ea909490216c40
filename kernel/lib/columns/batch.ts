/**
 * One write as columns, in order of arrival: what every decoder builds and every engine takes.
 *
 * A row belongs to a series (a number from `SeriesResolver`), has a time (nanoseconds, two 32-bit halves, low first) and sets some
 * columns. Buffers are reused: a batch belongs to its decoder until `write` is called, then to the storage, which empties it.
 * A row that turns out bad half-way is taken back with `dropRow`.
 */

import { SvcError } from '../errors/index.ts'
import { Column, copyInto } from './column.ts'
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
/** A table of so many cells (rows times columns) does not grow any more when fewer than one in `GAPS` has a value. */
const MANY_CELLS = 4096
const GAPS = 8
/** A measurement with more fields that are new does not get another table: whoever names ever new ones is refused while they are decoded. */
const MANY_NEW = 4096
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

/** Rows of one measurement, in order with those of its tables before, or (measurement null) rows of many measurements that all have just these fields. */
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
  /** Why it does not grow. So it stays until the batch is empty: no cells are given back before. To look at all columns for each row that is refused would be quadratic. */
  private full: unknown
  /** What was found when it was last looked whether it is crowded; undefined since rows were taken back, or there is more room. */
  private crowded: boolean | undefined

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
    this.crowded = undefined
    for (const column of row === this.addedLast ? (this.listed ?? this.columns) : this.columns) column.cut(row)
  }

  /** Takes all rows back but the first `kept`. */
  dropRows(kept: number): void {
    if (this.rows <= kept) return
    this.rows = kept
    this.crowded = undefined
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

  /** Whether the next row would make it grow although it is mostly gaps: rows that set few of very many fields would take many times what they hold. */
  get isCrowded(): boolean {
    return this.rows >= this.capacity && (this.crowded ??= this.isMostlyGaps())
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
    this.empty()
    if (this.series.length === FIRST_CAPACITY) return
    this.series = new Int32Array(FIRST_CAPACITY)
    this.time = new Int32Array(FIRST_CAPACITY * 2)
    this.position = new Int32Array(FIRST_CAPACITY)
  }

  reset(): void {
    this.empty()
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

  private isMostlyGaps(): boolean {
    const { rows, asked } = this
    if (rows * asked < MANY_CELLS || this.columns.some((column) => this.setsScale(column))) return false
    const values = this.columns.reduce((sum, column) => sum + column.values, rows)
    return rows * asked > GAPS * values
  }

  private empty(): void {
    this.rows = this.asked = 0
    this.capacity = FIRST_CAPACITY
    this.full = this.crowded = undefined
  }

  /** The scale of a new decimal is that of all rows of the write. */
  private setsScale({ type, name }: Column): boolean {
    return type === 'decimal' && this.measurement?.fields.has(name) === false
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
    if (this.full !== undefined) throw this.full
    const capacity = this.capacity * 2
    const cells = this.columns.reduce((sum, column) => sum + (column.left ? 0 : Math.max(0, capacity - column.capacity)), 0)
    try {
      this.take(cells, this.asked, capacity)
    } catch (error) {
      this.full = error
      throw error
    }
    this.capacity = capacity
    this.crowded = undefined
    for (const column of this.columns) if (!column.left) column.grow(capacity)
    if (this.series.length >= capacity) return
    this.series = copyInto(new Int32Array(capacity), this.series)
    this.time = copyInto(new Int32Array(capacity * 2), this.time)
    this.position = copyInto(new Int32Array(capacity), this.position)
  }
}

/** Rows of one write, by table and in columns. It belongs to the storage: the ingest gate lends it out, and it is used again. */
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
  /** Some measurement has several tables. */
  private isDivided = false
  /** Of those measurements: fields that they do not have yet. */
  private readonly fresh = new Map<MeasurementRef, Set<string>>()
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

  /**
   * The table for the next row of a measurement: another one once the last is mostly gaps. A decoder that keeps the table asks again where `isCrowded`. For rows
   * that set whatever fields a client names; `table` is for those whose fields are known.
   * @throws INVALID_POINT when more than 4096 of them are new.
   */
  tableForRow(measurement: MeasurementRef): TableBatch {
    const last = this.table(measurement)
    if (!last.isCrowded) return last
    if (this.newFields(last).size > MANY_NEW) throw tooManyNew(measurement.name)
    const table = new TableBatch(measurement, this.room)
    this.tables.push(table)
    this.byMeasurement.set(measurement, table)
    this.isDivided = true
    this.last = table
    this.touch(table)
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

  /** New fields of the measurement in its tables so far; once they are too many nobody looks for more. */
  private newFields({ measurement, columns }: TableBatch): ReadonlySet<string> {
    const ref = measurement as MeasurementRef
    let names = this.fresh.get(ref)
    if (names === undefined) this.fresh.set(ref, (names = new Set()))
    if (names.size <= MANY_NEW) for (const { name, left } of columns) if (!left && !ref.fields.has(name)) names.add(name)
    return names
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
    this.fresh.clear()
    this.room.cells = 0
    if (heap.bytes.length > KEPT_BYTES) heap.bytes = new Uint8Array(FIRST_HEAP)
    const isMany = tables.length > KEPT_TABLES || this.isDivided
    const isWide = this.room.columns > Math.min(KEPT_COLUMNS, this.room.limits.fields)
    const isLarge = isMany || isWide || tables.reduce((sum, { reserved }) => sum + reserved, heap.bytes.length) > KEPT_BYTES
    for (const table of tables) isLarge ? table.free() : table.reset()
    this.room.kept = this.room.columns
    if (!isMany) return
    tables.length = 0
    this.isDivided = false
    this.anyMeasurement = undefined
    this.byMeasurement = new Map()
  }
}

function tooManyNew(measurement: string): SvcError {
  return new SvcError(
    'INVALID_POINT',
    `cannot hold more than ${MANY_NEW} new fields of measurement "${measurement}" in one write, of points that each set few of them; send fewer points at once, or fewer different fields`,
  )
}

/** The SCHEMA_ERROR for a value of another type than its field has. */
export function typeConflict(measurement: string, field: string, existing: FieldType, given: FieldType): SvcError {
  return new SvcError(
    'SCHEMA_ERROR',
    `cannot write field "${field}" of measurement "${measurement}": it is of type ${existing}, the point has ${given}; write it as ${existing} or under another field name`,
  )
}
