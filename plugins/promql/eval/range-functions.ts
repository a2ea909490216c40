/**
 * Functions over range vectors. Each series is walked once with two cursors that only move forward, one at each end of the window; where a
 * function knows how, series of floats are done all windows at a time.
 */
import type { StoredRows } from 'svcdb/lib/columns'
import type { CallExpr, Expr, MatrixSelector, Pos, SubqueryExpr } from '../ast.ts'
import { ExecutionError } from '../errors.ts'
import { RangeCall, type RangeFn, type RangeFunction, type RangeRows } from '../functions/contract.ts'
import type { LabelSets } from '../labels.ts'
import type { Evaluation, Pacer } from './context.ts'
import type { RowSink } from './row-sink.ts'
import { StoredWindows } from './stored-windows.ts'
import { ABSENT, FLOAT, HISTOGRAM, type SampleBlock, type Steps, shaped, type VectorValue } from './value.ts'
import { VectorRows } from './vector-rows.ts'
import { dropAllNames } from './vectors.ts'
import { WindowPlan } from './window-plan.ts'
import { type RangeInput, rangeInput } from './windows.ts'

const NOWHERE: Pos = { start: 0, end: 0 }

/** A call of a range function, and what says which others take a modifier. */
export interface RangeFunctionCall {
  expr: CallExpr
  fn: RangeFunction
  namesWith(modifier: 'anchored' | 'smoothed'): string[]
}

export async function callRangeFunction(call: RangeFunctionCall, steps: Steps, evaluation: Evaluation): Promise<VectorValue> {
  const { expr, fn } = call
  const { input, sink } = await walkRanges(call, steps, evaluation, (labels) => new VectorRows(steps.count, labels.length, evaluation.context.budget))
  const { kept } = sink
  const value = sink.finish(input.labels)
  if (fn.keepsName !== true) value.dropName = dropAllNames(value.labels.length)
  else if (input.dropName !== undefined) value.dropName = Uint8Array.from(kept, (series) => input.dropName?.[series] ?? 0)
  return fn.finish?.(value, rangeArgument(expr)) ?? value
}

/** Hands each series' row to what `open` gives. */
export async function walkRanges<Sink extends RowSink>(
  { expr, fn, namesWith }: RangeFunctionCall,
  steps: Steps,
  evaluation: Evaluation,
  open: (labels: LabelSets) => Sink,
): Promise<{ input: RangeInput; sink: Sink }> {
  const { context, pacer } = evaluation
  const arg = rangeArgument(expr)
  const scalars = await scalarArguments(
    expr.args.filter((other) => other !== arg),
    steps,
    evaluation,
  )
  const modifier = arg.kind === 'matrix' ? arg.vector.modifier : undefined
  if (modifier !== undefined && fn[modifier] !== true) {
    throw new ExecutionError(`${modifier} modifier can only be used with: ${namesWith(modifier).join(', ')} - not with ${expr.name}`)
  }
  const input = await rangeInput(arg, steps, evaluation, fn)
  // What is said of a subquery's samples names no place of the query: Prometheus has lost it by then.
  const call = new RangeCall(expr, arg.kind === 'subquery' ? NOWHERE : arg.pos, context.annotations)
  call.labels = input.labels
  call.range = input.range
  call.modifier = input.modifier
  call.scalars = new Float64Array(scalars.length)
  const sink = open(input.labels)
  const walk: Walk = { call, window: fn.window, scalars, sink, steps, input, step: 0, lo: 0, hi: 0 }
  const short = shortWay(fn, steps, input)
  const gaveFloat = fn.annotate === undefined ? undefined : new Uint8Array(input.labels.length)
  const windows = storedWindows(fn, steps, input)
  for await (const read of windows === undefined ? input.blocks() : input.stored!()) {
    pacer.check()
    if ('runs' in read) {
      if (windows !== undefined) await fillStored(windows, read, sink, pacer)
      continue
    }
    const block = shaped(read)
    call.times = block.times
    call.values = block.values
    call.kinds = block.kinds
    call.histograms = block.histograms
    call.ordinals = block.ordinals
    for (let i = 0; i + 1 < block.starts.length; i++) {
      const from = block.starts[i]
      const to = block.starts[i + 1]
      if (from === to) continue
      call.series = block.first + i
      walk.lo = from
      walk.hi = from
      walk.step = 0
      let given = 0
      if (short !== undefined && block.kinds === undefined && to - from <= SHORT_SAMPLES) {
        short.plan.follow(block.times, from, to, block.ordinals)
        if (short.plan.samples <= SHORT_SAMPLES) {
          if (short.rows.fill(block.values, from, sink)) given = FLOAT
          walk.step = steps.count
        }
      }
      while (walk.step < steps.count) {
        given |= input.reference.at === undefined ? walkSteps(walk, block, from, to) : stay(walk, block, from, to)
        if (walk.step < steps.count && pacer.due(TURN_SAMPLES)) await pacer.pause()
      }
      if (gaveFloat !== undefined && (given & FLOAT) !== 0) gaveFloat[call.series] = 1
      if (given !== 0) sink.keep(call.series)
      if (pacer.due(to - from + steps.count)) await pacer.pause()
    }
  }
  if (gaveFloat !== undefined) fn.annotate?.(input.labels, gaveFloat, call)
  return { input, sink }
}

