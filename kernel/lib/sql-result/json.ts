/**
 * A SQL result as JSON text (spec 001, "Value encoding by Arrow type"), one encoder a column, made from the column's type name.
 * Integers are written with all their digits, NaN and infinities as null, decimals as a string of digits, times as integers in the unit
 * that the type names.
 */
import { type CellText, cellTexts, doubleText } from './cells.ts'
import type { SqlChunk, SqlColumn, SqlVector } from './chunk.ts'
import { type ResultType, resultType, type SimpleName } from './type.ts'

/** JSON text of one value that is not null. */
export type Encode = (value: unknown) => string

/** @throws Error for a type name that is not one of `SqlColumn.type`. */
export function jsonEncoderOf(type: string): Encode {
  return encoderOf(resultType(type))
}

const integer: Encode = (value) => String(value)
const text: Encode = (value) => JSON.stringify(typeof value === 'string' ? value : String(value))
const float: Encode = (value) => doubleText(value as number)
/** Float32 values are written with the digits that bring the same Float32 back. */
const float32: Encode = (value) => {
  const number = value as number
  if (!Number.isFinite(number)) return 'null'
  for (let digits = 6; digits < 9; digits++) {
    const short = Number(number.toPrecision(digits))
    if (Math.fround(short) === number) return float(short)
  }
  return float(number)
}
const boolean: Encode = (value) => (value === true || value === 1 ? 'true' : 'false')
const binary: Encode = (value) => {
  const bytes = value as Uint8Array
  return `"${Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('base64')}"`
}
const interval: Encode = (value) => {
  const { months, days, nanoseconds } = value as { months: number; days: number; nanoseconds: bigint }
  return `{"months":${months},"days":${days},"nanoseconds":${nanoseconds}}`
}
const orNull =
  (encode: Encode): Encode =>
  (value) =>
    value === null || value === undefined ? 'null' : encode(value)

const decimal =
  (scale: number): Encode =>
  (value) => {
    if (typeof value === 'string') return `"${value}"`
    const unscaled = BigInt(value as bigint)
    const digits = String(unscaled < 0n ? -unscaled : unscaled).padStart(scale + 1, '0')
    const point = digits.length - scale
    return `"${unscaled < 0n ? '-' : ''}${digits.slice(0, point)}${scale > 0 ? `.${digits.slice(point)}` : ''}"`
  }

const SIMPLE: Record<SimpleName, Encode> = {
  Boolean: boolean,
  Utf8: text,
  Binary: binary,
  Interval: interval,
  Float64: float,
  Float32: float32,
  Null: () => 'null',
  Date32: integer,
  Int8: integer,
  Int16: integer,
  Int32: integer,
  Int64: integer,
  UInt8: integer,
  UInt16: integer,
  UInt32: integer,
  UInt64: integer,
}

function encoderOf(type: ResultType): Encode {
  switch (type.kind) {
    case 'simple':
      return SIMPLE[type.name]
    case 'decimal':
      return decimal(type.scale)
    case 'timestamp':
    case 'time':
      return integer
    case 'list': {
      const item = orNull(encoderOf(type.item))
      return (value) => `[${Array.from(value as ArrayLike<unknown>, item).join(',')}]`
    }
    case 'map': {
      const key = orNull(encoderOf(type.key))
      const inner = orNull(encoderOf(type.value))
      return (value) => `[${(value as { key: unknown; value: unknown }[]).map((entry) => `{"key":${key(entry.key)},"value":${inner(entry.value)}}`).join(',')}]`
    }
    case 'struct': {
      const members = type.members.map(({ name, type: member }) => ({ name, key: JSON.stringify(name), encode: orNull(encoderOf(member)) }))
      return (value) => `{${members.map(({ name, key, encode }) => `${key}:${encode((value as Record<string, unknown>)[name])}`).join(',')}}`
    }
  }
}

/** Writes rows, a chunk at a time. */
export class JsonRowEncoder {
  private readonly types: string[]
  private readonly encoders: Encode[]

  constructor(columns: readonly SqlColumn[]) {
    this.types = columns.map(({ type }) => type)
    this.encoders = columns.map(({ type }) => jsonEncoderOf(type))
  }

  /** Rows [from, to) as `[..],[..]`. */
  rows(chunk: SqlChunk, from: number, to: number): string {
    const texts = chunk.columns.map((vector, i) => textsOf(this.types[i], vector, this.encoders[i]))
    let out = ''
    for (let row = from; row < to; row++) {
      out += row === from ? '[' : ',['
      for (let i = 0; i < texts.length; i++) out += i === 0 ? texts[i](row) : `,${texts[i](row)}`
      out += ']'
    }
    return out
  }
}

function textsOf(type: string, vector: SqlVector, encode: Encode): CellText {
  const { values, validity } = vector
  const text = cellTexts(type, vector) ?? ((row) => (values[row] === null || values[row] === undefined ? 'null' : encode(values[row])))
  return validity === undefined ? text : (row) => (validity[row] === 0 ? 'null' : text(row))
}
