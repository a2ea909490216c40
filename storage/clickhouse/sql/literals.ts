/** Literals. No text of a caller stands in a statement as it is: what is not plainly letters and digits goes as the hexadecimal digits of its bytes. */
import { clickHouseType, type Range, raise, type SqlType } from './types.ts'

const PLAIN_TEXT = /^[A-Za-z0-9_ .:/-]*$/
const SMALL_INTEGER = /^-?\d{1,15}$/

export function textLiteral(text: string): string {
  if (PLAIN_TEXT.test(text)) return `'${text}'`
  return bytesLiteral(Buffer.from(text))
}

function bytesLiteral(bytes: Uint8Array): string {
  return `unhex('${Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('hex')}')`
}

export function integerLiteral(value: bigint, type: string): string {
  return SMALL_INTEGER.test(String(value)) && type !== 'Int128' && type !== 'Int256' ? `to${type}(${value})` : `to${type}('${value}')`
}

/** By its bits, where its digits could be read as another number. */
export function floatLiteral(value: number, type: 'Float64' | 'Float32'): string {
  if (Number.isInteger(value) && Math.abs(value) < 2 ** 24 && !Object.is(value, -0)) return `to${type}(${value})`
  const view = new DataView(new ArrayBuffer(8))
  view.setFloat64(0, value)
  const bits = `reinterpretAsFloat64(toUInt64('${view.getBigUint64(0)}'))`
  return type === 'Float64' ? bits : `toFloat32(${bits})`
}

interface Constant {
  text: string
  /** undefined = NULL. */
  value: bigint | number | string | boolean | undefined
  range?: Range
}

/** @param value of a constant in a plan. */
export function constantOf(value: { is_null?: boolean; value?: unknown }, type: SqlType): Constant {
  const name = type.id === 'INTERVAL' ? '' : clickHouseType(type)
  if (value.is_null === true) return { text: `CAST(NULL AS Nullable(${name}))`, value: undefined }
  const given = value.value
  switch (type.id) {
    case 'BOOLEAN':
      return { text: given === true ? 'toUInt8(1)' : 'toUInt8(0)', value: given === true }
    case 'VARCHAR':
      return { text: textLiteral(String(given ?? '')), value: String(given ?? '') }
    case 'DOUBLE':
    case 'FLOAT': {
      const number = Number(given ?? 0)
      return { text: floatLiteral(number, name as 'Float64'), value: number }
    }
    case 'BLOB':
      return raise('constants of bytes')
    case 'INTERVAL': {
      const { months = 0, days = 0, micros = 0 } = given as { months?: number; days?: number; micros?: number | string }
      return { text: '', value: JSON.stringify([Number(months), Number(days), String(micros)]) }
    }
    default: {
      const integer = integerOf(given)
      return { text: integerLiteral(integer, name), value: integer, range: [integer, integer] }
    }
  }
}

/** 128 bits come as two halves. */
export function integerOf(given: unknown): bigint {
  if (given === undefined) return 0n
  if (typeof given !== 'object' || given === null) return BigInt(given as string | number)
  const { upper = 0, lower = 0 } = given as { upper?: string | number; lower?: string | number }
  return (BigInt(upper) << 64n) + BigInt.asUintN(64, BigInt(lower))
}
