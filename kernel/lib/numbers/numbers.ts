/**
 * Decimal text to binary numbers, exactly: what every text decoder shares.
 *
 * Invariants: a float equals `Number(text)` bit for bit; a 64-bit integer is a pair of 32-bit halves (low first) and never a
 * rounded double; a decimal keeps its digits. None of these functions checks syntax: the caller has scanned the text already.
 */

/** Where a decimal goes; a `Column` of svcdb/lib/columns is one. */
export interface DecimalTarget {
  /** @param unscaled the digits without the point; @param scale digits behind it. */
  setDecimal(row: number, unscaled: bigint, scale: number): void
}

const TWO_32 = 4294967296
const MAX_SAFE = 9007199254740992
/** Powers of ten that a double holds exactly. */
export const POW10: Float64Array = Float64Array.from({ length: 23 }, (_, i) => Number(`1e${i}`))
/** Digits a decimal column can hold: decimal(38, s) in 128 bits. */
export const MAX_DECIMAL_DIGITS = 38
/** 2^27 + 1: splits a double into two halves of 26 bits whose products are exact (Dekker 1971). */
const SPLITTER = 134217729
/** Bound of the relative error of the correction term in `quotient`: four roundings of 2^-53 each, with room. */
const CORRECTION_ERROR = 2 ** -49

/** A 64-bit integer in two's complement, as a result that costs no allocation. */
export class Int64 {
  low = 0
  high = 0

  /** @param magnitude an integer of at most 2^53 */
  setSafe(magnitude: number, negative: boolean): void {
    this.high = Math.floor(magnitude / TWO_32) | 0
    this.low = (magnitude % TWO_32) | 0
    if (negative) this.negate()
  }

  /** Reads digits up to 2^64 - 1; false when there are more. The halves are unsigned 32-bit patterns. */
  setDigits(bytes: Uint8Array, start: number, end: number): boolean {
    let low = 0
    let high = 0
    for (let i = start; i < end; i++) {
      low = low * 10 + (bytes[i] - 48)
      const carry = Math.floor(low / TWO_32)
      low -= carry * TWO_32
      high = high * 10 + carry
      if (high >= TWO_32) return false
    }
    this.low = low | 0
    this.high = high | 0
    return true
  }

  negate(): void {
    this.low = -this.low | 0
    this.high = this.low === 0 ? -this.high | 0 : ~this.high
  }

  /** Reads digits as a signed integer; false when they do not fit int64. */
  setSigned(bytes: Uint8Array, start: number, end: number, negative: boolean): boolean {
    if (!this.setDigits(bytes, start, end)) return false
    if (this.high < 0 && !(negative && this.high === -2147483648 && this.low === 0)) return false
    if (negative) this.negate()
    return true
  }

  /**
   * Sets lead * 10^9 + tail, the form of a time in nanoseconds; false when it does not fit int64.
   * @param lead an integer, any size; @param tail below 10^9
   */
  setSeconds(lead: number, tail: number, negative: boolean): boolean {
    if (lead > 9223372036) return false
    // lead is below 2^34: in two parts every product below is an exact double.
    const upper = Math.floor(lead / 65536)
    const product = upper * 1e9
    const productHigh = Math.floor(product / 65536)
    const sum = (product - productHigh * 65536) * 65536 + (lead - upper * 65536) * 1e9 + tail
    const carry = Math.floor(sum / TWO_32)
    this.high = (productHigh + carry) | 0
    this.low = (sum - carry * TWO_32) | 0
    if (this.high < 0 && !(negative && this.high === -2147483648 && this.low === 0)) return false
    if (negative) this.negate()
    return true
  }

  setBigInt(value: bigint): void {
    this.low = Number(BigInt.asIntN(32, value))
    this.high = Number(BigInt.asIntN(32, value >> 32n))
  }

  toBigInt(): bigint {
    return (BigInt(this.high) << 32n) | BigInt(this.low >>> 0)
  }
}

/** Up to here characters are put together one by one: a call costs more. */
const SHORT_TEXT = 64

/** The text of some ASCII bytes. */
export function asciiText(bytes: Uint8Array, start: number, end: number): string {
  // Each character of a long one would be an object of 32 bytes.
  if (end - start > SHORT_TEXT) return Buffer.from(bytes.buffer, bytes.byteOffset + start, end - start).toString('latin1')
  let text = ''
  for (let i = start; i < end; i++) text += String.fromCharCode(bytes[i])
  return text
}

