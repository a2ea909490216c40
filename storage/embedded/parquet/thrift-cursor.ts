/**
 * Goes through a struct in Thrift's compact protocol member by member, without making an object of what nobody asks for: a footer has tens of thousands
 * of members (storage/common/parquet/thrift-compact.ts reads and writes whole structs). Spec: thrift doc/specs/thrift-compact-protocol.md.
 */
import { PageFault } from './page-fault.ts'

export const Thrift = { TRUE: 1, FALSE: 2, BYTE: 3, I16: 4, I32: 5, I64: 6, DOUBLE: 7, BINARY: 8, LIST: 9, SET: 10, MAP: 11, STRUCT: 12 } as const

const MAX_DEPTH = 16
const MAX_VARINT_BYTES = 10

/** @throws PageFault for bytes that end early or are no struct. */
export class ThriftCursor {
  /** The member that `next` has found, and its type. */
  id = 0
  type = 0
  at: number
  private readonly bytes: Uint8Array
  private readonly end: number
  private readonly ids: number[] = []

  constructor(bytes: Uint8Array, at: number, end: number) {
    this.bytes = bytes
    this.at = at
    this.end = end
  }

  /** Goes into a struct: `next` gives its members until `leave`. */
  enter(): void {
    if (this.ids.length === MAX_DEPTH) throw new PageFault('a struct is nested too deeply')
    this.ids.push(this.id)
    this.id = 0
  }

  /** The next member of the struct, whose value must be read or skipped; false at its end, where the struct around it goes on. */
  next(): boolean {
    const head = this.byte()
    if (head === 0) {
      this.id = this.ids.pop() as number
      return false
    }
    this.type = head & 15
    this.id = head >> 4 === 0 ? this.integer() : this.id + (head >> 4)
    return true
  }

  byte(): number {
    if (this.at >= this.end) throw new PageFault('a struct ends early')
    return this.bytes[this.at++]
  }

  /** An I16, I32 or I64; exact below 2^53. */
  integer(): number {
    const n = this.varint()
    return n % 2 === 0 ? n / 2 : -(n + 1) / 2
  }

  /** A length, checked against what is left. */
  length(): number {
    const n = this.varint()
    if (n > this.end - this.at) throw new PageFault('a length reaches beyond the end')
    return n
  }

  /** The head of a list. @returns its items; `type` is theirs. */
  list(): number {
    const head = this.byte()
    this.type = head & 15
    return head >> 4 === 15 ? this.length() : head >> 4
  }

  skip(type: number, depth = 0): void {
    if (depth > MAX_DEPTH) throw new PageFault('a struct is nested too deeply')
    switch (type) {
      case Thrift.TRUE:
      case Thrift.FALSE:
        return
      case Thrift.BYTE:
        this.byte()
        return
      case Thrift.I16:
      case Thrift.I32:
      case Thrift.I64:
        this.varint()
        return
      case Thrift.DOUBLE:
        this.pass(8)
        return
      case Thrift.BINARY:
        this.pass(this.length())
        return
      case Thrift.LIST:
      case Thrift.SET: {
        const items = this.list()
        const itemType = this.type
        for (let i = 0; i < items; i++) {
          // Booleans have a byte each in a list.
          if (itemType === Thrift.TRUE || itemType === Thrift.FALSE) this.byte()
          else this.skip(itemType, depth + 1)
        }
        return
      }
      case Thrift.STRUCT:
        this.enter()
        while (this.next()) this.skip(this.type, depth + 1)
        return
      default:
        throw new PageFault(`a struct has a member of type ${type}`)
    }
  }

  pass(length: number): void {
    if (length > this.end - this.at) throw new PageFault('a struct ends early')
    this.at += length
  }

  private varint(): number {
    let out = 0
    let factor = 1
    for (let i = 0; i < MAX_VARINT_BYTES; i++) {
      const byte = this.byte()
      out += (byte & 127) * factor
      if (byte < 128) return out
      factor *= 128
    }
    throw new PageFault('a number has too many digits')
  }
}
