/**
 * Protocol Buffers' wire format, written (protobuf.dev, "Encoding"). Fields that have their type's default value are the caller's to leave out.
 * A nested message is written in place: `open` its field, write its fields, `close` it.
 */
const TWO_32 = 4294967296
const encoder = new TextEncoder()

/** Writes a message into a buffer that grows; `take` gives it. */
export class ProtobufWriter {
  bytes: Uint8Array
  at = 0
  private view: DataView

  constructor(capacity = 1024) {
    this.bytes = new Uint8Array(capacity)
    this.view = new DataView(this.bytes.buffer)
  }

  /** The message so far, as a buffer of its own; the writer begins anew. */
  take(): Uint8Array {
    const out = this.bytes.slice(0, this.at)
    this.at = 0
    return out
  }

  /** int32, int64, enum and bool: an integer exact as a double. */
  int(field: number, value: number): void {
    this.tag(field, 0)
    if (value >= 0) return this.varint(value)
    this.room(10)
    let low = value - Math.floor(value / TWO_32) * TWO_32
    let high = (Math.floor(value / TWO_32) % TWO_32) + TWO_32
    for (let i = 0; i < 9; i++) {
      this.bytes[this.at++] = (low % 128) | 0x80
      low = Math.floor(low / 128) + (high % 128) * 2 ** 25
      high = Math.floor(high / 128)
    }
    this.bytes[this.at++] = 1
  }

  /** The bits of an int64 or uint64 as two halves. */
  int64(field: number, low: number, high: number): void {
    this.tag(field, 0)
    this.room(10)
    const { bytes } = this
    let at = this.at
    let rest = low >>> 0
    let upper = high >>> 0
    while (upper !== 0 || rest > 0x7f) {
      bytes[at++] = (rest & 0x7f) | 0x80
      rest = ((rest >>> 7) | (upper << 25)) >>> 0
      upper >>>= 7
    }
    bytes[at++] = rest
    this.at = at
  }

  /** sint32 and sint64. */
  sint(field: number, value: number): void {
    this.tag(field, 0)
    this.varint(zigzag(value))
  }

  /** Packed sint64. */
  sints(field: number, values: ArrayLike<number>): void {
    const mark = this.open(field)
    for (let i = 0; i < values.length; i++) this.varint(zigzag(values[i]))
    this.close(mark)
  }

  double(field: number, value: number): void {
    this.tag(field, 1)
    this.room(8)
    this.view.setFloat64(this.at, value, true)
    this.at += 8
  }

  /** A double's bits: what no JavaScript number carries safely, such as a certain NaN. */
  fixed64(field: number, low: number, high: number): void {
    this.tag(field, 1)
    this.room(8)
    this.view.setInt32(this.at, low, true)
    this.view.setInt32(this.at + 4, high, true)
    this.at += 8
  }

  /** Packed doubles. */
  doubles(field: number, values: ArrayLike<number>): void {
    this.tag(field, 2)
    this.varint(values.length * 8)
    this.room(values.length * 8)
    for (let i = 0; i < values.length; i++, this.at += 8) this.view.setFloat64(this.at, values[i], true)
  }

  string(field: number, text: string): void {
    this.room(text.length * 3 + 12)
    const mark = this.open(field)
    this.at += encoder.encodeInto(text, this.bytes.subarray(this.at)).written
    this.close(mark)
  }

  blob(field: number, bytes: Uint8Array): void {
    this.tag(field, 2)
    this.varint(bytes.length)
    this.append(bytes)
  }

  /** Bytes as they are. */
  append(bytes: Uint8Array): void {
    this.room(bytes.length)
    this.bytes.set(bytes, this.at)
    this.at += bytes.length
  }

  /** @returns what `close` takes. */
  open(field: number): number {
    this.tag(field, 2)
    // Most messages are short: their length takes one byte.
    this.room(1)
    this.at++
    return this.at
  }

  close(mark: number): void {
    const length = this.at - mark
    let extra = 0
    for (let rest = length; rest > 0x7f; rest = Math.floor(rest / 128)) extra++
    if (extra > 0) {
      this.room(extra)
      this.bytes.copyWithin(mark + extra, mark, this.at)
    }
    this.at = mark - 1
    this.varint(length)
    this.at = mark + extra + length
  }

  /** Not negative, exact as a double. */
  varint(value: number): void {
    this.room(10)
    const { bytes } = this
    let at = this.at
    let rest = value
    while (rest > 0x7fffffff) {
      bytes[at++] = (rest % 128) | 0x80
      rest = Math.floor(rest / 128)
    }
    while (rest > 0x7f) {
      bytes[at++] = (rest & 0x7f) | 0x80
      rest >>>= 7
    }
    bytes[at++] = rest
    this.at = at
  }

  private tag(field: number, wire: number): void {
    this.varint(field * 8 + wire)
  }

  private room(bytes: number): void {
    if (this.at + bytes <= this.bytes.length) return
    const grown = new Uint8Array(Math.max(this.bytes.length * 2, this.at + bytes))
    grown.set(this.bytes.subarray(0, this.at))
    this.bytes = grown
    this.view = new DataView(grown.buffer)
  }
}

function zigzag(value: number): number {
  return value < 0 ? -2 * value - 1 : 2 * value
}
