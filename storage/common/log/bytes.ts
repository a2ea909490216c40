/** A growable byte buffer to encode into, and a bounds-checked reader. Little endian; varints are LEB128. */
const encoder = new TextEncoder()
const decoder = new TextDecoder('utf-8', { fatal: true })

export class ByteWriter {
  bytes: Uint8Array
  private view: DataView
  length = 0

  constructor(capacity = 1 << 16) {
    this.bytes = new Uint8Array(capacity)
    this.view = new DataView(this.bytes.buffer)
  }

  /** Makes room for n more bytes and returns the place; the caller fills `bytes` there. */
  reserve(n: number): number {
    const at = this.length
    if (at + n > this.bytes.length) {
      const grown = new Uint8Array(Math.max(this.bytes.length * 2, at + n))
      grown.set(this.bytes.subarray(0, at))
      this.bytes = grown
      this.view = new DataView(grown.buffer)
    }
    this.length = at + n
    return at
  }

  u8(value: number): void {
    const at = this.reserve(1)
    this.bytes[at] = value
  }

  u32(value: number): void {
    const at = this.reserve(4)
    this.view.setUint32(at, value, true)
  }

  setU32(at: number, value: number): void {
    this.view.setUint32(at, value, true)
  }

  f64(value: number): void {
    const at = this.reserve(8)
    this.view.setFloat64(at, value, true)
  }

  varint(value: number): void {
    while (value > 127) {
      this.u8((value % 128) | 128)
      value = Math.floor(value / 128)
    }
    this.u8(value)
  }

  text(value: string): void {
    const bytes = encoder.encode(value)
    this.varint(bytes.length)
    this.put(bytes)
  }

  put(source: Uint8Array): void {
    const at = this.reserve(source.length)
    this.bytes.set(source, at)
  }
}

export class ByteReader {
  readonly bytes: Uint8Array
  private readonly view: DataView
  position: number
  readonly end: number

  constructor(bytes: Uint8Array, start = 0, end = bytes.length) {
    this.bytes = bytes
    this.view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
    this.position = start
    this.end = end
  }

  /** Claims n bytes and returns where they start. @throws RangeError past the end. */
  take(n: number): number {
    const at = this.position
    if (n < 0 || at + n > this.end) throw new RangeError(`the record ends ${at + n - this.end} bytes early`)
    this.position = at + n
    return at
  }

  u8(): number {
    return this.bytes[this.take(1)]
  }

  u32(): number {
    return this.view.getUint32(this.take(4), true)
  }

  f64(): number {
    return this.view.getFloat64(this.take(8), true)
  }

  varint(): number {
    const { bytes, end } = this
    let value = 0
    let at = this.position
    for (let shift = 0; shift < 28 && at < end; shift += 7) {
      const byte = bytes[at++]
      value |= (byte & 127) << shift
      if (byte < 128) {
        this.position = at
        return value
      }
    }
    this.position = at
    for (let scale = 2 ** 28; ; scale *= 128) {
      if (scale > 2 ** 56) throw new RangeError('a number in the record is too long')
      const byte = this.u8()
      value += (byte & 127) * scale
      if (byte < 128) return value
    }
  }

  /** Passes over a text. @throws TypeError when it is not UTF-8. */
  skipText(): void {
    const length = this.varint()
    const at = this.take(length)
    const { bytes } = this
    for (let i = at; i < at + length; i++) {
      if (bytes[i] < 128) continue
      decoder.decode(bytes.subarray(at, at + length))
      return
    }
  }

  text(): string {
    const length = this.varint()
    const at = this.take(length)
    return decoder.decode(this.bytes.subarray(at, at + length))
  }
}
