/**
 * The test of Kwiatkowski, Phillips, Schmidt and Shin (Journal of Econometrics 54, 1992): whether a series is stationary about a level. How often a series is
 * differenced follows from it.
 */
import { applied, differencing } from './polynomials.ts'

/** A stationary series has a greater statistic with a chance of 5 %. */
const CRITICAL = 0.463
const MOST_DIFFERENCES = 2

/** @param lags of the long-run variance, weighted as by Bartlett. @returns the statistic; 0 without spread. */
export function kpss(values: Float64Array, lags = Math.trunc((3 * Math.sqrt(values.length)) / 13)): number {
  const n = values.length
  let mean = 0
  for (let i = 0; i < n; i++) mean += values[i] / n
  const errors = values.map((v) => v - mean)
  let sum = 0
  let squares = 0
  for (let i = 0; i < n; i++) {
    sum += errors[i]
    squares += sum * sum
  }
  let variance = 0
  for (let lag = 0; lag <= Math.min(lags, n - 1); lag++) {
    let product = 0
    for (let i = lag; i < n; i++) product += errors[i] * errors[i - lag]
    variance += (lag === 0 ? 1 : 2 * (1 - lag / (lags + 1))) * product
  }
  variance /= n
  return variance > 1e-20 * Math.max(1, mean * mean) ? squares / (n * n * variance) : 0
}

/** Differences (0 to 2) after which the test no longer rejects stationarity at 5 %. */
export function differencesOf(values: Float64Array): number {
  for (let d = 0; d < MOST_DIFFERENCES; d++) {
    const w = applied(differencing(d, 0, 1), values)
    if (w.length < 4 || !(kpss(w) > CRITICAL)) return d
  }
  return MOST_DIFFERENCES
}

/**
 * The period of a series, from its autocorrelation about a line, or that of its differences where it wanders: the shortest lag whose peak is nearly the highest.
 * 0 = none that shows in three cycles.
 * @param most longest period that is looked for.
 */
export function periodOf(given: Float64Array, most: number): number {
  // A random walk resembles a season that has been seen twice.
  const values = differencesOf(given) > 0 ? applied(differencing(1, 0, 1), given) : given
  const n = values.length
  const limit = Math.min(most, Math.floor(n / 3))
  if (limit < 2) return 0
  const rest = withoutLine(values)
  let variance = 0
  for (let i = 0; i < n; i++) variance += rest[i] * rest[i]
  if (!(variance > 0)) return 0
  const correlations = new Float64Array(limit + 2)
  for (let lag = 1; lag <= Math.min(limit + 1, n - 1); lag++) {
    let sum = 0
    for (let i = lag; i < n; i++) sum += rest[i] * rest[i - lag]
    correlations[lag] = (sum / variance) * (n / (n - lag))
  }
  // Near 0 a smooth series resembles itself: a period shows only after the correlation has first fallen.
  let from = 1
  while (from < limit && correlations[from + 1] < correlations[from]) from++
  if (correlations[1] < correlations[2]) from = 2
  let peak = 0
  const isPeak = (lag: number): boolean => correlations[lag] >= correlations[lag - 1] && correlations[lag] >= correlations[lag + 1]
  for (let lag = Math.max(2, from); lag <= limit; lag++) if (isPeak(lag)) peak = Math.max(peak, correlations[lag])
  if (peak < Math.max(0.3, 4 / Math.sqrt(n))) return 0
  for (let lag = Math.max(2, from); lag <= limit; lag++) if (isPeak(lag) && correlations[lag] >= 0.9 * peak) return lag
  return 0
}

function withoutLine(values: Float64Array): Float64Array {
  const n = values.length
  const center = (n - 1) / 2
  let mean = 0
  for (let i = 0; i < n; i++) mean += values[i] / n
  let cross = 0
  let scatter = 0
  for (let i = 0; i < n; i++) {
    cross += (i - center) * (values[i] - mean)
    scatter += (i - center) ** 2
  }
  const slope = scatter > 0 ? cross / scatter : 0
  return values.map((v, i) => v - mean - slope * (i - center))
}
