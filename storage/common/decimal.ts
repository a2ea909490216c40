/** Exact decimals: an unscaled integer and the number of digits behind the point, at most 38 digits in all. No value passes through a float. */
import { SvcError } from 'svcdb/lib/errors'

export const MAX_DIGITS = 38
const BOUND = 10n ** BigInt(MAX_DIGITS)

export function formatDecimal(unscaled: bigint, scale: number): string {
  const sign = unscaled < 0n ? '-' : ''
  const digits = (unscaled < 0n ? -unscaled : unscaled).toString().padStart(scale + 1, '0')
  return scale === 0 ? sign + digits : `${sign}${digits.slice(0, -scale)}.${digits.slice(-scale)}`
}

function withinDigits(unscaled: bigint): boolean {
  return unscaled < BOUND && unscaled > -BOUND
}

/**
 * The value at a column's scale.
 * @param field and `measurement` are for the refusal's text.
 * @throws INVALID_POINT naming both scales when the value has more fractional digits, or when it needs more than 38 digits at the column's scale.
 */
export function rescale(unscaled: bigint, from: number, to: number, measurement: string, field: string): bigint {
  if (from > to) {
    throw new SvcError(
      'INVALID_POINT',
      `cannot write decimal "${formatDecimal(unscaled, from)}" to field "${field}" of measurement "${measurement}": it has ${from} fractional digits, the field's scale is ${to}; round it before sending`,
    )
  }
  const scaled = unscaled * 10n ** BigInt(to - from)
  if (!withinDigits(scaled)) {
    throw new SvcError(
      'INVALID_POINT',
      `cannot write decimal "${formatDecimal(unscaled, from)}" to field "${field}" of measurement "${measurement}": at the field's scale of ${to} it needs more than ${MAX_DIGITS} digits`,
    )
  }
  return scaled
}
