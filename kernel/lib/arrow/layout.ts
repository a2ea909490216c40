/** The schema a client sends: how its columns lie in batches, and what they are once they are read. */
import { DateUnit, type IntervalUnit, type Precision, type TimeUnit, Type, UnionMode } from 'apache-arrow/enum'
import { Field, Schema } from 'apache-arrow/schema'
import {
  Binary,
  Bool,
  type DataType,
  Date_,
  Decimal,
  DenseUnion,
  Dictionary,
  Duration,
  FixedSizeBinary,
  FixedSizeList,
  Float,
  Int,
  Int32,
  Interval,
  List,
  Map_,
  Null,
  Struct,
  Time,
  Timestamp,
  Utf8,
} from 'apache-arrow/type'
import { SvcError } from '../errors/index.ts'
import { FlatTable } from './flatbuffer.ts'

/** A column, or a part of one. Text and bytes with long offsets or as views are read as plain ones, decimals of 32 and 64 bits as those of 128. */
export interface Layout {
  name: string
  /** How it lies in a batch: Arrow's `Type`; of dictionary-encoded columns that of the indices. */
  wire: number
  /** What it is read as. */
  type: DataType
  /** Bytes of a value with a fixed width. */
  width: number
  children: Layout[]
  dictionary: number | undefined
}

export interface DecodedSchema {
  schema: Schema
  columns: Layout[]
  /** What the dictionaries hold, by their numbers. */
  dictionaries: Map<number, Layout>
}

const SCHEMA = 1
export const DICTIONARY_BATCH = 2
export const RECORD_BATCH = 3
const V4 = 3
const NAMES = ['no message', 'a schema', 'a dictionary', 'a record batch', 'a tensor', 'a sparse tensor']

const MAX_DEPTH = 32
/** Tables of a schema for each of its columns: the field, its type, its dictionary, and what metadata says of it. */
const TABLES_PER_COLUMN = 32
/** Of a message that is no schema: few are known. */
const MESSAGE_TABLES = 16
/** A schema without columns, and what metadata says of all of them. */
const HEADER_BYTES = 1_048_576
/** A column's name, type and metadata in a schema, its lengths and buffers in a batch. */
const HEADER_BYTES_PER_COLUMN = 1024

export function refused(cause: string): SvcError {
  return new SvcError('BAD_REQUEST', `cannot read the Arrow data: ${cause}`)
}

/** What reading a corrupt header throws, as the caller's error. @param message number of it in its stream, from 1. */
export function guarded<T>(message: number, read: () => T): T {
  try {
    return read()
  } catch (error) {
    if (error instanceof RangeError) throw refused(`the header of message ${message} is corrupt: ${error.message}; send it as Arrow's libraries write it`)
    throw error
  }
}

interface MessageParts {
  kind: number
  table: FlatTable
  bodyLength: number
}

/** Reading a header is one turn of the event loop. @throws BAD_REQUEST for one that is larger than so many columns need. */
export function requireHeader(header: Uint8Array, maxColumns: number): void {
  const most = HEADER_BYTES + maxColumns * HEADER_BYTES_PER_COLUMN
  if (header.length > most) throw refused(`the header of a message has ${header.length} bytes, ${most} are the limit; send fewer columns, or less metadata`)
}

/** @throws BAD_REQUEST, RangeError: call it `guarded`. */
export function readMessage(header: Uint8Array, maxTables: number = MESSAGE_TABLES): MessageParts {
  const message = FlatTable.root(header, maxTables)
  const table = message.table(2)
  if (table === undefined) throw refused('a message has no header')
  if (message.int16(0) < V4) throw refused('it is of a metadata version before V4; update the client')
  return { kind: message.uint8(1), table, bodyLength: message.int64(3) }
}

/** @throws BAD_REQUEST */
export function expectKind(parts: MessageParts, kind: number): FlatTable {
  if (parts.kind !== kind) throw refused(`${NAMES[kind]} was expected, and ${NAMES[parts.kind] ?? 'something else'} came`)
  return parts.table
}

/** @param maxColumns with the members of nested ones. @throws BAD_REQUEST */
export function decodeSchema(header: Uint8Array, maxColumns: number): DecodedSchema {
  requireHeader(header, maxColumns)
  return guarded(1, () => new SchemaReader(maxColumns).read(expectKind(readMessage(header, MESSAGE_TABLES + maxColumns * TABLES_PER_COLUMN), SCHEMA)))
}

class SchemaReader {
  private readonly maxColumns: number
  private columns = 0
  private readonly dictionaries = new Map<number, Layout>()

  constructor(maxColumns: number) {
    this.maxColumns = maxColumns
  }

  read(schema: FlatTable): DecodedSchema {
    if (schema.int16(0) !== 0) throw refused('it is big-endian; send it in little-endian order')
    const tables = schema.tables(1)
    const columns = tables.map((field) => this.column(field, 0))
    const fields = columns.map(({ name, type }, i) => fieldOf(name, type, tables[i]))
    return { schema: new Schema(fields, metadataOf(schema, 2)), columns, dictionaries: this.dictionaries }
  }

