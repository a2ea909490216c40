/** The parameter of an aggregation over all steps. */
export interface ParameterRange {
  /** An infinity wins over NaN, and NaN over numbers. */
  high: number
  low: number
  anyNaN: boolean
}

export function rangeOf(values: Float64Array): ParameterRange {
  let high = -Infinity
  let low = Infinity
  let anyNaN = false
  for (const value of values) {
    if (Number.isNaN(value)) anyNaN = true
    if (value > high) high = value
    if (value < low) low = value
  }
  if (!anyNaN) return { high, low, anyNaN }
  return { high: high === Infinity ? high : NaN, low: low === -Infinity ? low : NaN, anyNaN }
}
