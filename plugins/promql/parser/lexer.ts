/**
 * Query text to tokens. What a character means depends on where it stands: inside braces words are label names, inside brackets only
 * durations are expected; the first number there ends that strictness, as in Prometheus, because error texts depend on it.
 */
import type { Pos } from '../ast.ts'
import { quote, quoteChar } from './go-text.ts'
import { ParseError } from './parse-error.ts'
import { scanString } from './strings.ts'
import { DURATION, durationWord, END, IDENTIFIER, NUMBER, STRING, type Token, wordType } from './tokens.ts'

const DECIMAL = '0123456789'
const HEX = '0123456789abcdefABCDEF'
const DURATION_UNITS = 'smhdwy'
const OPERATOR = /(?:==|!=|<=|<\/|>=|>\/|[-+*/%^<>=@,])/y
const DURATION_OPERATOR = /[-+*/%^,]/y
// Names need no quotes for letters of any script, nor for dots within: Prometheus' feature promql-unquoted-utf8-names.
const WORD = /[_:\p{L}][\w:.\p{L}]*/uy
const LABEL_WORD = /[_\p{L}][\w.\p{L}]*/uy
const DURATION_WORD = /[A-Za-z_]+/y
const SPACES = /[ \t\r\n]+/y
const COMMENT = /#[^\r\n]*/y

export class Lexer {
  readonly text: string
  private at = 0
  private start = 0
  private parens = 0
  private inBraces = false
  private inBrackets = false
  /** Inside brackets, no number seen yet. */
  private strict = false
  private colonSeen = false
  /** Since the bracket was opened. */
  private durationSeen = false

  constructor(text: string) {
    this.text = text
  }

  /** The next token; END again and again at the end. @throws ParseError */
  next(): Token {
    for (;;) {
      this.match(SPACES)
      if (this.strict && !this.inBraces) return this.durationToken()
      if (!this.match(COMMENT)) return this.inBraces ? this.braceToken() : this.statementToken()
    }
  }

  private statementToken(): Token {
    this.start = this.at
    const c = this.char()
    if (c === '') {
      if (this.parens !== 0) throw this.error('unclosed left parenthesis')
      if (this.inBrackets) throw this.error('unclosed left bracket')
      return this.token(END)
    }
    if (isDigit(c) || (c === '.' && isDigit(this.text[this.at + 1]))) return this.numberToken()
    if (c === '"' || c === "'" || c === '`') return this.stringToken()
    if (c === ':' || isLetter(c)) return this.inBrackets ? this.bracketWord(c) : this.wordToken()
    if (c === '(' || c === ')') return this.parenToken(c)
    if (c === '{') {
      this.inBraces = true
      return this.single()
    }
    if (c === '[') return this.openBracket()
    if (c === ']') {
      if (!this.inBrackets) throw this.error(`unexpected right bracket ${quoteChar(c)}`)
      this.inBrackets = false
      return this.single()
    }
    const next = this.char(1)
    if (c === '=' && next === '~') throw this.error(`unexpected character after '=': ${quoteChar(next)}`)
    if (c === '!' && next !== '=') throw this.error(`unexpected character after '!': ${quoteChar(next)}`)
    if (this.match(OPERATOR)) return this.token()
    throw this.error(`unexpected character: ${quoteChar(c)}`)
  }

  private braceToken(): Token {
    this.start = this.at
    const c = this.char()
    if (c === '') throw this.error('unexpected end of input inside braces')
    if (this.match(LABEL_WORD)) return this.token(IDENTIFIER)
    if (c === '"' || c === "'" || c === '`') return this.stringToken()
    if (c === ',') return this.single()
    if (c === '}') {
      this.inBraces = false
      return this.single()
    }
    const next = this.char(1)
    if (c === '=' || (c === '!' && (next === '=' || next === '~'))) {
      this.at += c === '=' && next !== '~' ? 1 : 2
      return this.token()
    }
    if (c === '!') throw this.error(`unexpected character after '!' inside braces: ${quoteChar(next)}`)
    if (c === '{') throw this.error(`unexpected left brace ${quoteChar(c)}`)
    throw this.error(`unexpected character inside braces: ${quoteChar(c)}`)
  }

  private durationToken(): Token {
    this.start = this.at
    const c = this.char()
    if (c === '') throw this.error('unexpected end of input in duration expression')
    if (isDigit(c) || (c === '.' && isDigit(this.text[this.at + 1]))) {
      this.durationSeen = true
      this.strict = false
      return this.numberToken()
    }
    if (c === ']') {
      this.inBrackets = false
      this.strict = false
      this.colonSeen = false
      return this.single()
    }
    if (c === ':') return this.strictColon()
    if (c === '(' || c === ')') return this.parenToken(c)
    if (this.match(DURATION_OPERATOR)) return this.token()
    const word = this.durationKeyword()
    if (word !== undefined) {
      this.durationSeen = true
      return this.token(word)
    }
    throw this.error(`unexpected character in duration expression: ${quoteChar(c)}`)
  }

