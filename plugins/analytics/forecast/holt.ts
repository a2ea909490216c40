/**
 * Holt's linear smoothing with a damped trend: forecast = level + phi * trend; level = forecast + alpha * error; trend = phi * trend + alpha * beta * error.
 * For given smoothings the errors are linear in the level and the trend before the first value: the best of these follow by least squares.
 */
import { bounded, leastMinimum, unbounded } from './minimise.ts'
import { type FitResult, type Prediction, spread } from './model.ts'

export interface HoltLinear {
  kind: 'HoltLinear'
  alpha: number
  beta: number
  /** 1 = not damped. */
  phi: number
  level: number
  trend: number
  residual_std: number
}

const LEAST = 1e-4
const STARTS = [0.02, 0.2, 0.5, 0.9].flatMap((alpha) => [0.01, 0.2, 0.6, 0.98].map((beta) => [alpha, beta] as const))

/** @param values at least 2, without gaps. @param phi above 0, at most 1. */
export function fitHolt(values: Float64Array, phi = 0.98, fixed: { alpha?: number; beta?: number } = {}): FitResult<HoltLinear> {
  const { alpha, beta } = smoothings(values, phi, fixed)
  const begin = beginning(values, alpha, beta, phi)
  const fitted = new Float64Array(values.length)
  let { level, trend } = begin
  for (let i = 0; i < values.length; i++) {
    const forecast = level + phi * trend
    const error = values[i] - forecast
    fitted[i] = forecast
    level = forecast + alpha * error
    trend = phi * trend + alpha * beta * error
  }
  return { model: { kind: 'HoltLinear', alpha, beta, phi, level, trend, residual_std: spread(values, fitted, 4) }, fitted }
}

export function predictHolt({ alpha, beta, phi, level, trend, residual_std }: HoltLinear, horizon: number): Prediction {
  const values = new Float64Array(horizon)
  const std = new Float64Array(horizon)
  // The trend's weight after h steps: phi + phi^2 + ... + phi^h. An error moves the forecast h steps later by alpha * (1 + beta * weight).
  let weight = 0
  let power = 1
  let variance = 1
  for (let h = 0; h < horizon; h++) {
    std[h] = residual_std * Math.sqrt(variance)
    power *= phi
    weight += power
    values[h] = level + weight * trend
    variance += (alpha * (1 + beta * weight)) ** 2
  }
  return { values, std }
}

function smoothings(values: Float64Array, phi: number, fixed: { alpha?: number; beta?: number }): { alpha: number; beta: number } {
  if (values.length < 4) return { alpha: fixed.alpha ?? 0.5, beta: fixed.beta ?? 0.1 }
  const alphaOf = (x: Float64Array): number => fixed.alpha ?? bounded(x[0], LEAST, 1)
  const betaOf = (x: Float64Array): number => fixed.beta ?? bounded(x[1], 0, 1)
  const cost = (x: Float64Array): number => Math.log(beginning(values, alphaOf(x), betaOf(x), phi).sse + Number.MIN_VALUE)
  // A trend that the model cannot follow, such as a season, makes several minima.
  const starts = STARTS.map(([alpha, beta]) => Float64Array.of(unbounded(alpha, LEAST, 1), unbounded(beta, 0, 1)))
  const { x } = leastMinimum(cost, starts, 40)
  return { alpha: alphaOf(x), beta: betaOf(x) }
}

/** Level and trend before the first value that leave the least squared error, and that error. */
function beginning(values: Float64Array, alpha: number, beta: number, phi: number): { level: number; trend: number; sse: number } {
  let level = values[0]
  let trend = 0
  // What a unit of level, and of trend, before the first value adds to both later.
  let levelOfLevel = 1
  let trendOfLevel = 0
  let levelOfTrend = 0
  let trendOfTrend = 1
  let ee = 0
  let ll = 0
  let lt = 0
  let tt = 0
  let el = 0
  let et = 0
  const gain = alpha * beta
  const n = values.length
  let i = 0
  for (; i < n; i++) {
    const forecast = level + phi * trend
    const error = values[i] - forecast
    level = forecast + alpha * error
    trend = phi * trend + gain * error
    const byLevel = levelOfLevel + phi * trendOfLevel
    const byTrend = levelOfTrend + phi * trendOfTrend
    ee += error * error
    ll += byLevel * byLevel
    lt += byLevel * byTrend
    tt += byTrend * byTrend
    el += error * byLevel
    et += error * byTrend
    levelOfLevel = (1 - alpha) * byLevel
    trendOfLevel = phi * trendOfLevel - gain * byLevel
    levelOfTrend = (1 - alpha) * byTrend
    trendOfTrend = phi * trendOfTrend - gain * byTrend
    if (Math.abs(levelOfLevel) + Math.abs(trendOfLevel) + Math.abs(levelOfTrend) + Math.abs(trendOfTrend) < 1e-10) break
  }
  for (i++; i < n; i++) {
    const forecast = level + phi * trend
    const error = values[i] - forecast
    level = forecast + alpha * error
    trend = phi * trend + gain * error
    ee += error * error
  }
  const determinant = ll * tt - lt * lt
  const solvable = determinant > 1e-12 * ll * tt
  const l = solvable ? (el * tt - et * lt) / determinant : el / ll
  const t = solvable ? (et * ll - el * lt) / determinant : 0
  return { level: values[0] + l, trend: t, sse: Math.max(0, ee - l * el - t * et) }
}
