/**
 * What is wrong with a regular expression, in the words of Go's regexp package, which users of Prometheus know. Whether it can be run is for
 * the kernel to say: this only finds the text.
 */
import { SvcError } from 'svcdb/lib/errors'
import { compileRegex } from 'svcdb/lib/regex'

const MAX_REPEAT = 1000
const POSIX_CLASSES = new Set('alnum alpha ascii blank cntrl digit graph lower print punct space upper word xdigit'.split(' '))
const REPEAT = /\{(0|[1-9]\d*)(,(0|[1-9]\d*)?)?\}/y
const FLAGS = /\(\?[imsU]*(?:-[imsU]+)?[:)]/y
const FLAGS_START = /\(\?[imsU]*(?:-[imsU]*)?.?/suy
const ESCAPE = /\\(?:[0-7]{2,3}|0|x[0-9A-Fa-f]{2}|x\{[0-9A-Fa-f]+\}|[afnrtv]|[^0-9A-Za-z\x80-\uffff])/y

/** Up to the digit that leaves Unicode. */
const TOO_LARGE = /\\x\{0*(?:[2-9A-Fa-f][0-9A-Fa-f]{5}|1[1-9A-Fa-f][0-9A-Fa-f]{4}|10[0-9A-Fa-f]{5})/y

/** @returns "error parsing regexp: ..." unless the pattern is good. */
export function checkRegex(pattern: string): string | undefined {
  const cause = new Scanner(pattern).scan() ?? refused(pattern)
  return cause === undefined ? undefined : `error parsing regexp: ${cause}`
}

/** Of a pattern that `checkRegex` finds good: without running it, which might take for ever. */
export function matchesEmpty(pattern: string): boolean {
  return new Scanner(pattern).takesEmpty()
}

function refused(pattern: string): string | undefined {
  try {
    compileRegex(pattern)
    return undefined
  } catch (error) {
    if (!(error instanceof SvcError)) throw error
    return error.message.slice(error.message.lastIndexOf(': ') + 2)
  }
}

/** A group or the whole: how often its repetitions, and those of what was repeated last, make the innermost one run. */
interface Level {
  repeats: number
  last: number
  /** Nothing to repeat: at the start of an alternative. */
  empty: boolean
  /** Whether an empty text passes an alternative before this one, this one up to its last item, and that. */
  passed: boolean
  passes: boolean
  lastPasses: boolean
}

const newLevel = (): Level => ({ repeats: 1, last: 1, empty: true, passed: false, passes: true, lastPasses: true })

function passesEmpty({ passed, passes, lastPasses }: Level): boolean {
  return passed || (passes && lastPasses)
}

class Scanner {
  private readonly text: string
  private at = 0
  private readonly levels: Level[] = [newLevel()]
  /** Where the repetition that ends here began. */
  private lastRepeat = -1
  /** Where the last name of a class may end. */
  private readonly lastName: number
  private readonly goodNames = new Set<string>()

  constructor(text: string) {
    this.text = text
    this.lastName = text.lastIndexOf(':]')
  }

  takesEmpty(): boolean {
    return this.scan() === undefined && passesEmpty(this.levels[0])
  }

  /** @returns what is wrong. */
  scan(): string | undefined {
    while (this.at < this.text.length) {
      const start = this.at
      const repeated = this.lastRepeat
      this.lastRepeat = -1
      const cause = this.item(this.text[start], repeated)
      if (cause !== undefined) return cause
    }
    return this.levels.length > 1 ? `missing closing ): \`${this.text}\`` : undefined
  }

  private item(c: string, repeated: number): string | undefined {
    if (c === '(') return this.group()
    if (c === ')') return this.close()
    if (c === '*' || c === '+' || c === '?') {
      if (c !== '+') this.level().lastPasses = true
      return this.repeat(1, 1, repeated)
    }
    if (c === '{') {
      const size = this.match(REPEAT)
      if (size !== undefined) {
        const [least, most] = [Number(size[1]), Number(size[3] ?? size[1])]
        if (least > MAX_REPEAT || most > MAX_REPEAT || least > most) return `invalid repeat count: \`${size[0]}\``
        if (least === 0) this.level().lastPasses = true
        return this.repeat(size[0].length, Math.max(most, 1), repeated)
      }
    }
    const level = this.level()
    level.last = 1
    level.empty = c === '|'
    if (c !== '|' && c !== '\\') this.follow(c === '^' || c === '$')
    else if (c === '|') Object.assign(level, { passed: passesEmpty(level), passes: true, lastPasses: true })
    if (c === '[') return this.charClass()
    if (c === '\\') return this.escape()
    this.at += c.length
    return undefined
  }

  /** One more item, of which an empty text passes or not. */
  private follow(passes: boolean): void {
    const level = this.level()
    level.passes &&= level.lastPasses
    level.lastPasses = passes
  }

  private group(): string | undefined {
    const named = /\(\?P?<./sy
    named.lastIndex = this.at
    if (named.test(this.text)) {
      const end = this.text.indexOf('>', this.at)
      const head = this.text.slice(this.at, end < 0 ? undefined : end + 1)
      if (!/^\(\?P?<\w+>$/.test(head)) return `invalid named capture: \`${head}\``
      this.at = end + 1
    } else if (this.text.startsWith('(?', this.at)) {
      const flags = this.match(FLAGS)
      if (flags === undefined) return this.badGroup()
      this.at += flags[0].length
      if (flags[0].endsWith(')')) return undefined
    } else this.at++
    this.levels.push(newLevel())
    return undefined
  }

  private badGroup(): string {
    return `invalid or unsupported Perl syntax: \`${(this.match(FLAGS_START) as RegExpExecArray)[0]}\``
  }

  private close(): string | undefined {
    if (this.levels.length === 1) return `unexpected ): \`${this.text}\``
    const group = this.levels.pop() as Level
    const { repeats } = group
    const level = this.level()
    this.follow(passesEmpty(group))
    level.last = repeats
    level.repeats = Math.max(level.repeats, repeats)
    level.empty = false
    this.at++
    return undefined
  }

  private repeat(length: number, most: number, repeated: number): string | undefined {
    const start = this.at
    this.at += length
    if (this.text[this.at] === '?') this.at++
    const operator = this.text.slice(start, this.at)
    if (repeated >= 0) return `invalid nested repetition operator: \`${this.text.slice(repeated, this.at)}\``
    const level = this.level()
    if (level.empty) return `missing argument to repetition operator: \`${operator}\``
    level.last *= most
    if (level.last > MAX_REPEAT) return `invalid repeat count: \`${operator}\``
    level.repeats = Math.max(level.repeats, level.last)
    this.lastRepeat = start
    return undefined
  }

  private escape(): string | undefined {
    const start = this.at
    const c = this.text[start + 1]
    if (c === undefined) return 'trailing backslash at end of expression: ``'
    if (c === 'Q') {
      const end = this.text.indexOf('\\E', start + 2)
      this.at = end < 0 ? this.text.length : end + 2
      // Only the last character may be repeated.
      for (let length = (end < 0 ? this.at : end) - start - 2, i = 0; i < Math.min(length, 2); i++) this.follow(false)
      return undefined
    }
    this.follow('AzB'.includes(c))
    if ('AzbBdswDSW'.includes(c)) {
      this.at += 2
      return undefined
    }
    if (c === 'p' || c === 'P') return this.unicodeClass()
    return this.character()
  }

  private unicodeClass(): string | undefined {
    const rest = this.text.slice(this.at)
    const name = /^\\[pP](?:\{[^}]*\}|[^{])/u.exec(rest)
    if (name === null) return `invalid character class range: \`${rest}\``
    if (!this.goodNames.has(name[0]) && refused(name[0]) !== undefined) return `invalid character class range: \`${name[0]}\``
    this.goodNames.add(name[0])
    this.at += name[0].length
    return undefined
  }

  /** An escape that stands for one character. */
  private character(): string | undefined {
    const tooLarge = this.match(TOO_LARGE)
    const found = this.match(ESCAPE)
    if (tooLarge !== undefined || found === undefined) {
      const bad = tooLarge ?? (/^\\(?:x(?:\{[0-9A-Fa-f]*.?|[0-9A-Fa-f]?.?)|.?)/su.exec(this.text.slice(this.at)) as RegExpExecArray)
      return `invalid escape sequence: \`${bad[0]}\``
    }
    this.at += found[0].length
    return undefined
  }

  private charClass(): string | undefined {
    const start = this.at
    this.at += this.text[start + 1] === '^' ? 2 : 1
    for (let first = true; first || this.text[this.at] !== ']'; first = false) {
      if (this.text.startsWith('[:', this.at) && this.at + 2 <= this.lastName) {
        const posix = this.text.slice(this.at, this.text.indexOf(':]', this.at + 2) + 2)
        if (!POSIX_CLASSES.has(posix.slice(posix[2] === '^' ? 3 : 2, -2))) return `invalid character class range: \`${posix}\``
        this.at += posix.length
        continue
      }
      const next = this.text[this.at] === '\\' ? this.text[this.at + 1] : undefined
      if (next !== undefined && 'dswDSW'.includes(next)) this.at += 2
      else {
        const cause = next === 'p' || next === 'P' ? this.unicodeClass() : this.classRange(start)
        if (cause !== undefined) return cause
      }
    }
    this.at++
    return undefined
  }

  private classRange(start: number): string | undefined {
    const from = this.at
    const low = this.classChar(start)
    if (typeof low === 'string') return low
    const next = this.text[this.at + 1]
    if (this.text[this.at] !== '-' || next === undefined || next === ']') return undefined
    this.at++
    const high = this.classChar(start)
    if (typeof high === 'string') return high
    return high < low ? `invalid character class range: \`${this.text.slice(from, this.at)}\`` : undefined
  }

  /** @returns the code point, or what is wrong. */
  private classChar(start: number): number | string {
    const from = this.at
    const code = this.text.codePointAt(from)
    if (code === undefined) return `missing closing ]: \`${this.text.slice(start)}\``
    if (code !== 92) {
      this.at += code > 0xffff ? 2 : 1
      return code
    }
    if (from + 1 >= this.text.length) return 'trailing backslash at end of expression: ``'
    return this.character() ?? escapedCode(this.text.slice(from + 1, this.at))
  }

  private match(pattern: RegExp): RegExpExecArray | undefined {
    pattern.lastIndex = this.at
    return pattern.exec(this.text) ?? undefined
  }

  private level(): Level {
    return this.levels[this.levels.length - 1]
  }
}

function escapedCode(text: string): number {
  if (/^[0-7]/.test(text)) return Number.parseInt(text, 8)
  if (text[0] === 'x') return Number.parseInt(text.replace(/[x{}]/g, ''), 16)
  const place = 'afnrtv'.indexOf(text)
  return place < 0 ? text.charCodeAt(0) : [7, 12, 10, 13, 9, 11][place]
}
