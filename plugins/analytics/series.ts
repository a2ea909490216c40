/** The numbers behind the analytic SQL functions: plain arrays in, plain arrays out. NaN marks a missing sample. */

/** Exponentially weighted mean: s = alpha * v + (1 - alpha) * s, starting at the first sample. A missing sample leaves s as it is and is NaN itself. */
export function ewm(values: Float64Array, alpha: number): Float64Array {
  const out = new Float64Array(values.length).fill(Number.NaN)
  let mean = Number.NaN
  for (let i = 0; i < values.length; i++) {
    const v = values[i]
    if (Number.isNaN(v)) continue
    mean = Number.isNaN(mean) ? v : alpha * v + (1 - alpha) * mean
    out[i] = mean
  }
  return out
}

/** Pearson's correlation of a[t] with b[t - lag] over the pairs where both are present; NaN with fewer than two pairs or no spread. */
export function crossCorrelation(a: Float64Array, b: Float64Array, lag: number): number {
  let n = 0
  let meanA = 0
  let meanB = 0
  let varA = 0
  let varB = 0
  let cov = 0
  for (let t = Math.max(0, lag); t < Math.min(a.length, b.length + lag); t++) {
    const x = a[t]
    const y = b[t - lag]
    if (Number.isNaN(x) || Number.isNaN(y)) continue
    n++
    const dx = x - meanA
    const dy = y - meanB
    meanA += dx / n
    meanB += dy / n
    varA += dx * (x - meanA)
    varB += dy * (y - meanB)
    cov += dx * (y - meanB)
  }
  return n < 2 || varA === 0 || varB === 0 ? Number.NaN : cov / Math.sqrt(varA * varB)
}

/**
 * Increase of a counter per second, samples in time order: a fall is a reset, after which the counter began at 0 (as in Prometheus, without
 * its extrapolation). `instant`: the last two samples only. NaN with fewer than two samples or no time between them.
 */
export function rate(values: Float64Array, times: BigInt64Array, instant: boolean): number {
  const n = values.length
  if (n < 2) return Number.NaN
  const from = instant ? n - 2 : 0
  let increase = 0
  for (let i = from + 1; i < n; i++) increase += values[i] < values[i - 1] ? values[i] : values[i] - values[i - 1]
  const elapsed = times[n - 1] - times[from]
  return elapsed > 0n ? increase / (Number(elapsed) / 1e9) : Number.NaN
}

/** Distance of two z-scores from their common mean, correlation taken into account; at |r| near 1 the larger score, since the matrix has no inverse. */
export function mahalanobis(za: number, zb: number, r: number): number {
  const rest = 1 - r * r
  if (!(rest > 1e-9)) return Math.max(Math.abs(za), Math.abs(zb))
  return Math.sqrt(Math.max(0, (za * za - 2 * r * za * zb + zb * zb) / rest))
}
