/** A straight line through the samples by least squares, over their own times: gaps and uneven spacing are as they are. */
import { type FitResult, type Prediction, UnfitError } from './model.ts'

export interface LinearRegression {
  kind: 'LinearRegression'
  /** Per step of `interval_ns`. */
  slope: number
  /** At `start_ts`. */
  intercept: number
  r_squared: number
  residual_std: number
  start_ts: bigint
  interval_ns: bigint
  /** Of the fit, for its intervals: samples, the mean of their places in steps, the sum of squares about it, and the last place. */
  count: number
  center: number
  scatter: number
  last: number
}

/** @param steps places of the values in steps since the first, ascending. NaN among the values is left out. */
export function fitLine(values: Float64Array, steps: Float64Array): FitResult<Omit<LinearRegression, 'start_ts' | 'interval_ns'>> {
  let count = 0
  let center = 0
  let mean = 0
  let scatter = 0
  let cross = 0
  let total = 0
  for (let i = 0; i < values.length; i++) {
    if (Number.isNaN(values[i])) continue
    count++
    const dx = steps[i] - center
    const dy = values[i] - mean
    center += dx / count
    mean += dy / count
    scatter += dx * (steps[i] - center)
    cross += dx * (values[i] - mean)
    total += dy * (values[i] - mean)
  }
  if (count < 2 || scatter === 0) throw new UnfitError('linear_regression needs at least 2 points at different times')
  const slope = cross / scatter
  const intercept = mean - slope * center
  const fitted = new Float64Array(values.length)
  let rest = 0
  let most = 0
  for (let i = 0; i < values.length; i++) {
    fitted[i] = mean + slope * (steps[i] - center)
    if (Number.isNaN(values[i])) continue
    rest += (values[i] - fitted[i]) ** 2
    most = Math.max(most, Math.abs(values[i]))
  }
  const std = Math.sqrt(rest / Math.max(1, count - 2))
  const residual_std = std < 1e-12 * most ? 0 : std
  const r_squared = total > 0 ? Math.min(1, Math.max(0, 1 - rest / total)) : 1
  const last = steps[steps.length - 1]
  return { model: { kind: 'LinearRegression', slope, intercept, r_squared, residual_std, count, center, scatter, last }, fitted }
}

export function predictLine({ slope, intercept, residual_std, count, center, scatter, last }: LinearRegression, horizon: number): Prediction {
  const values = new Float64Array(horizon)
  const std = new Float64Array(horizon)
  for (let h = 0; h < horizon; h++) {
    const x = last + h + 1
    values[h] = intercept + slope * x
    std[h] = residual_std * Math.sqrt(1 + 1 / count + (x - center) ** 2 / scatter)
  }
  return { values, std }
}
