/** rate, increase and delta of native histograms. */
import { ADD_INCOMPATIBLE, ADD_RECONCILED, type FloatHistogram } from '../histogram/float-histogram.ts'
import type { RangeCall } from './contract.ts'
import { mismatchedBounds, mixedSchemas, notCounter, notGauge } from './messages.ts'
import { histogramAt, zeroLike } from './range-histograms.ts'

/**
 * Last less first, and for a counter what each reset took away; a gauge histogram, not yet extrapolated.
 * @returns undefined, after a warning, for a mix of exponential and custom buckets.
 */
export function histogramDifference(call: RangeCall, counter: boolean): FloatHistogram | undefined {
  const { lo, hi } = call
  const last = histogramAt(call, hi - 1)
  let first = histogramAt(call, lo)
  const gauges = (first.counterReset === 'gauge' ? 1 : 0) + (last.counterReset === 'gauge' ? 1 : 0)
  if (counter) {
    const second = histogramAt(call, lo + 1)
    // Of a first sample before a reset nothing is left: its buckets need not fit.
    if (second.detectReset(first)) first = zeroLike(second)
  }
  if (last.custom !== first.custom) {
    if (counter && gauges > 0) call.annotations.warning(notCounter(call.metricName()), call.pos)
    return incompatible(call)
  }
  let schema = Math.min(first.schema, last.schema)
  let gaugeInside = false
  if (counter) {
    for (let i = lo + 1; i < hi - 1; i++) {
      const sample = histogramAt(call, i)
      if (sample.custom !== last.custom) return incompatible(call)
      if (sample.counterReset === 'gauge') gaugeInside = true
      if (sample.schema < schema) schema = sample.schema
    }
  }
  const change = last.copy().reduceResolution(schema)
  const subtracted = change.sub(first)
  let added = 0
  if (counter) {
    let previous = first
    for (let i = lo + 1; i < hi; i++) {
      const sample = histogramAt(call, i)
      if (sample.detectReset(previous)) added |= change.add(previous)
      previous = sample
    }
  }
  if (((subtracted | added) & ADD_INCOMPATIBLE) !== 0) return incompatible(call)
  if (counter ? gauges > 0 || gaugeInside : gauges < 2) {
    call.annotations.warning((counter ? notCounter : notGauge)(call.metricName()), call.pos)
  }
  if ((subtracted & ADD_RECONCILED) !== 0) call.annotations.info(mismatchedBounds('subtraction'), call.pos)
  if ((added & ADD_RECONCILED) !== 0) call.annotations.info(mismatchedBounds('addition'), call.pos)
  change.counterReset = 'gauge'
  return change.compact()
}

function incompatible(call: RangeCall): undefined {
  call.annotations.warning(mixedSchemas(call.metricName()), call.pos)
  return undefined
}
