/** Nanosecond times as two 32-bit halves and as text. */

export const INT64_MAX = 2n ** 63n - 1n
export const INT64_MIN = -(2n ** 63n)

export function toNs(low: number, high: number): bigint {
  return (BigInt(high) << 32n) | BigInt(low >>> 0)
}

export function lowHalf(ns: bigint): number {
  return Number(BigInt.asIntN(32, ns))
}

export function highHalf(ns: bigint): number {
  return Number(BigInt.asIntN(32, ns >> 32n))
}

/** Signed 64-bit a < b on halves. */
export function before(aLow: number, aHigh: number, bLow: number, bHigh: number): boolean {
  return aHigh < bHigh || (aHigh === bHigh && aLow >>> 0 < bLow >>> 0)
}

/** RFC 3339 in UTC with as many fractional digits as needed: 2024-01-01T00:00:00.5Z. */
export function formatTime(ns: bigint): string {
  const secs = floorDiv(ns, 1_000_000_000n)
  const fraction = (ns - secs * 1_000_000_000n).toString().padStart(9, '0').replace(/0+$/, '')
  const whole = new Date(Number(secs) * 1000).toISOString().slice(0, 19)
  return fraction === '' ? `${whole}Z` : `${whole}.${fraction}Z`
}

export function floorDiv(a: bigint, b: bigint): bigint {
  const q = a / b
  return a % b < 0n ? q - 1n : q
}

export function earlier(a: bigint, b: bigint): bigint {
  if (a < b) return a
  return b
}

export function later(a: bigint, b: bigint): bigint {
  if (a > b) return a
  return b
}
