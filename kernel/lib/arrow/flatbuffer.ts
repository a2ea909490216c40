/**
 * Reads flatbuffers that came from the network. Whatever points outside ends in a RangeError that says where, so that nothing is read out of
 * bounds; vectors are checked against the bytes that are there, so that no length makes a loop without end; and what is read in all is bounded,
 * because a few bytes can be referred to from many places: so are the tables, each of which costs far more than the four bytes that refer to it.
 */

const MAX_OFFSET = 2 ** 31
/** A message that shares nothing is read about once; more than this often, it is made to take memory. */
const MAX_READINGS = 4

interface Budget {
  bytes: number
  tables: number
}

export class FlatTable {
  private readonly view: DataView
  private readonly budget: Budget
  private readonly at: number
  private readonly vtable: number
  private readonly vtableSize: number

  private constructor(view: DataView, budget: Budget, at: number) {
    this.view = view
    this.budget = budget
    if (--budget.tables < 0) throw new RangeError('it has more parts than are allowed; send fewer columns, or less metadata with them')
    if (isOutside(view, at, 4)) throw outside(view, at, 'a table')
    this.at = at
    this.vtable = at - view.getInt32(at, true)
    this.vtableSize = isOutside(view, this.vtable, 4) ? Number.POSITIVE_INFINITY : view.getUint16(this.vtable, true)
    if (isOutside(view, this.vtable, this.vtableSize)) throw outside(view, this.vtable, `the list of fields of the table at byte ${at}`)
  }

  /** @param maxTables that are read of the message in all. */
  static root(bytes: Uint8Array, maxTables: number): FlatTable {
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
    if (isOutside(view, 0, 4)) throw outside(view, 0, 'the reference to its first table')
    return new FlatTable(view, { bytes: MAX_READINGS * bytes.length, tables: maxTables }, view.getUint32(0, true))
  }

  uint8(field: number, otherwise = 0): number {
    const at = this.place(field, 1)
    return at === 0 ? otherwise : this.view.getUint8(at)
  }

  int16(field: number, otherwise = 0): number {
    const at = this.place(field, 2)
    return at === 0 ? otherwise : this.view.getInt16(at, true)
  }

  int32(field: number, otherwise = 0): number {
    const at = this.place(field, 4)
    return at === 0 ? otherwise : this.view.getInt32(at, true)
  }

  /** @throws RangeError beyond the integers that a number holds. */
  int64(field: number): number {
    const at = this.place(field, 8)
    return at === 0 ? 0 : longAt(this.view, at)
  }

  table(field: number): FlatTable | undefined {
    const at = this.place(field, 4)
    return at === 0 ? undefined : new FlatTable(this.view, this.budget, this.target(at))
  }

  tables(field: number): FlatTable[] {
    const { start, count } = this.vector(field, 4)
    return Array.from({ length: count }, (_, i) => new FlatTable(this.view, this.budget, this.target(start + 4 * i)))
  }

  text(field: number): string | undefined {
    const at = this.place(field, 4)
    if (at === 0) return undefined
    const { start, count } = this.vector(field, 1)
    return Buffer.from(this.view.buffer as ArrayBuffer, this.view.byteOffset + start, count).toString()
  }

  /** A vector of 32-bit integers. */
  ints(field: number): number[] {
    const { start, count } = this.vector(field, 4)
    return Array.from({ length: count }, (_, i) => this.view.getInt32(start + 4 * i, true))
  }

  /** A vector of 64-bit integers, or of structs made of them. @param width integers of an element. */
  longs(field: number, width: number): number[] {
    const { start, count } = this.vector(field, 8 * width)
    return Array.from({ length: count * width }, (_, i) => longAt(this.view, start + 8 * i))
  }

  private vector(field: number, elementSize: number): { start: number; count: number } {
    const at = this.place(field, 4)
    if (at === 0) return { start: 0, count: 0 }
    const start = this.target(at) + 4
    if (isOutside(this.view, start - 4, 4)) throw outside(this.view, start - 4, `the vector of ${this.name(field)}`)
    const count = this.view.getUint32(start - 4, true)
    if (count * elementSize > this.view.byteLength - start)
      throw new RangeError(`the vector of ${this.name(field)} has ${count} elements, and the header ends before them`)
    this.budget.bytes -= count * elementSize
    if (this.budget.bytes < 0) throw new RangeError('its parts are referred to too often')
    return { start, count }
  }

  /** References point forward: what a table refers to is never a table before it, so that no reading goes in circles. */
  private target(at: number): number {
    const offset = this.view.getUint32(at, true)
    if (offset === 0 || offset >= MAX_OFFSET) throw new RangeError(`the reference at byte ${at} leads nowhere`)
    return at + offset
  }

  /** Where the value of a field lies, of so many bytes; 0 where the table has none. */
  private place(field: number, size: number): number {
    const slot = 4 + 2 * field
    if (slot + 2 > this.vtableSize) return 0
    const offset = this.view.getUint16(this.vtable + slot, true)
    if (offset === 0) return 0
    if (isOutside(this.view, this.at + offset, size)) throw outside(this.view, this.at + offset, this.name(field))
    return this.at + offset
  }

  private name(field: number): string {
    return `field ${field} of the table at byte ${this.at}`
  }
}

function isOutside(view: DataView, at: number, size: number): boolean {
  return at < 0 || at + size > view.byteLength
}

function outside(view: DataView, at: number, what: string): RangeError {
  return new RangeError(`${what} lies at byte ${at} of ${view.byteLength} and is not wholly there`)
}

function longAt(view: DataView, at: number): number {
  const value = view.getInt32(at + 4, true) * 2 ** 32 + view.getUint32(at, true)
  if (!Number.isSafeInteger(value)) throw new RangeError(`the integer at byte ${at} is too large`)
  return value
}
