/**
 * Quantiles, fractions and moments of native histograms.
 *
 * Within a bucket observations are taken to be spread evenly: on a linear scale with custom bounds and in the zero bucket, on a
 * logarithmic one else. If all buckets have one sign, the zero bucket has it too.
 */

import { BucketCursor, type HistogramParts } from './buckets.ts'
import { kahanAt } from './kahan.ts'
import { CUSTOM_BUCKETS_SCHEMA } from './native-histogram.ts'

/** What observations of NaN, which are counted but are in no bucket, did to a result. Whoever passes one sets it to '' before. */
export interface NanNote {
  /** 'result': the quantile is NaN for them; 'skew': they were taken for the greatest ones; 'fraction': they are in no fraction. */
  nan: '' | 'result' | 'skew' | 'fraction'
}

const cursor = new BucketCursor()

/** The value that a part of the observations does not exceed. @param q 0 to 1; -Infinity below, +Infinity above. @param note what observations of NaN did. @returns NaN for an empty histogram. */
export function quantile(h: HistogramParts, q: number, note?: NanNote): number {
  if (q < 0) return Number.NEGATIVE_INFINITY
  if (q > 1) return Number.POSITIVE_INFINITY
  if (h.count === 0 || Number.isNaN(q)) return Number.NaN
  const custom = h.schema === CUSTOM_BUCKETS_SCHEMA
  const unsure = Number.isNaN(h.sum)
  // From the nearer end, to add up less; with observations of NaN only the lower one is known.
  const forward = unsure || q < 0.5
  let rank = (forward ? q : 1 - q) * h.count
  let count = 0
  cursor.open(h, !forward)
  while (cursor.next()) {
    if (cursor.count === 0) continue
    count += cursor.count
    if (count >= rank) break
  }
  let { lower, upper } = cursor
  if (custom) {
    if (lower === Number.NEGATIVE_INFINITY) {
      if (upper <= 0) return upper
      lower = 0
    } else if (upper === Number.POSITIVE_INFINITY) return lower
  } else if (lower < 0 && upper > 0) {
    if (onlyPositive(h)) lower = 0
    else if (onlyNegative(h)) upper = 0
  }
  if (count > h.count) count = h.count
  if (count < rank) {
    if (!unsure) return upper
    if (note !== undefined) note.nan = 'result'
    return Number.NaN
  }
  const within = cursor.count
  rank = forward ? rank - (count - within) : count - rank
  if (unsure) {
    while (cursor.next()) count += cursor.count
    // Where every observation is in a bucket none was NaN: the sum is only not known, as OTLP may leave it out.
    if (count < h.count && note !== undefined) note.nan = 'skew'
  }
  const part = rank / within
  if (custom || (lower <= 0 && upper >= 0)) return lower + (upper - lower) * part
  const logLower = Math.log2(Math.abs(lower))
  const logUpper = Math.log2(Math.abs(upper))
  return lower > 0 ? 2 ** (logLower + (logUpper - logLower) * part) : -(2 ** (logUpper + (logLower - logUpper) * (1 - part)))
}

/** The part of the observations above `from` and up to `to`, 0 to 1. @returns NaN for an empty histogram or a bound of NaN. */
export function fraction(h: HistogramParts, from: number, to: number, note?: NanNote): number {
  if (h.count === 0 || Number.isNaN(from) || Number.isNaN(to)) return Number.NaN
  if (from >= to) return 0
  const custom = h.schema === CUSTOM_BUCKETS_SCHEMA
  let counted = 0
  let rank = 0
  // Observations below each end; NaN: not known yet.
  let below = Number.NaN
  let upTo = Number.NaN
  cursor.open(h, false)
  while (cursor.next()) {
    const { count } = cursor
    let { lower, upper } = cursor
    counted += count
    const zero = lower <= 0 && upper >= 0
    // Custom bounds have no zero bucket: only the first of them has no lower bound, and begins at 0 if it ends above.
    if (custom) {
      if (lower === Number.NEGATIVE_INFINITY && upper > 0) lower = 0
    } else if (zero && onlyPositive(h)) lower = 0
    else if (zero && onlyNegative(h)) upper = 0
    if (Number.isNaN(below)) below = rankOf(from, lower, upper, count, rank, custom || zero)
    if (Number.isNaN(upTo)) upTo = rankOf(to, lower, upper, count, rank, custom || zero)
    if (!Number.isNaN(below) && !Number.isNaN(upTo)) break
    rank += count
  }
  let total = h.count
  if (Number.isNaN(h.sum)) {
    while (cursor.next()) counted += cursor.count
    if (counted < h.count && note !== undefined) note.nan = 'fraction'
    total = counted
  }
  if (Number.isNaN(below) || below > total) below = total
  if (Number.isNaN(upTo) || upTo > total) upTo = total
  return (upTo - below) / h.count
}

/** How many observations are below `value`, if it lies at the begin of the bucket or within; else NaN. @param rank those below the bucket */
function rankOf(value: number, lower: number, upper: number, count: number, rank: number, linear: boolean): number {
  if (lower >= value) return rank
  if (upper <= value) return Number.NaN
  // A bucket without lower bound is the first one: all of it is taken to be below.
  if (linear && lower === Number.NEGATIVE_INFINITY) return count
  return rank + count * partBelow(value, lower, upper, linear)
}

/** The part of a bucket's observations that lies below a value within the bucket. */
export function partBelow(value: number, lower: number, upper: number, linear: boolean): number {
  if (linear) return (value - lower) / (upper - lower)
  const logLower = Math.log2(Math.abs(lower))
  const logUpper = Math.log2(Math.abs(upper))
  const logValue = Math.log2(Math.abs(value))
  return value > 0 ? (logValue - logLower) / (logUpper - logLower) : 1 - (logValue - logUpper) / (logLower - logUpper)
}

/** The average of the observations; NaN for an empty histogram. */
export function mean(h: HistogramParts): number {
  return h.sum / h.count
}

/** Each bucket's observations count as its middle: arithmetic with custom bounds, geometric else, 0 in the zero bucket. */
export function variance(h: HistogramParts): number {
  const custom = h.schema === CUSTOM_BUCKETS_SCHEMA
  const average = mean(h)
  squares[0] = 0
  lost[0] = 0
  cursor.open(h, false)
  while (cursor.next()) {
    const { lower, upper, count } = cursor
    if (count === 0) continue
    let middle = 0
    if (custom) middle = (upper + lower) / 2
    else if (lower > 0 || upper < 0) middle = Math.sqrt(upper * lower) * (upper < 0 ? -1 : 1)
    const delta = middle - average
    kahanAt(squares, lost, 0, count * delta * delta)
  }
  return (squares[0] + lost[0]) / h.count
}

const squares = new Float64Array(1)
const lost = new Float64Array(1)

function onlyPositive({ positive, negative }: HistogramParts): boolean {
  return negative.index.length === 0 && positive.index.length > 0
}

function onlyNegative({ positive, negative }: HistogramParts): boolean {
  return positive.index.length === 0 && negative.index.length > 0
}
