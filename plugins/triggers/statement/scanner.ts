/** Reads a statement from left to right; every refusal says where, what is there, and what may stand there. */
import { SvcError } from 'svcdb/lib/errors'

const BLANK = /[ \t\r\n]*/y
const WORD = /[A-Za-z0-9_]+/y
const BARE_NAME = /[A-Za-z_][A-Za-z0-9_.:]*/y
const NUMBER = /[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?/y
const OPERATOR = /<>|<=|>=|!=|==|=|<|>/y
/** What follows a number or a bare name must not look like more of it. */
const GLUED = /[A-Za-z0-9_."']/y

interface Token {
  text: string
  /** Where it begins, from 0. */
  at: number
}

export class Scanner {
  readonly text: string
  at = 0

  constructor(text: string) {
    this.text = text
  }

  /** @param at where, from 0; default here. */
  refuse(expected: string, hint?: string, at = this.skipped()): SvcError {
    const found = at >= this.text.length ? 'it ends there' : `${JSON.stringify(this.shown(at))} is there`
    return new SvcError(
      'BAD_REQUEST',
      `cannot read the statement at character ${at + 1}: ${found}, expected is ${expected}${hint === undefined ? '' : `; ${hint}`}`,
    )
  }

  get ended(): boolean {
    return this.skipped() >= this.text.length
  }

  /** The next word, left where it is. */
  peek(): string | undefined {
    return this.match(WORD, this.skipped())
  }

  /** Whether the next word is this keyword, in any case; it is then taken. */
  keyword(word: string): boolean {
    const found = this.peek()
    if (found?.toUpperCase() !== word) return false
    this.at += found.length
    return true
  }

  /** @throws BAD_REQUEST when another word is there. */
  require(word: string, hint?: string): void {
    if (!this.keyword(word)) throw this.refuse(word, hint)
  }

  symbol(symbol: string): boolean {
    const at = this.skipped()
    if (!this.text.startsWith(symbol, at)) return false
    this.at = at + symbol.length
    return true
  }

  requireSymbol(symbol: string, hint?: string): void {
    if (!this.symbol(symbol)) throw this.refuse(`"${symbol}"`, hint)
  }

  operator(): Token | undefined {
    return this.take(OPERATOR)
  }

  number(): Token | undefined {
    const token = this.take(NUMBER)
    if (token !== undefined && this.match(GLUED, this.at) !== undefined) {
      throw this.refuse('a number such as 90, -0.5 or 1e6', 'it has no unit and no suffix', token.at)
    }
    return token
  }

  /** A name of letters, digits and "_". */
  plainName(): Token | undefined {
    return this.take(WORD)
  }

  /** A name as it is, or any in double quotes. */
  name(): (Token & { quoted: boolean }) | undefined {
    const quoted = this.quoted('"')
    if (quoted !== undefined) return { ...quoted, quoted: true }
    const bare = this.take(BARE_NAME)
    return bare === undefined ? undefined : { ...bare, quoted: false }
  }

  /** A text in single quotes. */
  string(): Token | undefined {
    return this.quoted("'")
  }

  /** What stands between quotes; the quote itself is written twice. */
  private quoted(quote: string): Token | undefined {
    const from = this.skipped()
    if (this.text[from] !== quote) return undefined
    let text = ''
    let at = from + 1
    for (;;) {
      const end = this.text.indexOf(quote, at)
      if (end < 0) throw this.refuse(`a closing ${quote}`, `a ${quote} within is written twice`, this.text.length)
      text += this.text.slice(at, end)
      at = end + 1
      if (this.text[at] !== quote) break
      text += quote
      at++
    }
    this.at = at
    return { text, at: from }
  }

  private skipped(): number {
    this.at += this.match(BLANK, this.at)?.length ?? 0
    return this.at
  }

  private take(pattern: RegExp): Token | undefined {
    const at = this.skipped()
    const text = this.match(pattern, at)
    if (text === undefined) return undefined
    this.at = at + text.length
    return { text, at }
  }

  private match(pattern: RegExp, at: number): string | undefined {
    pattern.lastIndex = at
    return pattern.exec(this.text)?.[0]
  }

  /** The word there, or the character. */
  private shown(at: number): string {
    return (this.match(WORD, at) ?? String.fromCodePoint(this.text.codePointAt(at) as number)).slice(0, 40)
  }
}
