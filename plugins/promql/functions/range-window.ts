/** Windows that hold histograms, for functions that look at floats only. */

import type { Pos } from '../ast.ts'
import { ABSENT, SAMPLE_HISTOGRAM } from '../eval/value.ts'
import type { RangeCall, RangeFn } from './contract.ts'
import { histogramIgnored, mixedFloatsHistograms } from './messages.ts'

// Used by one call at a time: functions do not wait in the middle of a window.
let scratchTimes = new Float64Array(64)
let scratchValues = new Float64Array(64)

/** How many samples of the window are floats. */
function countFloats(call: RangeCall): number {
  const { kinds, lo, hi } = call
  if (kinds === undefined) return hi - lo
  let count = 0
  for (let i = lo; i < hi; i++) if (kinds[i] !== SAMPLE_HISTOGRAM) count++
  return count
}

/** Calls `core` on the floats of a window as if there were no histograms, and says so; without a float there is no result. */
export function onFloats(call: RangeCall, core: RangeFn, pos: Pos = call.pos): number {
  const { times, values, kinds, lo, hi } = call
  const count = countFloats(call)
  if (count === 0) return ABSENT
  if (count < hi - lo) call.annotations.info(histogramIgnored(call.metricName()), pos)
  if (count > scratchTimes.length) {
    scratchTimes = new Float64Array(count * 2)
    scratchValues = new Float64Array(count * 2)
  }
  let n = 0
  for (let i = lo; i < hi; i++) {
    if (kinds !== undefined && kinds[i] === SAMPLE_HISTOGRAM) continue
    scratchTimes[n] = times[i]
    scratchValues[n++] = values[i]
  }
  call.times = scratchTimes
  call.values = scratchValues
  call.kinds = undefined
  call.lo = 0
  call.hi = n
  try {
    return core(call)
  } finally {
    call.times = times
    call.values = values
    call.kinds = kinds
    call.lo = lo
    call.hi = hi
  }
}

/**
 * For functions of floats or histograms, but not of both in one window.
 * @returns 'floats', 'histograms', or 'mixed' after saying so.
 */
export function windowKind(call: RangeCall): 'floats' | 'histograms' | 'mixed' {
  const floats = countFloats(call)
  if (floats === call.hi - call.lo) return 'floats'
  if (floats === 0) return 'histograms'
  call.annotations.warning(mixedFloatsHistograms(call.metricName()), call.pos)
  return 'mixed'
}