/**
 * The double nearest to a decimal number of the form -?digits[.digits][(e|E)[sign]digits]; equal to `Number(text)`.
 * Numbers of up to 19 significant digits with a small exponent (all that printers of doubles emit) need no string.
 */
export function floatOf(bytes: Uint8Array, start: number, end: number): number {
  const negative = bytes[start] === 45
  let lead = 0 // the first 15 significant digits, exact in a double
  let tail = 0 // up to 4 more
  let leadDigits = 0
  let tailDigits = 0
  let scale = 0
  let point = false
  for (let i = negative ? start + 1 : start; i < end; i++) {
    const digit = bytes[i] - 48
    if (digit >= 0 && digit < 10) {
      if (leadDigits < 15) {
        lead = lead * 10 + digit
        if (lead !== 0) leadDigits++
      } else if (tailDigits < 4) {
        tail = tail * 10 + digit
        tailDigits++
      } else return Number(asciiText(bytes, start, end))
      if (point) scale++
    } else if (bytes[i] === 46) point = true
    else return Number(asciiText(bytes, start, end)) // an exponent: rare in practice
  }
  if (scale > 22) return Number(asciiText(bytes, start, end))
  const value = quotient(lead, POW10[tailDigits], tail, POW10[scale])
  if (Number.isNaN(value)) return Number(asciiText(bytes, start, end))
  return negative ? -value : value
}

/**
 * (lead * factor + tail) / divisor, correctly rounded, or NaN where this arithmetic cannot tell.
 * All arguments are exact; the dividend is held exactly as the sum of two doubles and the first quotient is corrected by its
 * remainder. The correction's own error is bounded, so when both ends of that bound round to the same double it is the answer.
 */
function quotient(lead: number, factor: number, tail: number, divisor: number): number {
  const product = lead * factor
  const high = product + tail
  if (high < MAX_SAFE) return high / divisor
  const low = productError(lead, factor, product) + (tail - (high - product))
  const first = high / divisor
  const back = first * divisor
  const remainder = high - back - productError(first, divisor, back) + low
  const correction = remainder / divisor
  const bound = Math.abs(correction) * CORRECTION_ERROR
  const below = first + (correction - bound)
  return below === first + (correction + bound) ? below : Number.NaN
}

/** a * b - product, exactly (Dekker). */
function productError(a: number, b: number, product: number): number {
  const ca = SPLITTER * a
  const ah = ca - (ca - a)
  const al = a - ah
  const cb = SPLITTER * b
  const bh = cb - (cb - b)
  const bl = b - bh
  return al * bl - (product - ah * bh - al * bh - ah * bl)
}

/** A decimal of `scale` digits behind the point, with all of them. */
export function decimalText(unscaled: bigint, scale: number): string {
  const digits = String(unscaled < 0n ? -unscaled : unscaled).padStart(scale + 1, '0')
  const text = scale === 0 ? digits : `${digits.slice(0, -scale)}.${digits.slice(-scale)}`
  return unscaled < 0n ? `-${text}` : text
}

/** Digits with an optional sign and point: what `storeDecimal` takes. */
export const DECIMAL = /^[+-]?(?:\d+(?:\.\d*)?|\.\d+)$/

/** Where the suffix `d` of the digits at `start` stands, behind a sign; -1 when there are no digits or no suffix. */
export function decimalEnd(bytes: Uint8Array, start: number): number {
  let [at, digits, points] = [start, 0, 0]
  for (; (bytes[at] < 58 && bytes[at] > 47) || bytes[at] === 46; at++) {
    if (bytes[at] === 46) points++
    else digits++
  }
  return digits > 0 && points < 2 && bytes[at] === 100 ? at : -1
}

/**
 * Stores [+-]digits[.digits] as a decimal of its own scale; false when it has more than 38 digits.
 * Leading zeros do not count; trailing zeros do: 1.50 has scale 2.
 */
export function storeDecimal(bytes: Uint8Array, start: number, end: number, column: DecimalTarget, row: number): boolean {
  let at = bytes[start] === 45 || bytes[start] === 43 ? start + 1 : start
  let digits = ''
  let scale = 0
  let point = false
  for (; at < end; at++) {
    if (bytes[at] === 46) point = true
    else {
      if (digits !== '' || bytes[at] !== 48) digits += String.fromCharCode(bytes[at])
      if (point) scale++
      if (digits.length > MAX_DECIMAL_DIGITS || scale > MAX_DECIMAL_DIGITS) return false
    }
  }
  const magnitude = BigInt(digits === '' ? '0' : digits)
  column.setDecimal(row, bytes[start] === 45 ? -magnitude : magnitude, scale)
  return true
}
