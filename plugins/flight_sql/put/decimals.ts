/** Which decimals can be stored: at most 38 digits, 0 to 38 of them behind the point. */
import { MAX_DECIMAL_DIGITS } from 'svcdb/lib/numbers'

export function pow10(digits: number): bigint {
  return 10n ** BigInt(digits)
}

/** @param scale digits behind the point; below zero the value is a multiple of 10^-scale. */
export function fitsDecimal(unscaled: bigint, scale: number): boolean {
  const magnitude = unscaled < 0n ? -unscaled : unscaled
  if (scale < 0) return MAX_DECIMAL_DIGITS + scale >= 0 && magnitude < pow10(MAX_DECIMAL_DIGITS + scale)
  return scale <= MAX_DECIMAL_DIGITS && magnitude < pow10(MAX_DECIMAL_DIGITS)
}
