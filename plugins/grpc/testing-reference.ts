/** The points of a write by a plain decoder, with an object for everything: what the fuzzer compares with. protobuf.dev, "Encoding". */
import { checkHistogram, decodeHistogram, encodeHistogram, isStaleHistogram, staleHistogram } from 'svcdb/lib/histogram'
import type { DecodedPoint } from 'svcdb/testkit'

class Malformed extends Error {}

interface WireField {
  number: number
  wire: number
  /** Of varints and fixed-width values their bits; of others their bytes. */
  value: bigint
  bytes: Buffer
}

const MAX_GROUPS = 100

/** The fields of a message. @throws Malformed */
function fieldsOf(bytes: Buffer): WireField[] {
  let at = 0
  const varint = (): bigint => {
    let value = 0n
    for (let shift = 0n; ; shift += 7n) {
      if (at >= bytes.length || shift > 63n) throw new Malformed('varint')
      const byte = bytes[at++]
      if (shift === 63n && byte > 1) throw new Malformed('varint of more than 64 bits')
      value |= BigInt(byte & 0x7f) << shift
      if (byte < 0x80) return value
    }
  }
  const take = (length: number): Buffer => {
    if (length > bytes.length - at) throw new Malformed('cut')
    at += length
    return bytes.subarray(at - length, at)
  }
  const field = (depth: number): WireField | undefined => {
    const tag = varint()
    const number = Number(tag >> 3n)
    if (tag >= 2n ** 32n || number === 0) throw new Malformed('field number')
    const wire = Number(tag & 7n)
    if (wire === 0) return { number, wire, value: varint(), bytes: Buffer.alloc(0) }
    if (wire === 1) return { number, wire, value: take(8).readBigUInt64LE(), bytes: bytes.subarray(at - 8, at) }
    if (wire === 5) return { number, wire, value: BigInt(take(4).readUInt32LE()), bytes: bytes.subarray(at - 4, at) }
    if (wire === 2) {
      const length = varint()
      if (length > BigInt(bytes.length)) throw new Malformed('length')
      return { number, wire, value: 0n, bytes: take(Number(length)) }
    }
    if (wire === 4) return undefined
    if (wire !== 3 || depth === MAX_GROUPS) throw new Malformed('wire type')
    const start = at
    while (field(depth + 1) !== undefined);
    return { number, wire, value: 0n, bytes: bytes.subarray(start, at) }
  }
  const fields: WireField[] = []
  while (at < bytes.length) {
    const next = field(0)
    if (next === undefined) throw new Malformed('end of a group that did not begin')
    fields.push(next)
  }
  return fields
}

function expect(field: WireField, wire: number): WireField {
  if (field.wire !== wire) throw new Malformed('wire type of a known field')
  return field
}

function text(field: WireField): string {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(expect(field, 2).bytes)
  } catch {
    throw new Malformed('UTF-8')
  }
}

type Value = DecodedPoint['fields'][string] | undefined

export type ReferencePoint = DecodedPoint | 'malformed' | 'refused'

/** Each point as it is to be stored, or why it is not; undefined when the message itself is none. */
export function referencePoints(message: Uint8Array, now: bigint): ReferencePoint[] | undefined {
  const types = new Map<string, string>()
  try {
    const points = fieldsOf(Buffer.from(message)).filter(({ number }) => number === 1)
    return points.map((field, position) => {
      try {
        return point(expect(field, 2).bytes, position, now, types)
      } catch (error) {
        if (error instanceof Malformed) return 'malformed'
        throw error
      }
    })
  } catch (error) {
    if (error instanceof Malformed) return undefined
    throw error
  }
}

