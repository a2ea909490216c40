/**
 * Regular expressions on tags that mean the same to DuckDB's RE2 and to `svcdb/lib/regex`: they choose series, as LIKE does, before a row is read. Of their syntax only what people write
 * for names of hosts: texts, `.`, plain classes, groups, alternatives, `*`, `+` and `?` behind what is one character, `^` and `$` at the ends. All others stay conditions of DuckDB's.
 */
import { compileRegex } from 'svcdb/lib/regex'

const MAX_LENGTH = 256
/** Groups, whose alternatives may match the same in several ways, and `?`: each may double the ways to go through a text. */
const MAX_CHOICES = 4
/** Of an expression that may begin anywhere in a text. */
const MAX_ALTERNATIVES = 8
/** Of one character: a class, an escaped one, or itself. */
const TOKEN = /\[\^?[A-Za-z0-9_. -]+\]|\\[.+*?()[\]{}|^$\\dw]|[^\\[\]{}]/suy
const REPETITIONS = new Set('*+?')
/** Nothing is repeated behind these. */
const NO_CHARACTER = new Set(['', '(', ')', '|', ...REPETITIONS])

/**
 * The expression as one that is fully anchored and whose dot matches a line's end; undefined for one that is DuckDB's: RE2 takes linear time for any, V8 goes back over a text where
 * two parts may have the same of it. Nor one that the empty text matches, as an absent tag reads as that.
 * @param whole it has to match all of a text, as `~` wants, and not a part.
 */
export function exactRegex(pattern: string, whole: boolean): string | undefined {
  if (pattern.length > MAX_LENGTH) return undefined
  const [first, last] = [pattern.startsWith('^'), pattern.endsWith('$') && !pattern.endsWith('\\$')]
  const [begins, ends] = [whole || first, whole || last]
  const tokens = tokensOf(pattern.slice(first ? 1 : 0, last ? -1 : undefined))
  if (tokens === undefined || !isQuick(tokens, begins, ends) || ((first || last) && hasAlternatives(tokens))) return undefined
  const exact = `${begins ? '' : '.*'}(?:${tokens.map((token) => (token === '.' ? '[^\\n]' : token)).join('')})${ends ? '' : '.*'}`
  try {
    return compileRegex(exact).test('') ? undefined : exact
  } catch {
    return undefined
  }
}

function tokensOf(pattern: string): string[] | undefined {
  const tokens: string[] = []
  let depth = 0
  for (let at = 0; at < pattern.length; at = TOKEN.lastIndex) {
    TOKEN.lastIndex = at
    const token = TOKEN.exec(pattern)?.[0]
    if (token === undefined || token === '^' || token === '$') return undefined
    if (REPETITIONS.has(token) && NO_CHARACTER.has(tokens.at(-1) ?? '')) return undefined
    depth += depthOf(token)
    // It would close the group around all.
    if (depth < 0) return undefined
    tokens.push(token)
  }
  return tokens
}

/** Whether at most one part may be of any length, but for a last one behind which nothing has to match. */
function isQuick(tokens: readonly string[], begins: boolean, ends: boolean): boolean {
  const count = (...wanted: string[]): number => tokens.filter((token) => wanted.includes(token)).length
  const [last, repeated] = [tokens.at(-1), tokens.at(-2)]
  const isFree = (last === '*' || last === '+') && (!ends || repeated === '.')
  const parts = count('*', '+') - (isFree ? 1 : 0) + (begins ? 0 : 1)
  return parts <= 1 && count('?', '(') <= MAX_CHOICES && (begins || count('|') < MAX_ALTERNATIVES)
}

const depthOf = (token: string): number => (token === '(' ? 1 : token === ')' ? -1 : 0)

/** Not within a group: an anchor would be that of the first or the last. */
function hasAlternatives(tokens: readonly string[]): boolean {
  let depth = 0
  return tokens.some((token) => {
    depth += depthOf(token)
    return token === '|' && depth === 0
  })
}
