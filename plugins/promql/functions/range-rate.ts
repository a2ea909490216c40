/** rate, increase and delta: the difference over a window, extrapolated towards its boundaries. */

import { someOf } from '../eval/series-sets.ts'
import { ABSENT, FLOAT, HISTOGRAM } from '../eval/value.ts'
import type { LabelSets } from '../labels.ts'
import { METRIC_NAME } from '../labels.ts'
import type { RangeCall } from './contract.ts'
import { possibleNonCounter } from './messages.ts'
import { extendedDifference } from './range-extended.ts'
import { extendedHistogramDifference } from './range-extended-histogram.ts'
import { histogramDifference } from './range-rate-histogram.ts'
import { windowKind } from './range-window.ts'

/** A window whose first or last sample is no further from its boundary than this many average distances is taken to reach it. */
export const REACH = 1.1
const COUNTER_SUFFIXES = ['_total', '_sum', '_count', '_bucket']

export function rate(call: RangeCall): number {
  if (call.kinds !== undefined || call.modifier !== undefined) return special(call, true, true)
  if (call.hi - call.lo < 2) return ABSENT
  const change = counterChange(call)
  call.value = change * (extrapolation(call, change, call.values[call.lo], true) / (call.range / 1000))
  return FLOAT
}

export function increase(call: RangeCall): number {
  if (call.kinds !== undefined || call.modifier !== undefined) return special(call, true, false)
  if (call.hi - call.lo < 2) return ABSENT
  const change = counterChange(call)
  call.value = change * extrapolation(call, change, call.values[call.lo], true)
  return FLOAT
}

export function delta(call: RangeCall): number {
  if (call.kinds !== undefined || call.modifier !== undefined) return special(call, false, false)
  const { values, lo, hi } = call
  if (hi - lo < 2) return ABSENT
  call.value = (values[hi - 1] - values[lo]) * extrapolation(call, 0, 0, false)
  return FLOAT
}

/** Last less first, and what each reset took away. */
function counterChange(call: RangeCall): number {
  const { values, lo, hi, resets } = call
  resets.move(call.series, values, lo, hi)
  return resets.addTo(values[hi - 1] - values[lo])
}

/**
 * By how much a change between the first and the last sample is stretched to cover the window.
 * A counter is not stretched to before it was zero: `first` is its first value, `change` its increase.
 */
function extrapolation(call: RangeCall, change: number, first: number, counter: boolean): number {
  const { times, lo, hi, count } = call
  const firstTime = times[lo]
  const lastTime = times[hi - 1]
  const sampled = (lastTime - firstTime) / 1000
  const average = sampled / (count - 1)
  const threshold = average * REACH
  let toStart = (firstTime - call.rangeStart) / 1000
  let toEnd = (call.rangeEnd - lastTime) / 1000
  if (toStart >= threshold) toStart = average / 2
  if (counter && change > 0 && first >= 0) {
    const toZero = sampled * (first / change)
    if (toZero < toStart) toStart = toZero
  }
  if (toEnd >= threshold) toEnd = average / 2
  return sampled === 0 ? 1 : (sampled + toStart + toEnd) / sampled
}

function special(call: RangeCall, counter: boolean, perSecond: boolean): number {
  const kind = windowKind(call)
  if (kind === 'mixed') return ABSENT
  if (call.modifier !== undefined) {
    return kind === 'floats' ? extendedDifference(call, counter, perSecond) : extendedHistogramDifference(call, counter, perSecond)
  }
  if (kind === 'floats') {
    // A window of floats in a block that has histograms elsewhere.
    const { kinds } = call
    call.kinds = undefined
    const result = counter ? (perSecond ? rate(call) : increase(call)) : delta(call)
    call.kinds = kinds
    return result
  }
  if (call.hi - call.lo < 2) return ABSENT
  const change = histogramDifference(call, counter)
  if (change === undefined) return ABSENT
  const first = call.histograms?.[call.lo]?.count ?? 0
  const factor = extrapolation(call, change.count, first, counter)
  call.histogram = change.mul(perSecond ? factor / (call.range / 1000) : factor)
  return HISTOGRAM
}

/** An info for each metric whose name does not say that it is a counter. */
export function checkCounterNames(labels: LabelSets, gaveFloat: Uint8Array, call: RangeCall): void {
  // Of very many series those without a float are not worth a column.
  const rows: number[] = []
  for (let i = 0; i < gaveFloat.length; i++) if (gaveFloat[i] !== 0) rows.push(i)
  const { codes, texts } = someOf(labels, Int32Array.from(rows)).column(METRIC_NAME)
  const seen = new Uint8Array(texts.length)
  for (const code of codes) {
    if (code < 0 || seen[code] !== 0) continue
    seen[code] = 1
    const name = texts[code]
    if (!COUNTER_SUFFIXES.some((suffix) => name.endsWith(suffix))) call.annotations.info(possibleNonCounter(name), call.pos)
  }
}
