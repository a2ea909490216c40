/**
 * Subqueries with `@` are evaluated beyond their own time (subquery.ts), but not of newer samples: Prometheus reads for each selector the
 * span that it has in the query as it is written.
 */
import type { Expr, VectorSelector } from '../ast.ts'
import type { EvalContext, Evaluation } from './context.ts'
import { referenceOf } from './modifiers.ts'
import { childrenOf } from './shared.ts'

/** The newest time that each selector within such subqueries looks at. */
export function newestTimes(expr: Expr, context: EvalContext): ReadonlyMap<VectorSelector, number> {
  const found = new Map<VectorSelector, number>()
  /** @param end when `node` is evaluated last. */
  const visit = (node: Expr, end: number, fixed: boolean): void => {
    if (node.kind === 'vector' || node.kind === 'matrix') {
      const vector = node.kind === 'vector' ? node : node.vector
      if (fixed) found.set(vector, lastOf(vector, end, context) + (vector.modifier === 'smoothed' ? context.lookbackMs : 0))
    } else if (node.kind === 'subquery') visit(node.expr, lastOf(node, end, context), fixed || node.at !== undefined)
    else for (const child of childrenOf(node)) visit(child, end, fixed)
  }
  visit(expr, context.query.end, false)
  return found
}

function lastOf(node: Parameters<typeof referenceOf>[0], end: number, context: EvalContext): number {
  const { at, offset } = referenceOf(node, context)
  return (at ?? end) - offset
}

/** Until when a selector's samples are read, where its steps want those of (after, upTo]. */
export function readUntil(selector: VectorSelector, after: number, upTo: number, { newest }: Evaluation): number {
  const end = newest.get(selector)
  return end === undefined ? upTo : Math.max(after, Math.min(end, upTo))
}
