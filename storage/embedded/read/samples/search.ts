/** Positions in ascending lists of series. */

/** Where the first number not below `value` is. */
export function lowerBound(sorted: Int32Array, value: number, from = 0, to: number = sorted.length): number {
  let low = from
  let high = to
  while (low < high) {
    const middle = (low + high) >>> 1
    if (sorted[middle] < value) low = middle + 1
    else high = middle
  }
  return low
}

/** Those of an ascending list that lie in a range. */
export function within(series: Int32Array, min: number, max: number): Int32Array {
  return series.subarray(lowerBound(series, min), lowerBound(series, max + 1))
}
