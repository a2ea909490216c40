/** The order people expect of names with numbers in them: "node2" before "node10". */

import { compareText } from '../text-order.ts'

const CHUNKS = /\d+|\D+/g
const SHORT = /^0*(\d{1,19})$/
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
  const digits = SHORT.exec(chunk)?.[1]
  if (digits === undefined) return undefined
  const value = BigInt(digits)
  return value <= MAX ? value : undefined
}
