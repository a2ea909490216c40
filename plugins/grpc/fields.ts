/**
 * The fields of a point, from where a reader stands into the columns of a row. Points of a measurement mostly have the same fields in the same order,
 * so that the column which comes next is tried before a name is looked up.
 */
import { isAscii } from 'node:buffer'
import type { FieldType } from 'svcdb'
import type { Column, TableBatch, WriteBatch } from 'svcdb/lib/columns'
import { SvcError } from 'svcdb/lib/errors'
import { checkHistogram, decodeHistogram, encodeHistogramInto, isStaleHistogram, staleHistogram } from 'svcdb/lib/histogram'
import { asciiText, DECIMAL, storeDecimal } from 'svcdb/lib/numbers'
import { type ProtobufReader, textOf } from 'svcdb/lib/protobuf'

const SHOWN = 64
/** Of a field, and of its value: one or two, and what later versions add. */
const MAX_MEMBERS = 64
/** First bytes of a point's `fields`, of their `key` and `value`, and of what is in those. */
const FIELD = 0x1a
const NAME = 0x0a
const VALUE = 0x12
const FLOAT64_TAG = 0x09
const INT64_TAG = 0x10
const UINT64_TAG = 0x18
const BOOLEAN_TAG = 0x20
const STRING_TAG = 0x2a
/** Lengths up to here take one byte, with all that is around them. */
const SHORT = 100
/** What an engine can be set to take at most (`database.max_string_bytes`). */
const MAX_STRING_BYTES = 16_777_216

const FLOAT64 = 1
const UINT64 = 3
const BOOLEAN = 4
const STRING = 5
const DECIMAL_TEXT = 6
const JSON_TEXT = 7
const HISTOGRAM = 8
const TYPES: readonly (FieldType | undefined)[] = [undefined, 'float64', 'int64', 'uint64', 'bool', 'string', 'decimal', undefined, 'histogram']

export class FieldReader {
  private readonly reader: ProtobufReader
  /** The column that comes next. */
  private place = 0

  constructor(reader: ProtobufReader) {
    this.reader = reader
  }

  /** Call it before the first field of a point. */
  begin(): void {
    this.place = 0
  }

  /**
   * Takes the next field if it is of the column that comes next, in the layout that encoders write and short
   * (points.bench.ts: twice as fast). False, and nothing taken, for any other.
   */
  expected(batch: WriteBatch, table: TableBatch, row: number): boolean {
    const { reader } = this
    const { bytes, at } = reader
    const column = table.columns[this.place]
    if (column === undefined || column.next === 0 || column.next > row) return false
    const name = column.nameBytes
    const { length } = name
    const value = at + length + 6
    if (length > SHORT || value > reader.end || bytes[at] !== FIELD || bytes[at + 2] !== NAME || bytes[at + 3] !== length) return false
    // The field's own length and that of its value say that there is nothing else in it.
    const size = bytes[value - 1]
    if (bytes[value - 2] !== VALUE || bytes[at + 1] !== length + 4 + size || size > SHORT || value + size > reader.end) return false
    for (let i = 0, from = at + 4; i < length; i++) if (bytes[from + i] !== name[i]) return false
    if (!this.simple(batch, column, row, value, size)) {
      reader.at = at
      return false
    }
    reader.at = value + size
    this.place++
    return true
  }

  /** Takes a value of the column's type in bytes [at, at + size); false for anything else. */
  private simple(batch: WriteBatch, column: Column, row: number, at: number, size: number): boolean {
    const { reader } = this
    const { bytes, view } = reader
    const tag = bytes[at]
    switch (column.type) {
      case 'float64':
        if (size !== 9 || tag !== FLOAT64_TAG) return false
        column.setPair(row, view.getInt32(at + 1, true), view.getInt32(at + 5, true))
        return true
      case 'int64':
      case 'uint64':
        if (tag !== (column.type === 'int64' ? INT64_TAG : UINT64_TAG)) return false
        reader.at = at + 1
        reader.varint()
        if (reader.at !== at + size) return false
        column.setPair(row, reader.low, reader.high)
        return true
      case 'bool':
        if (size !== 2 || tag !== BOOLEAN_TAG || bytes[at + 1] > 1) return false
        column.setBool(row, bytes[at + 1] === 1)
        return true
      case 'string':
        if (tag !== STRING_TAG || bytes[at + 1] !== size - 2) return false
        this.text(batch, column, row, at + 2, at + size)
        return true
      default:
        return false
    }
  }

  /** Takes the field whose number has been read. */
  field(batch: WriteBatch, table: TableBatch, row: number): void {
    const { reader } = this
    const { end } = reader
    let nameStart = 0
    let nameEnd = 0
    let valueStart = 0
    let valueEnd = 0
    for (let members = 1; reader.next(); members++) {
      if (members > MAX_MEMBERS) throw refused(`a field has more than ${MAX_MEMBERS} members`)
      if (reader.field === 1) {
        nameStart = reader.span()
        nameEnd = reader.at
      } else if (reader.field === 2) {
        valueStart = reader.span()
        valueEnd = reader.at
      } else reader.skip()
    }
    const known = this.known(table, nameStart, nameEnd)
    const name = known === undefined ? textOf(reader, nameStart, nameEnd, 'key of a field') : known.name
    reader.at = valueStart
    reader.end = valueEnd
    this.value(batch, table, row, name, known ?? table.find(name))
    reader.at = reader.end = end
  }

