/** Floats whose bits count: staleness markers are NaNs of a payload of their own, which a NaN may lose on its way through a JavaScript number. */

/** Whether NaN or an infinity is among the first n values. */
export function hasNonFinite(values: Float64Array, n: number): boolean {
  let sum = 0
  for (let i = 0; i < n; i++) sum += values[i] * 0 // NaN as soon as one value is not finite
  return sum !== 0
}
