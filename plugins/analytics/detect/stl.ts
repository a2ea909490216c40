/**
 * Seasonal-trend decomposition by LOESS (Cleveland, Cleveland, McRae, Terpenning, "STL", Journal of Official Statistics 6, 1990).
 * Seasonal smoother of span 7, low-pass span the next odd number from the period, trend span the next odd from
 * 1.5 * period / (1 - 1.5 / 7), local lines throughout; 2 inner passes, or with `robust` 1 inner pass in each of 15 outer ones.
 */
import { bridge } from '../forecast/regular.ts'
import { median } from './order-statistics.ts'

export interface Decomposition {
  trend: Float64Array
  seasonal: Float64Array
  residual: Float64Array
}

const SEASONAL_SPAN = 7

/** Missing samples (NaN) are bridged by a straight line, their residual is NaN. Undefined with fewer than two whole periods. */
export function stl(series: Float64Array, period: number, robust: boolean): Decomposition | undefined {
  const n = series.length
  const filled = Float64Array.from(series, (v) => (Number.isFinite(v) ? v : Number.NaN))
  bridge(filled)
  if (n < 2 * period || Number.isNaN(filled[0])) return undefined
  const lowSpan = odd(period)
  const trendSpan = odd(Math.ceil((1.5 * period) / (1 - 1.5 / SEASONAL_SPAN)))
  // Weights are there once outliers are known.
  let weights: Float64Array | undefined
  const rest = new Float64Array(n)
  let trend = new Float64Array(n)
  const seasonal = new Float64Array(n)
  for (let outer = 0; outer <= (robust ? 15 : 0); outer++) {
    for (let inner = 0; inner < (robust ? 1 : 2); inner++) {
      for (let i = 0; i < n; i++) rest[i] = filled[i] - trend[i]
      const cycle = smoothCycles(rest, period, weights)
      const low = loess(movingAverage(movingAverage(movingAverage(cycle, period), period), 3), lowSpan, undefined)
      for (let i = 0; i < n; i++) {
        seasonal[i] = cycle[i + period] - low[i]
        rest[i] = filled[i] - seasonal[i]
      }
      trend = loess(rest, trendSpan, weights)
    }
    if (robust && outer < 15) weights = bisquare(filled, trend, seasonal, weights ?? new Float64Array(n))
  }
  return { trend, seasonal, residual: series.map((v, i) => v - trend[i] - seasonal[i]) }
}

const odd = (n: number): number => (n % 2 === 0 ? n + 1 : n)

/** Each phase of the period smoothed on its own, one value longer at both ends: n + 2 * period values. */
function smoothCycles(detrended: Float64Array, period: number, weights: Float64Array | undefined): Float64Array {
  const n = detrended.length
  const out = new Float64Array(n + 2 * period)
  const most = Math.ceil(n / period)
  const held = new Float64Array(most)
  const heldWeights = weights === undefined ? undefined : new Float64Array(most)
  const smooth = new Float64Array(most)
  for (let phase = 0; phase < period; phase++) {
    const count = Math.floor((n - 1 - phase) / period) + 1
    const values = held.subarray(0, count)
    const weight = heldWeights?.subarray(0, count)
    for (let k = 0; k < count; k++) {
      values[k] = detrended[phase + k * period]
      if (weight !== undefined) weight[k] = weights![phase + k * period]
    }
    loess(values, SEASONAL_SPAN, weight, smooth)
    out[phase] = loessAt(values, SEASONAL_SPAN, -1, weight)
    for (let k = 0; k < count; k++) out[phase + (k + 1) * period] = smooth[k]
    out[phase + (count + 1) * period] = loessAt(values, SEASONAL_SPAN, count, weight)
  }
  return out
}

function movingAverage(values: Float64Array, width: number): Float64Array {
  const out = new Float64Array(values.length - width + 1)
  let sum = 0
  for (let i = 0; i < values.length; i++) {
    sum += values[i]
    if (i >= width) sum -= values[i - width]
    if (i >= width - 1) out[i - width + 1] = sum / width
  }
  return out
}

/**
 * Where the span lies within the series, the values about one are those about the next by the same weights; and where nothing weighs less, the local line read in
 * its middle is the weighted mean.
 */
function loess(values: Float64Array, span: number, weights: Float64Array | undefined, out = new Float64Array(values.length)): Float64Array<ArrayBuffer> {
  const n = values.length
  const half = span >> 1
  const inside = span <= n && span % 2 === 1
  const from = inside ? half : n
  const to = inside ? n - half : n
  for (let i = 0; i < Math.min(from, n); i++) out[i] = loessAt(values, span, i, weights)
  if (inside) {
    const kernel = new Float64Array(half + 1)
    for (let d = 0; d <= half; d++) kernel[d] = half === 0 ? 1 : (1 - (d / half) ** 3) ** 3
    if (weights === undefined) meansInside(values, kernel, out)
    else linesInside(values, kernel, weights, out)
  }
  for (let i = to; i < n; i++) out[i] = loessAt(values, span, i, weights)
  return out as Float64Array<ArrayBuffer>
}

