/**
 * JSON as bytes, written by hand: answers hold millions of numbers, and no object, string or closure is made for one that has few digits.
 *
 * What is written gathers in one buffer; `take` hands out what there is. The caller asks for room before it uses a method that says so.
 */

const FIRST_BYTES = 16 * 1024
/** A buffer up to this size is kept for the next writer. */
const MAX_SPARE_BYTES = 1 << 20
/** Bytes that a number takes at most: sign, 17 digits, point, zeros behind it, exponent, quotes. */
export const NUMBER_BYTES = 40
/** What gauges are mostly rounded to; each costs a division where it is in vain. */
const MAX_DECIMALS = 3
/** Up to it a loop copies sooner than the call. */
const SHORT_BYTES = 16
const encoder = new TextEncoder()
const decoder = new TextDecoder('utf-8', { ignoreBOM: true })

const QUOTE = 0x22
const MINUS = 0x2d
const POINT = 0x2e
const ZERO = 0x30
const BACKSLASH = 0x5c

const NO_BYTES = new Uint8Array(0)
let spare: Uint8Array<ArrayBuffer> | undefined

/** Writes JSON into a buffer that grows; `take` gives what is there. */
export class JsonBytes {
  protected bytes: Uint8Array<ArrayBuffer>
  protected at = 0
  /** Bytes handed out so far. */
  taken = 0

  constructor() {
    this.bytes = spare ?? new Uint8Array(FIRST_BYTES)
    spare = undefined
  }

  get length(): number {
    return this.at
  }

  /** Bytes written in all. */
  get total(): number {
    return this.taken + this.at
  }

  /** The bytes so far, as a buffer of their own. */
  take(): Uint8Array {
    const out = this.bytes.slice(0, this.at)
    this.taken += this.at
    this.at = 0
    return out
  }

  /** Takes back what was written behind `length`. */
  cut(length: number): void {
    this.at = length
  }

  /** Leaves the buffer to the next writer: this one is not to be used any more. */
  close(): void {
    if (this.bytes.length <= MAX_SPARE_BYTES) spare = this.bytes
    this.bytes = NO_BYTES
  }

  room(bytes: number): void {
    if (this.at + bytes <= this.bytes.length) return
    const grown = new Uint8Array(Math.max(this.bytes.length * 2, this.at + bytes))
    grown.set(this.bytes.subarray(0, this.at))
    this.bytes = grown
  }

  /** Text of ASCII characters, as it is. */
  raw(text: string): void {
    this.room(text.length)
    this.ascii(text)
  }

  /** Bytes as they are. Needs room. */
  put(source: Uint8Array): void {
    const { bytes, at } = this
    const { length } = source
    if (length > SHORT_BYTES) bytes.set(source, at)
    else for (let i = 0; i < length; i++) bytes[at + i] = source[i]
    this.at = at + length
  }

  /** A part of other bytes. Needs room. */
  putPart(source: Uint8Array, start: number, end: number): void {
    const { bytes, at } = this
    const length = end - start
    if (length > SHORT_BYTES) bytes.set(source.subarray(start, end), at)
    else for (let i = 0; i < length; i++) bytes[at + i] = source[start + i]
    this.at = at + length
  }

  /** Any text, in quotes. */
  string(text: string): void {
    const { length } = text
    this.room(length + 2)
    const { bytes } = this
    let at = this.at
    bytes[at++] = QUOTE
    for (let i = 0; i < length; i++) {
      const c = text.charCodeAt(i)
      if (c < 0x20 || c > 0x7e || c === QUOTE || c === BACKSLASH) return this.escaped(text)
      bytes[at++] = c
    }
    bytes[at++] = QUOTE
    this.at = at
  }

  /** UTF-8 of a text, in quotes. Bytes that are none are written as U+FFFD. */
  text(source: Uint8Array, start: number, end: number): void {
    this.room(end - start + 2)
    const { bytes } = this
    let at = this.at
    bytes[at++] = QUOTE
    for (let i = start; i < end; i++) {
      const c = source[i]
      if (c < 0x20 || c > 0x7e || c === QUOTE || c === BACKSLASH) return this.escaped(decoder.decode(source.slice(start, end)))
      bytes[at++] = c
    }
    bytes[at++] = QUOTE
    this.at = at
  }

  private escaped(text: string): void {
    const json = JSON.stringify(text)
    this.room(json.length * 3)
    this.at += encoder.encodeInto(json, this.bytes.subarray(this.at)).written
  }

  /** A float in the digits of JavaScript, which are the shortest that read back as the same number. Needs room. */
  float(value: number): void {
    const magnitude = value < 0 ? -value : value
    if (magnitude <= 1e15 && Math.floor(magnitude) === magnitude) {
      if (value < 0) this.bytes[this.at++] = MINUS
      this.integer(magnitude)
    } else if (!this.decimal(value, magnitude)) this.ascii(String(value))
  }

  /**
   * A value of few decimals, without making a string. Where n / 10^k gives the value back and n has at most 15 digits, n and k are its
   * shortest form: two numbers of so few digits never read as the same double.
   */
  protected decimal(value: number, magnitude: number): boolean {
    if (!(magnitude < 1e11) || magnitude === 0) return false
    for (let k = 1, power = 10; k <= MAX_DECIMALS; k++, power *= 10) {
      const scaled = Math.round(magnitude * power)
      if (scaled / power !== magnitude) continue
      if (value < 0) this.bytes[this.at++] = MINUS
      const whole = Math.floor(magnitude)
      this.integer(whole)
      this.bytes[this.at++] = POINT
      this.digits(scaled - whole * power, k)
      return true
    }
    return false
  }

  /** Not negative, at most 2^53. Needs room. */
  integer(value: number): void {
    if (value >= 1e9) {
      const upper = Math.floor(value / 1e9)
      this.integer(upper)
      this.digits(value - upper * 1e9, 9)
    } else this.digits(value, digitsOf(value))
  }

  /** So many digits of an integer below 10^9, with zeros before it. Needs room. */
  digits(value: number, count: number): void {
    const { bytes, at } = this
    let rest = value | 0
    for (let i = at + count - 1; i >= at; i--) {
      const next = (rest / 10) | 0
      bytes[i] = ZERO + rest - next * 10
      rest = next
    }
    this.at = at + count
  }

  /** As `raw`. Needs room. */
  ascii(text: string): void {
    const { bytes } = this
    let at = this.at
    for (let i = 0; i < text.length; i++) bytes[at++] = text.charCodeAt(i)
    this.at = at
  }
}

/** Decimal digits of an integer below 10^9. */
function digitsOf(value: number): number {
  if (value < 10) return 1
  if (value < 100) return 2
  if (value < 1000) return 3
  if (value < 1e4) return 4
  if (value < 1e5) return 5
  if (value < 1e6) return 6
  if (value < 1e7) return 7
  return value < 1e8 ? 8 : 9
}
