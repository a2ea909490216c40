/** Values of protobuf fields as ProtoJSON writes them. Pure; all of them throw BAD_REQUEST naming the member. */
import { SvcError } from 'svcdb/lib/errors'

export function textOf(value: unknown, path: string): string {
  if (typeof value !== 'string') throw wrong(path, 'a string')
  return value
}

export function truthOf(value: unknown, path: string): boolean {
  if (typeof value !== 'boolean') throw wrong(path, 'true or false')
  return value
}

/** Numbers, numbers as strings, and what JSON has no numbers for. */
export function doubleOf(value: unknown, path: string): number {
  if (typeof value === 'number') return value
  if (typeof value === 'bigint') return Number(value)
  if (typeof value === 'string') {
    if (value === 'NaN') return Number.NaN
    if (value === 'Infinity') return Number.POSITIVE_INFINITY
    if (value === '-Infinity') return Number.NEGATIVE_INFINITY
    if (/^-?\d+(\.\d+)?([eE][+-]?\d+)?$/.test(value)) return Number(value)
  }
  throw wrong(path, 'a number')
}

/** A 64-bit integer: a number, or a string of digits. */
export function bigOf(value: unknown, path: string, signed: boolean): bigint {
  let big: bigint | undefined
  if (typeof value === 'bigint') big = value
  else if (typeof value === 'number' && Number.isInteger(value)) big = BigInt(value)
  else if (typeof value === 'string' && /^-?\d{1,20}$/.test(value)) big = BigInt(value)
  const fits = big !== undefined && (signed ? BigInt.asIntN(64, big) === big : BigInt.asUintN(64, big) === big)
  if (!fits) throw wrong(path, signed ? 'a 64-bit integer' : 'a 64-bit integer that is not negative')
  return big as bigint
}

/** Low and high half of a 64-bit integer. */
export function halvesOf(value: unknown, path: string, signed: boolean): { low: number; high: number } {
  const big = bigOf(value, path, signed)
  return { low: Number(BigInt.asIntN(32, big)), high: Number(BigInt.asIntN(32, big >> 32n)) }
}

export function intOf(value: unknown, path: string, from: number, to: number): number {
  const number = typeof value === 'string' && /^-?\d{1,10}$/.test(value) ? Number(value) : value
  if (typeof number !== 'number' || !Number.isInteger(number) || number < from || number > to) throw wrong(path, `an integer from ${from} to ${to}`)
  return number
}

/** A number, or one of the names, with or without their prefix. */
export function enumOf(value: unknown, path: string, prefix: string, names: readonly string[]): number {
  if (typeof value === 'number' && Number.isInteger(value) && value >= 0 && value < 2 ** 31) return value
  const found = typeof value === 'string' ? names.indexOf(value.startsWith(prefix) ? value.slice(prefix.length) : value) : -1
  if (found < 0) throw wrong(path, `a number or one of ${names.map((name) => prefix + name).join(', ')}`)
  return found
}

/** Base64, of either alphabet. */
export function bytesOf(value: unknown, path: string): Uint8Array {
  if (typeof value !== 'string' || !/^[A-Za-z0-9+/_-]*={0,2}$/.test(value)) throw wrong(path, 'base64')
  return Buffer.from(value, 'base64')
}

function wrong(path: string, wanted: string): SvcError {
  return new SvcError('BAD_REQUEST', `cannot read the JSON message: ${path.slice(0, 256)} is not ${wanted}`)
}
