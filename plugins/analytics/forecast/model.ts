/** What all models of one series have in common. */

/** A fitted model, and what it would have forecast one step before each value. */
export interface FitResult<Model> {
  model: Model
  fitted: Float64Array
}

export interface Prediction {
  /** One a step ahead. */
  values: Float64Array
  /** Standard deviation of the error of each. */
  std: Float64Array
}

/** Values are missing that a model needs, or an argument means nothing. The message ends a sentence that says what was wanted. */
export class UnfitError extends Error {}

/** Standard deviation of errors about 0, with a degree of freedom less for each parameter as far as there are values. */
export function spread(values: Float64Array, fitted: Float64Array, parameters: number, from = 0): number {
  let sum = 0
  for (let i = from; i < values.length; i++) sum += (values[i] - fitted[i]) ** 2
  const std = Math.sqrt(sum / Math.max(1, values.length - from - parameters))
  // What is left of additions is not an error of the model.
  return std < 1e-12 * magnitude(values) ? 0 : std
}

export function magnitude(values: Float64Array): number {
  let most = 0
  for (let i = 0; i < values.length; i++) most = Math.max(most, Math.abs(values[i]))
  return most
}

/** How many standard deviations of a normal distribution lie between the middle and each end of an interval that holds `level` of it; 0 < level < 1. */
export function normalWidth(level: number): number {
  return inverseNormal(0.5 + level / 2)
}

/** Acklam's rational approximation, made exact by one step of Halley's method. */
function inverseNormal(p: number): number {
  const q = p - 0.5
  let x: number
  if (Math.abs(q) <= 0.47575) {
    const r = q * q
    x =
      ((((((-39.69683028665376 * r + 220.9460984245205) * r - 275.9285104469687) * r + 138.357751867269) * r - 30.66479806614716) * r + 2.506628277459239) *
        q) /
      (((((-54.47609879822406 * r + 161.5858368580409) * r - 155.6989798598866) * r + 66.80131188771972) * r - 13.28068155288572) * r + 1)
  } else {
    const r = Math.sqrt(-2 * Math.log(q < 0 ? p : 1 - p))
    const tail =
      (((((-0.007784894002430293 * r - 0.3223964580411365) * r - 2.400758277161838) * r - 2.549732539343734) * r + 4.374664141464968) * r + 2.938163982698783) /
      ((((0.007784695709041462 * r + 0.3224671290700398) * r + 2.445134137142996) * r + 3.754408661907416) * r + 1)
    x = q < 0 ? tail : -tail
  }
  const error = 0.5 * erfc(-x / Math.SQRT2) - p
  const u = error * Math.sqrt(2 * Math.PI) * Math.exp((x * x) / 2)
  return x - u / (1 + (x * u) / 2)
}

/** The complement of the error function, by its series near 0 and its continued fraction elsewhere. */
function erfc(x: number): number {
  if (x < 0) return 2 - erfc(-x)
  if (x < 2) {
    let term = x
    let sum = x
    for (let k = 1; k < 60; k++) {
      term *= -(x * x) / k
      sum += term / (2 * k + 1)
    }
    return 1 - (2 / Math.sqrt(Math.PI)) * sum
  }
  let fraction = 0
  for (let k = 60; k > 0; k--) fraction = k / 2 / (x + fraction)
  return Math.exp(-x * x) / Math.sqrt(Math.PI) / (x + fraction)
}
