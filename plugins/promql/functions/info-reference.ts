/** When info() reads its info series: at the time that all selectors of its first argument agree on, else at the step itself. */
import type { AtModifier, Duration, Expr, VectorSelector } from '../ast.ts'
import { milliseconds } from '../eval/modifiers.ts'
import type { VectorCall } from './contract.ts'

/** As a selector's modifiers. */
interface InfoReference {
  offset: number
  at?: number
}

type Query = VectorCall['query']

export function infoReference(expr: Expr, query: Query): InfoReference {
  const search = new Search(query)
  search.inspect(expr, [])
  return search.result()
}

class Search {
  private readonly query: Query
  private first: InfoReference | undefined
  private uniform = true

  constructor(query: Query) {
    this.query = query
  }

  result(): InfoReference {
    return this.uniform && this.first !== undefined ? this.first : { offset: 0 }
  }

  /** @returns whether `expr` gives series that come from a selector. */
  inspect(expr: Expr, path: readonly Expr[]): boolean {
    if (!givesSeries(expr)) return false
    if (expr.kind === 'vector') {
      this.add(this.referenceOf(expr, path))
      return true
    }
    const below = [...path, expr]
    let selector = false
    for (const child of childrenOf(expr)) if (this.inspect(child, below)) selector = true
    // Series made of nothing but numbers are at the step's own time.
    if (!selector) this.uniform = false
    return selector
  }

  private referenceOf(selector: VectorSelector, path: readonly Expr[]): InfoReference {
    const reference: InfoReference = { offset: this.ms(selector.offset) }
    if (selector.at !== undefined) reference.at = this.time(selector.at)
    // The offsets of subqueries around it add up until one of them has an @.
    for (let i = path.length - 1; i >= 0 && reference.at === undefined; i--) {
      const outer = path[i]
      if (outer.kind !== 'subquery') continue
      reference.offset += this.ms(outer.offset)
      if (outer.at !== undefined) reference.at = this.time(outer.at)
    }
    return reference
  }

  private add(reference: InfoReference): void {
    const { first } = this
    if (first === undefined) this.first = reference
    else if (first.at === undefined || reference.at === undefined) this.uniform &&= first.at === reference.at && first.offset === reference.offset
    else this.uniform &&= first.at - first.offset === reference.at - reference.offset
  }

  private ms(duration: Duration): number {
    return milliseconds(duration, { query: this.query }, true)
  }

  private time(at: AtModifier): number {
    return at === 'start' ? this.query.start : at === 'end' ? this.query.end : at
  }
}

function childrenOf(expr: Expr): Expr[] {
  switch (expr.kind) {
    case 'call':
      // The second argument of info() is written as a selector and is none.
      return expr.name === 'info' ? expr.args.slice(0, 1) : expr.args
    case 'aggregate':
      return expr.param === undefined ? [expr.expr] : [expr.expr, expr.param]
    case 'binary':
      return [expr.lhs, expr.rhs]
    case 'matrix':
      return [expr.vector]
    case 'paren':
    case 'unary':
    case 'subquery':
      return [expr.expr]
    default:
      return []
  }
}

function givesSeries(expr: Expr): boolean {
  switch (expr.kind) {
    case 'number':
    case 'string':
      return false
    case 'call':
      return expr.type === 'vector' || expr.type === 'matrix'
    case 'binary':
      return givesSeries(expr.lhs) || givesSeries(expr.rhs)
    case 'paren':
    case 'unary':
      return givesSeries(expr.expr)
    default:
      return true
  }
}
