/** The selectors of an expression, whatever is done with them. Pure. */
import type { Expr, LabelMatcher } from './ast.ts'

/** The matchers of each, in the order in which they stand. */
export function selectorsIn(expr: Expr): LabelMatcher[][] {
  const found: LabelMatcher[][] = []
  // By hand: an expression may be nested deep.
  const left: Expr[] = [expr]
  for (let next = left.pop(); next !== undefined; next = left.pop()) {
    switch (next.kind) {
      case 'vector':
        found.push(next.matchers)
        break
      case 'matrix':
        found.push(next.vector.matchers)
        break
      case 'binary':
        left.push(next.rhs, next.lhs)
        break
      case 'call':
        for (let i = next.args.length - 1; i >= 0; i--) left.push(next.args[i])
        break
      case 'aggregate':
        left.push(next.expr)
        if (next.param !== undefined) left.push(next.param)
        break
      case 'paren':
      case 'unary':
      case 'subquery':
        left.push(next.expr)
    }
  }
  return found
}
