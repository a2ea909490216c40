/**
 * Instant selectors with `smoothed`: the sample at the step, else a value on the line between the last one before it and the first one
 * after it, both within the lookback; without one after it the last one stays.
 */
import type { VectorSelector } from '../ast.ts'
import { mismatchedBounds, mixedFloatsHistograms, mixedSchemas } from '../functions/messages.ts'
import { ADD_INCOMPATIBLE, ADD_RECONCILED, type FloatHistogram } from '../histogram/float-histogram.ts'
import { METRIC_NAME } from '../labels.ts'
import type { Evaluation } from './context.ts'
import { withStatsOnly } from './histogram-stats.ts'
import { interpolate } from './interpolate.ts'
import { referenceOf, referenceSpan } from './modifiers.ts'
import type { Notes } from './operators.ts'
import { markDistinct } from './series-sets.ts'
import { SAMPLE_HISTOGRAM, type SampleBlock, type Steps, type VectorValue } from './value.ts'
import { VectorRows } from './vector-rows.ts'
import { withoutStale } from './windows.ts'

export async function smoothedVector(selector: VectorSelector, steps: Steps, evaluation: Evaluation): Promise<VectorValue> {
  const { context, pacer, statsOnly } = evaluation
  const reference = referenceOf(selector, context)
  const { first, last } = referenceSpan(reference, steps)
  const lookback = context.lookbackMs
  const selection = await context.source.select({
    matchers: selector.matchers,
    after: first - lookback,
    upTo: last + lookback,
  })
  markDistinct(selection.labels)
  const rows = new VectorRows(steps.count, selection.labels.length, context.budget)
  const notes: Notes = { sink: context.annotations, pos: selector.pos }
  for await (const raw of selection.blocks()) {
    pacer.check()
    const block = withoutStale(statsOnly.has(selector) ? withStatsOnly(raw) : raw)
    for (let s = 0; s + 1 < block.starts.length; s++) {
      const metric = (): string => selection.labels.at(block.first + s).get(METRIC_NAME)
      let any = false
      let lo = block.starts[s]
      let hi = lo
      for (let step = 0; step < steps.count; step++) {
        const time = (reference.at ?? steps.start + step * steps.interval) - reference.offset
        while (hi < block.starts[s + 1] && block.times[hi] <= time + lookback) hi++
        while (lo < hi && block.times[lo] <= time - lookback) lo++
        if (lo < hi && smooth(block, lo, hi, time, step, rows, metric, notes)) any = true
      }
      if (any) rows.keep(block.first + s)
      if (pacer.due(steps.count)) await pacer.pause()
    }
  }
  return rows.finish(selection.labels)
}

/** @returns whether there is a value at `time`, from the samples in [lo, hi). */
function smooth(block: SampleBlock, lo: number, hi: number, time: number, step: number, rows: VectorRows, metric: () => string, notes: Notes): boolean {
  const { times, values, kinds, histograms } = block
  const histogramCount = kinds === undefined ? 0 : kinds.subarray(lo, hi).reduce((n, kind) => n + (kind === SAMPLE_HISTOGRAM ? 1 : 0), 0)
  if (histogramCount > 0 && histogramCount < hi - lo) {
    notes.sink.warning(mixedFloatsHistograms(metric()), notes.pos)
    return false
  }
  let at = lo
  while (at < hi && times[at] < time) at++
  const exact = at < hi && times[at] === time
  if (!exact && at === lo) return false
  if (histogramCount === 0) {
    rows.float(step, exact ? values[at] : at < hi ? interpolate(times, values, at - 1, time) : values[at - 1])
    return true
  }
  const previous = histograms?.[at - 1]
  const next = histograms?.[at]
  const made = exact ? next?.copy() : at < hi ? between(previous, next, (time - times[at - 1]) / (times[at] - times[at - 1]), metric, notes) : carried(previous)
  if (made === undefined) return false
  rows.histogram(step, made)
  return true
}

/** The hint tells of the sample before, not of the value. */
function carried(histogram: FloatHistogram | undefined): FloatHistogram | undefined {
  const copy = histogram?.copy()
  if (copy !== undefined) copy.counterReset = 'unknown'
  return copy
}

/** A counter that was reset between the two is taken to start from zero at the first. */
function between(
  from: FloatHistogram | undefined,
  to: FloatHistogram | undefined,
  share: number,
  metric: () => string,
  { sink, pos }: Notes,
): FloatHistogram | undefined {
  if (from === undefined || to === undefined) return undefined
  if (from.custom !== to.custom) {
    sink.warning(mixedSchemas(metric()), pos)
    return undefined
  }
  const counter = from.counterReset !== 'gauge' || to.counterReset !== 'gauge'
  const result = to.copy()
  if (counter && to.detectReset(from)) return result.mul(share)
  const lessened = result.sub(from)
  if ((lessened & ADD_INCOMPATIBLE) !== 0) {
    sink.warning(mixedSchemas(metric()), pos)
    return undefined
  }
  if ((lessened & ADD_RECONCILED) !== 0) sink.info(mismatchedBounds('subtraction'), pos)
  if ((result.mul(share).add(from) & ADD_RECONCILED) !== 0) sink.info(mismatchedBounds('addition'), pos)
  return result
}
