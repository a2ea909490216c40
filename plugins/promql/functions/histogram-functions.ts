/** Functions of histograms. histogram_quantile, histogram_quantiles and histogram_fraction take native and classic ones. */

import type { NanNote } from 'svcdb/lib/histogram'
import type { Pos } from '../ast.ts'
import { vectorBytes } from '../eval/context.ts'
import { ABSENT, FLOAT, HISTOGRAM, type VectorValue } from '../eval/value.ts'
import { bucketFraction, bucketQuantile, Repair } from '../histogram/classic.ts'
import type { FloatHistogram } from '../histogram/float-histogram.ts'
import { LabelList, type Labels, METRIC_NAME } from '../labels.ts'
import type { VectorCall, VectorFn } from './contract.ts'
import { formatLabelFloat } from './format.ts'
import { groupHistograms, type HistogramGroups, reportConflict } from './histogram-groups.ts'
import { withLabels } from './merge.ts'
import { fractionNaNs, invalidQuantile, quantileNaNResult, quantileNaNSkew } from './messages.ts'
import { droppedNames, scalarArg, stringArg, vectorArg } from './vectors.ts'

export const HISTOGRAMS: Record<string, VectorFn> = {
  histogram_count: (call) => ofNative(call, (h) => h.count),
  histogram_sum: (call) => ofNative(call, (h) => h.sum),
  histogram_avg: (call) => ofNative(call, (h) => h.mean()),
  histogram_stddev: (call) => ofNative(call, (h) => Math.sqrt(h.variance())),
  histogram_stdvar: (call) => ofNative(call, (h) => h.variance()),
  histogram_quantile: (call) => {
    const quantiles = scalarArg(call, 0).values
    checkQuantiles(call, [0])
    return quantilesOf(call, groupsOf(call, 1), quantiles, call.expr.args[1].pos)
  },
  histogram_quantiles: manyQuantiles,
  histogram_fraction: fraction,
}

/** What is done with one histogram; a classic one is in the first `length` entries of `bounds` and `counts`, which may be changed. */
interface HistogramOperation {
  native(histogram: FloatHistogram, step: number, group: number): number
  classic(bounds: Float64Array, counts: Float64Array, length: number, step: number, group: number): number
}

/** Floats are left out. */
function ofNative(call: VectorCall, f: (histogram: FloatHistogram) => number): VectorValue {
  const { labels, steps, kinds, histograms } = vectorArg(call, 0)
  const out: VectorValue = { type: 'vector', labels, steps, values: new Float64Array(kinds.length), kinds: new Uint8Array(kinds.length) }
  if (histograms !== undefined) {
    for (let cell = 0; cell < kinds.length; cell++) {
      const histogram = kinds[cell] === HISTOGRAM ? histograms[cell] : undefined
      if (histogram === undefined) continue
      out.values[cell] = f(histogram)
      out.kinds[cell] = FLOAT
    }
  }
  return { ...out, dropName: droppedNames(labels) }
}

function groupsOf(call: VectorCall, place: number): HistogramGroups {
  return groupHistograms(vectorArg(call, place), call.annotations, call.expr.args[place].pos)
}

/** One result for each histogram, native or classic, and step. */
function ofEach(call: VectorCall, groups: HistogramGroups, pos: Pos, operation: HistogramOperation): VectorValue {
  const { vector, labels, starts, members, natives } = groups
  const { steps, kinds } = vector
  const values = new Float64Array(labels.length * steps)
  const outKinds = new Uint8Array(labels.length * steps)
  let widest = 0
  for (let g = 0; g < labels.length; g++) widest = Math.max(widest, starts[g + 1] - starts[g])
  const bounds = new Float64Array(widest)
  const counts = new Float64Array(widest)
  for (let g = 0; g < labels.length; g++) {
    for (let step = 0; step < steps; step++) {
      let length = 0
      for (let m = starts[g]; m < starts[g + 1]; m++) {
        const cell = members[m] * steps + step
        if (kinds[cell] !== FLOAT) continue
        bounds[length] = groups.bounds[members[m]]
        counts[length++] = vector.values[cell]
      }
      const native = natives[g] < 0 ? undefined : vector.histograms?.[natives[g] * steps + step]
      if (native === undefined && length === 0) continue
      if (native !== undefined && length > 0) {
        reportConflict(groups, g, call.annotations, pos)
        continue
      }
      const cell = g * steps + step
      outKinds[cell] = FLOAT
      values[cell] = native === undefined ? operation.classic(bounds, counts, length, step, g) : operation.native(native, step, g)
    }
  }
  return { type: 'vector', labels, steps, values, kinds: outKinds, dropName: droppedNames(labels) }
}

