/** rate, increase and delta of native histograms in ranges with `anchored` or `smoothed`. */
import { ABSENT, HISTOGRAM } from '../eval/value.ts'
import type { FloatHistogram } from '../histogram/float-histogram.ts'
import type { RangeCall } from './contract.ts'
import { mixedSchemas, notCounter, notGauge } from './messages.ts'
import { type Bounds, boundsOf } from './range-extended.ts'
import { addTo, histogramAt, subtractFrom } from './range-histograms.ts'

export function extendedHistogramDifference(call: RangeCall, counter: boolean, perSecond: boolean): number {
  const bounds = boundsOf(call)
  if (bounds === undefined || !fits(call, bounds, counter)) return ABSENT
  const left = leftOf(call, bounds, counter)
  const right = left && rightOf(call, bounds, counter)
  if (left === undefined || right === undefined) return ABSENT
  if (!counter && (left.counterReset !== 'gauge' || right.counterReset !== 'gauge')) {
    call.annotations.warning(notGauge(call.metricName()), call.pos)
  }
  const change = right.copy()
  if (!subtractFrom(change, left, call)) return ABSENT
  if (counter) {
    const lost = lostInResets(call, bounds, left, right)
    if (lost === 'incompatible' || (lost !== undefined && !addTo(change, lost, call))) return ABSENT
  }
  if (perSecond) change.div(call.range / 1000)
  change.counterReset = 'gauge'
  call.histogram = change.compact()
  return HISTOGRAM
}

/** Whether all samples have the same kind of buckets; warns of gauges where a counter is wanted. */
function fits(call: RangeCall, { first, last }: Bounds, counter: boolean): boolean {
  const { custom } = histogramAt(call, first)
  for (let i = first; i <= last; i++) {
    const sample = histogramAt(call, i)
    if (sample.custom !== custom) {
      call.annotations.warning(mixedSchemas(call.metricName()), call.pos)
      return false
    }
    if (counter && sample.counterReset === 'gauge') call.annotations.warning(notCounter(call.metricName()), call.pos)
  }
  return true
}

function leftOf(call: RangeCall, { first }: Bounds, counter: boolean): FloatHistogram | undefined {
  if (call.modifier !== 'smoothed' || call.times[first] >= call.rangeStart) return histogramAt(call, first).copy()
  return interpolate(call, first, first + 1, call.rangeStart, counter)
}

function rightOf(call: RangeCall, { last }: Bounds, counter: boolean): FloatHistogram | undefined {
  if (call.modifier !== 'smoothed' || last === call.lo || call.times[last] <= call.rangeEnd) return histogramAt(call, last).copy()
  return interpolate(call, last - 1, last, call.rangeEnd, counter)
}

/** On the line between two samples; a counter that was reset between them is taken to start from zero at the first. */
function interpolate(call: RangeCall, before: number, after: number, time: number, counter: boolean): FloatHistogram | undefined {
  const { times } = call
  const from = histogramAt(call, before)
  const to = histogramAt(call, after)
  if (time === times[before]) return from.copy()
  if (time === times[after]) return to.copy()
  const part = (time - times[before]) / (times[after] - times[before])
  const result = to.copy()
  if (counter && to.detectReset(from)) return result.mul(part)
  if (!subtractFrom(result, from, call)) return undefined
  result.mul(part)
  return addTo(result, from, call) ? result : undefined
}

/** What the counter had reached before each reset between the boundaries. */
function lostInResets(call: RangeCall, bounds: Bounds, left: FloatHistogram, right: FloatHistogram): FloatHistogram | undefined | 'incompatible' {
  const { times } = call
  let first = bounds.first + 1
  let previous = left
  if (call.modifier === 'smoothed' && times[bounds.first] < call.rangeStart && histogramAt(call, first).detectReset(histogramAt(call, bounds.first))) {
    // The line to the left boundary went over this reset.
    previous = histogramAt(call, first)
    first++
  }
  // The last sample is in `right`, with its hint: it must not be found twice.
  if (first > bounds.last) return undefined
  let lost: FloatHistogram | undefined
  for (let i = first; i <= bounds.last; i++) {
    const sample = i === bounds.last ? right : histogramAt(call, i)
    if (sample.detectReset(previous)) {
      if (lost === undefined) lost = previous.copy()
      else if (!addTo(lost, previous, call)) return 'incompatible'
    }
    previous = sample
  }
  return lost
}
