/** The order people expect of names with numbers in them: "node2" before "node10". */

const CHUNKS = /\d+|\D+/g
/** Longer runs of digits do not fit 64 bits and compare as text. */
const MAX = 9_223_372_036_854_775_807n

/** Whether `a` comes before `b`: runs of digits compare as numbers, what is no number as text, a prefix comes first. */
export function naturallyBefore(a: string, b: string): boolean {
  const left = a.match(CHUNKS) ?? []
  const right = b.match(CHUNKS) ?? []
  for (let i = 0; i < left.length; i++) {
    if (i >= right.length) return false
    const order = compareChunks(left[i], right[i])
    if (order !== 0) return order < 0
    if (i === left.length - 1) return true
    if (i === right.length - 1) return false
  }
  return left.length === 0 && right.length > 0
}

function compareChunks(a: string, b: string): number {
  if (a === b) return 0
  const x = integer(a)
  const y = integer(b)
  if (x !== undefined && y !== undefined) return x < y ? -1 : x > y ? 1 : 0
  return compareText(a, b)
}

function integer(chunk: string): bigint | undefined {
  if (!/^\d/.test(chunk)) return undefined
  const value = BigInt(chunk)
  return value <= MAX ? value : undefined
}

/** By code points, as the bytes of UTF-8 order them. */
export function compareText(a: string, b: string): number {
  if (a === b) return 0
  const shorter = Math.min(a.length, b.length)
  for (let i = 0; i < shorter; i++) {
    const x = a.charCodeAt(i)
    const y = b.charCodeAt(i)
    if (x === y) continue
    // Halves of code points above U+FFFF come after U+E000 to U+FFFF in UTF-8.
    const high = x >= 0xd800 && x < 0xe000
    if (high !== (y >= 0xd800 && y < 0xe000)) return high ? 1 : -1
    return x - y
  }
  return a.length - b.length
}
