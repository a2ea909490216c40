/** A number as it is written in a condition: as a double, and exactly, for fields whose values a double cannot hold. */

export interface Literal {
  /** As written. */
  text: string
  value: number
  /** Exactly `unscaled` / 10^`scale`; a negative scale stands for zeros. */
  unscaled: bigint
  scale: number
  /** Whether comparing integers below 2^53 with `value` says the same as comparing them with the number itself. */
  comparesIntegers: boolean
}

/** Longer ones have more digits than any field. */
export const MAX_LITERAL = 64

/** @param text of digits with sign, point and exponent. @returns undefined for one that no double holds. */
export function literalOf(text: string): Literal | undefined {
  const value = Number(text)
  if (!Number.isFinite(value)) return undefined
  const [mantissa, exponent = '0'] = text.toLowerCase().split('e')
  const [whole, fraction = ''] = mantissa.split('.')
  const negative = whole.startsWith('-')
  const digits = BigInt(`${whole.replace(/^[+-]/, '')}${fraction}` || '0')
  const unscaled = negative ? -digits : digits
  // Digits far behind the point change nothing that can be compared, and would make numbers without end.
  const scale = fraction.length - Number(exponent)
  if (unscaled !== 0n && scale > 400) return { text, value, unscaled: unscaled < 0n ? -1n : 1n, scale: 400, comparesIntegers: true }
  if (scale < -400) return { text, value, unscaled: 0n, scale: 0, comparesIntegers: true }
  const literal = { text, value, unscaled, scale }
  return { ...literal, comparesIntegers: !Number.isInteger(value) || compareScaled(BigInt(value), 0, literal) === 0 }
}

/** Compares `unscaled` / 10^`scale` with a literal, exactly: below 0, 0 or above 0. */
export function compareScaled(unscaled: bigint, scale: number, literal: Pick<Literal, 'unscaled' | 'scale'>): number {
  const common = Math.max(scale, literal.scale)
  const a = unscaled * 10n ** BigInt(common - scale)
  const b = literal.unscaled * 10n ** BigInt(common - literal.scale)
  return a < b ? -1 : a > b ? 1 : 0
}
