/** Polynomials of the lag operator, and coefficients that are stationary or invertible whatever the variables that they come from. */

/** Coefficients of 1 + c1 L + c2 L^2 ... , dense, index = lag. */
export type Polynomial = Float64Array<ArrayBuffer>

export function multiply(a: Float64Array, b: Float64Array): Polynomial {
  const out = new Float64Array(a.length + b.length - 1)
  for (let i = 0; i < a.length; i++) if (a[i] !== 0) for (let j = 0; j < b.length; j++) out[i + j] += a[i] * b[j]
  return out
}

/** 1 + sign * (c1 L^step + c2 L^(2 step) ...). */
export function lagPolynomial(coefficients: ArrayLike<number>, sign: 1 | -1, step = 1): Polynomial {
  const out = new Float64Array(coefficients.length * step + 1)
  out[0] = 1
  for (let i = 0; i < coefficients.length; i++) out[(i + 1) * step] = sign * coefficients[i]
  return out
}

/** (1 - L)^d (1 - L^season)^D. */
export function differencing(d: number, D: number, season: number): Polynomial {
  let out: Polynomial = Float64Array.of(1)
  for (let i = 0; i < d; i++) out = multiply(out, lagPolynomial([1], -1))
  for (let i = 0; i < D; i++) out = multiply(out, lagPolynomial([1], -1, season))
  return out
}

/** The series with a polynomial applied; shorter by its degree. */
export function applied(polynomial: Polynomial, values: Float64Array): Float64Array<ArrayBuffer> {
  const degree = polynomial.length - 1
  const out = new Float64Array(Math.max(0, values.length - degree))
  for (let lag = 0; lag <= degree; lag++) {
    const c = polynomial[lag]
    if (c !== 0) for (let i = 0; i < out.length; i++) out[i] += c * values[i + degree - lag]
  }
  return out
}

/**
 * Autoregressive coefficients of a stationary process out of any numbers: each becomes a partial autocorrelation, and these the coefficients
 * (Monahan, "A note on enforcing stationarity in autoregressive-moving average models", Biometrika 71, 1984).
 */
export function stationary(x: ArrayLike<number>, from: number, count: number): Float64Array<ArrayBuffer> {
  const out = new Float64Array(count)
  const before = new Float64Array(count)
  for (let k = 0; k < count; k++) {
    const u = x[from + k]
    const r = u / Math.sqrt(1 + u * u)
    before.set(out)
    for (let i = 0; i < k; i++) out[i] = before[i] - r * before[k - 1 - i]
    out[k] = r
  }
  return out
}

/** The number that `stationary` makes this partial autocorrelation of. */
export const fromPartial = (r: number): number => r / Math.sqrt(1 - r * r)
