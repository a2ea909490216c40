/** 64-bit integers as two numbers that hold all their digits, from their 32-bit halves: no BigInt is made for a value. */
export const BILLION = 1_000_000_000
const TWO_32 = 4_294_967_296

/** What is above the lower nine digits of an integer that is not negative. */
export function billionsOf(low: number, high: number): number {
  // The quotient is off by one at most, and the rest has all its bits in the lower half.
  const billions = Math.floor((high * TWO_32 + (low >>> 0)) / BILLION)
  const rest = restOf(low, billions)
  if (rest < 0) return billions - 1
  return rest >= BILLION ? billions + 1 : billions
}

/** The lower nine digits. @param billions of `billionsOf`. */
export function restOf(low: number, billions: number): number {
  return (low - Math.imul(billions, BILLION)) | 0
}
