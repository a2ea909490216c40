/** How far back the samples lie that a step of a range query follows from. */
import type { Duration, Expr, VectorSelector } from '../ast.ts'
import { type KnownNames, sameNames } from './kept-names.ts'
import { unwrap } from './unwrap.ts'

/** Follow from the range that is asked for, or, as info does, from series that their arguments do not name. */
const BEYOND_STEP: ReadonlySet<string> = new Set(['start', 'end', 'step', 'range', 'info'])

/**
 * @returns milliseconds before the time of a step, at which and before which it reads nothing; undefined where what a step comes to may
 * depend on the others that are asked for, or on samples after it.
 */
export function stepReach(expr: Expr, lookbackMs: number): number | undefined {
  return reachOf(expr, lookbackMs, new Map())
}

function reachOf(expr: Expr, lookbackMs: number, names: KnownNames): number | undefined {
  switch (expr.kind) {
    case 'number':
    case 'string':
      return 0
    case 'paren':
    case 'unary':
      return reachOf(expr.expr, lookbackMs, names)
    case 'binary':
      // The first step that a series has says whose it is.
      return expr.op === 'or' && !sameNames(expr, names) ? undefined : most([expr.lhs, expr.rhs], lookbackMs, names)
    case 'aggregate':
      // A parameter may be taken at the first step only (invariant.ts).
      return isConstant(expr.param) ? reachOf(expr.expr, lookbackMs, names) : undefined
    case 'call':
      return BEYOND_STEP.has(expr.name) ? undefined : most(expr.args, lookbackMs, names)
    case 'vector':
      return selectorReach(expr, lookbackMs)
    case 'matrix':
      return typeof expr.range === 'number' ? selectorReach(expr.vector, expr.range) : undefined
    case 'subquery': {
      const inner = reachOf(expr.expr, lookbackMs, names)
      const own = expr.at === undefined && (expr.step === undefined || typeof expr.step === 'number') ? sum(expr.range, expr.offset) : undefined
      return inner === undefined || own === undefined ? undefined : inner + own
    }
  }
}

function selectorReach({ offset, at, modifier }: VectorSelector, range: number): number | undefined {
  return at === undefined && modifier === undefined ? sum(range, offset) : undefined
}

/** Undefined where one of them is to be worked out, or looks ahead. */
function sum(range: Duration, offset: Duration): number | undefined {
  return typeof range === 'number' && typeof offset === 'number' && offset >= 0 ? range + offset : undefined
}

function most(exprs: readonly Expr[], lookbackMs: number, names: KnownNames): number | undefined {
  let reach = 0
  for (const expr of exprs) {
    const own = reachOf(expr, lookbackMs, names)
    if (own === undefined) return undefined
    reach = Math.max(reach, own)
  }
  return reach
}

function isConstant(expr: Expr | undefined): boolean {
  if (expr === undefined) return true
  const plain = unwrap(expr)
  return plain.kind === 'number' || plain.kind === 'string' || (plain.kind === 'unary' && isConstant(plain.expr))
}
