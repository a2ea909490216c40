/**
 * Seasonal-trend decomposition by LOESS (Cleveland, Cleveland, McRae, Terpenning, "STL", Journal of Official Statistics 6, 1990).
 * Seasonal smoother of span 7, low-pass span the next odd number from the period, trend span the next odd from
 * 1.5 * period / (1 - 1.5 / 7), local lines throughout; 2 inner passes, or with `robust` 1 inner pass in each of 15 outer ones.
 */
export interface Decomposition {
  trend: Float64Array
  seasonal: Float64Array
  residual: Float64Array
}

const SEASONAL_SPAN = 7

/** Missing samples (NaN) are bridged by a straight line, their residual is NaN. Undefined with fewer than two whole periods. */
export function stl(series: Float64Array, period: number, robust: boolean): Decomposition | undefined {
  const n = series.length
  const filled = bridge(series)
  if (filled === undefined || n < 2 * period) return undefined
  const lowSpan = odd(period)
  const trendSpan = odd(Math.ceil((1.5 * period) / (1 - 1.5 / SEASONAL_SPAN)))
  const weights = new Float64Array(n).fill(1)
  let trend = new Float64Array(n)
  let seasonal = new Float64Array(n)
  for (let outer = 0; outer < (robust ? 15 : 1); outer++) {
    for (let inner = 0; inner < (robust ? 1 : 2); inner++) {
      const detrended = filled.map((v, i) => v - trend[i])
      const cycle = smoothCycles(detrended, period, weights)
      const low = loess(movingAverage(movingAverage(movingAverage(cycle, period), period), 3), lowSpan, undefined)
      seasonal = Float64Array.from({ length: n }, (_, i) => cycle[i + period] - low[i])
      trend = loess(
        filled.map((v, i) => v - seasonal[i]),
        trendSpan,
        weights,
      )
    }
    if (robust) bisquare(filled, trend, seasonal, weights)
  }
  return { trend, seasonal, residual: series.map((v, i) => v - trend[i] - seasonal[i]) }
}

const odd = (n: number): number => (n % 2 === 0 ? n + 1 : n)

function bridge(series: Float64Array): Float64Array<ArrayBuffer> | undefined {
  const out = Float64Array.from(series)
  let last = -1
  for (let i = 0; i < out.length; i++) {
    if (Number.isNaN(out[i])) continue
    for (let j = last + 1; j < i; j++) out[j] = last < 0 ? out[i] : out[last] + ((out[i] - out[last]) * (j - last)) / (i - last)
    last = i
  }
  if (last < 0) return undefined
  out.fill(out[last], last + 1)
  return out
}

/** Each phase of the period smoothed on its own, one value longer at both ends: n + 2 * period values. */
function smoothCycles(detrended: Float64Array, period: number, weights: Float64Array): Float64Array {
  const n = detrended.length
  const out = new Float64Array(n + 2 * period)
  for (let phase = 0; phase < period; phase++) {
    const count = Math.floor((n - 1 - phase) / period) + 1
    const values = new Float64Array(count)
    const weight = new Float64Array(count)
    for (let k = 0; k < count; k++) {
      values[k] = detrended[phase + k * period]
      weight[k] = weights[phase + k * period]
    }
    for (let k = -1; k <= count; k++) out[phase + (k + 1) * period] = loessAt(values, SEASONAL_SPAN, k, weight)
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

function loess(values: Float64Array, span: number, weights: Float64Array | undefined): Float64Array<ArrayBuffer> {
  return Float64Array.from(values, (_, i) => loessAt(values, span, i, weights))
}

/** The local line through the `span` nearest values, tricube weights, read at x (which may lie one step outside). */
function loessAt(values: Float64Array, span: number, x: number, weights: Float64Array | undefined): number {
  const n = values.length
  const width = Math.min(span, n)
  const left = Math.min(Math.max(0, Math.round(x) - Math.floor(width / 2)), n - width)
  const right = left + width - 1
  let reach = Math.max(x - left, right - x)
  if (span > n) reach += Math.floor((span - n) / 2)
  let total = 0
  let sx = 0
  const w = new Float64Array(width)
  for (let j = left; j <= right; j++) {
    const distance = reach === 0 ? 0 : Math.abs(j - x) / reach
    const tricube = distance >= 1 ? (distance === 0 ? 1 : 0) : (1 - distance ** 3) ** 3
    w[j - left] = tricube * (weights?.[j] ?? 1)
    total += w[j - left]
    sx += w[j - left] * j
  }
  if (total === 0) return values[Math.min(Math.max(Math.round(x), 0), n - 1)]
  const mean = sx / total
  let spread = 0
  for (let j = left; j <= right; j++) spread += w[j - left] * (j - mean) ** 2
  const slope = Math.sqrt(spread / total) > 0.001 * (n - 1) ? (x - mean) / spread : 0
  let fit = 0
  for (let j = left; j <= right; j++) fit += w[j - left] * (1 / total + slope * (j - mean)) * values[j]
  return fit
}

/** Outliers weigh less in the next pass: bisquare of the residual against six times its median. */
function bisquare(values: Float64Array, trend: Float64Array, seasonal: Float64Array, weights: Float64Array): void {
  const residual = values.map((v, i) => Math.abs(v - trend[i] - seasonal[i]))
  const sorted = residual.toSorted()
  const middle = sorted.length >> 1
  const median = sorted.length % 2 === 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2
  // Residuals that are rounding errors alone tell nothing of outliers.
  const h = Math.max(6 * median, 1e-9 * values.reduce((most, v) => Math.max(most, Math.abs(v)), 0))
  for (let i = 0; i < weights.length; i++) {
    const u = h === 0 ? 0 : residual[i] / h
    weights[i] = u >= 1 ? 0 : (1 - u * u) ** 2
  }
}