/** Steps, samples of a series and samples of all its windows that are done in one go, at most. */
const SHORT_SAMPLES = 1 << 18

/** Pays where windows overlap. */
function shortWay({ rows }: RangeFunction, steps: Steps, { reference, range, modifier }: RangeInput): { plan: WindowPlan; rows: RangeRows } | undefined {
  if (rows === undefined || modifier !== undefined || reference.at !== undefined || steps.count > SHORT_SAMPLES) return undefined
  if (steps.count === 1 || steps.interval >= range) return undefined
  const plan = new WindowPlan(steps, range, reference.offset)
  return { plan, rows: rows(plan) }
}

/** Pays where windows do not. */
function storedWindows({ stored }: RangeFunction, steps: Steps, { stored: read, reference, range, modifier }: RangeInput): StoredWindows | undefined {
  if (stored === undefined || read === undefined || modifier !== undefined || reference.at !== undefined) return undefined
  if (steps.count > 1 && steps.interval < range) return undefined
  return new StoredWindows(stored(), steps, range, reference.offset)
}

async function fillStored(windows: StoredWindows, rows: StoredRows, sink: RowSink, pacer: Pacer): Promise<void> {
  for (let series = 0; series + 1 < rows.starts.length; series++) {
    windows.open(rows, series)
    while (windows.fill(sink, TURN_SAMPLES)) if (pacer.due(TURN_SAMPLES)) await pacer.pause()
    if (windows.any) sink.keep(rows.first + series)
    if (pacer.due(STORED_SERIES_CELLS)) await pacer.pause()
  }
}

function rangeArgument({ args }: CallExpr): MatrixSelector | SubqueryExpr {
  return args.find(isRange) as MatrixSelector | SubqueryExpr
}

interface Walk {
  call: RangeCall
  window: RangeFn
  /** One value a step for each scalar argument. */
  scalars: readonly Float64Array[]
  sink: RowSink
  steps: Steps
  input: RangeInput
  /** Where the series is taken up again: its next step, and the window of the step before. */
  step: number
  lo: number
  hi: number
}

/** What a series over stored samples counts as, in looks at the clock. */
const STORED_SERIES_CELLS = 1024
/** Samples of all windows after which a series is left for a look at the clock. */
const TURN_SAMPLES = 1 << 16

/** Steps of one series, as many as go between two pauses. @returns the kinds of its results, or-ed: 0 when there are none. */
function walkSteps(walk: Walk, block: SampleBlock, from: number, to: number): number {
  const { call, window, scalars, sink, steps, input } = walk
  const { times } = block
  const { range, before, ahead } = input
  const { start, interval, count } = steps
  const { values, kinds, base } = sink
  const offset = input.reference.offset
  const newest = times[to - 1]
  let { lo, hi, step } = walk
  let given = 0
  let samples = 0
  /** How far the ends moved at the step before: in series that were scraped evenly they move as far again. */
  let strideLo = 0
  let strideHi = 0
  for (; step < count && samples < TURN_SAMPLES; step++) {
    const time = start + step * interval
    const end = time - offset
    const reach = end + ahead
    const hiBefore = hi
    if (strideHi > 0 && hi + strideHi < to && times[hi + strideHi - 1] <= reach) hi += strideHi
    while (hi < to && times[hi] <= reach) hi++
    strideHi = hi - hiBefore
    if (hi === from) continue
    const after = end - range - before
    if (newest <= after) {
      step = count
      break
    }
    const loBefore = lo
    if (strideLo > 0 && lo + strideLo < hi && times[lo + strideLo - 1] <= after) lo += strideLo
    while (lo < hi && times[lo] <= after) lo++
    strideLo = lo - loBefore
    if (lo === hi) continue
    samples += hi - lo
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
    } else if (kind === HISTOGRAM && call.histogram !== undefined) sink.histogram(step, call.histogram)
    given |= kind
  }
  walk.step = step
  walk.lo = lo
  walk.hi = hi
  return given
}

/** With `@` all steps have the same window, and only the step's time and the scalars differ. */
function stay(walk: Walk, block: SampleBlock, from: number, to: number): number {
  const { call, window, scalars, sink, steps, input } = walk
  const { times } = block
  const end = (input.reference.at ?? 0) - input.reference.offset
  let lo = from
  let hi = to
  while (hi > lo && times[hi - 1] > end + input.ahead) hi--
  while (lo < hi && times[lo] <= end - input.range - input.before) lo++
  if (lo === hi) {
    walk.step = steps.count
    return ABSENT
  }
  const last = Math.min(steps.count, walk.step + Math.ceil(TURN_SAMPLES / (hi - lo)))
  call.lo = lo
  call.hi = hi
  call.rangeStart = end - input.range
  call.rangeEnd = end
  let given = 0
  for (let { step } = walk; step < last; step++) {
    for (let s = 0; s < scalars.length; s++) call.scalars[s] = scalars[s][step]
    call.time = steps.start + step * steps.interval
    const kind = window(call)
    if (kind === FLOAT) sink.float(step, call.value)
    else if (kind === HISTOGRAM && call.histogram !== undefined) sink.histogram(step, call.histogram)
    given |= kind
  }
  walk.step = last
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