  /** The column that a name is of, if it is the one after the last: points of a measurement mostly have the same fields in the same order. */
  private known(table: TableBatch, start: number, end: number): Column | undefined {
    const { bytes } = this.reader
    const { columns } = table
    const first = this.place
    for (let place = first; place < first + 2 && place < columns.length; place++) {
      const { nameBytes } = columns[place]
      if (nameBytes.length !== end - start) continue
      let i = 0
      while (i < nameBytes.length && nameBytes[i] === bytes[start + i]) i++
      if (i === nameBytes.length) {
        this.place = place + 1
        return columns[place]
      }
    }
    return undefined
  }

  private value(batch: WriteBatch, table: TableBatch, row: number, name: string, known: Column | undefined): void {
    const { reader } = this
    let kind = 0
    let low = 0
    let high = 0
    // Of a oneof the last member counts.
    for (let members = 1; reader.next(); members++) {
      if (members > MAX_MEMBERS) throw refused(`field "${name.slice(0, SHOWN)}": its value has more than ${MAX_MEMBERS} members`)
      const { field } = reader
      if (field > HISTOGRAM) {
        reader.skip()
        continue
      }
      if (field === FLOAT64) reader.fixed64()
      else if (field <= BOOLEAN) reader.int64()
      else {
        reader.low = reader.span()
        reader.high = reader.at
      }
      kind = field
      low = reader.low
      high = reader.high
    }
    if (known?.has(row)) throw refused(`field "${name.slice(0, SHOWN)}" occurs twice`)
    const type = TYPES[kind]
    if (type === undefined) {
      const why = kind === JSON_TEXT ? 'json is a form of answers and cannot be written' : 'its value is empty'
      throw refused(`field "${name.slice(0, SHOWN)}": ${why}; set float64, int64, uint64, boolean, string, decimal or histogram`)
    }
    const column = known !== undefined && known.type === type && known.next > 0 ? known : table.column(name, type)
    if (kind <= UINT64) column.setPair(row, low, high)
    else if (kind === BOOLEAN) column.setBool(row, (low | high) !== 0)
    else if (kind === STRING) this.text(batch, column, row, low, high)
    else if (kind === DECIMAL_TEXT) this.decimal(column, row, name, low, high)
    else this.histogram(batch, column, row, name, low, high)
  }

  private text(batch: WriteBatch, column: Column, row: number, start: number, end: number): void {
    const { bytes } = this.reader
    const { heap } = batch
    if (end - start > MAX_STRING_BYTES) throw refused(`a string has ${end - start} bytes; one has at most ${MAX_STRING_BYTES}`)
    const at = heap.reserve(end - start)
    if (end - start > SHORT) {
      const text = bytes.subarray(start, end)
      heap.bytes.set(text, at)
      if (!isAscii(text)) textOf(this.reader, start, end, 'string')
      return column.setPair(row, at, end - start)
    }
    let all = 0
    for (let i = start, to = at; i < end; i++, to++) {
      const byte = bytes[i]
      heap.bytes[to] = byte
      all |= byte
    }
    if (all >= 0x80) textOf(this.reader, start, end, 'string')
    column.setPair(row, at, end - start)
  }

  /** What is stored is written anew: bytes from outside may have more than one form. */
  private histogram(batch: WriteBatch, column: Column, row: number, name: string, start: number, end: number): void {
    const { bytes } = this.reader
    const { heap } = batch
    if (isStaleHistogram(bytes, start, end)) {
      const stale = staleHistogram()
      const at = heap.reserve(stale.length)
      heap.bytes.set(stale, at)
      return column.setPair(row, at, stale.length)
    }
    const why = (cause: string) => refused(`field "${name.slice(0, SHOWN)}": ${cause}`)
    let decoded: ReturnType<typeof decodeHistogram>
    try {
      decoded = decodeHistogram(bytes, start, end)
    } catch (error) {
      throw why(`its bytes are no histogram: ${(error as Error).message}`)
    }
    const problem = checkHistogram(decoded)
    if (problem !== undefined) throw why(problem)
    const at = encodeHistogramInto(heap, decoded)
    column.setPair(row, at, heap.length - at)
  }

  private decimal(column: Column, row: number, name: string, start: number, end: number): void {
    const { bytes } = this.reader
    const text = asciiText(bytes, start, Math.min(end, start + SHOWN))
    if (end - start > SHOWN || !DECIMAL.test(text)) {
      throw refused(`field "${name.slice(0, SHOWN)}": "${text}" is not a decimal; write at most 38 digits with an optional sign and point`)
    }
    if (!storeDecimal(bytes, start, end, column, row)) throw refused(`field "${name.slice(0, SHOWN)}": a decimal has at most 38 digits`)
  }
}

/** @returns the error to throw: the point is left out. */
export function refused(cause: string): SvcError {
  return new SvcError('INVALID_POINT', `cannot write the point: ${cause}`)
}
