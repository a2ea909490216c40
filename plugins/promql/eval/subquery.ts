/** Subqueries: an expression evaluated at steps of its own, multiples of its step since the epoch. */
import type { SubqueryExpr } from '../ast.ts'
import { ExecutionError } from '../errors.ts'
import type { FloatHistogram } from '../histogram/float-histogram.ts'
import type { Evaluation } from './context.ts'
import { milliseconds, referenceOf, referenceSpan } from './modifiers.ts'
import { ABSENT, HISTOGRAM, SAMPLE_FLOAT, SAMPLE_HISTOGRAM, type SampleBlock, type Steps, type VectorValue } from './value.ts'
import { asSeries } from './vectors.ts'

interface SubqueryValue {
  value: VectorValue
  steps: Steps
}

/** Every time that a window of the outer steps may hold. With `@` they all have the same window. */
export function subquerySteps(expr: SubqueryExpr, outer: Steps, { context }: Evaluation): Steps {
  const range = milliseconds(expr.range, context)
  const { first, last } = referenceSpan(referenceOf(expr, context), outer)
  const interval = expr.step === undefined ? context.defaultStepMs : milliseconds(expr.step, context)
  const after = first - range
  let start = interval * Math.trunc(after / interval)
  if (start <= after) start += interval
  return { start, interval, count: Math.max(0, Math.floor((last - start) / interval) + 1) }
}

export async function evaluateSubquery(expr: SubqueryExpr, outer: Steps, evaluation: Evaluation): Promise<SubqueryValue> {
  const steps = subquerySteps(expr, outer, evaluation)
  const value = await evaluation.evaluate(expr.expr, steps)
  if (value.type === 'string') throw new ExecutionError('subquery is only allowed on instant vector, got string')
  return { value: value.type === 'scalar' ? asSeries(value) : value, steps }
}

/** Samples in one block, unless a single series has more. */
export const BLOCK_CELLS = 1 << 16

/** The value's cells as samples; a block's arrays are used again once the next one is asked for. */
export async function* blocksOf(value: VectorValue, steps: Steps): AsyncIterable<SampleBlock> {
  const series = value.labels.length
  const each = Math.max(1, Math.floor(BLOCK_CELLS / Math.max(1, steps.count)))
  const cells = Math.min(series, each) * steps.count
  const room = { times: new Float64Array(cells), values: new Float64Array(cells) }
  for (let first = 0; first < series; first += each) yield toBlock(value, steps, first, Math.min(series, first + each), room)
}

function toBlock(value: VectorValue, steps: Steps, first: number, end: number, room: Pick<SampleBlock, 'times' | 'values'>): SampleBlock {
  const cells = (end - first) * steps.count
  const starts = new Int32Array(end - first + 1)
  const times = room.times.subarray(0, cells)
  const values = room.values.subarray(0, cells)
  const kinds = value.histograms === undefined ? undefined : new Uint8Array(cells)
  const histograms: (FloatHistogram | undefined)[] | undefined = kinds === undefined ? undefined : []
  let n = 0
  for (let s = first; s < end; s++) {
    const base = s * steps.count
    for (let t = 0; t < steps.count; t++) {
      const kind = value.kinds[base + t]
      if (kind === ABSENT) continue
      times[n] = steps.start + t * steps.interval
      values[n] = value.values[base + t]
      if (kinds !== undefined) {
        kinds[n] = kind === HISTOGRAM ? SAMPLE_HISTOGRAM : SAMPLE_FLOAT
        histograms?.push(kind === HISTOGRAM ? withoutResetHint(value.histograms?.[base + t]) : undefined)
      }
      n++
    }
    starts[s - first + 1] = n
  }
  return kinds === undefined ? { first, starts, times, values } : { first, starts, times, values, kinds, ...(histograms === undefined ? {} : { histograms }) }
}

/** What a sample knew of the one before it does not hold for the samples a subquery picks. */
export function withoutResetHint(histogram: FloatHistogram | undefined): FloatHistogram | undefined {
  if (histogram === undefined || histogram.counterReset === 'gauge' || histogram.counterReset === 'unknown') return histogram
  const copy = histogram.copy()
  copy.counterReset = 'unknown'
  return copy
}
