/**
 * Aggregations that the storage computes where the points are: of plain float series, by instant selectors and by functions that look at the ends of windows.
 * It may decline; what it gives is what the evaluator would have made of the samples.
 */
import type { WindowFunction } from 'svcdb/lib/columns'
import type { AggregateExpr, Expr, Pos, VectorSelector } from '../ast.ts'
import { RangeCall } from '../functions/contract.ts'
import { LabelList, Labels, METADATA, METRIC_NAME } from '../labels.ts'
import type { AccumulatingOp } from './aggregate-floats.ts'
import { rangeFunctionCall } from './calls.ts'
import { type Evaluation, vectorBytes } from './context.ts'
import { milliseconds, referenceOf } from './modifiers.ts'
import type { RangeFunctionCall } from './range-functions.ts'
import { selectorKey } from './shared.ts'
import { FLOAT, type Steps, type VectorValue } from './value.ts'

/** An operand that a storage may know. */
interface Operand {
  selector: VectorSelector
  window: WindowFunction
  /** Milliseconds. */
  range: number
  /** Of functions. */
  call?: RangeFunctionCall & { pos: Pos }
}

/** @returns undefined where the storage does not know how, or declines. */
export async function storedAggregate(expr: AggregateExpr, op: AccumulatingOp, steps: Steps, evaluation: Evaluation): Promise<VectorValue | undefined> {
  const { context, statsOnly } = evaluation
  const { source, budget } = context
  if (source.aggregate === undefined || op === 'stddev' || op === 'stdvar') return undefined
  // Groups of names are not groups of tags.
  if (!expr.without && expr.grouping.includes(METRIC_NAME)) return undefined
  const operand = operandOf(expr.expr, evaluation)
  if (operand === undefined || operand.selector.modifier !== undefined || statsOnly.has(operand.selector)) return undefined
  const { selector, window, range, call } = operand
  const { offset, at } = referenceOf(selector, context)
  // With `@` all steps have the same window.
  if (at !== undefined && steps.count > 1) return undefined
  const windows = { first: (at ?? steps.start) - offset, interval: steps.interval, count: steps.count, range }
  const after = windows.first - range
  const found = await source.aggregate({
    matchers: selector.matchers,
    after,
    upTo: windows.first + (steps.count - 1) * steps.interval,
    windows,
    window,
    group: op === 'group' ? 'count' : op,
    tags: expr.without ? [...expr.grouping, ...METADATA] : expr.grouping,
    without: expr.without,
    maxCells: Math.floor(budget.left / vectorBytes(1, 1, false)),
  })
  if (found === undefined) return undefined
  const { labels, values, present, metric } = found
  if (op === 'group') for (let cell = 0; cell < values.length; cell++) values[cell] = present[cell]
  if (call?.fn.annotate !== undefined && present.includes(FLOAT)) {
    const named = new LabelList([new Labels([METRIC_NAME, metric])])
    call.fn.annotate(named, Uint8Array.of(1), new RangeCall(call.expr, call.pos, context.annotations))
  }
  return { type: 'vector', labels, steps: steps.count, values, kinds: present }
}

const FUNCTIONS: Readonly<Record<string, WindowFunction>> = { rate: 'rate', increase: 'increase', delta: 'delta', irate: 'irate', idelta: 'idelta' }

function operandOf(expr: Expr, { context, repeated }: Evaluation): Operand | undefined {
  // What the query has more than once is read once.
  if (expr.kind === 'vector') return repeated.has(selectorKey(expr)) ? undefined : { selector: expr, window: 'last', range: context.lookbackMs }
  if (expr.kind !== 'call' || !Object.hasOwn(FUNCTIONS, expr.name)) return undefined
  const call = rangeFunctionCall(expr)
  const [arg] = call?.expr.args ?? []
  if (call === undefined || arg?.kind !== 'matrix') return undefined
  return { selector: arg.vector, window: FUNCTIONS[expr.name], range: milliseconds(arg.range, context), call: { ...call, pos: arg.pos } }
}
