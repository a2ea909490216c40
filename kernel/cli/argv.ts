/** Words and flags of a command line, and what a command may use of the process. */
import { parseArgs } from 'node:util'
import { OVERRIDES } from '../config/schema.ts'
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

export interface Words {
  words: string[]
  /** By name without dashes; a switch that was given is `true`. */
  flags: Record<string, string | undefined>
}

/** Flags of the kernel's own commands that take a value. */
export const VALUED = ['config', ...OVERRIDES.flatMap(({ flag }) => flag ?? [])]
const SHORT: Record<string, string> = { config: 'c', version: 'v', help: 'h' }

/** The command: the first word that is no flag and no flag's value. What takes values beside the kernel's flags is known from it only. */
export function commandOf(argv: readonly string[]): string {
  const takesValue = (arg: string | undefined) => arg === '-c' || VALUED.some((flag) => arg === `--${flag}`)
  return argv.find((arg, i) => !arg.startsWith('-') && !takesValue(argv[i - 1])) ?? 'serve'
}

/** @param valued flags that take a value. @param switches flags that do not. @throws Error in one line, with the nearest flag. */
export function parseWords(argv: readonly string[], valued: readonly string[], switches: readonly string[]): Words {
  const known = [...valued, ...switches]
  for (const arg of argv) {
    const name = /^--([^=]+)/.exec(arg)?.[1]
    if (name !== undefined && !known.includes(name))
      throw new Error(`cannot use flag "--${name}": there is no such flag; ${didYouMean(name, known, 'svc help lists them')}`)
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
