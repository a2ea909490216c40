/**
 * Regular expressions on tags that mean the same to DuckDB's RE2 and to `svcdb/lib/regex`: they choose series, as LIKE does, before a row is read. Of their syntax only what people write
 * for names of hosts: texts, `.`, plain classes, groups, alternatives, `*`, `+` and `?` behind what is one character, `^` and `$` at the ends. All others stay conditions of DuckDB's.
 */
import { compileRegex } from 'svcdb/lib/regex'

const MAX_LENGTH = 256
/** More of them in a row would take the power of that, of a text's length. */
const MAX_REPEATED = 3
/** Of one character: a class, an escaped one, or itself. */
const TOKEN = /\[\^?[A-Za-z0-9_. -]+\]|\\[.+*?()[\]{}|^$\\dw]|[^\\[\]{}]/suy
const REPETITIONS = new Set('*+?')
/** Nothing is repeated behind these. */
const NO_CHARACTER = new Set(['', '(', ')', '|', ...REPETITIONS])

/**
 * The expression as one that is fully anchored and whose dot matches a line's end; undefined for one that is DuckDB's, and for one that the empty text matches, as an absent tag reads as that.
 * @param whole it has to match all of a text, as `~` wants, and not a part.
 */
export function exactRegex(pattern: string, whole: boolean): string | undefined {
  if (pattern.length > MAX_LENGTH) return undefined
  const begins = pattern.startsWith('^')
  const ends = pattern.endsWith('$') && !pattern.endsWith('\\$')
  const middle = exactTokens(pattern.slice(begins ? 1 : 0, ends ? -1 : undefined), begins || ends)
  if (middle === undefined) return undefined
  const exact = `${whole || begins ? '' : '.*'}(?:${middle})${whole || ends ? '' : '.*'}`
  try {
    return compileRegex(exact).test('') ? undefined : exact
  } catch {
    return undefined
  }
}

/** @param anchored not of alternatives: an anchor would be that of the first or the last. */
function exactTokens(pattern: string, anchored: boolean): string | undefined {
  let [out, last] = ['', '']
  let [repeated, depth] = [0, 0]
  for (let at = 0; at < pattern.length; at = TOKEN.lastIndex) {
    TOKEN.lastIndex = at
    const token = TOKEN.exec(pattern)?.[0]
    if (token === undefined || token === '^' || token === '$' || (token === '|' && depth === 0 && anchored)) return undefined
    if (REPETITIONS.has(token) && (NO_CHARACTER.has(last) || ++repeated > MAX_REPEATED)) return undefined
    depth += token === '(' ? 1 : token === ')' ? -1 : 0
    out += token === '.' ? '[^\\n]' : token
    last = token
  }
  return out
}
