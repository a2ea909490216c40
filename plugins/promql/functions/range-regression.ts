/** Trends: a least-squares line through a window's floats, and double exponential smoothing. */
import { ExecutionError } from '../errors.ts'
import { ABSENT, FLOAT } from '../eval/value.ts'
import type { RangeCall } from './contract.ts'
import { onFloats } from './range-window.ts'

const line = { slope: 0.5, intercept: 0.5 }

export function derivative(call: RangeCall): number {
  if (call.kinds !== undefined) return onFloats(call, derivative)
  if (call.hi - call.lo < 2) return ABSENT
  // Times are taken from the first sample on: small numbers lose no precision.
  fitLine(call, call.times[call.lo])
  call.value = line.slope
  return FLOAT
}

export function predictLinear(call: RangeCall): number {
  if (call.kinds !== undefined) return onFloats(call, predictLinear)
  if (call.hi - call.lo < 2) return ABSENT
  fitLine(call, call.time)
  call.value = line.slope * call.scalars[0] + line.intercept
  return FLOAT
}

/** Leaves slope (per second) and the value at `origin` in `line`. */
function fitLine(call: RangeCall, origin: number): void {
  const { times, values, lo, hi } = call
  const first = values[lo]
  let constant = true
  for (let i = lo + 1; i < hi && constant; i++) constant = values[i] === first
  if (constant) {
    const infinite = first === Infinity || first === -Infinity
    line.slope = infinite ? NaN : 0
    line.intercept = infinite ? NaN : first
    return
  }
  let sumX = 0
  let lostX = 0
  let sumY = 0
  let lostY = 0
  let sumXY = 0
  let lostXY = 0
  let sumXX = 0
  let lostXX = 0
  for (let i = lo; i < hi; i++) {
    const y = values[i]
    const x = (times[i] - origin) / 1000
    lostX = loss(sumX, x, lostX)
    sumX += x
    lostY = loss(sumY, y, lostY)
    sumY += y
    lostXY = loss(sumXY, x * y, lostXY)
    sumXY += x * y
    lostXX = loss(sumXX, x * x, lostXX)
    sumXX += x * x
  }
  sumX += lostX
  sumY += lostY
  sumXY += lostXY
  sumXX += lostXX
  const n = hi - lo
  const covariance = sumXY - (sumX * sumY) / n
  const variance = sumXX - (sumX * sumX) / n
  line.slope = covariance / variance
  line.intercept = sumY / n - (line.slope * sumX) / n
}

/** Neumaier's compensation after adding `value` to `sum`. */
function loss(sum: number, value: number, lost: number): number {
  const next = sum + value
  if (next === Infinity || next === -Infinity) return 0
  return lost + (Math.abs(sum) >= Math.abs(value) ? sum - next + value : value - next + sum)
}

export function doubleExponentialSmoothing(call: RangeCall): number {
  const smoothing = call.scalars[0]
  const trend = call.scalars[1]
  if (smoothing <= 0 || smoothing >= 1) throw new ExecutionError(`invalid smoothing factor. Expected: 0 < sf < 1, got: ${fixed(smoothing)}`)
  if (trend <= 0 || trend >= 1) throw new ExecutionError(`invalid trend factor. Expected: 0 < tf < 1, got: ${fixed(trend)}`)
  if (call.kinds !== undefined) return onFloats(call, doubleExponentialSmoothing)
  const { values, lo, hi } = call
  if (hi - lo < 2) return ABSENT
  let before = 0
  let smoothed = values[lo]
  let slope = values[lo + 1] - values[lo]
  for (let i = lo + 1; i < hi; i++) {
    if (i > lo + 1) slope = trend * (smoothed - before) + (1 - trend) * slope
    const next = smoothing * values[i] + (1 - smoothing) * (smoothed + slope)
    before = smoothed
    smoothed = next
  }
  call.value = smoothed
  return FLOAT
}

/** Go's %f. */
function fixed(value: number): string {
  if (Number.isNaN(value)) return 'NaN'
  return Number.isFinite(value) ? value.toFixed(6) : value > 0 ? '+Inf' : '-Inf'
}
