/** Expressions that come to the same at every step: they are evaluated at one and repeated. */
import type { Expr } from '../ast.ts'

/** Their results follow the time of evaluation even when their arguments do not. */
const FOLLOW_TIME: ReadonlySet<string> = new Set(
  'days_in_month day_of_month day_of_week day_of_year hour minute month year predict_linear time timestamp start_timestamp info'.split(' '),
)

const known = new WeakMap<Expr, boolean>()

export function isInvariant(expr: Expr): boolean {
  let answer = known.get(expr)
  if (answer === undefined) known.set(expr, (answer = decide(expr)))
  return answer
}

function decide(expr: Expr): boolean {
  switch (expr.kind) {
    case 'number':
    case 'string':
      return true
    case 'vector':
    case 'subquery':
      return expr.at !== undefined
    case 'matrix':
      return expr.vector.at !== undefined
    case 'paren':
    case 'unary':
      return isInvariant(expr.expr)
    case 'aggregate':
      // Prometheus does not look at the parameter either: with a fixed vector it is taken at the first step.
      return isInvariant(expr.expr)
    case 'binary':
      return isInvariant(expr.lhs) && isInvariant(expr.rhs)
    case 'call':
      if (expr.name === 'timestamp') return expr.args.every((arg) => bare(arg).kind === 'vector' && isInvariant(arg))
      return !FOLLOW_TIME.has(expr.name) && expr.args.every(isInvariant)
  }
}

function bare(expr: Expr): Expr {
  return expr.kind === 'paren' ? bare(expr.expr) : expr
}
