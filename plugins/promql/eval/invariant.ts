/** Expressions that come to the same at every step: they are evaluated at one and repeated. */
import type { CallExpr, Expr } from '../ast.ts'
import { infoReference } from '../functions/info-reference.ts'
import type { EvalContext } from './context.ts'
import { unwrap } from './unwrap.ts'

/** Their results follow the time of evaluation even when their arguments do not. */
const FOLLOW_TIME: ReadonlySet<string> = new Set(
  'days_in_month day_of_month day_of_week day_of_year hour minute month year predict_linear time timestamp start_timestamp'.split(' '),
)

export class Invariants {
  private readonly query: EvalContext['query']
  private readonly known = new Map<Expr, boolean>()

  constructor(query: EvalContext['query']) {
    this.query = query
  }

  has(expr: Expr): boolean {
    let answer = this.known.get(expr)
    if (answer === undefined) this.known.set(expr, (answer = this.decide(expr)))
    return answer
  }

  private decide(expr: Expr): boolean {
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
        return this.has(expr.expr)
      case 'aggregate':
        // Prometheus does not look at the parameter either: with a fixed vector it is taken at the first step.
        return this.has(expr.expr)
      case 'binary':
        return this.has(expr.lhs) && this.has(expr.rhs)
      case 'call':
        return this.call(expr)
    }
  }

  private call({ name, args }: CallExpr): boolean {
    if (name === 'timestamp') return args.every((arg) => unwrap(arg).kind === 'vector' && this.has(arg))
    // Its info series are read at the time of its argument, when that has one for all of it.
    if (name === 'info') return this.has(args[0]) && infoReference(args[0], this.query).at !== undefined
    return !FOLLOW_TIME.has(name) && args.every((arg) => this.has(arg))
  }
}
