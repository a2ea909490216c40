/**
 * Values of a SQL result as SqlValue, one writer a column, made from the column's type name: native scalars where one exists, decimals as text,
 * times as integers in the unit that the type names, anything else as JSON text.
 */
import type { SqlChunk, SqlColumn, SqlVector } from 'svcdb'
import { decimalText } from 'svcdb/lib/numbers'
import type { ProtobufWriter } from 'svcdb/lib/protobuf'
import { jsonEncoderOf, resultType, type SimpleName } from 'svcdb/lib/sql-result'

type WriteValue = (writer: ProtobufWriter, value: unknown) => void

const IS_NULL = 6

const float: WriteValue = (writer, value) => writer.double(1, Number(value))
const integer: WriteValue = (writer, value) => bits(writer, 2, value)
const unsigned: WriteValue = (writer, value) => bits(writer, 3, value)
const boolean: WriteValue = (writer, value) => writer.int(4, value === true || value === 1 ? 1 : 0)
const text: WriteValue = (writer, value) => writer.string(5, typeof value === 'string' ? value : String(value))

const SIMPLE: Partial<Record<SimpleName, WriteValue>> = {
  Boolean: boolean,
  Utf8: text,
  Float64: float,
  Float32: float,
  Date32: integer,
  Int8: integer,
  Int16: integer,
  Int32: integer,
  Int64: integer,
  UInt8: unsigned,
  UInt16: unsigned,
  UInt32: unsigned,
  UInt64: unsigned,
}

const json = (type: string): WriteValue => {
  const encode = jsonEncoderOf(type)
  return (writer, value) => writer.string(8, encode(value))
}

/** The JSON of a native histogram; other bytes of such a column are base64. */
const histogram: WriteValue = (writer, value) => {
  const shown = String(value)
  writer.string(8, shown.startsWith('{') ? shown : JSON.stringify(shown))
}

const decimal =
  (scale: number): WriteValue =>
  (writer, value) =>
    writer.string(7, typeof value === 'string' ? value : decimalText(BigInt(value as bigint), scale))

function writerOf(name: string): WriteValue {
  const type = resultType(name)
  switch (type.kind) {
    case 'simple':
      return SIMPLE[type.name] ?? json(name)
    case 'timestamp':
    case 'time':
      return integer
    case 'decimal':
      return decimal(type.scale)
    default:
      return json(name)
  }
}

function bits(writer: ProtobufWriter, field: number, value: unknown): void {
  const big = BigInt(value as bigint | number)
  writer.int64(field, Number(BigInt.asIntN(32, big)), Number(BigInt.asIntN(32, big >> 32n)))
}

export class SqlRows {
  private readonly writers: readonly WriteValue[]

  constructor(columns: readonly SqlColumn[]) {
    this.writers = columns.map((column) => (column.histogram ? histogram : writerOf(column.type)))
  }

  /** Appends `SqlResponse.rows` for rows [0, to). */
  write(writer: ProtobufWriter, { columns }: SqlChunk, to: number): void {
    for (let row = 0; row < to; row++) {
      const mark = writer.open(2)
      for (let i = 0; i < columns.length; i++) {
        const value = writer.open(1)
        this.value(writer, columns[i], i, row)
        writer.close(value)
      }
      writer.close(mark)
    }
  }

  private value(writer: ProtobufWriter, { values, validity }: SqlVector, column: number, row: number): void {
    const value = validity !== undefined && validity[row] === 0 ? null : values[row]
    if (value === null || value === undefined) writer.int(IS_NULL, 1)
    else this.writers[column](writer, value)
  }
}
