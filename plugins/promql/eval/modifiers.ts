/** What `offset`, `@` and duration expressions come to in a query. */
import type { AtModifier, Duration, DurationExpr, Expr } from '../ast.ts'
import { ExpressionError } from '../errors.ts'
import { placeOf } from '../parser/durations.ts'
import type { EvalContext } from './context.ts'
import { power } from './operators.ts'
import { childrenOf } from './shared.ts'
import type { Steps } from './value.ts'

/** The times a selector looks at: `at` less `offset` when there is an `at`, else each step less `offset`. */
export interface Reference {
  offset: number
  at?: number
}

export function referenceOf(node: { offset: Duration; at?: AtModifier }, context: Pick<EvalContext, 'query'>): Reference {
  const offset = milliseconds(node.offset, context, true)
  if (node.at === undefined) return { offset }
  return { offset, at: node.at === 'start' ? context.query.start : node.at === 'end' ? context.query.end : node.at }
}

/** The first and the last of the times looked at. */
export function referenceSpan(reference: Reference, steps: Steps): { first: number; last: number } {
  if (reference.at !== undefined) return { first: reference.at - reference.offset, last: reference.at - reference.offset }
  const first = steps.start - reference.offset
  return { first, last: first + (steps.count - 1) * steps.interval }
}

/** Two to the 63rd nanoseconds, in seconds: what fits a duration. */
const MAX_SECONDS = 2 ** 63 / 1e9

export function milliseconds(duration: Duration, context: Pick<EvalContext, 'query'>, mayBeNegative = false): number {
  if (typeof duration === 'number') return duration
  const seconds = evaluateSeconds(duration, context)
  const fail = (cause: string): never => {
    throw new ExpressionError(placeOf(duration), cause)
  }
  if (!Number.isFinite(seconds)) fail('duration is NaN or infinite')
  if (Math.abs(seconds) > MAX_SECONDS) fail('duration is out of range')
  const ms = Math.trunc(seconds * 1000)
  // Of less than a millisecond nothing is left: no step gets on by it.
  if (ms <= 0 && !mayBeNegative) fail('duration must be greater than 0')
  return ms
}

/** @throws ExpressionError for a duration that makes no sense, also in what would turn out not to be evaluated. */
export function checkDurations(expr: Expr, context: Pick<EvalContext, 'query'>): void {
  if (expr.kind === 'vector') milliseconds(expr.offset, context, true)
  else if (expr.kind === 'matrix') {
    milliseconds(expr.range, context)
    milliseconds(expr.vector.offset, context, true)
  } else if (expr.kind === 'subquery') {
    milliseconds(expr.offset, context, true)
    if (expr.step !== undefined) milliseconds(expr.step, context)
    milliseconds(expr.range, context)
  }
  for (const child of childrenOf(expr)) checkDurations(child, context)
}

function evaluateSeconds(expr: DurationExpr, context: Pick<EvalContext, 'query'>): number {
  const { query } = context
  switch (expr.kind) {
    case 'duration':
      return expr.seconds
    case 'step':
      return query.step / 1000
    case 'range':
      return (query.end - query.start) / 1000
    case 'duration-paren':
      return evaluateSeconds(expr.expr, context)
    case 'duration-unary': {
      const value = evaluateSeconds(expr.expr, context)
      return expr.op === '-' ? -value : value
    }
    case 'duration-call': {
      const [a, b] = [evaluateSeconds(expr.args[0], context), evaluateSeconds(expr.args[1], context)]
      return expr.name === 'min' ? Math.min(a, b) : Math.max(a, b)
    }
    case 'duration-binary':
      return combine(expr, evaluateSeconds(expr.lhs, context), evaluateSeconds(expr.rhs, context))
  }
}

function combine(expr: DurationExpr & { kind: 'duration-binary' }, a: number, b: number): number {
  const { op, pos } = expr
  switch (op) {
    case '+':
      return a + b
    case '-':
      return a - b
    case '*':
      return a * b
    case '^':
      return power(a, b)
    case '/':
      if (b === 0) throw new ExpressionError(pos, 'division by zero')
      return a / b
    case '%':
      if (b === 0) throw new ExpressionError(pos, 'modulo by zero')
      return a % b
  }
}
