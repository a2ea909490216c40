/**
 * A regular expression over many texts, in bounded time. V8's expressions go back and try again, which can take longer than anybody lives
 * for a few characters ((a+)+$): those that could are interrupted when their time is up.
 */
import { createContext, Script } from 'node:vm'
import { SvcError } from '../errors/index.ts'
import { compileRegex } from './regex.ts'
import { matchesShape, type Shape, shapeOf } from './shape.ts'

/** What one expression may take, over all texts it is tried on. */
export const REGEX_TIMEOUT_MS = 1000

/** A regular expression in RE2's syntax that is tried on many texts, within a limit of time. */
export class TextPattern {
  /** All texts it matches, when it is a list of texts. */
  readonly literals: ReadonlySet<string> | undefined
  private readonly pattern: string
  private readonly regex: RegExp
  private readonly shape: Shape | undefined
  private readonly timeoutMs: number
  private spentMs = 0

  /** @throws BAD_REQUEST for an expression that does not parse. */
  constructor(pattern: string, timeoutMs: number = REGEX_TIMEOUT_MS) {
    this.pattern = pattern
    this.regex = compileRegex(pattern)
    this.shape = shapeOf(pattern)
    this.literals = this.shape !== undefined && this.shape.globs.length === 0 ? this.shape.literals : undefined
    this.timeoutMs = timeoutMs
  }

  /** For a few texts; `flags` costs less for many. @throws BAD_REQUEST when it takes too long. */
  test(text: string): boolean {
    const { shape, regex } = this
    return shape === undefined ? this.timed(() => regex.test(text)) : matchesShape(shape, text)
  }

  /** A byte a text, 1 = it matches. @throws BAD_REQUEST when it takes too long. */
  flags(texts: readonly string[]): Uint8Array {
    const { shape, regex } = this
    const out = new Uint8Array(texts.length)
    if (shape !== undefined) for (let i = 0; i < texts.length; i++) out[i] = matchesShape(shape, texts[i]) ? 1 : 0
    else
      this.timed(() => {
        for (let i = 0; i < texts.length; i++) out[i] = regex.test(texts[i]) ? 1 : 0
      })
    return out
  }

  private timed<T>(run: () => T): T {
    const start = performance.now()
    try {
      const result = withinTime(this.regex, this.timeoutMs - this.spentMs, run, this.pattern)
      this.spentMs += performance.now() - start
      return result
    } catch (error) {
      this.spentMs = this.timeoutMs
      throw error
    }
  }
}

let runner: { script: Script; context: { run: () => unknown } } | undefined

/**
 * Runs what only matches the expression, and interrupts it when the time is up. Costs about 0.1 ms where the expression can go back and try
 * again, nothing otherwise: so for many texts at once.
 * @param pattern as the user wrote it. @throws BAD_REQUEST when it takes too long.
 */
export function withinTime<T>(regex: RegExp, timeoutMs: number, run: () => T, pattern: string): T {
  const mayBeLong = mayTakeLong(regex.source)
  if (mayBeLong && timeoutMs <= 0) throw tooLong(pattern)
  try {
    return mayBeLong ? interrupted(run, timeoutMs) : run()
  } catch (error) {
    if ((error as { code?: string }).code === 'ERR_SCRIPT_EXECUTION_TIMEOUT') throw tooLong(pattern)
    // V8 reads an expression at once and compiles it when it is first used; then its nesting may be too deep, or what it comes to too large.
    if (error instanceof SyntaxError || error instanceof RangeError) throw tooLarge(pattern)
    throw error
  }
}

function interrupted<T>(run: () => T, timeoutMs: number): T {
  runner ??= { script: new Script('run()'), context: createContext({ run }) as { run: () => unknown } }
  runner.context.run = run
  try {
    return runner.script.runInContext(runner.context, { timeout: Math.ceil(timeoutMs) }) as T
  } finally {
    runner.context.run = NOTHING
  }
}

const NOTHING = (): void => {}

const tooLong = (pattern: string): SvcError => refused(pattern, 'it takes too long; repeat nothing that repeats itself, as in "(a+)+"')
const tooLarge = (pattern: string): SvcError => refused(pattern, 'it is too large; repeat less, and nest fewer groups')

function refused(pattern: string, cause: string): SvcError {
  const shown = pattern.length > 64 ? `${pattern.slice(0, 61)}...` : pattern
  return new SvcError('BAD_REQUEST', `cannot evaluate regular expression "${shown.toWellFormed()}": ${cause}`)
}

/**
 * Whether an expression can try more ways than its text is long: when it makes more than one choice (how often something repeats, which of several), or
 * repeats one. With a single choice each place of the text is looked at once for each way.
 */
export function mayTakeLong(source: string): boolean {
  let choices = 0
  /** Choices before each group that is open, so that those within are known when it is repeated. */
  const open: number[] = []
  let within = 0
  for (let i = 0; i < source.length; i++) {
    const c = source[i]
    within = 0
    if (c === '\\') i = escapeEnd(source, i)
    else if (c === '[') i = classEnd(source, i)
    else if (c === '(') {
      open.push(choices)
      if (source[i + 1] === '?') i = source.indexOf(source[i + 2] === '<' ? '>' : ':', i)
      continue
    } else if (c === '|') {
      // Which of several is chosen once where nothing is around it.
      if (open.length > 1) choices++
      continue
    } else if (c === ')') within = choices - (open.pop() ?? 0)
    const repeat = /^(?:[*+?]|\{(\d+)(,\d*)?\})\??/.exec(source.slice(i + 1, i + 24))
    if (repeat === null) continue
    if (within > 0) return true
    if (repeat[1] === undefined || repeat[2] !== undefined) choices++
    i += repeat[0].length
  }
  return choices > 1
}

function escapeEnd(source: string, at: number): number {
  return /^\\[upP]\{/.test(source.slice(at, at + 3)) ? source.indexOf('}', at) : at + 1
}

function classEnd(source: string, at: number): number {
  let i = at + 1
  while (source[i] !== ']') i += source[i] === '\\' ? 2 : 1
  return i
}
