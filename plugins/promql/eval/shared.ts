/** Finds instant selectors that a query has more than once, so that each is read once. */
import type { Expr, VectorSelector } from '../ast.ts'

/** The same for selectors that select the same. */
export function selectorKey({ matchers, offset, at, modifier }: VectorSelector): string {
  return JSON.stringify([matchers.map(({ name, op, value }) => [name, op, value]), offset, at, modifier])
}

const known = new WeakMap<Expr, ReadonlySet<string>>()

export function repeatedSelectors(expr: Expr): ReadonlySet<string> {
  let repeated = known.get(expr)
  if (repeated === undefined) known.set(expr, (repeated = repeatedIn(expr)))
  return repeated
}

function repeatedIn(expr: Expr): Set<string> {
  const seen = new Set<string>()
  const repeated = new Set<string>()
  const visit = (node: Expr): void => {
    if (node.kind === 'vector') {
      const key = selectorKey(node)
      if (seen.has(key)) repeated.add(key)
      seen.add(key)
    } else for (const child of childrenOf(node)) visit(child)
  }
  visit(expr)
  return repeated
}

/** Range selectors have none: theirs is no instant selector. */
export function childrenOf(expr: Expr): readonly Expr[] {
  switch (expr.kind) {
    case 'paren':
    case 'unary':
    case 'subquery':
      return [expr.expr]
    case 'binary':
      return [expr.lhs, expr.rhs]
    case 'aggregate':
      return expr.param === undefined ? [expr.expr] : [expr.param, expr.expr]
    case 'call':
      return expr.args
    default:
      return []
  }
}
