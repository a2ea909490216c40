/** The tokens of a query with one token of lookahead, and the ways to refuse one. */
import type { Pos } from '../ast.ts'
import { Lexer } from './lexer.ts'
import { ParseError } from './parse-error.ts'
import { describe, END, type Token } from './tokens.ts'

export interface ParseLimits {
  /** Characters of query text. */
  maxLength: number
  /** Levels of nesting, operators that follow one another included. */
  maxDepth: number
}

export const DEFAULT_LIMITS: ParseLimits = { maxLength: 1_048_576, maxDepth: 500 }

export class Cursor {
  readonly query: string
  readonly limits: ParseLimits
  /** How many aggregations are open: they name themselves in errors that nothing closer explains. */
  aggregations = 0
  /** Where the token taken last ends. */
  lastEnd = 0
  private depth = 0
  private readonly lexer: Lexer
  private ahead: Token | undefined

  constructor(query: string, limits: ParseLimits) {
    this.query = query
    this.limits = limits
    this.lexer = new Lexer(query)
  }

  peek(): Token {
    return (this.ahead ??= this.lexer.next())
  }

  take(): Token {
    const token = this.peek()
    if (token.type !== END) this.ahead = undefined
    this.lastEnd = token.end
    return token
  }

  at(type: string): boolean {
    return this.peek().type === type
  }

  /** Takes the next token if it is of that type. */
  accept(type: string): Token | undefined {
    return this.at(type) ? this.take() : undefined
  }

  /** Takes the next token, which must be of that type. */
  expect(type: string, context?: string, expected?: string): Token {
    return this.at(type) ? this.take() : this.unexpected(context, expected)
  }

  /** Refuses the next token. */
  unexpected(context = this.aggregations > 0 ? 'aggregation' : '', expected = ''): never {
    const token = this.peek()
    const where = context === '' ? '' : ` in ${context}`
    const wanted = expected === '' ? '' : `, expected ${expected}`
    throw this.error({ start: token.start, end: token.end }, `unexpected ${describe(token)}${where}${wanted}`)
  }

  error(pos: Pos, cause: string): ParseError {
    return new ParseError(this.query, { start: pos.start, end: pos.end }, cause)
  }

  /** One level deeper, which bounds the call stack; `leave` goes back. */
  enter(): void {
    if (++this.depth > this.limits.maxDepth) throw this.tooDeep(this.peek())
  }

  leave(): void {
    this.depth--
  }

  tooDeep(pos: Pos): ParseError {
    return this.error(pos, `expression is nested deeper than ${this.limits.maxDepth} levels; simplify it or raise promql.max_query_depth`)
  }
}
