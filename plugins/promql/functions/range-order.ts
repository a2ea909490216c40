/** Order statistics of a window's floats: by selection in a scratch array, not by sorting. NaN counts as the smallest. */
import { nthElement } from 'svcdb/lib/numbers'
import { FLOAT } from '../eval/value.ts'
import type { RangeCall } from './contract.ts'
import { invalidQuantile } from './messages.ts'
import { onFloats } from './range-window.ts'

let scratch = new Float64Array(64)
/** What is kept for the next window. */
const KEPT_VALUES = 1 << 20

export function quantileOverTime(call: RangeCall): number {
  const position = call.expr.args[0].pos
  if (call.kinds !== undefined) return onFloats(call, quantileOverTime, position)
  const q = call.scalars[0]
  if (!(q >= 0 && q <= 1)) call.annotations.warning(invalidQuantile(q), position)
  call.value = quantileOf(q, load(call))
  return FLOAT
}

/** The median of the distances from the median. */
export function medianDeviation(call: RangeCall): number {
  if (call.kinds !== undefined) return onFloats(call, medianDeviation)
  const count = load(call)
  const median = quantileOf(0.5, count)
  let nan = false
  for (let i = 0; i < count; i++) {
    nan ||= Number.isNaN(scratch[i])
    scratch[i] = Math.abs(scratch[i] - median)
  }
  call.value = nan ? NaN : quantileOf(0.5, count)
  return FLOAT
}

function load(call: RangeCall): number {
  const { values, lo, hi } = call
  const count = hi - lo
  if (count > scratch.length) scratch = new Float64Array(count > KEPT_VALUES ? count : count * 2)
  else if (scratch.length > 2 * KEPT_VALUES && count <= KEPT_VALUES) scratch = new Float64Array(2 * count)
  for (let i = 0; i < count; i++) scratch[i] = values[lo + i]
  return count
}

/** Of the first `count` values of the scratch array, which it reorders: linear between the two values around rank q * (count - 1). */
function quantileOf(q: number, count: number): number {
  if (Number.isNaN(q) || count === 0) return NaN
  if (q < 0) return -Infinity
  if (q > 1) return Infinity
  const values = scratch
  let nans = 0
  for (let i = 0; i < count; i++) {
    if (!Number.isNaN(values[i])) continue
    values[i] = values[nans]
    values[nans++] = NaN
  }
  const rank = q * (count - 1)
  const lower = Math.floor(rank)
  const upper = Math.min(count - 1, lower + 1)
  const weight = rank - lower
  if (lower >= nans) nthElement(values, nans, count - 1, lower)
  // Nothing of what lies beside: no part of an infinite value is a number.
  if (weight === 0) return values[lower]
  let above = values[upper]
  if (upper > lower && upper >= nans) {
    for (let i = upper + 1; i < count; i++) if (values[i] < above) above = values[i]
  }
  return values[lower] * (1 - weight) + above * weight
}
