/**
 * Innovations of an ARMA process and their likelihood, exactly, by the Kalman filter in Harvey's form ("Forecasting, Structural Time Series Models and the Kalman
 * Filter", 1989, section 3.3): the state's first element is the series. Once the filter has settled, innovations follow by the recursion over the lags
 * that are not 0. The mean is that of generalised least squares: the filter runs over a series of ones beside the values.
 */
import type { Polynomial } from './polynomials.ts'

interface Innovations {
  /** Of the concentrated likelihood: log(variance) / 2 + mean of log F / 2, F the innovations' variances over that of the shocks. */
  cost: number
  /** Maximum likelihood: mean of v^2 / F. */
  variance: number
  mean: number
}

/** The sum of P's part that still changes below which the filter has settled. */
const SETTLED = 1e-9

/** Buffers of one series, which many evaluations share. */
export class ArmaFilter {
  private readonly values: Float64Array
  private readonly withMean: boolean
  private readonly ones: Float64Array
  /** Innovations of the values about the mean, after `run`. */
  readonly innovations: Float64Array
  /** The state after the last value, about the mean: its first element is the next forecast. */
  state = new Float64Array(0)
  private onesState = new Float64Array(0)

  constructor(values: Float64Array, withMean: boolean) {
    this.values = values
    this.withMean = withMean
    this.innovations = new Float64Array(values.length)
    this.ones = new Float64Array(withMean ? values.length : 0)
  }

  /**
   * @param ar 1 - phi1 L ..., @param ma 1 + theta1 L ... @param exact false = the recursion alone, with nothing before the first value: the conditional sum of
   * squares.
   */
  run(ar: Polynomial, ma: Polynomial, exact: boolean): Innovations {
    const { values, innovations, ones, withMean } = this
    const n = values.length
    this.state = new Float64Array(0)
    const size = Math.max(ar.length - 1, ma.length)
    const phi = new Float64Array(size)
    const theta = new Float64Array(size)
    for (let i = 1; i < ar.length; i++) phi[i - 1] = -ar[i]
    for (let i = 1; i < ma.length; i++) theta[i - 1] = ma[i]
    let logs = 0
    let settled = 0
    let weights = new Float64Array(0)
    if (exact) {
      const filter = this.filtered(phi, theta, ma.length - 1)
      if (filter === undefined) return { cost: Number.POSITIVE_INFINITY, variance: Number.NaN, mean: Number.NaN }
      settled = filter.settled
      weights = filter.weights
      logs = filter.logs
    }
    this.recursion(phi, theta, settled)
    let vv = 0
    let oo = 0
    let ov = 0
    const skipped = exact ? 0 : Math.min(ar.length - 1, n - 1)
    for (let t = skipped; t < settled; t++) vv += (innovations[t] * innovations[t]) / weights[t]
    for (let t = Math.max(skipped, settled); t < n; t++) vv += innovations[t] * innovations[t]
    let mean = 0
    if (withMean) {
      for (let t = skipped; t < n; t++) {
        const w = t < settled ? weights[t] : 1
        oo += (ones[t] * ones[t]) / w
        ov += (ones[t] * innovations[t]) / w
      }
      mean = oo > 0 ? ov / oo : 0
      vv = Math.max(0, vv - mean * ov)
    }
    const count = n - skipped
    const variance = vv / count
    return { cost: 0.5 * Math.log(variance + Number.MIN_VALUE) + (0.5 * logs) / count, variance, mean }
  }

  /** After `run`: takes the mean out of innovations and state. */
  center(mean: number, ar: Polynomial, ma: Polynomial): void {
    const { values, innovations, ones, withMean } = this
    if (withMean) for (let t = 0; t < innovations.length; t++) innovations[t] -= mean * ones[t]
    if (this.state.length > 0) {
      if (withMean) for (let i = 0; i < this.state.length; i++) this.state[i] -= mean * this.onesState[i]
      return
    }
    // Out of the values and innovations at the lags: exact once the filter has settled.
    const n = values.length
    const size = Math.max(ar.length - 1, ma.length)
    const state = new Float64Array(size)
    for (let i = 0; i < size; i++) {
      for (let lag = i + 1; lag < ar.length; lag++) if (n - lag + i >= 0) state[i] -= ar[lag] * ((values[n - lag + i] ?? mean) - mean)
      for (let lag = i + 1; lag < ma.length; lag++) if (n - lag + i >= 0) state[i] += ma[lag] * (innovations[n - lag + i] ?? 0)
    }
    this.state = state
  }

  /** From `settled` on; innovations before it are there. */
  private recursion(phi: Float64Array, theta: Float64Array, settled: number): void {
    const { values, innovations, ones, withMean } = this
    const n = values.length
    const size = phi.length
    if (size <= 2 && !withMean) {
      const [p1, p2, t1, t2] = [phi[0], phi[1] ?? 0, theta[0], theta[1] ?? 0]
      let v1 = settled > 0 ? innovations[settled - 1] : 0
      let v2 = settled > 1 ? innovations[settled - 2] : 0
      let w1 = settled > 0 ? values[settled - 1] : 0
      let w2 = settled > 1 ? values[settled - 2] : 0
      for (let t = settled; t < n; t++) {
        const w = values[t]
        // What does not wait for the last innovation comes first.
        const v = w - p1 * w1 - p2 * w2 - t2 * v2 - t1 * v1
        innovations[t] = v
        v2 = v1
        v1 = v
        w2 = w1
        w1 = w
      }
      return
    }
    const arLags = lagsOf(phi)
    const maLags = lagsOf(theta)
    for (let t = settled; t < n; t++) {
      let v = values[t]
      let o = 1
      for (let k = 0; k < arLags.length; k++) {
        const lag = arLags[k]
        if (lag > t) break
        v -= phi[lag - 1] * values[t - lag]
        o -= phi[lag - 1]
      }
      for (let k = 0; k < maLags.length; k++) {
        const lag = maLags[k]
        if (lag > t) break
        v -= theta[lag - 1] * innovations[t - lag]
        if (withMean) o -= theta[lag - 1] * ones[t - lag]
      }
      innovations[t] = v
      if (withMean) ones[t] = o
    }
  }

