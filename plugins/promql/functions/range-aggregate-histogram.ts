/** Sum and mean of a window's native histograms, bucket by bucket, with what rounding loses kept beside. */
import { ABSENT, HISTOGRAM } from '../eval/value.ts'
import { ADD_INCOMPATIBLE, ADD_RECONCILED, type FloatHistogram } from '../histogram/float-histogram.ts'
import type { RangeCall } from './contract.ts'
import { mismatchedBounds, mixedSchemas, resetCollision } from './messages.ts'
import { histogramAt } from './range-histograms.ts'

export function sumHistograms(call: RangeCall): number {
  const sum = histogramAt(call, call.lo).copy()
  const lost = sum.compensation()
  let met = 0
  for (let i = call.lo + 1; i < call.hi; i++) met |= sum.kahanAdd(histogramAt(call, i), lost)
  met |= sum.add(lost)
  return finish(call, sum, met)
}

export function averageHistograms(call: RangeCall): number {
  const { lo, hi } = call
  const sum = histogramAt(call, lo).copy()
  const lost = sum.compensation()
  let met = 0
  for (let i = lo + 1; i < hi; i++) met |= sum.kahanAdd(histogramAt(call, i), lost)
  if (!allFinite(sum)) return incrementalMean(call)
  const count = hi - lo
  sum.div(count).add(lost.div(count))
  return finish(call, sum, met)
}

/** For sums beyond the range of floats: from there on each sample moves the mean by its part. */
function incrementalMean(call: RangeCall): number {
  const { lo, hi } = call
  let sum = histogramAt(call, lo).copy()
  let lost = sum.compensation()
  let mean: FloatHistogram | undefined
  let met = 0
  for (let i = lo + 1; i < hi; i++) {
    const sample = histogramAt(call, i)
    const count = i - lo + 1
    if (mean === undefined) {
      const nextSum = sum.copy()
      const nextLost = lost.copy()
      met |= nextSum.kahanAdd(sample, nextLost)
      if (!nextSum.hasOverflow()) {
        sum = nextSum
        lost = nextLost
        continue
      }
      mean = sum.div(count - 1)
      lost.div(count - 1)
    }
    const kept = (count - 1) / count
    lost.mul(kept)
    met |= mean.mul(kept).kahanAdd(sample.copy().div(count), lost)
  }
  if (mean === undefined) {
    mean = sum.div(hi - lo)
    lost.div(hi - lo)
  }
  mean.add(lost)
  return finish(call, mean, met)
}

function allFinite({ count, sum, zeroCount, positive, negative }: FloatHistogram): boolean {
  if (!Number.isFinite(count) || !Number.isFinite(sum) || !Number.isFinite(zeroCount)) return false
  return positive.counts.every(Number.isFinite) && negative.counts.every(Number.isFinite)
}

function finish(call: RangeCall, result: FloatHistogram, met: number): number {
  if ((met & ADD_INCOMPATIBLE) !== 0) {
    call.annotations.warning(mixedSchemas(call.metricName()), call.pos)
    return ABSENT
  }
  let reset = false
  let notReset = false
  for (let i = call.lo; i < call.hi; i++) {
    const { counterReset } = histogramAt(call, i)
    reset ||= counterReset === 'reset'
    notReset ||= counterReset === 'not_reset'
  }
  if (reset && notReset) call.annotations.warning(resetCollision('aggregation'), call.pos)
  if ((met & ADD_RECONCILED) !== 0) call.annotations.info(mismatchedBounds('aggregation'), call.pos)
  call.histogram = result
  return HISTOGRAM
}
