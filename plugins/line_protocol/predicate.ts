/**
 * Delete predicates of InfluxDB 2: `_measurement="cpu" AND host='a' AND (room != "b")`. Keys are plain or in double quotes, values plain or in
 * either quotes, where a backslash makes the next character ordinary. There is no OR, and nothing about fields, values and times. Pure.
 */
import type { Matcher } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'

export interface Predicate {
  /** What the measurement's name must, or must not, be: all of them hold. */
  measurements: { equal: boolean; name: string }[]
  /** For tags. */
  matchers: Matcher[]
}

const MAX_LENGTH = 65_536
const MAX_RULES = 1000
const MAX_DEPTH = 32
const MAX_SHOWN = 32
const TOKEN = /\s*(?:(!=|!~|=~|<=|>=|[()=<>])|"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s()=!<>"'~,;&|]+))/sy

interface Token {
  kind: 'symbol' | 'quoted' | 'word' | 'end'
  text: string
  /** Character of the predicate that it begins at. */
  at: number
}

/** @throws BAD_REQUEST with the character at fault. */
export function parsePredicate(text: string): Predicate {
  const predicate: Predicate = { measurements: [], matchers: [] }
  if (text.length > MAX_LENGTH) throw new SvcError('BAD_REQUEST', `cannot read the delete predicate: it has more than ${MAX_LENGTH} characters`)
  if (text.trim() !== '') new Reader(text, predicate).whole()
  return predicate
}

class Reader {
  private readonly text: string
  private readonly into: Predicate
  private next: Token
  private end = 0

  constructor(text: string, into: Predicate) {
    this.text = text
    this.into = into
    this.next = this.scan()
  }

  whole(): void {
    this.terms(0)
    if (this.next.kind !== 'end') throw this.expected('AND or the end')
  }

  private terms(depth: number): void {
    if (depth > MAX_DEPTH) throw this.fault(this.next.at, `it is nested deeper than ${MAX_DEPTH}`)
    this.term(depth)
    while (this.next.kind === 'word' && this.next.text.toUpperCase() === 'AND') {
      this.take()
      this.term(depth)
    }
    if (this.next.kind === 'word' && this.next.text.toUpperCase() === 'OR') throw this.fault(this.next.at, 'there is no OR; send several deletes')
  }

  private term(depth: number): void {
    if (!this.symbol('(')) return this.rule()
    this.take()
    this.terms(depth + 1)
    if (!this.symbol(')')) throw this.expected('")"')
    this.take()
  }

  private symbol(text: string): boolean {
    return this.next.kind === 'symbol' && this.next.text === text
  }

  private rule(): void {
    const key = this.name('a tag key or _measurement')
    const operator = this.take()
    if (operator.kind !== 'symbol' || (operator.text !== '=' && operator.text !== '!='))
      throw this.fault(operator.at, 'expected = or !=, the operators that there are')
    const { text: value } = this.name('a value')
    const { measurements, matchers } = this.into
    if (measurements.length + matchers.length === MAX_RULES) throw this.fault(key.at, `it has more than ${MAX_RULES} comparisons`)
    if (key.text === '_measurement') measurements.push({ equal: operator.text === '=', name: value })
    else if (/^_(?:field|value|time)$/.test(key.text)) throw this.fault(key.at, `a delete cannot choose by ${key.text}; times are its start and stop`)
    else matchers.push({ tag: key.text, op: operator.text as '=' | '!=', value })
  }

  private name(what: string): Token {
    if (this.next.kind !== 'word' && this.next.kind !== 'quoted') throw this.expected(what)
    return this.take()
  }

  private take(): Token {
    const token = this.next
    this.next = this.scan()
    return token
  }

  private scan(): Token {
    TOKEN.lastIndex = this.end
    const match = TOKEN.exec(this.text)
    const rest = this.text.slice(this.end)
    const at = this.end + rest.length - rest.trimStart().length
    if (match === null) {
      if (rest.trim() !== '') throw this.fault(at, 'this begins no key, value or operator')
      return { kind: 'end', text: '', at: this.text.length }
    }
    this.end = TOKEN.lastIndex
    const [, symbol, double, single, word] = match
    if (symbol !== undefined) return { kind: 'symbol', text: symbol, at }
    const quoted = double ?? single
    return quoted === undefined ? { kind: 'word', text: word, at } : { kind: 'quoted', text: quoted.replace(/\\(.)/gs, '$1'), at }
  }

  private expected(what: string): SvcError {
    return this.fault(this.next.at, `expected ${what}`)
  }

  private fault(at: number, cause: string): SvcError {
    const shown = this.text.slice(at, at + MAX_SHOWN)
    return new SvcError('BAD_REQUEST', `cannot read the delete predicate at character ${at + 1}${shown === '' ? '' : `, ${JSON.stringify(shown)}`}: ${cause}`)
  }
}