  /** The filter until it settles. @returns how far it went, and the innovations' relative variances up to there. */
  private filtered(phi: Float64Array, theta: Float64Array, maOrder: number): { settled: number; weights: Float64Array<ArrayBuffer>; logs: number } | undefined {
    const { values, innovations, ones, withMean } = this
    const n = values.length
    const size = phi.length
    const shocks = new Float64Array(size)
    shocks[0] = 1
    for (let i = 1; i < size; i++) shocks[i] = theta[i - 1]
    const p = stationaryVariance(phi, shocks)
    if (p === undefined) return undefined
    const state = new Float64Array(size)
    const onesState = new Float64Array(size)
    const gain = new Float64Array(size)
    let weights = new Float64Array(Math.min(n, 256))
    let logs = 0
    let calm = 0
    let t = 0
    // The recursion reads innovations at maOrder lags: all of them must be of a settled filter.
    for (; t < n && calm <= maOrder; t++) {
      const f = p[0]
      if (!(f > 0)) return undefined
      if (t >= weights.length) weights = grown(weights, n)
      const v = values[t] - state[0]
      innovations[t] = v
      weights[t] = f
      logs += Math.log(f)
      for (let i = 0; i < size; i++) gain[i] = p[i * size] / f
      move(state, phi, gain, values[t], v)
      if (withMean) {
        const o = 1 - onesState[0]
        ones[t] = o
        move(onesState, phi, gain, 1, o)
      }
      for (let i = 0; i < size; i++) {
        for (let j = i; j < size; j++) {
          const rest = i + 1 < size && j + 1 < size ? p[(i + 1) * size + j + 1] - gain[i + 1] * p[(j + 1) * size] : 0
          p[i * size + j] = rest + shocks[i] * shocks[j]
        }
      }
      for (let i = 0; i < size; i++) for (let j = 0; j < i; j++) p[i * size + j] = p[j * size + i]
      calm = f - 1 < SETTLED ? calm + 1 : 0
    }
    if (t === n) {
      this.state = state
      this.onesState = onesState
    }
    return { settled: t, weights, logs }
  }
}

/** state = T (state + gain * innovation), of which the first element is the value itself. */
function move(state: Float64Array, phi: Float64Array, gain: Float64Array, value: number, innovation: number): void {
  const size = state.length
  for (let i = 0; i < size; i++) state[i] = phi[i] * value + (i + 1 < size ? state[i + 1] + gain[i + 1] * innovation : 0)
}

function grown(from: Float64Array, most: number): Float64Array<ArrayBuffer> {
  const out = new Float64Array(Math.min(most, 2 * from.length))
  out.set(from)
  return out
}

function lagsOf(coefficients: Float64Array): Int32Array {
  const lags: number[] = []
  for (let i = 0; i < coefficients.length; i++) if (coefficients[i] !== 0) lags.push(i + 1)
  return Int32Array.from(lags)
}

/** P = T P T' + R R', by doubling: P + A P A', A A. Undefined where it does not converge: a root on the unit circle. */
function stationaryVariance(phi: Float64Array, shocks: Float64Array): Float64Array<ArrayBuffer> | undefined {
  const size = phi.length
  let a = new Float64Array(size * size)
  for (let i = 0; i < size; i++) {
    a[i * size] = phi[i]
    if (i + 1 < size) a[i * size + i + 1] = 1
  }
  const p = new Float64Array(size * size)
  for (let i = 0; i < size; i++) for (let j = 0; j < size; j++) p[i * size + j] = shocks[i] * shocks[j]
  for (let round = 0; round < 40; round++) {
    const ap = product(a, p, size)
    const more = productTransposed(ap, a, size)
    let most = 0
    let whole = 0
    for (let i = 0; i < p.length; i++) {
      p[i] += more[i]
      most = Math.max(most, Math.abs(more[i]))
      whole = Math.max(whole, Math.abs(p[i]))
    }
    if (!(whole < 1e14)) return undefined
    if (most < 1e-14 * whole) return p
    a = product(a, a, size)
  }
  return undefined
}

function product(a: Float64Array, b: Float64Array, size: number): Float64Array<ArrayBuffer> {
  const out = new Float64Array(size * size)
  for (let i = 0; i < size; i++) {
    for (let k = 0; k < size; k++) {
      const c = a[i * size + k]
      if (c === 0) continue
      for (let j = 0; j < size; j++) out[i * size + j] += c * b[k * size + j]
    }
  }
  return out
}

/** a b'. */
function productTransposed(a: Float64Array, b: Float64Array, size: number): Float64Array<ArrayBuffer> {
  const out = new Float64Array(size * size)
  for (let i = 0; i < size; i++) {
    for (let j = 0; j < size; j++) {
      let sum = 0
      for (let k = 0; k < size; k++) sum += a[i * size + k] * b[j * size + k]
      out[i * size + j] = sum
    }
  }
  return out
}
