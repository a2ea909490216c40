/** Bits, the highest first, and the numbers of variable width that Prometheus' chunks are made of (its chunk format description, "varbit"). */
const TWO_32 = 4294967296
const scratch = new Float64Array(1)
const halves = new Int32Array(scratch.buffer)

export class BitWriter {
  private bytes = new Uint8Array(256)
  private at = 0
  /** Bits of the last byte that are not written yet. */
  private free = 0

  get length(): number {
    return this.at
  }

  /** The bytes so far, as a buffer of their own; the writer begins anew. */
  take(): Uint8Array {
    const out = this.bytes.slice(0, this.at)
    this.bytes.fill(0, 0, this.at)
    this.at = this.free = 0
    return out
  }

  /** The low `count` bits, at most 32. */
  bits(value: number, count: number): void {
    if (this.at + 5 > this.bytes.length) this.grow()
    const { bytes } = this
    let left = count
    while (left > 0) {
      if (this.free === 0) {
        this.at++
        this.free = 8
      }
      const take = Math.min(left, this.free)
      const part = (value >>> (left - take)) & ((1 << take) - 1)
      bytes[this.at - 1] |= part << (this.free - take)
      this.free -= take
      left -= take
    }
  }

  /** The low `count` bits of two halves, at most 64. */
  bits64(high: number, low: number, count: number): void {
    if (count > 32) this.bits(high, count - 32)
    this.bits(low, Math.min(count, 32))
  }

  float(value: number): void {
    scratch[0] = value
    this.bits64(halves[1], halves[0], 64)
  }

  /** Not negative: seven bits a byte, the lowest first. */
  uvarint(value: number): void {
    let rest = value
    for (; rest > 0x7f; rest = Math.floor(rest / 128)) this.bits((rest % 128) | 0x80, 8)
    this.bits(rest, 8)
  }

  varint(value: number): void {
    this.uvarint(value < 0 ? -2 * value - 1 : 2 * value)
  }

  /** An integer, exact as a double; small ones take few bits. */
  varbitInt(value: number): void {
    if (value === 0) return this.bits(0, 1)
    for (const { width, prefix, length } of WIDTHS) {
      if (value < 1 - 2 ** (width - 1) || value > 2 ** (width - 1)) continue
      this.bits(prefix, length)
      return this.integer(value, width)
    }
    this.bits(0xff, 8)
    this.integer(value, 64)
  }

  /** Not negative, exact as a double. */
  varbitUint(value: number): void {
    if (value === 0) return this.bits(0, 1)
    for (const { width, prefix, length } of WIDTHS) {
      if (value >= 2 ** width) continue
      this.bits(prefix, length)
      return this.integer(value, width)
    }
    this.bits(0xff, 8)
    this.integer(value, 64)
  }

  /** Two's complement in `width` bits. */
  integer(value: number, width: number): void {
    const high = Math.floor(value / TWO_32)
    this.bits64(high, value - high * TWO_32, width)
  }

  private grow(): void {
    const grown = new Uint8Array(this.bytes.length * 2)
    grown.set(this.bytes)
    this.bytes = grown
  }
}

/** Bits of the value, with the prefix that says so. */
const WIDTHS = [3, 6, 9, 12, 18, 25, 56].map((width, i) => ({ width, prefix: 2 ** (i + 2) - 2, length: i + 2 }))

/** A series of floats, each written as what differs in its bits from the one before. */
export class XorValue {
  private high = 0
  private low = 0
  private leading = -1
  private trailing = 0

  /** The first value, with all its bits. */
  first(out: BitWriter, value: number): void {
    scratch[0] = value
    this.firstBits(out, halves[1], halves[0])
  }

  next(out: BitWriter, value: number): void {
    scratch[0] = value
    this.nextBits(out, halves[1], halves[0])
  }

  firstBits(out: BitWriter, high: number, low: number): void {
    this.high = high
    this.low = low
    out.bits64(high, low, 64)
  }

  nextBits(out: BitWriter, high: number, low: number): void {
    const deltaHigh = high ^ this.high
    const deltaLow = low ^ this.low
    this.high = high
    this.low = low
    if (deltaHigh === 0 && deltaLow === 0) return out.bits(0, 1)
    const leading = Math.min(deltaHigh === 0 ? 32 + Math.clz32(deltaLow) : Math.clz32(deltaHigh), 31)
    const trailing = deltaLow === 0 ? 32 + trailingZeros(deltaHigh) : trailingZeros(deltaLow)
    if (this.leading !== -1 && leading >= this.leading && trailing >= this.trailing) {
      out.bits(0b10, 2)
    } else {
      this.leading = leading
      this.trailing = trailing
      out.bits(0b11, 2)
      out.bits(leading, 5)
      // 64 bits do not fit the six that say how many there are; 0 stands for them.
      out.bits(64 - leading - trailing, 6)
    }
    const shift = this.trailing
    const shiftedLow = shift === 0 ? deltaLow : shift < 32 ? (deltaLow >>> shift) | (deltaHigh << (32 - shift)) : deltaHigh >>> (shift - 32)
    const shiftedHigh = shift === 0 ? deltaHigh : shift < 32 ? deltaHigh >>> shift : 0
    out.bits64(shiftedHigh, shiftedLow, 64 - this.leading - shift)
  }
}

function trailingZeros(bits: number): number {
  return 31 - Math.clz32(bits & -bits)
}
