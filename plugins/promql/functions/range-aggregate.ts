/**
 * Aggregations over the samples of a window. Sums carry a compensation term (Neumaier), which an infinite sum resets. As long as all values are
 * integers the sum is exact, and the term would be 0: most counters and many gauges take half the time so.
 */
import { ABSENT, FLOAT, HISTOGRAM, SAMPLE_HISTOGRAM } from '../eval/value.ts'
import type { RangeCall } from './contract.ts'
import { averageHistograms, sumHistograms } from './range-aggregate-histogram.ts'
import { onFloats, windowKind } from './range-window.ts'

export function sumOverTime(call: RangeCall): number {
  if (call.kinds !== undefined) {
    const kind = windowKind(call)
    if (kind !== 'floats') return kind === 'histograms' ? sumHistograms(call) : ABSENT
  }
  call.value = sumOf(call.values, call.lo, call.hi)
  return FLOAT
}

/** So many 32-bit integers have a sum below 2^53. */
export const EXACT_SUMMANDS = 1 << 21

export function sumOf(values: Float64Array, lo: number, hi: number): number {
  let sum = 0
  let i = lo
  for (const exact = Math.min(hi, lo + EXACT_SUMMANDS); i < exact; i++) {
    const value = values[i]
    if ((value | 0) !== value) break
    sum += value
  }
  let lost = 0
  for (; i < hi; i++) {
    const value = values[i]
    const next = sum + value
    if (next === Infinity || next === -Infinity) lost = 0
    else lost += Math.abs(sum) >= Math.abs(value) ? sum - next + value : value - next + sum
    sum = next
  }
  return sum === Infinity || sum === -Infinity ? sum : sum + lost
}

export function avgOverTime(call: RangeCall): number {
  if (call.kinds !== undefined) {
    const kind = windowKind(call)
    if (kind !== 'floats') return kind === 'histograms' ? averageHistograms(call) : ABSENT
  }
  call.value = averageOf(call.values, call.lo, call.hi)
  return FLOAT
}

export function averageOf(values: Float64Array, lo: number, hi: number): number {
  let sum = 0
  let i = lo
  for (const exact = Math.min(hi, lo + EXACT_SUMMANDS); i < exact; i++) {
    const value = values[i]
    if ((value | 0) !== value) break
    sum += value
  }
  if (i === lo) sum = values[i++]
  let lost = 0
  for (; i < hi; i++) {
    const value = values[i]
    const next = sum + value
    if (next === Infinity || next === -Infinity) return incrementalMean(values, lo, hi, i, sum, lost)
    lost += Math.abs(sum) >= Math.abs(value) ? sum - next + value : value - next + sum
    sum = next
  }
  const count = hi - lo
  return sum / count + lost / count
}

/** The mean so far times (n - 1) / n and a new value's n-th part: never leaves the range of the values, where their sum does. */
function incrementalMean(values: Float64Array, lo: number, hi: number, from: number, sum: number, sumLost: number): number {
  let mean = sum / (from - lo)
  let lost = sumLost / (from - lo)
  for (let i = from; i < hi; i++) {
    const count = i - lo + 1
    const shrink = (count - 1) / count
    const part = values[i] / count
    const kept = shrink * mean
    const next = kept + part
    if (next === Infinity || next === -Infinity) lost = 0
    else lost = shrink * lost + (Math.abs(kept) >= Math.abs(part) ? kept - next + part : part - next + kept)
    mean = next
  }
  return mean + lost
}

export function minOverTime(call: RangeCall): number {
  if (call.kinds !== undefined) return onFloats(call, minOverTime)
  call.value = smallestOf(call.values, call.lo, call.hi)
  return FLOAT
}

export function smallestOf(values: Float64Array, lo: number, hi: number): number {
  let min = values[lo]
  for (let i = lo + 1; i < hi; i++) if (values[i] < min || Number.isNaN(min)) min = values[i]
  return min
}

export function maxOverTime(call: RangeCall): number {
  if (call.kinds !== undefined) return onFloats(call, maxOverTime)
  call.value = largestOf(call.values, call.lo, call.hi)
  return FLOAT
}

export function largestOf(values: Float64Array, lo: number, hi: number): number {
  let max = values[lo]
  for (let i = lo + 1; i < hi; i++) if (values[i] > max || Number.isNaN(max)) max = values[i]
  return max
}

/** The time in seconds of the smallest value, the last of equal ones. */
export function timeOfMin(call: RangeCall): number {
  if (call.kinds !== undefined) return onFloats(call, timeOfMin)
  const { values, lo, hi } = call
  let at = lo
  for (let i = lo; i < hi; i++) if (values[i] <= values[at] || Number.isNaN(values[at])) at = i
  call.value = call.times[at] / 1000
  return FLOAT
}

/** The time in seconds of the largest value, the last of equal ones. */
export function timeOfMax(call: RangeCall): number {
  if (call.kinds !== undefined) return onFloats(call, timeOfMax)
  const { values, lo, hi } = call
  let at = lo
  for (let i = lo; i < hi; i++) if (values[i] >= values[at] || Number.isNaN(values[at])) at = i
  call.value = call.times[at] / 1000
  return FLOAT
}

export function timeOfFirst(call: RangeCall): number {
  call.value = call.times[call.lo] / 1000
  return FLOAT
}

export function timeOfLast(call: RangeCall): number {
  call.value = call.times[call.hi - 1] / 1000
  return FLOAT
}

export function countOverTime(call: RangeCall): number {
  call.value = call.count
  return FLOAT
}

export function presentOverTime(call: RangeCall): number {
  call.value = 1
  return FLOAT
}

export function firstOverTime(call: RangeCall): number {
  return sampleAt(call, call.lo)
}

export function lastOverTime(call: RangeCall): number {
  return sampleAt(call, call.hi - 1)
}

function sampleAt(call: RangeCall, at: number): number {
  if (call.kinds !== undefined && call.kinds[at] === SAMPLE_HISTOGRAM) {
    call.histogram = call.histograms?.[at]?.copy()
    return HISTOGRAM
  }
  call.value = call.values[at]
  return FLOAT
}

export function varianceOverTime(call: RangeCall): number {
  if (call.kinds !== undefined) return onFloats(call, varianceOverTime)
  call.value = variance(call)
  return FLOAT
}

export function deviationOverTime(call: RangeCall): number {
  if (call.kinds !== undefined) return onFloats(call, deviationOverTime)
  call.value = Math.sqrt(variance(call))
  return FLOAT
}

/** Welford's running mean and squared distances, both compensated. */
function variance(call: RangeCall): number {
  const { values, lo, hi } = call
  let mean = 0
  let meanLost = 0
  let squares = 0
  let squaresLost = 0
  for (let i = lo; i < hi; i++) {
    const value = values[i]
    const delta = value - (mean + meanLost)
    const step = delta / (i - lo + 1)
    const nextMean = mean + step
    if (nextMean === Infinity || nextMean === -Infinity) meanLost = 0
    else meanLost += Math.abs(mean) >= Math.abs(step) ? mean - nextMean + step : step - nextMean + mean
    mean = nextMean
    const square = delta * (value - (mean + meanLost))
    const nextSquares = squares + square
    if (nextSquares === Infinity || nextSquares === -Infinity) squaresLost = 0
    else squaresLost += Math.abs(squares) >= Math.abs(square) ? squares - nextSquares + square : square - nextSquares + squares
    squares = nextSquares
  }
  return (squares + squaresLost) / (hi - lo)
}
