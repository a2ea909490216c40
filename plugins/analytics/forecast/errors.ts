/** Measures of forecasts against what came. */

export interface ForecastErrors {
  rmse: number
  mae: number
  /** Mean of |error| / |value| over values that are not 0, as a part of 1; NaN where all are. */
  mape: number
  /** Mean of 2 |error| / (|value| + |forecast|), as a part of 1; 0 where both are 0. */
  smape: number
  /** 1 - squared errors / squares about the mean; NaN where the values have no spread. */
  r_squared: number
}

export function forecastErrors(values: Float64Array, forecasts: Float64Array): ForecastErrors {
  const n = values.length
  let squares = 0
  let absolute = 0
  let relative = 0
  let nonZero = 0
  let symmetric = 0
  let mean = 0
  for (let i = 0; i < n; i++) {
    const error = Math.abs(values[i] - forecasts[i])
    squares += error * error
    absolute += error
    if (values[i] !== 0) {
      relative += error / Math.abs(values[i])
      nonZero++
    }
    const both = Math.abs(values[i]) + Math.abs(forecasts[i])
    if (both > 0) symmetric += (2 * error) / both
    mean += values[i] / n
  }
  let about = 0
  for (let i = 0; i < n; i++) about += (values[i] - mean) ** 2
  return {
    rmse: Math.sqrt(squares / n),
    mae: absolute / n,
    mape: nonZero > 0 ? relative / nonZero : Number.NaN,
    smape: symmetric / n,
    r_squared: about > 0 ? 1 - squares / about : Number.NaN,
  }
}
