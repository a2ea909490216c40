/** changes and resets: how often adjacent samples differ, and how often a counter started again. A change of type counts as both. */
import { ABSENT, FLOAT, SAMPLE_HISTOGRAM } from '../eval/value.ts'
import type { RangeCall } from './contract.ts'
import { histogramAt } from './range-histograms.ts'

export function changes(call: RangeCall): number {
  const first = anchor(call)
  if (first < 0) return ABSENT
  const { values, kinds, hi } = call
  let count = 0
  if (kinds === undefined) {
    for (let i = first + 1; i < hi; i++) {
      if (values[i] !== values[i - 1] && !(Number.isNaN(values[i]) && Number.isNaN(values[i - 1]))) count++
    }
  } else {
    for (let i = first + 1; i < hi; i++) {
      if (kinds[i] !== kinds[i - 1]) count++
      else if (kinds[i] === SAMPLE_HISTOGRAM) count += histogramAt(call, i).equals(histogramAt(call, i - 1)) ? 0 : 1
      else if (values[i] !== values[i - 1] && !(Number.isNaN(values[i]) && Number.isNaN(values[i - 1]))) count++
    }
  }
  call.value = count
  return FLOAT
}

export function resets(call: RangeCall): number {
  const first = anchor(call)
  if (first < 0) return ABSENT
  const { values, kinds, hi } = call
  let count = 0
  if (kinds === undefined) {
    for (let i = first + 1; i < hi; i++) if (values[i] < values[i - 1]) count++
  } else {
    for (let i = first + 1; i < hi; i++) {
      if (kinds[i] !== kinds[i - 1]) count++
      else if (kinds[i] === SAMPLE_HISTOGRAM) count += histogramAt(call, i).detectReset(histogramAt(call, i - 1)) ? 1 : 0
      else if (values[i] < values[i - 1]) count++
    }
  }
  call.value = count
  return FLOAT
}

/** Where to start: an anchored range begins with the last sample at or before it; -1 when no sample lies inside it. */
function anchor(call: RangeCall): number {
  const { times, lo, hi, rangeStart } = call
  if (call.modifier !== 'anchored') return lo
  if (times[hi - 1] <= rangeStart) return -1
  let first = lo
  while (times[first] <= rangeStart) first++
  return Math.max(lo, first - 1)
}
