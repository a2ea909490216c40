/** Words and flags of a command line, and what a command may use of the process. */
import { parseArgs } from 'node:util'
import { didYouMean } from '../lib/text/index.ts'

export interface Io {
  env: Record<string, string | undefined>
  out(text: string): void
  err(text: string): void
  /** Resolves at the first signal to stop. */
  stopSignal: Promise<string>
  /** Ends the process at once. An exit would wait for its threads. */
  kill?(): void
}

/** A command line, read. */
export interface Words {
  words: string[]
  /** By name without dashes; a switch that was given is `true`. */
  flags: Record<string, string | undefined>
}

const SHORT: Record<string, string> = { config: 'c', version: 'v', help: 'h' }
export const SWITCHES: readonly string[] = ['version', 'help']

/** Words that are no flag and no flag's value: the command and what follows it. */
export function wordsOf(argv: readonly string[], valued: readonly string[]): string[] {
  const takesValue = (arg: string | undefined) => arg === '-c' || valued.some((flag) => arg === `--${flag}`)
  return argv.filter((arg, i) => !arg.startsWith('-') && !takesValue(argv[i - 1]))
}

/** The config file that is named, looked for before it is known which flags there are. */
export function configPathOf(argv: readonly string[]): string | undefined {
  const at = argv.findIndex((arg) => /^(--config(=|$)|-c)/.test(arg))
  return at < 0 ? undefined : (/^(?:--config=|-c=?)(.+)$/s.exec(argv[at])?.[1] ?? argv[at + 1])
}

/** Names of the long flags that are given. */
export function flagsIn(argv: readonly string[]): string[] {
  return argv.flatMap((arg) => /^--([^=]+)/.exec(arg)?.[1] ?? [])
}

/** @param valued flags that take a value. @param switches flags that do not. @throws Error in one line, with the nearest flag. */
export function parseWords(argv: readonly string[], valued: readonly string[], switches: readonly string[]): Words {
  const known = [...valued, ...switches]
  for (const name of flagsIn(argv)) {
    if (known.includes(name)) continue
    const flags = known.map((flag) => `--${flag}`)
    throw new Error(`cannot use flag "--${name}": there is no such flag; ${didYouMean(`--${name}`, flags, 'svc help lists them')}`)
  }
  const option = (name: string, type: 'string' | 'boolean') => [name, { type, ...(name in SHORT ? { short: SHORT[name] } : {}) }] as const
  const options = Object.fromEntries([...valued.map((name) => option(name, 'string')), ...switches.map((name) => option(name, 'boolean'))])
  const { values, positionals } = parsed(() => parseArgs({ args: [...argv], options, allowPositionals: true }))
  return {
    words: positionals,
    flags: Object.fromEntries(Object.entries(values).map(([name, value]) => [name, value === undefined ? undefined : String(value)])),
  }
}

function parsed<T>(parse: () => T): T {
  try {
    return parse()
  } catch (error) {
    // The first sentence says what is wrong; what follows is about programs in general.
    const [text] = (error as Error).message.split(/\.?\n|\. /, 1)
    throw new Error(`cannot read the flags: ${text}; svc help lists them`)
  }
}
