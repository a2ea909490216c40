/**
 * Functions over range vectors. Each series is walked once with two cursors that only move forward, one at each end of the window.
 */
import type { CallExpr, Expr, MatrixSelector, Pos, SubqueryExpr } from '../ast.ts'
import { ExecutionError } from '../errors.ts'
import { RangeCall, type RangeFn, type RangeFunction } from '../functions/contract.ts'
import type { Evaluation } from './context.ts'
import { ABSENT, FLOAT, HISTOGRAM, type SampleBlock, type Steps, type VectorValue } from './value.ts'
import { VectorRows } from './vector-rows.ts'
import { dropAllNames } from './vectors.ts'
import { type RangeInput, rangeInput } from './windows.ts'

const NOWHERE: Pos = { start: 0, end: 0 }

/** @param namesWith names of all functions that take the modifier, for the message. */
export async function callRangeFunction(
  expr: CallExpr,
  fn: RangeFunction,
  steps: Steps,
  evaluation: Evaluation,
  namesWith: (modifier: 'anchored' | 'smoothed') => string[],
): Promise<VectorValue> {
  const { context, pacer } = evaluation
  const { args } = expr
  const place = args.findIndex(isRange)
  const arg = args[place] as MatrixSelector | SubqueryExpr
  const scalars = await scalarArguments(
    args.filter((_, i) => i !== place),
    steps,
    evaluation,
  )
  const modifier = arg.kind === 'matrix' ? arg.vector.modifier : undefined
  if (modifier !== undefined && fn[modifier] !== true) {
    throw new ExecutionError(`${modifier} modifier can only be used with: ${namesWith(modifier).join(', ')} - not with ${expr.name}`)
  }
  const input = await rangeInput(arg, steps, evaluation)
  // What is said of a subquery's samples names no place of the query: Prometheus has lost it by then.
  const call = new RangeCall(expr, arg.kind === 'subquery' ? NOWHERE : arg.pos, context.annotations)
  call.labels = input.labels
  call.range = input.range
  call.modifier = input.modifier
  call.scalars = new Float64Array(scalars.length)
  const rows = new VectorRows(steps.count, input.labels.length, context.budget)
  const walk: Walk = { call, window: fn.window, scalars, rows, steps, input }
  const gaveFloat = fn.annotate === undefined ? undefined : new Uint8Array(input.labels.length)
  for await (const block of input.blocks()) {
    pacer.check()
    call.times = block.times
    call.values = block.values
    call.kinds = block.kinds
    call.histograms = block.histograms
    for (let i = 0; i + 1 < block.starts.length; i++) {
      const from = block.starts[i]
      const to = block.starts[i + 1]
      if (from === to) continue
      call.series = block.first + i
      const given = input.reference.at === undefined ? walkSteps(walk, block, from, to) : stay(walk, block, from, to)
      if (gaveFloat !== undefined && (given & FLOAT) !== 0) gaveFloat[call.series] = 1
      if (given !== 0) rows.keep(call.series)
      if (pacer.due()) await pacer.pause()
    }
  }
  const kept = rows.kept
  const value = rows.finish(input.labels)
  if (fn.keepsName !== true) value.dropName = dropAllNames(value.labels.length)
  else if (input.dropName !== undefined) value.dropName = Uint8Array.from(kept, (series) => input.dropName?.[series] ?? 0)
  if (gaveFloat !== undefined) fn.annotate?.(input.labels, gaveFloat, call)
  return fn.finish?.(value, arg) ?? value
}

interface Walk {
  call: RangeCall
  window: RangeFn
  /** One value a step for each scalar argument. */
  scalars: readonly Float64Array[]
  rows: VectorRows
  steps: Steps
  input: RangeInput
}

/** All steps of one series. @returns the kinds of its results, or-ed: 0 when there are none. */
function walkSteps({ call, window, scalars, rows, steps, input }: Walk, block: SampleBlock, from: number, to: number): number {
  const { times } = block
  const { range, before, ahead } = input
  const { start, interval, count } = steps
  const { values, kinds, base } = rows
  const offset = input.reference.offset
  const newest = times[to - 1]
  let lo = from
  let hi = from
  let given = 0
  for (let step = 0; step < count; step++) {
    const time = start + step * interval
    const end = time - offset
    const reach = end + ahead
    while (hi < to && times[hi] <= reach) hi++
    if (hi === from) continue
    const after = end - range - before
    if (newest <= after) break
    while (lo < hi && times[lo] <= after) lo++
    if (lo === hi) continue
    for (let s = 0; s < scalars.length; s++) call.scalars[s] = scalars[s][step]
    call.lo = lo
    call.hi = hi
    call.rangeStart = end - range
    call.rangeEnd = end
    call.time = time
    const kind = window(call)
    if (kind === FLOAT) {
      values[base + step] = call.value
      kinds[base + step] = FLOAT
    } else if (kind === HISTOGRAM && call.histogram !== undefined) rows.histogram(step, call.histogram)
    given |= kind
  }
  return given
}

/** With `@` all steps have the same window, and only the step's time and the scalars differ. */
function stay({ call, window, scalars, rows, steps, input }: Walk, block: SampleBlock, from: number, to: number): number {
  const { times } = block
  const end = (input.reference.at ?? 0) - input.reference.offset
  let lo = from
  let hi = to
  while (hi > lo && times[hi - 1] > end + input.ahead) hi--
  while (lo < hi && times[lo] <= end - input.range - input.before) lo++
  if (lo === hi) return ABSENT
  call.lo = lo
  call.hi = hi
  call.rangeStart = end - input.range
  call.rangeEnd = end
  let given = 0
  for (let step = 0; step < steps.count; step++) {
    for (let s = 0; s < scalars.length; s++) call.scalars[s] = scalars[s][step]
    call.time = steps.start + step * steps.interval
    const kind = window(call)
    if (kind === FLOAT) rows.float(step, call.value)
    else if (kind === HISTOGRAM && call.histogram !== undefined) rows.histogram(step, call.histogram)
    given |= kind
  }
  return given
}

async function scalarArguments(args: readonly Expr[], steps: Steps, evaluation: Evaluation): Promise<Float64Array[]> {
  const out: Float64Array[] = []
  for (const arg of args) {
    const value = await evaluation.evaluate(arg, steps)
    if (value.type === 'scalar') out.push(value.values)
  }
  return out
}

export function isRange(expr: Expr): boolean {
  return expr.kind === 'matrix' || expr.kind === 'subquery'
}
