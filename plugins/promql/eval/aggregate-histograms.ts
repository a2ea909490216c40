/** sum and avg of vectors that hold histograms. A group with histograms and floats at one step has no result there. */
import { mismatchedBounds, mixedSchemas, resetCollision } from '../functions/messages.ts'
import { ADD_INCOMPATIBLE, ADD_RECONCILED, type FloatHistogram } from '../histogram/float-histogram.ts'
import { type LabelSets, METRIC_NAME } from '../labels.ts'
import type { AccumulatingOp, Rows } from './aggregate-floats.ts'
import { histogramIgnoredIn, MIXED_AGGREGATION } from './aggregate-messages.ts'
import type { Notes } from './operators.ts'
import { ABSENT, FLOAT, HISTOGRAM, type VectorValue } from './value.ts'
import { setHistogram } from './vectors.ts'

/** The histograms of one group at one step. */
interface Sum {
  total: FloatHistogram
  /** What rounding lost. */
  lost: FloatHistogram | undefined
  count: number
  /** `total` is the mean of `count` histograms, for their sum would be infinite. */
  mean: boolean
  incompatible: boolean
  resets: boolean
  noResets: boolean
}

type AddFn = (sum: Sum, histogram: FloatHistogram) => number
type ResultFn = (sum: Sum) => FloatHistogram

/** Rows of cells, with the histograms in them. */
type MixedRows = Rows & Pick<VectorValue, 'histograms'>

export interface HistogramAccumulator {
  /** As an Accumulator, for rows that may hold histograms, after their floats. */
  add(series: number, from: number, to: number): void
  /** After that of floats. */
  finish(): void
}

/** @returns undefined for what takes histograms as it takes floats. */
export function histogramAccumulator(
  op: AccumulatingOp,
  input: MixedRows,
  labels: LabelSets,
  out: VectorValue,
  notes: Notes,
): HistogramAccumulator | undefined {
  switch (op) {
    case 'sum':
      return summing(addToSum, sumOf, input, labels, out, notes)
    case 'avg':
      return summing(addToMean, meanOf, input, labels, out, notes)
    case 'count':
    case 'group':
      return undefined
    default:
      return ignoring(op, input, notes)
  }
}

function ignoring(op: AccumulatingOp, { kinds, steps }: MixedRows, { sink, pos }: Notes): HistogramAccumulator {
  let said = false
  return {
    add(_series, from) {
      if (said || !kinds.subarray(from, from + steps).includes(HISTOGRAM)) return
      said = true
      sink.info(histogramIgnoredIn(op), pos)
    },
    finish() {},
  }
}

function summing(add: AddFn, result: ResultFn, input: MixedRows, labels: LabelSets, out: VectorValue, notes: Notes): HistogramAccumulator {
  const { kinds, steps } = input
  const sums = new Map<number, Sum>()
  return {
    add(series, from, to) {
      for (let t = 0; t < steps; t++) {
        const histogram = kinds[from + t] === HISTOGRAM ? input.histograms?.[from + t] : undefined
        if (histogram !== undefined) addHistogram(sums, to + t, histogram, add, () => labels.at(series).get(METRIC_NAME), notes)
      }
    },
    finish() {
      for (const [cell, sum] of sums) finishCell(out, cell, sum, result, notes)
    },
  }
}

function addHistogram(sums: Map<number, Sum>, cell: number, histogram: FloatHistogram, add: AddFn, metric: () => string, { sink, pos }: Notes): void {
  const sum = sums.get(cell)
  if (sum === undefined) {
    const first = { total: histogram.copy(), lost: undefined, count: 1, mean: false, incompatible: false, resets: false, noResets: false }
    sums.set(cell, noteHint(first, histogram))
    return
  }
  if (sum.incompatible) return
  noteHint(sum, histogram)
  sum.count++
  const met = add(sum, histogram)
  if ((met & ADD_INCOMPATIBLE) !== 0) {
    sum.incompatible = true
    sink.warning(mixedSchemas(metric()), pos)
  } else if ((met & ADD_RECONCILED) !== 0) sink.info(mismatchedBounds('aggregation'), pos)
}

function noteHint(sum: Sum, { counterReset }: FloatHistogram): Sum {
  if (counterReset === 'reset') sum.resets = true
  else if (counterReset === 'not_reset') sum.noResets = true
  return sum
}

function finishCell(out: VectorValue, cell: number, sum: Sum, result: ResultFn, { sink, pos }: Notes): void {
  if (out.kinds[cell] === FLOAT) {
    sink.warning(MIXED_AGGREGATION, pos)
    out.kinds[cell] = ABSENT
    return
  }
  if (sum.incompatible) return
  setHistogram(out, cell, result(sum).compact())
  if (sum.resets && sum.noResets) sink.warning(resetCollision('aggregation'), pos)
}

function addToSum(sum: Sum, histogram: FloatHistogram): number {
  return sum.total.kahanAdd(histogram, (sum.lost ??= sum.total.compensation()))
}

function sumOf({ total, lost }: Sum): FloatHistogram {
  if (lost !== undefined) total.add(lost)
  return total
}

/** As the mean of floats: of the sum while that is finite, from there on of the mean so far and a share of each histogram. */
function addToMean(sum: Sum, histogram: FloatHistogram): number {
  const { count } = sum
  if (!sum.mean) {
    const total = sum.total.copy()
    const lost = sum.lost?.copy() ?? total.compensation()
    const met = total.kahanAdd(histogram, lost)
    if ((met & ADD_INCOMPATIBLE) !== 0) return met
    if (!total.hasOverflow()) {
      sum.total = total
      sum.lost = lost
      return met
    }
    sum.mean = true
    sum.total.div(count - 1)
    sum.lost?.div(count - 1)
  }
  const shrink = (count - 1) / count
  sum.total.mul(shrink)
  sum.lost ??= sum.total.compensation()
  sum.lost.mul(shrink)
  return sum.total.kahanAdd(histogram.copy().div(count), sum.lost)
}

function meanOf({ total, lost, count, mean }: Sum): FloatHistogram {
  if (!mean) {
    total.div(count)
    lost?.div(count)
  }
  if (lost !== undefined) total.add(lost)
  return total
}
