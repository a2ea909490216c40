/** Histograms with custom buckets whose bounds differ meet in the bounds that both have. */

import type { Side } from './buckets.ts'
import { kahanAt } from './kahan.ts'
import { compactSide } from './side.ts'

/** Whether two lists of bounds are equal. */
export function sameBounds(a: Float64Array, b: Float64Array): boolean {
  if (a === b) return true
  if (a.length !== b.length) return false
  for (let i = 0; i < a.length; i++) if (a[i] !== b[i]) return false
  return true
}

/** The bounds that both lists have, ascending as they are. */
export function commonBounds(a: Float64Array, b: Float64Array): Float64Array {
  const common: number[] = []
  for (let i = 0, j = 0; i < a.length && j < b.length; ) {
    if (a[i] === b[j]) {
      common.push(a[i++])
      j++
    } else if (a[i] < b[j]) i++
    else j++
  }
  return Float64Array.from(common)
}

/** Adds the counts of a side to those of the buckets between `common` bounds, of which there is one more than bounds. */
export function mapCounts(
  side: Side,
  lostOfSide: Float64Array | undefined,
  bounds: Float64Array,
  common: Float64Array,
  sign: 1 | -1,
  sums: Float64Array,
  lost: Float64Array,
): void {
  let target = 0
  for (let i = 0; i < side.index.length; i++) {
    const own = side.index[i]
    if (own >= bounds.length) target = common.length
    else while (target < common.length && common[target] < bounds[own]) target++
    kahanAt(sums, lost, target, sign * side.counts[i])
    if (lostOfSide !== undefined) kahanAt(sums, lost, target, lostOfSide[i])
  }
}

/** a + sign * b in common bounds, in place; empty buckets are left out. @param lost as in `kahanAddSide`. */
export function addInCommonBounds(
  a: Side,
  lost: Side | undefined,
  aBounds: Float64Array,
  b: Side,
  bBounds: Float64Array,
  common: Float64Array,
  sign: 1 | -1,
): void {
  const size = common.length + 1
  const sums = new Float64Array(size)
  const left = new Float64Array(size)
  mapCounts(a, lost?.counts, aBounds, common, 1, sums, left)
  mapCounts(b, undefined, bBounds, common, sign, sums, left)
  // Buckets that only rounding has emptied stay, whether or not somebody keeps what was lost.
  const kept: Side = { index: Int32Array.from(sums, (_, i) => i), counts: left }
  a.index = kept.index
  a.counts = sums
  compactSide(a, kept)
  if (lost === undefined) return
  lost.index = kept.index
  lost.counts = kept.counts
}