function quantilesOf(call: VectorCall, groups: HistogramGroups, quantiles: Float64Array, pos: Pos): VectorValue {
  const repair = new Repair()
  const note: NanNote = { nan: '' }
  const name = (group: number): string => groups.labels.at(group).get(METRIC_NAME)
  return ofEach(call, groups, pos, {
    native(histogram, step, group) {
      clear(note)
      const value = histogram.quantile(quantiles[step], note)
      if (note.nan === 'result') call.annotations.info(quantileNaNResult(name(group)), pos)
      else if (note.nan === 'skew') call.annotations.info(quantileNaNSkew(name(group)), pos)
      return value
    },
    classic(bounds, counts, length, step, group) {
      const value = bucketQuantile(quantiles[step], bounds, counts, length, repair)
      if (repair.forcedMonotonic) {
        const time = call.steps.start + step * call.steps.interval
        call.annotations.forcedMonotonicity(name(group), pos, time, repair.minBucket, repair.maxBucket, repair.maxDiff)
      }
      return value
    },
  })
}

/** A label set with its key, about. */
const LABELS_BYTES = 256

/** Each quantile as series of their own, told apart by a label. */
async function manyQuantiles(call: VectorCall): Promise<VectorValue> {
  const { budget, pacer } = call
  const target = stringArg(call, 1)
  const places = call.args.map((_, i) => i).slice(2)
  checkQuantiles(call, places)
  const groups = groupsOf(call, 0)
  const { pos } = call.expr.args[0]
  const { steps } = groups.vector
  const height = groups.labels.length
  const wanted = places.map((place) => textsOf(scalarArg(call, place).values))
  const rows = wanted.reduce((sum, { texts }) => sum + texts.length * height, 0)
  budget.expect(vectorBytes(rows, steps, false) + rows * LABELS_BYTES)
  const values = new Float64Array(rows * steps)
  const kinds = new Uint8Array(rows * steps)
  let first = 0
  for (const { quantiles, texts, textOf } of wanted) {
    const vector = quantilesOf(call, groups, quantiles, pos)
    for (let cell = 0; cell < vector.kinds.length; cell++) {
      if (vector.kinds[cell] === ABSENT) continue
      const step = cell % steps
      const to = (first + textOf[step] * height) * steps + cell
      values[to] = vector.values[cell]
      kinds[to] = vector.kinds[cell]
    }
    first += texts.length * height
    if (pacer.due(vector.kinds.length)) await pacer.pause()
  }
  const labels = wanted.flatMap(({ texts }) => texts.flatMap((text) => labelled(groups, target, text)))
  const all: VectorValue = { type: 'vector', labels: new LabelList(labels), steps, values, kinds, dropName: new Uint8Array(rows).fill(1) }
  // At one step Prometheus lets the same quantile come twice, as long as something is made of it.
  return call.steps.count === 1 ? all : withLabels(all, all.labels, all.dropName)
}

/** A quantile that changes from step to step is another series with each value. */
function textsOf(quantiles: Float64Array): { quantiles: Float64Array; texts: string[]; textOf: Int32Array } {
  const known = new Map<string, number>()
  const textOf = Int32Array.from(quantiles, (quantile) => {
    const text = formatLabelFloat(quantile)
    const at = known.get(text) ?? known.size
    known.set(text, at)
    return at
  })
  return { quantiles, texts: [...known.keys()], textOf }
}

function labelled({ labels }: HistogramGroups, target: string, text: string): Labels[] {
  const out: Labels[] = []
  for (let g = 0; g < labels.length; g++) out.push(labels.at(g).with(target, text))
  return out
}

function fraction(call: VectorCall): VectorValue {
  const lower = scalarArg(call, 0).values
  const upper = scalarArg(call, 1).values
  const { pos } = call.expr.args[2]
  const groups = groupsOf(call, 2)
  const note: NanNote = { nan: '' }
  return ofEach(call, groups, pos, {
    native(histogram, step, group) {
      clear(note)
      const value = histogram.fraction(lower[step], upper[step], note)
      if (note.nan === 'fraction') call.annotations.info(fractionNaNs(groups.labels.at(group).get(METRIC_NAME)), pos)
      return value
    },
    classic: (bounds, counts, length, step) => bucketFraction(lower[step], upper[step], bounds, counts, length),
  })
}

function clear(note: NanNote): void {
  note.nan = ''
}

/** Step by step, as the last place that says something is the one that is told. */
function checkQuantiles(call: VectorCall, places: readonly number[]): void {
  const columns = places.map((place) => scalarArg(call, place).values)
  for (let step = 0; step < call.steps.count; step++) {
    for (const [i, place] of places.entries()) {
      const q = columns[i][step]
      if (!(q >= 0 && q <= 1)) call.annotations.warning(invalidQuantile(q), call.expr.args[place].pos)
    }
  }
}
