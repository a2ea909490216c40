/**
 * The common shapes of regular expressions, matched without one: lists of texts, and texts with `.*` or `.+` before, between or behind
 * them. Linear in the text, whatever the pattern.
 */

/** Texts with a gap between each two: `["", "a", ""]` is `.*a.*`. `least[i]` is what the gap behind part i holds at least. */
interface Glob {
  parts: string[]
  least: (0 | 1)[]
}

export interface Shape {
  literals: ReadonlySet<string>
  globs: readonly Glob[]
}

/** More alternatives are not written out. */
const MAX_LITERALS = 16_384
/** They are tried one by one. */
const MAX_GLOBS = 32
/** A character that means itself, as it is, escaped, or alone in a class. */
const LITERAL = /[^\\^$.|?*+()[\]{}]|\\([^0-9A-Za-z])|\[([^\\^[\]])\]/suy
const QUANTIFIERS = '*+?{'

/** @returns undefined for an expression that is more, or no valid one. */
export function shapeOf(pattern: string): Shape | undefined {
  const reader = new ShapeReader(pattern)
  const found = reader.alternatives(0)
  if (found === undefined || !reader.atEnd) return undefined
  const literals = new Set<string>()
  const globs: Glob[] = []
  for (const glob of found) {
    // Two gaps side by side would have to count characters, which may take two places each.
    if (glob.parts.slice(1, -1).includes('')) return undefined
    if (glob.parts.length === 1) literals.add(glob.parts[0])
    else globs.push(glob)
  }
  return globs.length > MAX_GLOBS ? undefined : { literals, globs }
}

export function matchesShape({ literals, globs }: Shape, text: string): boolean {
  return literals.has(text) || globs.some((glob) => matchesGlob(glob, text))
}

/** The leftmost place for each part leaves the most room for those behind it. */
function matchesGlob({ parts, least }: Glob, text: string): boolean {
  const last = parts.length - 1
  if (!text.startsWith(parts[0])) return false
  let at = parts[0].length
  for (let i = 1; i < last; i++) {
    const found = text.indexOf(parts[i], at + least[i - 1])
    if (found < 0) return false
    at = found + parts[i].length
  }
  return text.length - parts[last].length >= at + least[last - 1] && text.endsWith(parts[last])
}

class ShapeReader {
  private readonly pattern: string
  private at = 0

  constructor(pattern: string) {
    this.pattern = pattern
  }

  get atEnd(): boolean {
    return this.at === this.pattern.length
  }

  /** Up to the end or the closing parenthesis. */
  alternatives(depth: number): Glob[] | undefined {
    const out: Glob[] = []
    do {
      const sequence = this.sequence(depth)
      if (sequence === undefined || out.length + sequence.length > MAX_LITERALS) return undefined
      for (const glob of sequence) out.push(glob)
    } while (this.skip('|'))
    return out
  }

  private sequence(depth: number): Glob[] | undefined {
    let out: Glob[] = [{ parts: [''], least: [] }]
    // The whole is anchored already.
    if (depth === 0) this.skip('^')
    while (!this.atEnd && this.peek !== '|' && this.peek !== ')') {
      if (depth === 0 && this.peek === '$' && (this.at + 1 === this.pattern.length || this.pattern[this.at + 1] === '|')) {
        this.at++
        break
      }
      const atom = this.atom(depth)
      if (atom === undefined || out.length * atom.length > MAX_LITERALS) return undefined
      out = atom.length === 1 && out.length === 1 ? [joined(out[0], atom[0])] : out.flatMap((left) => atom.map((right) => joined(left, right)))
    }
    return out
  }

  /** What can match next; undefined when it is more than texts and gaps. */
  private atom(depth: number): Glob[] | undefined {
    if (this.peek === '.') {
      const kind = this.pattern[this.at + 1]
      if (kind !== '*' && kind !== '+') return undefined
      this.at += 2
      return this.quantified ? undefined : [{ parts: ['', ''], least: [kind === '*' ? 0 : 1] }]
    }
    if (this.peek === '(') return this.group(depth)
    const text = this.literal()
    return text === undefined || this.quantified ? undefined : [{ parts: [text], least: [] }]
  }

  private group(depth: number): Glob[] | undefined {
    this.at++
    if (this.peek === '?' && !this.skip('?:')) return undefined
    const found = this.alternatives(depth + 1)
    return !this.skip(')') || this.quantified ? undefined : found
  }

  private literal(): string | undefined {
    LITERAL.lastIndex = this.at
    const found = LITERAL.exec(this.pattern)
    if (found === null) return undefined
    this.at = LITERAL.lastIndex
    return found[1] ?? found[2] ?? found[0]
  }

  private get peek(): string {
    return this.pattern[this.at]
  }

  private get quantified(): boolean {
    return !this.atEnd && QUANTIFIERS.includes(this.peek)
  }

  private skip(text: string): boolean {
    if (!this.pattern.startsWith(text, this.at)) return false
    this.at += text.length
    return true
  }
}

function joined(left: Glob, right: Glob): Glob {
  const middle = (left.parts.at(-1) as string) + right.parts[0]
  const parts = [...left.parts.slice(0, -1), middle, ...right.parts.slice(1)]
  return { parts, least: [...left.least, ...right.least] }
}