  private strictColon(): Token {
    const token = this.single()
    this.start = this.at
    if (!this.durationSeen) throw this.error('unexpected colon before duration in duration expression')
    if (this.colonSeen) throw this.error('unexpected repeated colon in duration expression')
    this.colonSeen = true
    return token
  }

  /** After the first number in brackets. */
  private bracketWord(c: string): Token {
    if (c === ':') {
      if (this.colonSeen) throw this.error(`unexpected colon ${quoteChar(c)}`)
      this.colonSeen = true
      return this.single()
    }
    const word = this.durationKeyword()
    if (word !== undefined) return this.token(word)
    throw this.error(`unexpected character: ${quoteChar(c)}, expected ':'`)
  }

  private durationKeyword(): string | undefined {
    if (!this.match(DURATION_WORD)) return undefined
    const word = durationWord(this.text.slice(this.start, this.at))
    if (word === undefined) this.at = this.start
    return word
  }

  private openBracket(): Token {
    if (this.inBrackets) throw this.error("unexpected left bracket '['")
    this.colonSeen = false
    this.durationSeen = false
    this.inBrackets = true
    this.strict = true
    return this.single()
  }

  private parenToken(c: string): Token {
    const token = this.single()
    this.parens += c === '(' ? 1 : -1
    this.start = this.at
    if (this.parens < 0) throw this.error(`unexpected right parenthesis ${quoteChar(c)}`)
    return token
  }

  private wordToken(): Token {
    this.match(WORD)
    const type = wordType(this.text.slice(this.start, this.at))
    // As metric names these are older than as keywords, which a parenthesis always follows.
    if (type.startsWith('fill') && !/^[ \t\r\n]*\(/.test(this.text.slice(this.at))) return this.token(IDENTIFIER)
    return this.token(type)
  }

  private stringToken(): Token {
    const { end, error } = scanString(this.text, this.at)
    if (error !== undefined) throw this.error(error)
    this.at = end
    return this.token(STRING)
  }

  private numberToken(): Token {
    if (this.scanNumber()) return this.token(NUMBER)
    if (this.scanDuration()) return this.token(DURATION)
    throw this.error(`bad number or duration syntax: ${quote(this.text.slice(this.start, this.at))}`)
  }

  /** Takes what can be a number; whether it is one, `readNumber` finds out. On failure stops where a duration may go on. */
  private scanNumber(): boolean {
    let digits = DECIMAL
    if (this.accept('0') && this.accept('xX')) {
      this.accept('_')
      digits = HEX
    }
    this.accept('.')
    this.accept(digits)
    let point = false
    let exponent = false
    while (this.is(`${digits}._eE`)) {
      if ((point && this.accept('.')) || (exponent && this.accept('eE'))) return false
      if (this.accept('.')) {
        point = true
        if (this.accept('_.') || digits === HEX) return false
      } else if (this.accept('eE')) {
        exponent = true
        this.accept('+-')
        if (this.accept('._eE') || this.at >= this.text.length) return false
      } else if (this.accept('_')) {
        if (this.accept('._eE') || this.at >= this.text.length) return false
      } else while (this.accept(digits));
    }
    return !isWordChar(this.text[this.at])
  }

  private scanDuration(): boolean {
    if (!this.accept(DURATION_UNITS)) return false
    this.accept('s')
    while (this.accept(DECIMAL)) {
      while (this.accept(DECIMAL));
      if (!this.accept('smhdw')) return false
      this.accept('s')
    }
    if (!isWordChar(this.text[this.at])) return true
    this.at++
    return false
  }

  private is(chars: string): boolean {
    const c = this.text[this.at]
    return c !== undefined && chars.includes(c)
  }

  private accept(chars: string): boolean {
    if (!this.is(chars)) return false
    this.at++
    return true
  }

  private match(pattern: RegExp): boolean {
    pattern.lastIndex = this.at
    if (!pattern.test(this.text)) return false
    this.at = pattern.lastIndex
    return true
  }

  /** The character at some distance from here, '' past the end. */
  private char(distance = 0): string {
    const code = this.text.codePointAt(this.at + distance)
    return code === undefined ? '' : String.fromCodePoint(code)
  }

  private single(): Token {
    this.at++
    return this.token()
  }

  private token(type = this.text.slice(this.start, this.at)): Token {
    return { type, text: this.text.slice(this.start, this.at), start: this.start, end: this.at }
  }

  private error(cause: string): ParseError {
    const pos: Pos = { start: this.start, end: this.text.length }
    return new ParseError(this.text, pos, cause)
  }
}

function isDigit(c: string | undefined): boolean {
  return c !== undefined && c >= '0' && c <= '9'
}

function isLetter(c: string): boolean {
  return /^[_\p{L}]$/u.test(c)
}

function isWordChar(c: string | undefined): boolean {
  return c !== undefined && /^\w$/.test(c)
}
