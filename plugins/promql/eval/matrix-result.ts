/** A range vector as the result of an instant query: the samples themselves. */
import type { MatrixSelector, SubqueryExpr } from '../ast.ts'
import { ExecutionError } from '../errors.ts'
import { type Evaluation, histogramBytes } from './context.ts'
import { mergeSame, withoutNames } from './finish.ts'
import { interpolate } from './interpolate.ts'
import { blocksOf, evaluateSubquery } from './subquery.ts'
import { type MatrixValue, SAMPLE_HISTOGRAM, type SampleBlock, type Steps } from './value.ts'
import { type RangeInput, rangeInput } from './windows.ts'

export async function matrixResult(expr: MatrixSelector | SubqueryExpr, steps: Steps, evaluation: Evaluation): Promise<MatrixValue> {
  const { budget } = evaluation.context
  if (expr.kind === 'subquery') {
    const child = await evaluateSubquery(expr, steps, evaluation)
    const value = mergeSame(withoutNames(child.value), budget)
    return { type: 'matrix', labels: value.labels, blocks: () => counted(owned(blocksOf(value, child.steps)), evaluation) }
  }
  const input = await rangeInput(expr, steps, evaluation, {})
  const end = (input.reference.at ?? steps.start) - input.reference.offset
  const blocks = input.modifier === undefined ? owned(input.blocks()) : extended(input, end)
  return { type: 'matrix', labels: input.labels, blocks: () => counted(blocks, evaluation) }
}

/** Copies: the arrays of a block are used again for the next, and a result is kept until it is sent. */
async function* owned(blocks: AsyncIterable<SampleBlock>): AsyncIterable<SampleBlock> {
  for await (const { first, starts, times, values, kinds, histograms } of blocks) {
    const copy: SampleBlock = { first, starts: starts.slice(), times: times.slice(), values: values.slice() }
    if (kinds !== undefined) copy.kinds = kinds.slice()
    if (histograms !== undefined) copy.histograms = histograms.slice()
    yield copy
  }
}

async function* counted(blocks: AsyncIterable<SampleBlock>, { context, pacer }: Evaluation): AsyncIterable<SampleBlock> {
  for await (const block of blocks) {
    pacer.check()
    let bytes = block.times.byteLength + block.values.byteLength
    for (const histogram of block.histograms ?? []) if (histogram !== undefined) bytes += histogramBytes(histogram)
    context.budget.take(bytes)
    yield block
  }
}

/** Series with a sample of their own at either end of the range: the one nearest before it, or for `smoothed` a value between two. */
async function* extended(input: RangeInput, end: number): AsyncIterable<SampleBlock> {
  const start = end - input.range
  const smoothed = input.modifier === 'smoothed'
  for await (const block of input.blocks()) {
    if (block.kinds?.includes(SAMPLE_HISTOGRAM)) throw new ExecutionError(`${input.modifier} modifier is not supported with histograms`)
    const starts = new Int32Array(block.starts.length)
    const times: number[] = []
    const values: number[] = []
    for (let s = 0; s + 1 < starts.length; s++) {
      extendSeries(block, block.starts[s], block.starts[s + 1], start, end, smoothed, times, values)
      starts[s + 1] = times.length
    }
    yield { first: block.first, starts, times: Float64Array.from(times), values: Float64Array.from(values) }
  }
}

function extendSeries(
  { times, values }: SampleBlock,
  from: number,
  to: number,
  start: number,
  end: number,
  smoothed: boolean,
  outTimes: number[],
  outValues: number[],
): void {
  if (from === to) return
  // The last sample at or before the start stands for it, else the first one after.
  let first = from
  while (first < to - 1 && times[first] <= start) first++
  first = Math.max(from, first - 1)
  let last = to - 1
  if (smoothed) while (last > from && times[last - 1] >= end) last--
  if (times[last] <= start) return
  const left = smoothed && times[first] < start ? interpolate(times, values, first, start) : values[first]
  const right = smoothed && last > from && times[last] > end ? interpolate(times, values, last - 1, end) : values[last]
  outTimes.push(start)
  outValues.push(left)
  for (let i = first; i <= last; i++) {
    if (times[i] <= start || times[i] >= end) continue
    outTimes.push(times[i])
    outValues.push(values[i])
  }
  outTimes.push(end)
  outValues.push(right)
}
