/**
 * A process that takes little memory. V8, malloc and libuv are told how much they may keep at the start of a process only, and a node is started in many ways: so one that
 * is to be small replaces itself by the same program with other settings, before it loads anything else. It has the same process id, files and signals.
 * Figures: docs/decisions/086-a-small-process.md.
 */
import { readFileSync } from 'node:fs'
import { flushCompileCache } from 'node:module'
import { setFlagsFromString } from 'node:v8'
import { parse } from 'smol-toml'
import { configPathOf } from './argv.ts'

/** Of Node.js and V8, in the order in which they are given. */
const OPTIONS = [
  // The young generation grows to 16 MiB and more where there is room.
  '--max-semi-space-size=1',
  // Each thread that compiles or collects has memory of its own.
  '--single-threaded',
  // The second optimizing compiler is some MiB of program, for code that is seldom the bottleneck of 10,000 points/s.
  '--no-turbofan',
  // A copy of V8's own functions, so that calls of them are shorter.
  '--no-short-builtin-calls',
]
const VARIABLES = {
  // Of malloc: one place for all threads, where each has its own otherwise.
  MALLOC_ARENA_MAX: '1',
  // What is free at the end of it goes back, also after large buffers were freed.
  MALLOC_TRIM_THRESHOLD_: '131072',
  // Files and compression of one queue keep no more threads busy.
  UV_THREADPOOL_SIZE: '4',
}

/** How a process was started. */
export interface Start {
  /** Of Node.js, before the program's. */
  options: readonly string[]
  env: Readonly<Record<string, string | undefined>>
}

/** @param footprint of [server]. @param engine of [database]. */
export function wantsSmall(footprint: unknown = 'auto', engine: unknown = undefined): boolean {
  return footprint === 'small' || (footprint === 'auto' && engine === 'forward')
}

/** Whether the command line runs a node that is to be small; a file that cannot be read is for others to complain about. */
export function isSmall(argv: readonly string[], env: Start['env']): boolean {
  const [command = 'serve'] = argv
  if (command !== 'serve' && !command.startsWith('-')) return false
  const path = configPathOf(argv) ?? env.SVC_CONFIG
  if (path === undefined) return false
  try {
    const { server, database } = parse(readFileSync(path, 'utf8')) as { server?: { footprint?: unknown }; database?: { engine?: unknown } }
    return wantsSmall(server?.footprint, database?.engine)
  } catch {
    return false
  }
}

/** How it is to be started to be small; what somebody has set stays as it is. @returns undefined when it was started so. */
export function smallStart({ options, env }: Start): Start | undefined {
  const nameOf = (option: string): string =>
    option
      .replace(/=.*$/s, '')
      .replaceAll('_', '-')
      .replace(/^--no-?/, '--')
  const known = new Set([...options, ...(env.NODE_OPTIONS ?? '').split(/\s+/)].map(nameOf))
  const lacking = OPTIONS.filter((option) => !known.has(nameOf(option)))
  const variables = Object.entries(VARIABLES).filter(([name]) => env[name] === undefined)
  if (lacking.length === 0 && variables.length === 0) return undefined
  return { options: [...options, ...lacking], env: { ...env, ...Object.fromEntries(variables) } }
}

/** Does not return where the process is replaced. @param env as it was given to the process. */
export function becomeSmall(argv: readonly string[], env: Start['env']): void {
  // Not everywhere, and never where the parent talks to this process: its channel does not outlive it.
  if (process.execve === undefined || process.channel !== undefined || !isSmall(argv, env)) return
  const start = smallStart({ options: process.execArgv, env })
  if (start === undefined) return
  flushCompileCache()
  try {
    process.execve(process.execPath, [process.execPath, ...start.options, ...process.argv.slice(1)], start.env as NodeJS.ProcessEnv)
  } catch {
    // Not permitted here: it goes on as it is.
  }
}

/** From here on the heap may be a tenth larger than what was alive at its last collection; otherwise half as large again. Before, a start would be mostly collections. */
export function collectOften(): void {
  setFlagsFromString('--optimize-for-size')
  setFlagsFromString('--heap-growing-percent=10')
}
