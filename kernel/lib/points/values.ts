/** Values of fields whose type a JavaScript value does not say by itself. */
import { SvcError } from '../errors/index.ts'
import { checkHistogram, encodeHistogram, type NativeHistogram } from '../histogram/index.ts'
import { DECIMAL, MAX_DECIMAL_DIGITS } from '../numbers/index.ts'

const MAX_UINT64 = 2n ** 64n - 1n

/** A value of type uint64, decimal or histogram: made by `uint64`, `decimal` and `histogram`. */
export class TypedValue {
  readonly type: 'uint64' | 'decimal' | 'histogram'
  /** uint64: the number; decimal: its text; histogram: its bytes. */
  readonly value: bigint | string | Uint8Array

  constructor(type: TypedValue['type'], value: TypedValue['value']) {
    this.type = type
    this.value = value
  }

  get bytes(): number {
    return typeof this.value === 'bigint' ? 8 : this.value.length
  }
}

/** number: float64. bigint: int64. boolean: bool. string: string. */
export type FieldValue = number | bigint | boolean | string | TypedValue

/** @throws INVALID_POINT for what is no whole number of 0 to 2^64 - 1. */
export function uint64(value: bigint | number): TypedValue {
  const given = typeof value === 'bigint' ? value : Number.isSafeInteger(value) ? BigInt(value) : -1n
  if (given < 0n || given > MAX_UINT64) throw new SvcError('INVALID_POINT', `cannot use ${value} as a uint64: it is a whole number of 0 to ${MAX_UINT64}`)
  return new TypedValue('uint64', given)
}

/** @param text digits with an optional sign and point: `12.50` has two digits behind the point. @throws INVALID_POINT for more than 38 digits. */
export function decimal(text: string): TypedValue {
  const [whole, fraction = ''] = text.replace(/^[+-]/, '').split('.')
  const digits = (whole + fraction).replace(/^0+/, '').length
  if (!DECIMAL.test(text) || digits > MAX_DECIMAL_DIGITS || fraction.length > MAX_DECIMAL_DIGITS)
    throw new SvcError(
      'INVALID_POINT',
      `cannot use "${text.slice(0, 64)}" as a decimal: it is at most ${MAX_DECIMAL_DIGITS} digits with an optional sign and point`,
    )
  return new TypedValue('decimal', text)
}

/** @throws INVALID_POINT for a native histogram that contradicts itself. */
export function histogram(value: NativeHistogram): TypedValue {
  const problem = checkHistogram(value)
  if (problem !== undefined) throw new SvcError('INVALID_POINT', `cannot use the histogram: ${problem}`)
  return new TypedValue('histogram', encodeHistogram(value))
}