  private column(field: FlatTable, depth: number): Layout {
    if (++this.columns > this.maxColumns) throw refused(`it has more than ${this.maxColumns} columns; send fewer`)
    if (depth > MAX_DEPTH) throw refused(`its columns are nested more than ${MAX_DEPTH} deep`)
    const name = field.text(0) ?? ''
    const value = this.plain(name, field, depth)
    const encoding = field.table(4)
    if (encoding === undefined) return value
    const id = encoding.int64(0)
    const indexType = encoding.table(1)
    const indices = indexType === undefined ? new Int32() : intType(name, indexType)
    const known = this.dictionaries.get(id)
    if (known !== undefined && (known.wire !== value.wire || String(known.type) !== String(value.type)))
      throw refused(`column "${name}" shares dictionary ${id} with one of another type`)
    // Arrow's library knows a dictionary again by the object that is its type.
    const values = known ?? value
    this.dictionaries.set(id, values)
    const type = new Dictionary(values.type, indices as never, id, encoding.uint8(2) === 1)
    return { name, wire: Type.Int, type, width: indices.bitWidth / 8, children: [], dictionary: id }
  }

  private plain(name: string, field: FlatTable, depth: number): Layout {
    const wire = field.uint8(2)
    const table = field.table(3)
    const tables = field.tables(5)
    const children = tables.map((child) => this.column(child, depth + 1))
    const childFields = children.map((child, i) => fieldOf(child.name, child.type, tables[i]))
    const one = (type: DataType, width = 0): Layout => ({ name, wire, type, width, children, dictionary: undefined })
    if (table === undefined) throw refused(`column "${name}" has no type`)
    const needs = (count: number): void => {
      if (children.length !== count) throw refused(`column "${name}" has ${children.length} parts where its type has ${count}`)
    }
    switch (wire) {
      case Type.Null:
        return one(new Null())
      case Type.Bool:
        return one(new Bool())
      case Type.Int: {
        const type = intType(name, table)
        return one(type, type.bitWidth / 8)
      }
      case Type.Float: {
        const precision = oneOf(name, table.int16(0), 2) as Precision
        return one(new Float(precision), 2 << precision)
      }
      case Type.Decimal:
        return decimal(one, name, table)
      case Type.Utf8:
      case Type.LargeUtf8:
      case Type.Utf8View:
        return one(new Utf8())
      case Type.Binary:
      case Type.LargeBinary:
      case Type.BinaryView:
        return one(new Binary())
      case Type.FixedSizeBinary: {
        const width = positive(name, table.int32(0))
        return one(new FixedSizeBinary(width), width)
      }
      case Type.Date: {
        const unit = oneOf(name, table.int16(0, DateUnit.MILLISECOND), 1) as DateUnit
        return one(new Date_(unit), unit === DateUnit.DAY ? 4 : 8)
      }
      case Type.Time: {
        const unit = oneOf(name, table.int16(0, 1), 3) as TimeUnit
        const bits = table.int32(1, 32)
        if (bits !== (unit < 2 ? 32 : 64)) throw refused(`column "${name}" is a time of ${bits} bits, which its unit does not have`)
        return one(new Time(unit as never, bits as never), bits / 8)
      }
      case Type.Timestamp:
        return one(new Timestamp(oneOf(name, table.int16(0), 3) as TimeUnit, table.text(1)), 8)
      case Type.Duration:
        return one(new Duration(oneOf(name, table.int16(0, 1), 3) as TimeUnit), 8)
      case Type.Interval: {
        const unit = oneOf(name, table.int16(0), 2) as IntervalUnit
        return one(new Interval(unit), [4, 8, 16][unit])
      }
      case Type.List:
      case Type.LargeList:
        needs(1)
        return one(new List(childFields[0]))
      case Type.FixedSizeList:
        needs(1)
        return one(new FixedSizeList(positive(name, table.int32(0)), childFields[0]))
      case Type.Struct:
        return one(new Struct(childFields))
      case Type.Map:
        needs(1)
        if (children[0].wire !== Type.Struct || children[0].children.length !== 2) throw refused(`column "${name}" is a map without keys and values`)
        return one(new Map_(childFields[0] as never, table.uint8(0) === 1))
      case Type.Union: {
        if (table.int16(0) !== UnionMode.Dense) throw refused(`column "${name}" is a sparse union; send a dense one`)
        const ids = table.ints(1)
        if (ids.length > 0) needs(ids.length)
        if (ids.some((id, i) => id < 0 || id > 127 || ids.indexOf(id) < i))
          throw refused(`column "${name}" is a union whose types have no numbers of their own`)
        return one(new DenseUnion(ids.length > 0 ? ids : [...children.keys()], childFields))
      }
      default:
        throw refused(`column "${name}" is of a type that is not supported (${wire} in Arrow's Schema.fbs); cast it, or leave it out`)
    }
  }
}

function decimal(one: (type: DataType, width: number) => Layout, name: string, table: FlatTable): Layout {
  const bits = table.int32(2, 128)
  if (![32, 64, 128, 256].includes(bits)) throw refused(`column "${name}" is a decimal of ${bits} bits`)
  return one(new Decimal(table.int32(1), table.int32(0), Math.max(bits, 128)), bits / 8)
}

function intType(name: string, table: FlatTable): Int {
  const bits = table.int32(0)
  if (![8, 16, 32, 64].includes(bits)) throw refused(`column "${name}" is an integer of ${bits} bits`)
  return new Int((table.uint8(1) === 1) as never, bits as never)
}

function oneOf(name: string, value: number, most: number): number {
  if (value < 0 || value > most) throw refused(`column "${name}" is of an unknown unit`)
  return value
}

function positive(name: string, size: number): number {
  if (size < 1) throw refused(`column "${name}" has values of fixed size ${size}`)
  return size
}

function fieldOf(name: string, type: DataType, table: FlatTable): Field {
  return new Field(name, type, table.uint8(1) === 1, metadataOf(table, 6))
}

function metadataOf(table: FlatTable, field: number): Map<string, string> {
  return new Map(table.tables(field).map((entry) => [entry.text(0) ?? '', entry.text(1) ?? '']))
}
