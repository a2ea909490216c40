/** Zero buckets of different widths: the narrower one grows, and swallows the buckets it then covers. */

import { exponentialBound } from './bounds.ts'
import type { HistogramParts, Side } from './buckets.ts'
import { kahanAt } from './kahan.ts'
import { compactSide } from './side.ts'

/** What `widened` hands back; overwritten by the next call. */
class Widened {
  count = 0
  lost = 0
  threshold = 0
}
const result = new Widened()
const sum = new Float64Array(1)
const lost = new Float64Array(1)

/**
 * What the zero bucket of h holds with a threshold of at least the one given: a populated bucket that it would cut moves it further up.
 * @param compensation what the counts of h have lost by rounding
 */
export function widened(h: HistogramParts, threshold: number, compensation: HistogramParts | undefined): Readonly<Widened> {
  result.count = h.zeroCount
  result.lost = compensation?.zeroCount ?? 0
  result.threshold = threshold
  if (threshold === h.zeroThreshold) return result
  for (;;) {
    sum[0] = h.zeroCount
    lost[0] = compensation?.zeroCount ?? 0
    const positive = swallow(h.schema, h.positive, compensation?.positive, result.threshold)
    result.threshold = swallow(h.schema, h.negative, compensation?.negative, positive)
    // If the negative side moved it on, what the positive one gave is too little. Not ===: a threshold of NaN would never end.
    if (!(result.threshold > positive)) break
  }
  result.count = sum[0]
  result.lost = lost[0]
  return result
}

/** Adds the buckets that begin below the threshold to the sum; returns the threshold, moved to the end of the one it cuts. */
function swallow(schema: number, { index, counts }: Side, compensation: Side | undefined, threshold: number): number {
  for (let i = 0; i < index.length; i++) {
    if (exponentialBound(schema, index[i] - 1) >= threshold) break
    kahanAt(sum, lost, 0, counts[i])
    if (compensation !== undefined) kahanAt(sum, lost, 0, compensation.counts[i])
    const end = exponentialBound(schema, index[i])
    if (end > threshold) return counts[i] === 0 ? threshold : end
  }
  return threshold
}

/** Empties and leaves out the buckets that the zero bucket covers: they are counted there by now. */
function dropCovered(schema: number, side: Side, compensation: Side | undefined, threshold: number): void {
  for (let i = 0; i < side.index.length && exponentialBound(schema, side.index[i] - 1) < threshold; i++) {
    side.counts[i] = 0
    if (compensation !== undefined) compensation.counts[i] = 0
  }
  compactSide(side, compensation)
}

/** What the other's zero bucket adds to that of h; overwritten by the next call. */
export const otherZero = { count: 0, lost: 0 }

/** Widens the zero bucket of h, or for `otherZero` that of the other one (which is not changed), until both have the same threshold. */
export function reconcileZeroBuckets(h: HistogramParts, other: HistogramParts, compensation: HistogramParts | undefined): void {
  otherZero.count = other.zeroCount
  otherZero.lost = 0
  let threshold = other.zeroThreshold
  // Not !==: a threshold of NaN would never end.
  while (threshold > h.zeroThreshold || h.zeroThreshold > threshold) {
    if (h.zeroThreshold > threshold) {
      const wider = widened(other, h.zeroThreshold, undefined)
      otherZero.count = wider.count
      otherZero.lost = wider.lost
      threshold = wider.threshold
    }
    if (threshold > h.zeroThreshold) {
      const wider = widened(h, threshold, compensation)
      h.zeroCount = wider.count
      h.zeroThreshold = wider.threshold
      if (compensation !== undefined) compensation.zeroCount = wider.lost
      dropCovered(h.schema, h.positive, compensation?.positive, h.zeroThreshold)
      dropCovered(h.schema, h.negative, compensation?.negative, h.zeroThreshold)
    }
  }
}
