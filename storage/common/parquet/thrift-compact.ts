/**
 * Thrift's compact protocol, as much as a Parquet footer needs: structs are read as they stand, field by field, and written back without knowing
 * their meaning, so that unknown members survive. Spec: thrift doc/specs/thrift-compact-protocol.md.
 */

export const ThriftType = { TRUE: 1, FALSE: 2, BYTE: 3, I16: 4, I32: 5, I64: 6, DOUBLE: 7, BINARY: 8, LIST: 9, SET: 10, MAP: 11, STRUCT: 12 } as const

/** A list's `type` is that of its items. Integers are bigint, so that none loses digits. */
type ThriftValue = boolean | bigint | Uint8Array | ThriftList | ThriftStruct
export interface ThriftList {
  type: number
  items: ThriftValue[]
}
export interface ThriftField {
  id: number
  type: number
  value: ThriftValue
}
export type ThriftStruct = ThriftField[]

const MAX_DEPTH = 32
const DOUBLE_BYTES = 8

/** @throws RangeError for bytes that are no struct. */
export function readStruct(bytes: Uint8Array): ThriftStruct {
  return new Reader(bytes).struct(0)
}

export function writeStruct(struct: ThriftStruct): Uint8Array {
  const writer = new Writer()
  writer.struct(struct)
  return writer.take()
}

/** A struct with one list whose items are written already. */
export function writeWithList(struct: ThriftStruct, id: number, itemType: number, items: readonly Uint8Array[]): Uint8Array {
  const writer = new Writer()
  writer.struct(struct, { id, itemType, items })
  return writer.take()
}

export function fieldOf(struct: ThriftStruct, id: number): ThriftField | undefined {
  return struct.find((field) => field.id === id)
}

class Reader {
  private readonly bytes: Uint8Array
  private at = 0

  constructor(bytes: Uint8Array) {
    this.bytes = bytes
  }

  struct(depth: number): ThriftStruct {
    if (depth > MAX_DEPTH) throw new RangeError('cannot read a thrift struct: it is nested too deeply')
    const out: ThriftStruct = []
    let id = 0
    for (;;) {
      const head = this.byte()
      if (head === 0) return out
      const type = head & 15
      id = head >> 4 === 0 ? Number(this.zigzag()) : id + (head >> 4)
      // A boolean member has its value in its type.
      out.push({ id, type, value: type === ThriftType.TRUE || type === ThriftType.FALSE ? type === ThriftType.TRUE : this.value(type, depth) })
    }
  }

  private value(type: number, depth: number): ThriftValue {
    switch (type) {
      case ThriftType.TRUE:
      case ThriftType.FALSE:
        return this.byte() === ThriftType.TRUE
      case ThriftType.BYTE:
        return BigInt(this.byte())
      case ThriftType.I16:
      case ThriftType.I32:
      case ThriftType.I64:
        return this.zigzag()
      case ThriftType.DOUBLE:
        return this.take(DOUBLE_BYTES)
      case ThriftType.BINARY:
        return this.take(Number(this.varint()))
      case ThriftType.LIST:
      case ThriftType.SET: {
        const head = this.byte()
        const size = head >> 4 === 15 ? Number(this.varint()) : head >> 4
        const items: ThriftValue[] = []
        for (let i = 0; i < size; i++) items.push(this.value(head & 15, depth + 1))
        return { type: head & 15, items }
      }
      case ThriftType.STRUCT:
        return this.struct(depth + 1)
      default:
        throw new RangeError(`cannot read thrift type ${type} at byte ${this.at}`)
    }
  }

  private byte(): number {
    if (this.at >= this.bytes.length) throw new RangeError('cannot read a thrift struct: it ends early')
    return this.bytes[this.at++]
  }

  private take(length: number): Uint8Array {
    if (this.at + length > this.bytes.length) throw new RangeError('cannot read a thrift struct: it ends early')
    this.at += length
    return this.bytes.subarray(this.at - length, this.at)
  }

  private varint(): bigint {
    let out = 0n
    for (let shift = 0n; ; shift += 7n) {
      const byte = this.byte()
      out |= BigInt(byte & 127) << shift
      if (byte < 128) return out
    }
  }

  private zigzag(): bigint {
    const n = this.varint()
    return (n & 1n) === 0n ? n >> 1n : -(n >> 1n) - 1n
  }
}

class Writer {
  private readonly parts: Uint8Array[] = []
  private small: number[] = []

  struct(struct: ThriftStruct, raw?: { id: number; itemType: number; items: readonly Uint8Array[] }): void {
    let last = 0
    for (const { id, type, value } of struct) {
      const isRaw = raw?.id === id
      const written = typeof value === 'boolean' ? (value ? ThriftType.TRUE : ThriftType.FALSE) : type
      const step = id - last
      if (step > 0 && step < 16) this.small.push((step << 4) | written)
      else {
        this.small.push(written)
        this.varint(zigzag(BigInt(id)))
      }
      last = id
      if (isRaw) {
        this.listHead(raw.itemType, raw.items.length)
        for (const item of raw.items) this.bytes(item)
      } else if (typeof value !== 'boolean') this.value(type, value)
    }
    this.small.push(0)
  }

  take(): Uint8Array {
    this.flush()
    return Buffer.concat(this.parts)
  }

  private value(type: number, value: ThriftValue): void {
    if (typeof value === 'boolean') this.small.push(value ? ThriftType.TRUE : ThriftType.FALSE)
    else if (typeof value === 'bigint') {
      if (type === ThriftType.BYTE) this.small.push(Number(value))
      else this.varint(zigzag(value))
    } else if (value instanceof Uint8Array) {
      if (type === ThriftType.BINARY) this.varint(BigInt(value.length))
      this.bytes(value)
    } else if (Array.isArray(value)) this.struct(value)
    else {
      this.listHead(value.type, value.items.length)
      for (const item of value.items) this.value(value.type, item)
    }
  }

  private listHead(type: number, size: number): void {
    if (size < 15) this.small.push((size << 4) | type)
    else {
      this.small.push(0xf0 | type)
      this.varint(BigInt(size))
    }
  }

  private varint(value: bigint): void {
    let n = value
    for (; n > 127n; n >>= 7n) this.small.push(Number(n & 127n) | 128)
    this.small.push(Number(n))
  }

  private bytes(bytes: Uint8Array): void {
    this.flush()
    this.parts.push(bytes)
  }

  private flush(): void {
    if (this.small.length > 0) this.parts.push(Uint8Array.from(this.small))
    this.small = []
  }
}

function zigzag(n: bigint): bigint {
  return n >= 0n ? n << 1n : ((-n - 1n) << 1n) | 1n
}
