/**
 * A caller's text as DuckDB's lexer reads it in time that is linear in its length. That lexer matches a row of operators whole and gives back all but the
 * first of them, looking at each for each: 2,000 of `+-` take it seventeen seconds, 4,000 two minutes. The same row of `/*` in comments takes the square. It looks at no
 * interruption, so a text that could do so must not reach it.
 */
import { SvcError } from 'svcdb/lib/errors'

/** DuckDB and PostgreSQL have none longer than four; what stands in a row without blanks, such as `*-+`, is hardly longer. */
const MAX_OPERATORS = 8
const OPERATOR = '[-+*/<>=~!@#%^&|`?:]'

const SLOW = new RegExp(`/\\*|${OPERATOR}{${MAX_OPERATORS + 1}}`)
/** A quote, the begin of a comment, operators up to one, a number, a word. */
const NEXT = new RegExp(`['"$(),]|--|/\\*|(?:(?!--|/\\*)${OPERATOR})+|\\d[\\w.]*|[A-Za-z_\\u0080-\\uffff][\\w$\\u0080-\\uffff]*`, 'g')
const OPERATORS = new RegExp(`^${OPERATOR}`)
const DOLLAR_QUOTE = /\$(?:[A-Za-z_\u0080-\uffff][\w\u0080-\uffff]*)?\$/y
/** The begin of a text with escapes. */
const ESCAPES = /(?:^|[\u0080-\uffff])e$/i
const COMMENT_EDGE = /\/\*|\*\//g

/** @returns the text with empty comments in the place of those that may nest. @throws SQL_ERROR for more operators in a row than any has characters. */
export function lexable(text: string): string {
  if (!SLOW.test(text)) return text
  let out = ''
  let copied = 0
  scan(text, (token, at, end) => {
    if (token === '/*') {
      // One that is not closed is left for the parser to name, which looks at its begin only.
      const closed = end !== undefined
      out += text.slice(copied, at) + (closed ? '/**/ ' : '/*')
      copied = end ?? text.length
    } else if (token.length > MAX_OPERATORS && OPERATORS.test(token))
      throw refused(`there is no operator "${token.slice(0, MAX_OPERATORS)}..."; write blanks between operators`)
  })
  return out + text.slice(copied)
}

/** Words and dots, between what DuckDB's parser takes for blanks beyond ASCII. */
const WORDS = /\.|[^.\u00a0\u2000-\u200b\u202f\u205f\u2060\u3000\ufeff]+/g
/** A word may follow without a blank. */
const NUMBER = /^\d[\d_]*(?:\.[\d_]*)?(?:e\d[\d_]*)?/i
const DOT = /\.\s*$/

/**
 * Calls `visit` with the words of each token in lower case, without those that can only be names, and with signs of their own: brackets and commas. `length` is that of the token;
 * comments are none.
 */
export function readWords(text: string, visit: (words: readonly string[], length: number) => void): void {
  let [before, end] = ['', 0]
  scan(text, (token, at, behind = text.length) => {
    if (DOT.test(text.slice(end, at))) before = '.'
    end = behind
    if (token === '--' || token === '/*') return
    const [number = ''] = NUMBER.exec(token) ?? []
    if (number !== '') before = ''
    const words: string[] = []
    for (const [word] of token.slice(number.length).toLowerCase().matchAll(WORDS)) {
      // Behind these even a keyword is a name.
      const isName = before === '.' || before === 'as' || before === '$'
      if (!isName || SIGNS.has(word)) words.push(word)
      before = isName ? '' : word
    }
    visit(words, behind - at)
    // A text in dollars.
    if (token === '$' && behind > at + 1) before = ''
  })
}

const SIGNS = new Set(['(', ')', ','])

/**
 * Calls `visit` with each token: of a comment `/*` or `--`, of a quote its begin, else the whole. `end` is where it ends, undefined for a comment that is
 * not closed.
 */
function scan(text: string, visit: (token: string, at: number, end: number | undefined) => void): void {
  NEXT.lastIndex = 0
  for (let found = NEXT.exec(text); found !== null; ) {
    const [token] = found
    const end = tokenEnd(text, token, found.index, NEXT.lastIndex)
    visit(token, found.index, end)
    NEXT.lastIndex = end ?? text.length
    found = NEXT.exec(text)
  }
}

function tokenEnd(text: string, token: string, at: number, end: number): number | undefined {
  if (token === '/*') return commentEnd(text, end)
  if (token === '--') return lineEnd(text, end)
  if (token === "'" || token === '"') return quoteEnd(text, end, token, false)
  if (token === '$') {
    DOLLAR_QUOTE.lastIndex = at
    const tag = DOLLAR_QUOTE.exec(text)?.[0]
    return tag === undefined ? end : Math.min(indexOrEnd(text, tag, at + tag.length) + tag.length, text.length)
  }
  if (text[end] !== "'" || !ESCAPES.test(token)) return end
  // DuckDB takes some characters beyond ASCII for blanks.
  if (token.length > 1) throw refused(`a text follows "${token}" without a blank`)
  return quoteEnd(text, end + 1, "'", true)
}

const refused = (cause: string): SvcError => new SvcError('SQL_ERROR', `cannot parse the query: ${cause}`)

/** Block comments nest. @param at behind the begin of one. */
function commentEnd(text: string, at: number): number | undefined {
  COMMENT_EDGE.lastIndex = at
  let depth = 1
  for (let edge = COMMENT_EDGE.exec(text); edge !== null; edge = COMMENT_EDGE.exec(text)) {
    depth += edge[0] === '/*' ? 1 : -1
    if (depth === 0) return COMMENT_EDGE.lastIndex
  }
  return undefined
}

/** @param escapes a backslash takes the next character along. */
function quoteEnd(text: string, at: number, quote: string, escapes: boolean): number {
  for (let end = at; end < text.length; end++) {
    if (text[end] === quote) {
      if (text[end + 1] !== quote) return end + 1
      end++
    } else if (escapes && text[end] === '\\') end++
  }
  return text.length
}

function lineEnd(text: string, from: number): number {
  for (let end = from; end < text.length; end++) if (text[end] === '\n' || text[end] === '\r') return end
  return text.length
}

function indexOrEnd(text: string, part: string, from: number): number {
  const index = text.indexOf(part, from)
  return index < 0 ? text.length : index
}
