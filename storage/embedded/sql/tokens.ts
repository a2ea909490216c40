/** Enough of SQL's lexical grammar to read the words a statement begins with: comments, quotes, the rest by character. */
import { isSchema } from './catalog.ts'
import { foldName } from './names.ts'

interface Token {
  kind: 'word' | 'quoted' | 'string' | 'other'
  text: string
  /** Where the token ends in the source. */
  end: number
}

const SPACE = /\s/
const WORD_START = /[A-Za-z_\u0080-\uffff]/
const WORD = /[A-Za-z0-9_$\u0080-\uffff]/

/** The token at or after `at`, or undefined at the end of the text. Block comments nest, as in DuckDB and PostgreSQL. */
function nextToken(source: string, at: number): Token | undefined {
  at = skipBlank(source, at)
  if (at >= source.length) return undefined
  const c = source[at]
  if (c === '"' || c === "'") {
    let end = at + 1
    let text = ''
    while (end < source.length) {
      if (source[end] !== c) text += source[end++]
      else if (source[end + 1] === c) {
        text += c
        end += 2
      } else return { kind: c === '"' ? 'quoted' : 'string', text, end: end + 1 }
    }
    return { kind: 'other', text: source.slice(at), end: source.length }
  }
  if (WORD_START.test(c)) {
    let end = at + 1
    while (end < source.length && WORD.test(source[end])) end++
    return { kind: 'word', text: source.slice(at, end), end }
  }
  return { kind: 'other', text: c, end: at + 1 }
}

function skipBlank(source: string, at: number): number {
  for (;;) {
    while (at < source.length && SPACE.test(source[at])) at++
    if (source.startsWith('--', at)) {
      while (at < source.length && source[at] !== '\n') at++
    } else if (source.startsWith('/*', at)) {
      let depth = 1
      at += 2
      while (at < source.length && depth > 0) {
        if (source.startsWith('/*', at)) {
          depth++
          at += 2
        } else if (source.startsWith('*/', at)) {
          depth--
          at += 2
        } else at++
      }
    } else return at
  }
}

export type Explain = 'no' | 'plan' | 'analyze'

type Statement =
  | { kind: 'query'; explain: Explain; text: string }
  /** SHOW COLUMNS FROM x, DESCRIBE x, SHOW x: answered from the catalogue. */
  | { kind: 'columns'; explain: Explain; name: string }
  | { kind: 'tables'; explain: Explain }
  | { kind: 'describe'; explain: Explain; text: string }

/** Sorts a statement by its first words. What is left of a query is for DuckDB's parser, which is the judge of it. */
export function classifyStatement(source: string): Statement {
  let explain: Explain = 'no'
  let rest = source
  const first = nextToken(rest, 0)
  if (isWord(first, 'explain')) {
    explain = 'plan'
    rest = rest.slice(first!.end)
    const second = nextToken(rest, 0)
    if (isWord(second, 'analyze') || isWord(second, 'analyse')) {
      explain = 'analyze'
      rest = rest.slice(second!.end)
    }
  }
  const head = nextToken(rest, 0)
  if (isWord(head, 'show') || isWord(head, 'describe') || isWord(head, 'desc')) {
    const words = tokens(rest.slice(head!.end), 8)
    if (isWord(head, 'show')) {
      if (words.length === 1 && isWord(words[0], 'tables')) return { kind: 'tables', explain }
      if (isWord(words[0], 'columns') && (isWord(words[1], 'from') || isWord(words[1], 'in'))) {
        const name = plainName(words.slice(2))
        if (name !== undefined) return { kind: 'columns', explain, name }
      }
    } else {
      const name = plainName(isWord(words[0], 'table') && words.length > 1 ? words.slice(1) : words)
      if (name !== undefined) return { kind: 'columns', explain, name }
      if (['select', 'with', 'from', 'values'].some((word) => isWord(words[0], word)))
        return { kind: 'describe', explain, text: withoutLatestOn(rest.slice(head!.end)) }
    }
  }
  return { kind: 'query', explain, text: withoutLatestOn(rest) }
}

/** Marks the time of a LATEST ON: it is a function to the parser only, and the printer takes it away. */
export const LATEST_TIME = 'latest_on'

/**
 * `LATEST ON time PARTITION BY tags`, as QuestDB has it behind WHERE, in DuckDB's words: QUALIFY stands in the same place. Nothing else in SQL has
 * these words in a row.
 */
function withoutLatestOn(source: string): string {
  if (!LATEST_ON.test(source)) return source
  let out = ''
  let copied = 0
  for (let at = 0, token = nextToken(source, at); token !== undefined; token = nextToken(source, at)) {
    const start = token.end - token.text.length
    at = token.end
    if (!isWord(token, 'latest')) continue
    const clause = latestOn(source, at)
    if (clause === undefined) continue
    out += `${source.slice(copied, start)}QUALIFY row_number() OVER (PARTITION BY ${clause.by} ORDER BY ${LATEST_TIME}(${clause.time}) DESC) = 1`
    at = copied = clause.end
  }
  return out + source.slice(copied)
}

const LATEST_ON = /\blatest\s/i

/** What follows LATEST: ON name PARTITION BY name, name ... */
function latestOn(source: string, from: number): { time: string; by: string; end: number } | undefined {
  let at = from
  const word = (wanted: string): boolean => {
    const token = nextToken(source, at)
    if (!isWord(token, wanted)) return false
    at = token!.end
    return true
  }
  /** a or a.b, quoted or not, as it is written. */
  const name = (): string | undefined => {
    const first = nextToken(source, at)
    if (first?.kind !== 'word' && first?.kind !== 'quoted') return undefined
    const start = skipBlank(source, at)
    at = first.end
    const dot = nextToken(source, at)
    const second = dot?.kind === 'other' && dot.text === '.' ? nextToken(source, dot.end) : undefined
    if (second?.kind === 'word' || second?.kind === 'quoted') at = second.end
    return source.slice(start, at)
  }
  const time = word('on') ? name() : undefined
  if (time === undefined || !word('partition') || !word('by')) return undefined
  const by: string[] = []
  for (;;) {
    const one = name()
    if (one === undefined) return undefined
    by.push(one)
    const comma = nextToken(source, at)
    if (comma?.kind !== 'other' || comma.text !== ',') return { time, by: by.join(', '), end: at }
    at = comma.end
  }
}

function isWord(token: Token | undefined, word: string): boolean {
  return token?.kind === 'word' && foldName(token.text) === word
}

/** Up to `most` tokens without the semicolon at the end. */
function tokens(source: string, most: number): Token[] {
  const found: Token[] = []
  for (let at = 0, token = nextToken(source, at); token !== undefined && found.length < most; token = nextToken(source, at)) {
    found.push(token)
    at = token.end
  }
  if (found.at(-1)?.text === ';' && found.at(-1)?.kind === 'other') found.pop()
  return found
}

/** A measurement's name, alone or behind the schema's, `main.`. */
function plainName(words: Token[]): string | undefined {
  if (words.length === 3 && isSchema(words[0].text) && words[1].text === '.') words = words.slice(2)
  return words.length === 1 && (words[0].kind === 'word' || words[0].kind === 'quoted') ? words[0].text : undefined
}