function point(bytes: Buffer, position: number, now: bigint, types: Map<string, string>): ReferencePoint {
  let measurement = ''
  let time = 0n
  let refused = false
  const tags: [string, string][] = []
  const fields: [string, Value][] = []
  for (const field of fieldsOf(bytes)) {
    if (field.number === 1) measurement = text(field)
    else if (field.number === 2) tags.push(tag(expect(field, 2).bytes))
    else if (field.number === 3) fields.push(entry(expect(field, 2).bytes))
    else if (field.number === 4) time = BigInt.asIntN(64, expect(field, 0).value)
  }
  if (new Set(tags.map(([key]) => key)).size < tags.length || new Set(fields.map(([key]) => key)).size < fields.length || fields.length === 0) refused = true
  const own = new Map<string, string>()
  for (const [key, value] of fields) {
    if (value === undefined) return 'refused'
    own.set(JSON.stringify([measurement, key]), typeOf(value))
  }
  for (const [key, type] of own) if ((types.get(key) ?? type) !== type) refused = true
  if (refused) return 'refused'
  for (const [key, type] of own) types.set(key, type)
  const present = tags.filter(([, value]) => value !== '').sort(([a], [b]) => (a < b ? -1 : 1))
  const values = fields.map(([key, value]) => [key, value instanceof Unsigned ? value.value : value])
  return { position, measurement, tags: Object.fromEntries(present), time: time === 0n ? now : time, fields: Object.fromEntries(values) }
}

/** Both are bigint as a value, and different types. */
class Unsigned {
  readonly value: bigint

  constructor(value: bigint) {
    this.value = value
  }
}

function typeOf(value: unknown): string {
  if (typeof value !== 'object' || value === null) return typeof value
  return value instanceof Unsigned ? 'uint64' : Object.keys(value)[0]
}

function tag(bytes: Buffer): [string, string] {
  let key = ''
  let value = ''
  for (const field of fieldsOf(bytes)) {
    if (field.number === 1) key = text(field)
    else if (field.number === 2) value = text(field)
  }
  return [key, value]
}

/** Of members that come more than once the last one counts, and only that has to be UTF-8. */
function entry(bytes: Buffer): [string, Value] {
  const fields = fieldsOf(bytes)
  const last = (number: number): WireField | undefined => {
    const found = fields.filter((field) => field.number === number)
    for (const field of found) expect(field, 2)
    return found.at(-1)
  }
  const key = last(1)
  const value = last(2)
  return [key === undefined ? '' : text(key), value === undefined ? undefined : fieldValue(value.bytes)]
}

const WIRE_TYPES = [-1, 1, 0, 0, 0, 2, 2, 2, 2]

/** undefined: none that can be written. */
function fieldValue(bytes: Buffer): Value {
  const members = fieldsOf(bytes).filter(({ number }) => number < WIRE_TYPES.length)
  for (const field of members) expect(field, WIRE_TYPES[field.number])
  const field = members.at(-1)
  switch (field?.number) {
    case 1:
      return field.bytes.readDoubleLE()
    case 2:
      return BigInt.asIntN(64, field.value)
    case 3:
      return new Unsigned(field.value) as unknown as Value
    case 4:
      return field.value !== 0n
    case 5:
      return text(field)
    case 6:
      return decimal(field.bytes.toString('latin1'))
    case 8:
      return histogram(field.bytes)
    default:
      return undefined
  }
}

function histogram(bytes: Buffer): Value {
  if (isStaleHistogram(bytes)) return { histogram: Buffer.from(staleHistogram()).toString('hex') }
  try {
    const decoded = decodeHistogram(bytes)
    return checkHistogram(decoded) === undefined ? { histogram: Buffer.from(encodeHistogram(decoded)).toString('hex') } : undefined
  } catch {
    return undefined
  }
}

function decimal(given: string): Value {
  if (given.length > 64 || !/^[+-]?(?:\d+\.?\d*|\.\d+)$/.test(given)) return undefined
  const [whole, fraction = ''] = given.replace(/^[+-]/, '').split('.')
  const digits = `${whole}${fraction}`.replace(/^0+/, '')
  if (digits.length > 38 || fraction.length > 38) return undefined
  const body = `${whole.replace(/^0+(?=.)/, '') || '0'}${fraction === '' ? '' : `.${fraction}`}`
  return { decimal: given.startsWith('-') && digits !== '' ? `-${body}` : body }
}
