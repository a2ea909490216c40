/** What LIKE says of a text, as DuckDB does: `%` is any text, `_` one character, nothing escapes them. */

const SURROGATE = /[\ud800-\udfff]/

/**
 * Whether a pattern takes no longer to look for than a text is long: all texts of a tag may be tested in one turn. Not one that the empty text fits, and none with backslashes, which other
 * engines' SQL reads otherwise.
 */
export function isQuickPattern(pattern: string): boolean {
  const parts = partsOf(pattern)
  if (pattern.includes('\\') || parts.every((part) => part === '')) return false
  return parts.length < 3 || (parts.length === 3 && isAnywhere(parts))
}

/** What is between `%`. */
const partsOf = (pattern: string): string[] => pattern.split(/%+/)

const isAnywhere = ([before, part, after]: readonly string[]): boolean => before === '' && after === '' && !part.includes('_')

/** As LIKE without ESCAPE: `%` is any text, `_` a character. Takes `likeSteps` for each letter of a text. */
export function likeMatcher(pattern: string): (text: string) => boolean {
  const parts = partsOf(pattern)
  if (parts.length === 3 && isAnywhere(parts)) return (text) => text.includes(parts[1])
  const [first, ...others] = parts.map(lettersOf)
  const last = others.pop()
  return (text) => {
    const letters = lettersOf(text)
    if (!isAt(letters, 0, first)) return false
    if (last === undefined) return letters.length === first.length
    let at = first.length
    for (const part of others) {
      while (at + part.length <= letters.length && !isAt(letters, at, part)) at++
      at += part.length
    }
    return at + last.length <= letters.length && isAt(letters, letters.length - last.length, last)
  }
}

/** The letters of the longest part between two `%`, each of which may be looked at wherever that may begin. */
export function likeSteps(pattern: string): number {
  return Math.max(
    1,
    ...partsOf(pattern)
      .slice(1, -1)
      .map(({ length }) => length),
  )
}

/** By character: a text has most often one code unit for each. */
type Letters = string | readonly string[]

const lettersOf = (text: string): Letters => (SURROGATE.test(text) ? Array.from(text) : text)

function isAt(letters: Letters, at: number, part: Letters): boolean {
  if (at + part.length > letters.length) return false
  for (let i = 0; i < part.length; i++) if (part[i] !== '_' && part[i] !== letters[at + i]) return false
  return true
}