function meansInside(values: Float64Array, kernel: Float64Array, out: Float64Array): void {
  const half = kernel.length - 1
  let total = kernel[0]
  for (let d = 1; d <= half; d++) total += 2 * kernel[d]
  // At the edge of the span the kernel is 0. Four at once, so that their sums do not wait for one another.
  let i = half
  for (; i + 3 < values.length - half; i += 4) {
    let a = kernel[0] * values[i]
    let b = kernel[0] * values[i + 1]
    let c = kernel[0] * values[i + 2]
    let e = kernel[0] * values[i + 3]
    for (let d = 1; d < half; d++) {
      const k = kernel[d]
      a += k * (values[i - d] + values[i + d])
      b += k * (values[i + 1 - d] + values[i + 1 + d])
      c += k * (values[i + 2 - d] + values[i + 2 + d])
      e += k * (values[i + 3 - d] + values[i + 3 + d])
    }
    out[i] = a / total
    out[i + 1] = b / total
    out[i + 2] = c / total
    out[i + 3] = e / total
  }
  for (; i < values.length - half; i++) {
    let sum = kernel[0] * values[i]
    for (let d = 1; d < half; d++) sum += kernel[d] * (values[i - d] + values[i + d])
    out[i] = sum / total
  }
}

function linesInside(values: Float64Array, kernel: Float64Array, weights: Float64Array, out: Float64Array): void {
  const n = values.length
  const half = kernel.length - 1
  for (let i = half; i < n - half; i++) {
    let [s0, s1, s2, y0, y1] = [kernel[0] * weights[i], 0, 0, kernel[0] * weights[i] * values[i], 0]
    for (let d = 1; d < half; d++) {
      const before = kernel[d] * weights[i - d]
      const after = kernel[d] * weights[i + d]
      s0 += before + after
      s1 += d * (after - before)
      s2 += d * d * (before + after)
      const vb = before * values[i - d]
      const va = after * values[i + d]
      y0 += vb + va
      y1 += d * (va - vb)
    }
    if (!(s0 > 0)) {
      out[i] = values[i]
      continue
    }
    const mean = s1 / s0
    const spread = s2 - s1 * mean
    const slope = spread > 0 && Math.sqrt(spread / s0) > 0.001 * (n - 1) ? (y1 - mean * y0) / spread : 0
    out[i] = y0 / s0 - slope * mean
  }
}

/** The local line through the `span` nearest values, tricube weights, read at x (which may lie one step outside). */
function loessAt(values: Float64Array, span: number, x: number, weights: Float64Array | undefined): number {
  const n = values.length
  const width = Math.min(span, n)
  const left = Math.min(Math.max(0, x - (width >> 1)), n - width)
  const right = left + width - 1
  let reach = Math.max(x - left, right - x)
  if (span > n) reach += Math.floor((span - n) / 2)
  let [s0, s1, s2, y0, y1] = [0, 0, 0, 0, 0]
  for (let j = left; j <= right; j++) {
    const d = j - x
    const distance = reach === 0 ? 0 : Math.abs(d) / reach
    if (distance >= 1) continue
    const cube = 1 - distance * distance * distance
    const w = cube * cube * cube * (weights === undefined ? 1 : weights[j])
    s0 += w
    s1 += w * d
    s2 += w * d * d
    y0 += w * values[j]
    y1 += w * d * values[j]
  }
  if (!(s0 > 0)) return values[Math.min(Math.max(x, 0), n - 1)]
  const mean = s1 / s0
  const spread = s2 - s1 * mean
  const slope = spread > 0 && Math.sqrt(spread / s0) > 0.001 * (n - 1) ? (y1 - mean * y0) / spread : 0
  return y0 / s0 - slope * mean
}

/** Outliers weigh less in the next pass: bisquare of the residual against six times its median. */
function bisquare(values: Float64Array, trend: Float64Array, seasonal: Float64Array, weights: Float64Array): Float64Array {
  const residual = values.map((v, i) => Math.abs(v - trend[i] - seasonal[i]))
  // Residuals that are rounding errors alone tell nothing of outliers.
  const h = Math.max(6 * median(Float64Array.from(residual)), 1e-9 * values.reduce((most, v) => Math.max(most, Math.abs(v)), 0))
  for (let i = 0; i < weights.length; i++) {
    const u = h === 0 ? 0 : residual[i] / h
    weights[i] = u >= 1 ? 0 : (1 - u * u) ** 2
  }
  return weights
}
