/**
 * Aggregations that take one series after the other: of a whole vector, or of rows as a selector or a range function makes them, so that
 * the vector itself is never there.
 */
import type { AggregateExpr } from '../ast.ts'
import type { FloatHistogram } from '../histogram/float-histogram.ts'
import type { LabelSets } from '../labels.ts'
import { type AccumulatingOp, type Accumulator, floatAccumulator } from './aggregate-floats.ts'
import { type HistogramAccumulator, histogramAccumulator } from './aggregate-histograms.ts'
import { rangeFunctionCall } from './calls.ts'
import type { Evaluation } from './context.ts'
import { droppedGroups, type Groups, groupSeries } from './groups.ts'
import type { Notes } from './operators.ts'
import { walkRanges } from './range-functions.ts'
import type { RowSink } from './row-sink.ts'
import { readInstants } from './selectors.ts'
import { selectorKey } from './shared.ts'
import { storedAggregate } from './stored-aggregate.ts'
import { ABSENT, FLOAT, HISTOGRAM, type Steps, type VectorValue } from './value.ts'
import { newVector } from './vectors.ts'

export async function accumulate(
  expr: AggregateExpr,
  op: AccumulatingOp,
  input: VectorValue,
  groups: Groups,
  { context, pacer }: Evaluation,
): Promise<VectorValue> {
  const { steps } = input
  const out = newVector(groups.labels, steps, context.budget)
  const notes: Notes = { sink: context.annotations, pos: expr.expr.pos }
  const floats = floatAccumulator(op, input, out)
  const histograms = input.histograms === undefined ? undefined : histogramAccumulator(op, input, input.labels, out, notes)
  for (let i = 0; i < groups.of.length; i++) {
    const to = groups.of[i] * steps
    floats.add(i * steps, to)
    histograms?.add(i, i * steps, to)
    if (pacer.due(steps)) await pacer.pause()
  }
  floats.finish()
  histograms?.finish()
  const dropName = droppedGroups(input.dropName, groups)
  if (dropName !== undefined) out.dropName = dropName
  return out
}

/** @returns undefined when the aggregation, or its operand, is not of the kind that can be taken row by row. */
export async function accumulateRows(expr: AggregateExpr, steps: Steps, evaluation: Evaluation): Promise<VectorValue | undefined> {
  const op = accumulatingOp(expr.op)
  const operand = expr.expr
  if (op === undefined) return undefined
  const stored = await storedAggregate(expr, op, steps, evaluation)
  if (stored !== undefined) return stored
  const open = (labels: LabelSets): AggregatedRows => new AggregatedRows(expr, op, labels, steps.count, evaluation)
  if (operand.kind === 'vector') {
    if (operand.modifier !== undefined || evaluation.repeated.has(selectorKey(operand))) return undefined
    return (await readInstants(operand, steps, evaluation, open)).sink.finish(undefined)
  }
  const call = operand.kind === 'call' ? rangeFunctionCall(operand) : undefined
  if (call === undefined) return undefined
  const { input, sink } = await walkRanges(call, steps, evaluation, open)
  return sink.finish(call.fn.keepsName === true ? input.dropName : 'all')
}

function accumulatingOp(op: AggregateExpr['op']): AccumulatingOp | undefined {
  switch (op) {
    case 'sum':
    case 'avg':
    case 'min':
    case 'max':
    case 'count':
    case 'group':
    case 'stddev':
    case 'stdvar':
      return op
    default:
      return undefined
  }
}

class AggregatedRows implements RowSink {
  readonly values: Float64Array
  readonly kinds: Uint8Array
  readonly base = 0
  private readonly histograms: (FloatHistogram | undefined)[] = []
  private readonly groups: Groups
  private readonly out: VectorValue
  private readonly floats: Accumulator
  private readonly mixed: HistogramAccumulator | undefined
  private holdsHistogram = false

  constructor(expr: AggregateExpr, op: AccumulatingOp, labels: LabelSets, steps: number, { context }: Evaluation) {
    this.values = new Float64Array(steps)
    this.kinds = new Uint8Array(steps)
    this.groups = groupSeries(expr, labels)
    this.out = newVector(this.groups.labels, steps, context.budget)
    const rows = { values: this.values, kinds: this.kinds, steps, histograms: this.histograms }
    this.floats = floatAccumulator(op, rows, this.out)
    this.mixed = histogramAccumulator(op, rows, labels, this.out, { sink: context.annotations, pos: expr.expr.pos })
  }

  float(step: number, value: number): void {
    this.values[step] = value
    this.kinds[step] = FLOAT
  }

  histogram(step: number, value: FloatHistogram): void {
    this.histograms[step] = value
    this.kinds[step] = HISTOGRAM
    this.holdsHistogram = true
  }

  keep(series: number): void {
    const to = this.groups.of[series] * this.out.steps
    this.floats.add(0, to)
    if (this.holdsHistogram) {
      this.mixed?.add(series, 0, to)
      this.holdsHistogram = false
    }
    this.kinds.fill(ABSENT)
  }

  /** @param dropName of the series that the rows were of. */
  finish(dropName: Uint8Array | 'all' | undefined): VectorValue {
    this.floats.finish()
    this.mixed?.finish()
    const dropped = dropName === 'all' ? new Uint8Array(this.groups.count).fill(1) : droppedGroups(dropName, this.groups)
    if (dropped !== undefined) this.out.dropName = dropped
    return this.out
  }
}
