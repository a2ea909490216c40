/** When info() reads its info series: at the time that all selectors of its first argument agree on, else at the step itself. */
import type { AtModifier, Duration, Expr, SubqueryExpr, VectorSelector } from '../ast.ts'
import { milliseconds } from '../eval/modifiers.ts'
import type { VectorCall } from './contract.ts'

/** As a selector's modifiers. */
interface InfoReference {
  offset: number
  at?: number
}

type Query = VectorCall['query']

/** What the selectors within an expression refer to, as far as that can be said without what is around it. */
interface Summary {
  /** Whether it gives series, and whether some of them come from a selector. */
  series: boolean
  selector: boolean
  /** Of the selectors that follow the step, and of those that have a time. Those of each that do not agree never will. */
  following?: InfoReference
  pinned?: InfoReference
  /** False once selectors do not agree whatever is around them, or where series are made of nothing but numbers. */
  uniform: boolean
}

const NO_SERIES: Summary = { series: false, selector: false, uniform: true }
/** By query, for its own times: info() within info() asks again for all that is below. */
const known = new WeakMap<Query, Map<Expr, Summary>>()

export function infoReference(expr: Expr, query: Query): InfoReference {
  let summaries = known.get(query)
  if (summaries === undefined) known.set(query, (summaries = new Map()))
  const { uniform, following, pinned } = new Search(query, summaries).summaryOf(expr)
  if (!uniform || (following !== undefined && pinned !== undefined)) return { offset: 0 }
  return following ?? pinned ?? { offset: 0 }
}

class Search {
  private readonly query: Query
  private readonly summaries: Map<Expr, Summary>

  constructor(query: Query, summaries: Map<Expr, Summary>) {
    this.query = query
    this.summaries = summaries
  }

  summaryOf(expr: Expr): Summary {
    let summary = this.summaries.get(expr)
    if (summary === undefined) this.summaries.set(expr, (summary = this.summarise(expr)))
    return summary
  }

  private summarise(expr: Expr): Summary {
    if (expr.kind === 'number' || expr.kind === 'string') return NO_SERIES
    if (expr.kind === 'call' && expr.type !== 'vector' && expr.type !== 'matrix') return NO_SERIES
    if (expr.kind === 'vector') return this.selector(expr)
    const summary: Summary = { series: false, selector: false, uniform: true }
    for (const child of childrenOf(expr)) {
      const { series, selector, uniform, following, pinned } = this.summaryOf(child)
      summary.series ||= series
      summary.selector ||= selector
      summary.uniform &&= uniform
      if (following !== undefined) follow(summary, following)
      if (pinned !== undefined) pin(summary, pinned)
    }
    if (expr.kind === 'subquery') this.shift(summary, expr)
    if ((expr.kind === 'paren' || expr.kind === 'unary' || expr.kind === 'binary') && !summary.series) return NO_SERIES
    summary.series = true
    // Series made of nothing but numbers are at the step's own time.
    if (!summary.selector) summary.uniform = false
    return summary
  }

  private selector({ offset, at }: VectorSelector): Summary {
    const summary: Summary = { series: true, selector: true, uniform: true }
    if (at === undefined) summary.following = { offset: this.ms(offset) }
    else summary.pinned = { offset: this.ms(offset), at: this.time(at) }
    return summary
  }

  /** The offsets of subqueries around a selector add up until one of them has an @. */
  private shift(summary: Summary, { offset, at }: SubqueryExpr): void {
    const { following } = summary
    if (following === undefined) return
    const shifted = following.offset + this.ms(offset)
    if (at === undefined) summary.following = { offset: shifted }
    else {
      summary.following = undefined
      pin(summary, { offset: shifted, at: this.time(at) })
    }
  }

  private ms(duration: Duration): number {
    return milliseconds(duration, { query: this.query }, true)
  }

  private time(at: AtModifier): number {
    return at === 'start' ? this.query.start : at === 'end' ? this.query.end : at
  }
}

function follow(summary: Summary, reference: InfoReference): void {
  summary.following ??= reference
  summary.uniform &&= summary.following.offset === reference.offset
}

function pin(summary: Summary, reference: InfoReference): void {
  summary.pinned ??= reference
  summary.uniform &&= readTime(summary.pinned) === readTime(reference)
}

function readTime({ offset, at = 0 }: InfoReference): number {
  return at - offset
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
