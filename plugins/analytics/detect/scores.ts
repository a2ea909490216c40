/**
 * Detectors of one series: how far each value is from what was expected of it, in the detector's own unit; a value is an anomaly where its score is above the
 * threshold. NaN and infinities are missing: they count for nothing (exponential smoothing bridges them) and have the score NaN. A series without spread has only zeros.
 */
import { bridge } from '../forecast/regular.ts'
import { fitSes } from '../forecast/ses.ts'
import { median, present, quantile } from './order-statistics.ts'

/** A median of normal values is this part of a standard deviation from the mean at most, for half of them. */
const NORMAL_MAD = 0.6744897501960817
/** Of a normal distribution: standard deviation over mean absolute deviation. */
const NORMAL_MEAN_DEVIATION = Math.sqrt(Math.PI / 2)
/** Values before one that there must be to judge it by a window. */
const LEAST_WINDOW = 3

/** Distance from the mean in sample standard deviations. */
export function zscores(values: Float64Array): Float64Array {
  const { mean, std } = moments(values)
  return distances(values, mean, std)
}

/** Distance from the median in median absolute deviations, scaled as a z-score; where more than half of the values are the same, in mean absolute deviations (Iglewicz and Hoaglin, 1993). */
export function modifiedZscores(values: Float64Array): Float64Array {
  const all = present(values)
  if (all.length === 0) return new Float64Array(values.length).fill(Number.NaN)
  const center = median(all)
  let sum = 0
  for (let i = 0; i < all.length; i++) {
    all[i] = Math.abs(all[i] - center)
    sum += all[i]
  }
  const mad = median(all)
  return distances(values, center, mad > 0 ? mad / NORMAL_MAD : (NORMAL_MEAN_DEVIATION * sum) / all.length)
}

/** Distance outside the middle half, in widths of it; where the middle half is one value, in standard deviations. */
export function iqrScores(values: Float64Array): Float64Array {
  const all = present(values)
  if (all.length === 0) return new Float64Array(values.length).fill(Number.NaN)
  const low = quantile(all, 0.25)
  const high = quantile(all, 0.75)
  const width = high > low ? high - low : moments(values).std
  const out = new Float64Array(values.length)
  for (let i = 0; i < values.length; i++) {
    const v = values[i]
    if (!Number.isFinite(v)) out[i] = Number.NaN
    else if (width > 0) out[i] = v < low ? (low - v) / width : v > high ? (v - high) / width : 0
  }
  return out
}

/** Distance from the mean of the values before, in their standard deviations. The first three have nothing before them: 0. Where the window has no spread, in standard deviations of the series. */
export function dynamicScores(values: Float64Array, width = 30): Float64Array {
  const { mean: shift, std: whole } = moments(values)
  return trailing(values, width, shift, (v, count, sum, squares) => {
    const mean = sum / count
    const variance = (squares - sum * mean) / (count - 1)
    // What the running sums leave of a constant window is rounding.
    const std = variance > 1e-12 * whole * whole ? Math.sqrt(variance) : whole
    return std > 0 ? Math.abs(v - mean) / std : 0
  })
}

/** Distance from the mean of the values before, in standard deviations of these distances. */
export function movingAverageScores(values: Float64Array, width = 10): Float64Array {
  const { mean: shift } = moments(values)
  const rest = trailing(values, width, shift, (v, count, sum) => v - sum / count)
  return distances(rest, 0, rootMeanSquare(rest))
}

/** Errors of forecasts one step ahead by exponential smoothing, in their standard deviations. */
export function residualScores(values: Float64Array): Float64Array {
  const whole = values.map((v) => (Number.isFinite(v) ? v : Number.NaN))
  bridge(whole)
  if (whole.length < 2 || Number.isNaN(whole[0])) return values.map(() => Number.NaN)
  const { fitted } = fitSes(whole)
  const rest = values.map((v, i) => (Number.isFinite(v) ? v - fitted[i] : Number.NaN))
  return distances(rest, 0, rootMeanSquare(rest))
}

/** Sums of what values lie above, and below, their mean by more than `slack` standard deviations, begun anew at 0 (Page, Biometrika 41, 1954): finds a shift that no single value shows. */
export function cusumScores(values: Float64Array, slack = 0.5): Float64Array {
  const { mean, std } = moments(values)
  const out = new Float64Array(values.length)
  let above = 0
  let below = 0
  for (let i = 0; i < values.length; i++) {
    if (!Number.isFinite(values[i])) {
      out[i] = Number.NaN
      continue
    }
    const z = std > 0 ? (values[i] - mean) / std : 0
    above = Math.max(0, above + z - slack)
    below = Math.max(0, below - z - slack)
    out[i] = Math.max(above, below)
  }
  return out
}

/** Mean and sample standard deviation of what is present; 0 where rounding is all there is. */
export function moments(values: Float64Array): { count: number; mean: number; std: number } {
  let count = 0
  let sum = 0
  for (let i = 0; i < values.length; i++) {
    const v = values[i]
    // Neither NaN nor infinite.
    if (v - v !== 0) continue
    count++
    sum += v
  }
  const mean = count > 0 ? sum / count : Number.NaN
  let squares = 0
  for (let i = 0; i < values.length; i++) {
    const d = values[i] - mean
    if (d - d === 0) squares += d * d
  }
  const std = count > 1 ? Math.sqrt(squares / (count - 1)) : 0
  return { count, mean, std: std > 1e-13 * Math.abs(mean) ? std : 0 }
}

function distances(values: Float64Array, center: number, unit: number): Float64Array {
  const out = new Float64Array(values.length)
  for (let i = 0; i < values.length; i++) {
    const d = Math.abs(values[i] - center)
    out[i] = d - d === 0 ? (unit > 0 ? d / unit : 0) : Number.NaN
  }
  return out
}

function rootMeanSquare(values: Float64Array): number {
  let count = 0
  let squares = 0
  for (let i = 0; i < values.length; i++) {
    if (!Number.isFinite(values[i])) continue
    count++
    squares += values[i] * values[i]
  }
  return count > 0 ? Math.sqrt(squares / count) : 0
}

type Judge = (v: number, count: number, sum: number, squares: number) => number

/** @param judge gets a value and the sums of up to `width` present ones before it, all less `shift`. */
function trailing(values: Float64Array, width: number, shift: number, judge: Judge): Float64Array {
  const out = new Float64Array(values.length)
  const window = new Float64Array(width)
  let count = 0
  let sum = 0
  let squares = 0
  for (let i = 0, seen = 0; i < values.length; i++) {
    if (!Number.isFinite(values[i])) {
      out[i] = Number.NaN
      continue
    }
    const v = values[i] - shift
    if (count >= Math.min(LEAST_WINDOW, width)) out[i] = judge(v, count, sum, squares)
    const at = seen++ % width
    if (count === width) {
      sum -= window[at]
      squares -= window[at] * window[at]
    } else count++
    window[at] = v
    sum += v
    squares += v * v
    // Rounding errors of what has left the window do not add up over a long series.
    if (at === width - 1) {
      sum = 0
      squares = 0
      for (let k = 0; k < width; k++) {
        sum += window[k]
        squares += window[k] * window[k]
      }
    }
  }
  return out
}
