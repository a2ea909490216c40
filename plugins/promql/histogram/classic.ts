/**
 * Quantiles and fractions of classic histograms: cumulative counts by upper bound (`le`), the last of them +Inf.
 *
 * Both functions take the first `length` entries of `bounds` and `counts`, in any order, and change them: they are sorted, equal bounds
 * are merged, and for quantiles counts are made to rise. What they leave can be given to them again.
 */

/** Relative differences of adjacent buckets below this are the rounding of whoever added the counts up. */
const TOLERANCE = 1e-12
const MIN_NORMAL = 2 ** -1022

/** What was repaired to get a quantile. */
export class Repair {
  /** A count fell from one bucket to the next. */
  forcedMonotonic = false
  /** It differed by no more than rounding would. */
  fixedPrecision = false
  /** Bounds of the first and last bucket that was raised, and by how much at most. */
  minBucket = Number.POSITIVE_INFINITY
  maxBucket = Number.NEGATIVE_INFINITY
  maxDiff = 0

  reset(): void {
    this.forcedMonotonic = false
    this.fixedPrecision = false
    this.minBucket = Number.POSITIVE_INFINITY
    this.maxBucket = Number.NEGATIVE_INFINITY
    this.maxDiff = 0
  }
}

/**
 * Observations are spread evenly within a bucket; the first one begins at 0 if it ends above.
 * @param repair overwritten
 */
export function bucketQuantile(q: number, bounds: Float64Array, counts: Float64Array, length: number, repair: Repair): number {
  repair.reset()
  if (Number.isNaN(q)) return Number.NaN
  if (q < 0) return Number.NEGATIVE_INFINITY
  if (q > 1) return Number.POSITIVE_INFINITY
  const n = normalise(bounds, counts, length)
  if (n === 0) return Number.NaN
  makeMonotonic(bounds, counts, n, repair)
  const observations = counts[n - 1]
  if (n < 2 || observations === 0) return Number.NaN
  const rank = q * observations
  let low = 0
  let high = n - 1
  while (low < high) {
    const middle = (low + high) >> 1
    if (counts[middle] >= rank) high = middle
    else low = middle + 1
  }
  if (low === n - 1) return bounds[n - 2]
  if (low === 0) return bounds[0] <= 0 ? bounds[0] : bounds[0] * (rank / counts[0])
  const start = bounds[low - 1]
  return start + (bounds[low] - start) * ((rank - counts[low - 1]) / (counts[low] - counts[low - 1]))
}

/** The part of the observations between two values. */
export function bucketFraction(from: number, to: number, bounds: Float64Array, counts: Float64Array, length: number): number {
  const n = normalise(bounds, counts, length)
  if (n === 0) return Number.NaN
  const total = counts[n - 1]
  if (total === 0 || Number.isNaN(from) || Number.isNaN(to)) return Number.NaN
  if (from >= to) return 0
  return (countBelow(to, bounds, counts, n) - countBelow(from, bounds, counts, n)) / total
}

function countBelow(value: number, bounds: Float64Array, counts: Float64Array, n: number): number {
  const total = counts[n - 1]
  let lower = bounds[0] <= 0 ? Number.NEGATIVE_INFINITY : 0
  let rank = 0
  for (let i = 0; i < n; i++) {
    if (lower >= value) return Math.min(rank, total)
    if (bounds[i] > value) {
      // Nothing is known within a bucket that begins at -Inf; all of it is taken to be below.
      const count = lower === Number.NEGATIVE_INFINITY ? counts[i] : rank + ((counts[i] - rank) * (value - lower)) / (bounds[i] - lower)
      return Math.min(count, total)
    }
    rank = counts[i]
    lower = bounds[i]
  }
  return total
}

/** Sorts and merges equal bounds. @returns how many are left; 0 when the last bound is not +Inf */
function normalise(bounds: Float64Array, counts: Float64Array, length: number): number {
  sort(bounds, counts, length)
  if (length === 0 || bounds[length - 1] !== Number.POSITIVE_INFINITY) return 0
  let n = 0
  for (let i = 1; i < length; i++) {
    if (bounds[i] === bounds[n]) counts[n] += counts[i]
    else {
      bounds[++n] = bounds[i]
      counts[n] = counts[i]
    }
  }
  return n + 1
}

/** By insertion: bounds mostly come in order, and there are few. */
function sort(bounds: Float64Array, counts: Float64Array, length: number): void {
  for (let i = 1; i < length; i++) {
    const bound = bounds[i]
    if (!(bound < bounds[i - 1])) continue
    const count = counts[i]
    let at = i
    for (; at > 0 && bound < bounds[at - 1]; at--) {
      bounds[at] = bounds[at - 1]
      counts[at] = counts[at - 1]
    }
    bounds[at] = bound
    counts[at] = count
  }
}

function makeMonotonic(bounds: Float64Array, counts: Float64Array, n: number, repair: Repair): void {
  let last = counts[0]
  for (let i = 1; i < n; i++) {
    const count = counts[i]
    if (count === last) continue
    if (almostEqual(last, count)) {
      counts[i] = last
      repair.fixedPrecision = true
    } else if (count < last) {
      counts[i] = last
      repair.forcedMonotonic = true
      if (bounds[i] < repair.minBucket) repair.minBucket = bounds[i]
      if (bounds[i] > repair.maxBucket) repair.maxBucket = bounds[i]
      if (last - count > repair.maxDiff) repair.maxDiff = last - count
    } else last = count
  }
}

function almostEqual(a: number, b: number): boolean {
  if (a === b || (Number.isNaN(a) && Number.isNaN(b))) return true
  const total = Math.abs(a) + Math.abs(b)
  const difference = Math.abs(a - b)
  if (a === 0 || b === 0 || total < MIN_NORMAL) return difference < TOLERANCE * MIN_NORMAL
  return difference / Math.min(total, Number.MAX_VALUE) < TOLERANCE
}
