/** irate and idelta: the difference of a window's last two samples. */
import { ABSENT, FLOAT, HISTOGRAM, SAMPLE_HISTOGRAM } from '../eval/value.ts'
import type { FloatHistogram } from '../histogram/float-histogram.ts'
import type { RangeCall } from './contract.ts'
import { mixedFloatsHistograms, notCounter, notGauge } from './messages.ts'
import { histogramAt, subtractFrom } from './range-histograms.ts'

export function instantRate(call: RangeCall): number {
  return lastTwo(call, true)
}

export function instantDelta(call: RangeCall): number {
  return lastTwo(call, false)
}

function lastTwo(call: RangeCall, perSecond: boolean): number {
  const { times, values, kinds, lo, hi } = call
  if (hi - lo < 2) return ABSENT
  const seconds = (times[hi - 1] - times[hi - 2]) / 1000
  if (seconds === 0) return ABSENT
  if (kinds !== undefined) {
    const histograms = (kinds[hi - 2] === SAMPLE_HISTOGRAM ? 1 : 0) + (kinds[hi - 1] === SAMPLE_HISTOGRAM ? 1 : 0)
    if (histograms === 1) {
      call.annotations.warning(mixedFloatsHistograms(call.metricName()), call.pos)
      return ABSENT
    }
    if (histograms === 2) return ofHistograms(call, histogramAt(call, hi - 2), histogramAt(call, hi - 1), perSecond ? seconds : undefined)
  }
  const before = values[hi - 2]
  const last = values[hi - 1]
  const change = perSecond && last < before ? last : last - before
  call.value = perSecond ? change / seconds : change
  return FLOAT
}

function ofHistograms(call: RangeCall, before: FloatHistogram, last: FloatHistogram, seconds: number | undefined): number {
  const perSecond = seconds !== undefined
  const gauges = (before.counterReset === 'gauge' ? 1 : 0) + (last.counterReset === 'gauge' ? 1 : 0)
  if (perSecond && gauges > 0) call.annotations.warning(notCounter(call.metricName()), call.pos)
  if (!perSecond && gauges < 2) call.annotations.warning(notGauge(call.metricName()), call.pos)
  const result = last.copy()
  if (!perSecond || !last.detectReset(before)) {
    if (!subtractFrom(result, before, call)) return ABSENT
  }
  result.counterReset = 'gauge'
  result.compact()
  if (perSecond) result.div(seconds)
  call.histogram = result
  return HISTOGRAM
}
