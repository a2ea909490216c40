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
/** Characters and parts that lists of several texts may have together, each as often as one is put together: some 20 ms. */
const MAX_WORK = 1 << 20
/** Groups within one another. */
const MAX_DEPTH = 32
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
  private work = 0

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
      if (atom.length === 1 && out.length === 1) append(out[0], atom[0])
      else {
        out = out.flatMap((left) => atom.map((right) => joined(left, right)))
        if (this.isTooMuch(out)) return undefined
      }
    }
    return out
  }

  /** Alternatives multiply with each that follows: long before there are too many, all that they have together may be. */
  private isTooMuch(list: readonly Glob[]): boolean {
    let globs = 0
    for (const { parts } of list) {
      if (parts.length > 1) globs++
      this.work += parts.length
      for (const part of parts) this.work += part.length
    }
    return globs > MAX_GLOBS || this.work > MAX_WORK
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
    if (depth === MAX_DEPTH) return undefined
    this.at++
    if (this.peek === '?' && !this.skip('?:')) return undefined
    const found = this.alternatives(depth + 1)
    return !this.skip(')') || this.quantified ? undefined : found
  }

  /** Characters that follow one another, as one text. */
  private literal(): string | undefined {
    let text = ''
    for (;;) {
      LITERAL.lastIndex = this.at
      const found = LITERAL.exec(this.pattern)
      if (found === null) return text === '' ? undefined : text
      this.at = LITERAL.lastIndex
      text += found[1] ?? found[2] ?? found[0]
    }
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
  const both = { parts: left.parts.slice(), least: left.least.slice() }
  append(both, right)
  return both
}

function append(left: Glob, right: Glob): void {
  left.parts[left.parts.length - 1] += right.parts[0]
  for (let i = 1; i < right.parts.length; i++) left.parts.push(right.parts[i])
  for (const least of right.least) left.least.push(least)
}
