/** LIKE patterns of the catalogue commands: `%` any text, `_` one character, `\` makes the next one plain. */
import { SvcError } from 'svcdb/lib/errors'

const MAX_LENGTH = 1024

/** Matching takes time proportional to pattern times text: patterns come from outside. @throws BAD_REQUEST for one that is too long. */
export function likeMatcher(pattern: string): (text: string) => boolean {
  if (pattern.length > MAX_LENGTH) throw new SvcError('BAD_REQUEST', `cannot filter by a pattern of ${pattern.length} characters: ${MAX_LENGTH} are the limit`)
  const tokens: { char: string | undefined; any: boolean }[] = []
  const chars = [...pattern]
  for (let i = 0; i < chars.length; i++) {
    if (chars[i] === '%') {
      if (tokens.at(-1)?.any !== true) tokens.push({ char: undefined, any: true })
    } else if (chars[i] === '_') tokens.push({ char: undefined, any: false })
    else tokens.push({ char: chars[i] === '\\' && i + 1 < chars.length ? chars[++i] : chars[i], any: false })
  }
  return (text) => matches(tokens, [...text])
}

/** Greedy, with the last `%` as the only place to go back to. */
function matches(tokens: readonly { char: string | undefined; any: boolean }[], text: readonly string[]): boolean {
  let at = 0
  let token = 0
  let star = -1
  let resume = 0
  while (at < text.length) {
    const next = tokens[token]
    if (next?.any === true) {
      star = token++
      resume = at
    } else if (next !== undefined && (next.char === undefined || next.char === text[at])) {
      token++
      at++
    } else if (star >= 0) {
      token = star + 1
      at = ++resume
    } else return false
  }
  while (tokens[token]?.any === true) token++
  return token === tokens.length
}
