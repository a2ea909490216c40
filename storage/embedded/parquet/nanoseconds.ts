/** Nanoseconds in two halves of 32 bits. */

const NS_PER_MS = 1_000_000
const TWO_32 = 4294967296

/** Whole milliseconds, rounded down; exact. */
export function milliseconds(low: number, high: number): number {
  const guess = Math.floor((high * TWO_32 + (low >>> 0)) / NS_PER_MS)
  // A double does not hold all digits of the nanoseconds; what is left over, modulo 2^32, says whether the guess is one off.
  const rest = (low - Math.imul(guess | 0, NS_PER_MS)) | 0
  return rest < 0 ? guess - 1 : rest >= NS_PER_MS ? guess + 1 : guess
}

/** Nanoseconds beyond the whole milliseconds of a time. */
export function restOf(low: number, ms: number): number {
  return (low - Math.imul(ms | 0, NS_PER_MS)) | 0
}
