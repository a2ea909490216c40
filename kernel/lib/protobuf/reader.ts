/**
 * Protocol Buffers' wire format, read in place (protobuf.dev, "Encoding").
 *
 * One reader walks a message and the messages within it: `next` steps to a field, a reading method takes its value, `enter` and `leave`
 * go into a nested message and out again. Nothing is allocated a field; 64-bit values come as two 32-bit halves in `low` and `high`.
 * Nothing is read beyond the innermost message's end. Every fault is a BAD_REQUEST that says at which byte.
 */
import { SvcError } from '../errors/index.ts'

export const VARINT = 0
export const FIXED64 = 1
export const BYTES = 2
const START_GROUP = 3
const END_GROUP = 4
export const FIXED32 = 5

const TWO_32 = 4294967296
/** Groups within groups that `skip` follows; protobuf's own decoders stop at 100 as well. */
const MAX_DEPTH = 100
const NO_BYTES = new Uint8Array(0)
const NO_VIEW = new DataView(NO_BYTES.buffer)

/** Reads a message in place, with `begin` and then `next` for each field. @throws BAD_REQUEST, naming the byte, from every method. */
export class ProtobufReader {
  bytes: Uint8Array = NO_BYTES
  view: DataView = NO_VIEW
  at = 0
  /** End of the innermost message. */
  end = 0
  /** Number and wire type of the field that `next` stepped to. */
  field = 0
  wire = 0
  /** Halves of the last 64-bit value. */
  low = 0
  high = 0

  /** Begins a message that takes all of `bytes`. */
  begin(bytes: Uint8Array): void {
    // Always the same class of array: a Buffer is another, and would make every access in hot loops polymorphic.
    this.bytes = new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.length)
    this.view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length)
    this.at = 0
    this.end = bytes.length
  }

  /** Lets go of the bytes, which may be large and belong to somebody else. */
  release(): void {
    this.bytes = NO_BYTES
    this.view = NO_VIEW
    this.at = this.end = 0
  }

  /** Steps to the next field; false at the end of the message. */
  next(): boolean {
    if (this.at >= this.end) return false
    const start = this.at
    const tag = this.bytes[start]
    if (tag < 0x80) this.at++
    else this.varint()
    const number = tag < 0x80 ? tag : this.low
    if (tag >= 0x80 && this.high !== 0) throw this.fault('a field has a number that is too large', start)
    this.field = number >>> 3
    this.wire = number & 7
    if (this.field === 0) throw this.fault('a field has the number 0', start)
    return true
  }

  /** Reads a varint into `low` and `high`. */
  varint(): void {
    const { bytes, end } = this
    let at = this.at
    let low = 0
    let high = 0
    let b = 0x80
    for (let shift = 0; b >= 0x80; shift += 7) {
      if (at >= end) throw this.fault('it ends in the middle of a number', this.at)
      b = bytes[at++]
      if (shift < 28) low |= (b & 0x7f) << shift
      else if (shift === 28) {
        low |= (b & 0x0f) << 28
        high = (b & 0x7f) >>> 4
      } else if (shift < 63) high |= (b & 0x7f) << (shift - 32)
      else {
        if (b > 1) throw this.fault('a number has more than 64 bits', this.at)
        high |= b << 31
      }
    }
    this.low = low
    this.high = high
    this.at = at
  }

  /** Low 32 bits of a varint, as int32, enum and bool take them. */
  int32(): number {
    this.expect(VARINT)
    return this.plainVarint()
  }

  uint32(): number {
    this.expect(VARINT)
    return this.plainVarint() >>> 0
  }

  sint32(): number {
    this.expect(VARINT)
    return unzigzag(this.plainVarint())
  }

  /** A uint64 or int64 into `low` and `high`. */
  int64(): void {
    this.expect(VARINT)
    this.varint()
  }

  sint64(): void {
    this.expect(VARINT)
    this.zigzag()
  }

  /** Reads a zigzag varint of 64 bits into `low` and `high`. Like `varint`, it takes packed values apart as well. */
  zigzag(): void {
    this.varint()
    const sign = -(this.low & 1)
    this.low = ((this.low >>> 1) | (this.high << 31)) ^ sign
    this.high = (this.high >>> 1) ^ sign
  }

  /** The last 64-bit value as a number, exact below 2^53. */
  get unsigned(): number {
    return (this.high >>> 0) * TWO_32 + (this.low >>> 0)
  }

  get signed(): number {
    return this.high * TWO_32 + (this.low >>> 0)
  }

  double(): number {
    this.expect(FIXED64)
    return this.view.getFloat64(this.take(8), true)
  }

  float(): number {
    this.expect(FIXED32)
    return this.view.getFloat32(this.take(4), true)
  }

  /** The bits of a fixed64, sfixed64 or double into `low` and `high`. */
  fixed64(): void {
    this.expect(FIXED64)
    const at = this.take(8)
    this.low = this.view.getInt32(at, true)
    this.high = this.view.getInt32(at + 4, true)
  }

  /** Steps over a length-delimited value and returns where it starts; it ends at `at`. */
  span(): number {
    this.expect(BYTES)
    return this.take(this.length())
  }

  /** Goes into a nested message; hand what this returns to `leave`. */
  enter(): number {
    this.expect(BYTES)
    const outer = this.end
    const length = this.length()
    this.end = this.at + length
    return outer
  }

  /** Goes back out, past what of the nested message has not been read. */
  leave(outer: number): void {
    this.at = this.end
    this.end = outer
  }

  /** Steps over the value of a field that is of no interest. */
  skip(): void {
    const start = this.at
    let depth = 0
    do {
      switch (this.wire) {
        case VARINT:
          this.varint()
          break
        case FIXED64:
          this.take(8)
          break
        case BYTES:
          this.take(this.length())
          break
        case FIXED32:
          this.take(4)
          break
        case START_GROUP:
          if (++depth > MAX_DEPTH) throw this.fault(`groups are nested more than ${MAX_DEPTH} deep`, start)
          break
        case END_GROUP:
          if (--depth < 0) throw this.fault('a group ends that did not begin', start)
          break
        default:
          throw this.fault(`field ${this.field} has the unknown wire type ${this.wire}`, start)
      }
    } while (depth > 0 && (this.next() || this.unclosed(start)))
  }

  /** @returns the error to throw. */
  fault(cause: string, at: number = this.at): SvcError {
    return new SvcError('BAD_REQUEST', `cannot decode the protobuf message: ${cause}, at byte ${at} of ${this.bytes.length}`)
  }

  private expect(wire: number): void {
    if (this.wire !== wire) throw this.fault(`field ${this.field} has wire type ${this.wire}, not ${wire}`)
  }

  private plainVarint(): number {
    const b = this.at < this.end ? this.bytes[this.at] : 0x80
    if (b < 0x80) {
      this.at++
      return b
    }
    this.varint()
    return this.low
  }

  private length(): number {
    const start = this.at
    const b = start < this.end ? this.bytes[start] : 0x80
    if (b < 0x80) {
      this.at++
      this.low = b
      this.high = 0
    } else this.varint()
    const length = this.low >>> 0
    if (this.high !== 0 || length > this.end - this.at) throw this.fault(`field ${this.field} is longer than the message that holds it`, start)
    return length
  }

  private take(length: number): number {
    const start = this.at
    if (length > this.end - start) throw this.fault(`it ends in the middle of field ${this.field}`, start)
    this.at = start + length
    return start
  }

  private unclosed(start: number): never {
    throw this.fault('a group does not end', start)
  }
}

function unzigzag(n: number): number {
  return (n >>> 1) ^ -(n & 1)
}
