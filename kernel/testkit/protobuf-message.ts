/** For tests of decoders of protobuf: messages put together, and taken apart field by field without a shortcut (protobuf.dev, "Encoding"). */

/** A message under way. */
export class Message {
  private bytes = Buffer.alloc(256)
  private length = 0

  varint(value: number | bigint): this {
    let rest = BigInt.asUintN(64, BigInt(value))
    for (; rest > 127n; rest >>= 7n) this.byte(Number(rest & 127n) | 128)
    return this.byte(Number(rest))
  }

  int(field: number, value: number | bigint): this {
    return this.varint(field * 8).varint(value)
  }

  sint(field: number, value: number): this {
    return this.int(field, zigzag(value))
  }

  fixed(field: number, value: bigint): this {
    this.varint(field * 8 + 1).room(8)
    this.bytes.writeBigUInt64LE(BigInt.asUintN(64, value), this.length)
    this.length += 8
    return this
  }

  /** @param value a bigint is the bits of the double. */
  double(field: number, value: number | bigint): this {
    if (typeof value === 'bigint') return this.fixed(field, value)
    this.varint(field * 8 + 1).room(8)
    this.bytes.writeDoubleLE(value, this.length)
    this.length += 8
    return this
  }

  put(field: number, value: Uint8Array | string): this {
    const data = typeof value === 'string' ? Buffer.from(value) : value
    return this.varint(field * 8 + 2)
      .varint(data.length)
      .raw(data)
  }

  raw(data: Uint8Array): this {
    this.room(data.length)
    this.bytes.set(data, this.length)
    this.length += data.length
    return this
  }

  done(): Buffer {
    return Buffer.from(this.bytes.subarray(0, this.length))
  }

  private byte(b: number): this {
    this.room(1)
    this.bytes[this.length++] = b
    return this
  }

  private room(n: number): void {
    if (this.length + n <= this.bytes.length) return
    const grown = Buffer.alloc(Math.max(this.bytes.length * 2, this.length + n))
    grown.set(this.bytes)
    this.bytes = grown
  }
}

/** The number that the wire has for a value of type sint64. @param value a whole number, exact as a double. */
export function zigzag(value: number): bigint {
  const n = BigInt(value)
  return n < 0n ? -n * 2n - 1n : n * 2n
}

/** One field of a message, as the wire has it. */
export interface WireField {
  number: number
  wire: number
  /** Of varints and fixed64. */
  value: bigint
  /** Of what has a length. */
  bytes: Uint8Array
}

/** The fields one by one: what lies behind a value that is refused need not be looked at. @throws Error for what is no message. */
export function* walkFields(message: Uint8Array): Generator<WireField> {
  for (let at = 0; at < message.length; ) {
    const [field, next] = fieldAt(message, at, 0)
    if (field.wire === 4) throw new Error('a group ends that did not begin')
    yield field
    at = next
  }
}

function fieldAt(message: Uint8Array, start: number, depth: number): [WireField, number] {
  const [tag, after] = varintAt(message, start)
  if (tag > 0xffffffffn || tag >> 3n === 0n) throw new Error('field number')
  const field: WireField = { number: Number(tag >> 3n), wire: Number(tag & 7n), value: 0n, bytes: new Uint8Array(0) }
  const take = (length: number): number => {
    if (length > message.length - after) throw new Error('cut')
    return after + length
  }
  if (field.wire === 0) {
    const [value, next] = varintAt(message, after)
    return [{ ...field, value }, next]
  }
  if (field.wire === 1) {
    const end = take(8)
    return [{ ...field, value: Buffer.from(message.subarray(after, end)).readBigUInt64LE() }, end]
  }
  if (field.wire === 5) return [field, take(4)]
  if (field.wire === 2) {
    const [length, from] = varintAt(message, after)
    if (length > BigInt(message.length - from)) throw new Error('cut')
    return [{ ...field, bytes: message.subarray(from, from + Number(length)) }, from + Number(length)]
  }
  if (field.wire === 4) return [field, after]
  if (field.wire !== 3 || depth === 100) throw new Error('wire type')
  for (let at = after; ; ) {
    if (at >= message.length) throw new Error('a group does not end')
    const [inner, next] = fieldAt(message, at, depth + 1)
    at = next
    if (inner.wire === 4) return [field, at]
  }
}

/** The number at `start`, and where it ends. @throws Error */
export function varintAt(bytes: Uint8Array, start: number): [bigint, number] {
  let value = 0n
  for (let i = 0; i < 10; i++) {
    if (start + i >= bytes.length) throw new Error('cut')
    const b = bytes[start + i]
    if (i === 9 && b > 1) throw new Error('more than 64 bits')
    value |= BigInt(b & 0x7f) << BigInt(7 * i)
    if (b < 0x80) return [value, start + i + 1]
  }
  throw new Error('more than 64 bits')
}
