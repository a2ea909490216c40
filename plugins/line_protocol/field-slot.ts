/** What the parser remembers of a measurement and its fields from line to line. */
import type { FieldType, MeasurementRef } from 'svcdb'
import type { Column, TableBatch, WriteBatch } from 'svcdb/lib/columns'
import { asciiText } from 'svcdb/lib/numbers'

/** Field types as small integers, so that the check per value is one compare. */
export const FLOAT = 0
export const INT = 1
export const UINT = 2
export const BOOL = 3
export const STRING = 4
export const DECIMAL = 5
export const TYPES: readonly FieldType[] = ['float64', 'int64', 'uint64', 'bool', 'string', 'decimal']

/** Forms of field names kept by a measurement; a sender of ever new names must not grow the map without end. */
const MAX_SLOTS = 4096
/** Of all measurements, that a parser keeps for the next write: each takes a kilobyte. */
export const KEPT_SLOTS = 2 ** 14

/** One way of writing a field's name, and the column its values go to. */
export class FieldSlot {
  readonly name: string
  /** The name as written, escapes and the equals sign included: equal bytes mean the same field. */
  readonly raw: Uint8Array
  /** The first raw.length / 4 words of `raw`, little endian. */
  readonly words: Int32Array
  column: Column | undefined
  /** Type of `column`, or -1. */
  kind = -1
  /** The parse that `column` belongs to. */
  serial = -1

  constructor(name: string, raw: Uint8Array) {
    this.name = name
    this.raw = raw
    const view = new DataView(raw.buffer, raw.byteOffset, raw.byteLength)
    this.words = Int32Array.from({ length: raw.length >> 2 }, (_, i) => view.getInt32(i * 4, true))
  }
}

export class MeasurementState {
  readonly ref: MeasurementRef
  table: TableBatch | undefined
  /** The parse that `table` belongs to. */
  serial = -1
  /** The fields of the last line in its order: the prediction for the next. */
  order: FieldSlot[] = []
  private readonly slots = new Map<string, FieldSlot>()

  private readonly name: Uint8Array

  constructor(ref: MeasurementRef) {
    this.ref = ref
    this.name = Buffer.from(ref.name)
  }

  /** Whether the series key in bytes[start, end) begins with the name as it is, then ends or goes on with a comma. */
  isNamed(bytes: Uint8Array, start: number, end: number): boolean {
    const { name } = this
    const after = start + name.length
    if (after > end || (after < end && bytes[after] !== 44)) return false
    for (let i = 0; i < name.length; i++) if (bytes[start + i] !== name[i]) return false
    return true
  }

  /** The slot of the raw name in bytes[start, end), the equals sign last. */
  find(bytes: Uint8Array, start: number, end: number): FieldSlot | undefined {
    return this.slots.get(asciiText(bytes, start, end))
  }

  add(name: string, bytes: Uint8Array, start: number, end: number): FieldSlot {
    if (this.slots.size >= MAX_SLOTS) this.slots.clear()
    const slot = new FieldSlot(name, bytes.slice(start, end))
    this.slots.set(asciiText(bytes, start, end), slot)
    return slot
  }

  /** Takes the table for the next row. @returns the number of the parse from now on: another one where bound fields have columns of the table before. */
  open(batch: WriteBatch, serial: number): number {
    const table = batch.tableForRow(this.ref)
    this.serial = this.serial === serial && table !== this.table ? serial + 1 : serial
    this.table = table
    return this.serial
  }

  /** Knows no field any more. */
  clear(): void {
    this.slots.clear()
    this.order.length = 0
    this.table = undefined
    this.serial = -1
  }
}
