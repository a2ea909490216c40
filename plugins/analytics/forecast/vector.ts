/**
 * Vector autoregression of two series by least squares: each follows from the last values of both (Lütkepohl, "New Introduction to Multiple Time Series
 * Analysis", 2005, chapter 3). The order is that with the least Bayesian criterion.
 */
import { UnfitError } from './model.ts'

interface VectorModel {
  order: number
  /** By equation: the constant, then for each lag the coefficient of the first series and that of the second. */
  coefficients: [Float64Array, Float64Array]
}

const MOST_LAGS = 10

/** @param a, @param b of one length, without gaps. @throws UnfitError with too few values for one lag. */
export function fitVector(a: Float64Array, b: Float64Array, maxLags = MOST_LAGS): VectorModel {
  const n = a.length
  const most = Math.min(maxLags, Math.floor((n - 4) / 6))
  if (most < 1) throw new UnfitError(`multivariate_forecast needs 10 points; there are ${n}`)
  let best: (VectorModel & { criterion: number }) | undefined
  for (let order = 1; order <= most; order++) {
    // All orders are compared on the same values.
    const fit = equations(a, b, order, most)
    if (fit === undefined) break
    const count = n - most
    const criterion = Math.log(fit.determinant + Number.MIN_VALUE) + (Math.log(count) * (4 * order + 2)) / count
    if (best === undefined || criterion < best.criterion) best = { order, coefficients: fit.coefficients, criterion }
  }
  const order = best?.order ?? 0
  const whole = order > 0 ? equations(a, b, order, order) : undefined
  if (whole === undefined) throw new UnfitError('the two series follow from one another: one of them is enough')
  return { order, coefficients: whole.coefficients }
}

/** @returns forecasts of both series. */
export function predictVector({ order, coefficients }: VectorModel, a: Float64Array, b: Float64Array, horizon: number): [Float64Array, Float64Array] {
  const n = a.length
  const past = [new Float64Array(order + horizon), new Float64Array(order + horizon)]
  past[0].set(a.subarray(n - order))
  past[1].set(b.subarray(n - order))
  for (let t = order; t < order + horizon; t++) {
    for (const [i, c] of coefficients.entries()) {
      let v = c[0]
      for (let lag = 1; lag <= order; lag++) v += c[2 * lag - 1] * past[0][t - lag] + c[2 * lag] * past[1][t - lag]
      past[i][t] = v
    }
  }
  return [past[0].subarray(order), past[1].subarray(order)]
}

/** @param from first value that is explained. */
function equations(
  a: Float64Array,
  b: Float64Array,
  order: number,
  from: number,
): { coefficients: [Float64Array, Float64Array]; determinant: number } | undefined {
  const n = a.length
  const size = 2 * order + 1
  // About the means, so that large values with little spread lose no digits.
  const means = [meanOf(a), meanOf(b)]
  const row = new Float64Array(size)
  const matrix = new Float64Array(size * size)
  const right = [new Float64Array(size), new Float64Array(size)]
  const fill = (t: number): void => {
    row[0] = 1
    for (let lag = 1; lag <= order; lag++) {
      row[2 * lag - 1] = a[t - lag] - means[0]
      row[2 * lag] = b[t - lag] - means[1]
    }
  }
  for (let t = from; t < n; t++) {
    fill(t)
    for (let i = 0; i < size; i++) {
      for (let j = 0; j <= i; j++) matrix[i * size + j] += row[i] * row[j]
      right[0][i] += row[i] * (a[t] - means[0])
      right[1][i] += row[i] * (b[t] - means[1])
    }
  }
  const factor = cholesky(matrix, size)
  if (factor === undefined) return undefined
  const solved = right.map((each) => solve(factor, each, size))
  let [aa, ab, bb] = [0, 0, 0]
  for (let t = from; t < n; t++) {
    fill(t)
    let ea = a[t] - means[0]
    let eb = b[t] - means[1]
    for (let i = 0; i < size; i++) {
      ea -= solved[0][i] * row[i]
      eb -= solved[1][i] * row[i]
    }
    aa += ea * ea
    ab += ea * eb
    bb += eb * eb
  }
  const count = n - from
  for (const [i, c] of solved.entries()) {
    c[0] += means[i]
    for (let lag = 1; lag <= order; lag++) c[0] -= c[2 * lag - 1] * means[0] + c[2 * lag] * means[1]
  }
  return { coefficients: [solved[0], solved[1]], determinant: Math.max(0, (aa * bb - ab * ab) / (count * count)) }
}

const meanOf = (values: Float64Array): number => values.reduce((sum, v) => sum + v, 0) / values.length

/** The lower factor of a positive matrix, of which the lower half is read; undefined where it is singular. */
export function cholesky(matrix: Float64Array, size: number): Float64Array | undefined {
  const out = new Float64Array(size * size)
  for (let i = 0; i < size; i++) {
    for (let j = 0; j <= i; j++) {
      let sum = matrix[i * size + j]
      for (let k = 0; k < j; k++) sum -= out[i * size + k] * out[j * size + k]
      if (i === j) {
        if (!(sum > 1e-12 * matrix[i * size + i])) return undefined
        out[i * size + i] = Math.sqrt(sum)
      } else out[i * size + j] = sum / out[j * size + j]
    }
  }
  return out
}

/** x with L L' x = right. */
export function solve(factor: Float64Array, right: Float64Array, size: number): Float64Array<ArrayBuffer> {
  const x = Float64Array.from(right)
  for (let i = 0; i < size; i++) {
    for (let k = 0; k < i; k++) x[i] -= factor[i * size + k] * x[k]
    x[i] /= factor[i * size + i]
  }
  for (let i = size - 1; i >= 0; i--) {
    for (let k = i + 1; k < size; k++) x[i] -= factor[k * size + i] * x[k]
    x[i] /= factor[i * size + i]
  }
  return x
}
