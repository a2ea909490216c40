/** Cutting a histogram at a value: what the operators `</` and `>/` do. */

import { boundOf, CUSTOM_BUCKETS_SCHEMA, compactSide, type HistogramParts, partBelow, type Side } from 'svcdb/lib/histogram'

const { POSITIVE_INFINITY: INF, NEGATIVE_INFINITY: MINUS_INF } = Number
/** What `keep` leaves of a bucket: its count, and the value that stands for it in the new sum. Overwritten by the next call. */
const kept = { count: 0, middle: 0 }
const totals = { count: 0, sum: 0 }

/** Keeps the observations below `at`, or above it, in place. Count and sum are estimated from the buckets, if any was cut. */
export function trim(h: HistogramParts, at: number, below: boolean): void {
  totals.count = 0
  totals.sum = 0
  const hasPositive = h.positive.counts.some((count) => count !== 0)
  const hasNegative = h.negative.counts.some((count) => count !== 0)
  let cut = trimSide(h, h.positive, true, at, below)
  cut = trimSide(h, h.negative, false, at, below) || cut
  if (h.zeroCount > 0) {
    const from = hasPositive && !hasNegative ? 0 : -h.zeroThreshold
    const to = hasNegative && !hasPositive ? 0 : h.zeroThreshold
    keepOfZero(from, to, h.zeroCount, at, below)
    cut ||= kept.count !== h.zeroCount
    h.zeroCount = kept.count
    account()
  }
  if (!cut) return
  h.count = totals.count
  h.sum = totals.sum
  compactSide(h.positive)
  compactSide(h.negative)
}

function account(): void {
  totals.sum += kept.middle * kept.count
  totals.count += kept.count
}

function trimSide(h: HistogramParts, { index, counts }: Side, positive: boolean, at: number, below: boolean): boolean {
  const custom = h.schema === CUSTOM_BUCKETS_SCHEMA
  let cut = false
  for (let i = 0; i < counts.length; i++) {
    if (counts[i] === 0) continue
    const far = boundOf(h.schema, index[i], h.customBounds)
    const near = boundOf(h.schema, index[i] - 1, h.customBounds)
    keep(positive ? near : -far, positive ? far : -near, counts[i], at, below, positive, custom)
    account()
    if (counts[i] === kept.count) continue
    counts[i] = kept.count
    cut = true
  }
  return cut
}

function keep(lower: number, upper: number, count: number, at: number, below: boolean, positive: boolean, linear: boolean): void {
  if (below ? upper <= at : lower >= at) leave(count, middle(lower, upper, positive, linear))
  else if (!(below ? lower < at : upper > at)) leave(0, 0)
  else if (lower === MINUS_INF) keepOfFirst(upper, count, at, below)
  else if (upper === INF) keepOfLast(lower, count, at, below)
  else {
    const under = at <= lower ? 0 : at >= upper ? count : count * partBelow(at, lower, upper, linear)
    if (below) leave(under, middle(lower, at, positive, linear))
    else leave(count - under, middle(at, upper, positive, linear))
  }
}

/** The bucket from -Inf to a finite bound, which begins at 0 where that makes sense; else nothing is known of what is in it. */
function keepOfFirst(upper: number, count: number, at: number, below: boolean): void {
  const fromZero = upper > 0 && upper !== INF
  if (below) {
    if (at > 0 && fromZero) leave((count * at) / upper, at / 2)
    else if (upper <= 0) leave(count, at)
    else leave(0, 0)
  } else if (at >= 0 && fromZero) leave(count * (1 - at / upper), (at + upper) / 2)
  else leave(0, 0)
}

/** The bucket up to +Inf: cut from above it goes, from below it is taken to lie above the cut. */
function keepOfLast(lower: number, count: number, at: number, below: boolean): void {
  if (!below && at >= lower) leave(count, at)
  else leave(0, 0)
}

/** On a linear scale. A zero bucket without width lies above its value, for either cut. */
function keepOfZero(lower: number, upper: number, count: number, at: number, below: boolean): void {
  if (at <= lower) leave(below ? 0 : count, (lower + upper) / 2)
  else if (at >= upper) leave(below ? count : 0, (lower + upper) / 2)
  else if (below) leave((count * (at - lower)) / (upper - lower), (lower + at) / 2)
  else leave((count * (upper - at)) / (upper - lower), (at + upper) / 2)
}

function leave(count: number, value: number): void {
  kept.count = count
  kept.middle = value
}

function middle(lower: number, upper: number, positive: boolean, linear: boolean): number {
  const [noLower, noUpper] = [Math.abs(lower) === INF, Math.abs(upper) === INF]
  if (noLower) return noUpper ? 0 : upper > 0 ? upper / 2 : upper
  if (noUpper) return lower
  if (linear) return (lower + upper) / 2
  return Math.sqrt(Math.abs(lower * upper)) * (positive ? 1 : -1)
}
