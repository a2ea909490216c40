import type { Expr } from '../ast.ts'

/** An expression without the parentheses around it. */
export function unwrap(expr: Expr): Expr {
  return expr.kind === 'paren' ? unwrap(expr.expr) : expr
}
