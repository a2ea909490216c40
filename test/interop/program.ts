/** Client programs in other languages. Each prints `ok <what>` or `not ok <what>\t<reason>` for what it checked, and at last `end <how many>`. */
import assert from 'node:assert/strict'
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import type { TestContext } from 'node:test'

const CACHE = process.env.SVC_INTEROP_CACHE ?? ''
const LIMIT_MS = 300_000

/** A file of the folder of clients. */
export const client = (name: string): string => join(import.meta.dirname, 'clients', name)
/** A file of what `run` installed. */
export const cached = (name: string): string => join(CACHE, name)
export const PYTHON = cached('python/bin/python')

/** Why tests that need a file of the cache are skipped; false when it is there. */
export const lacking = (what: string, ...names: string[]): string | false => (names.every((name) => existsSync(cached(name))) ? false : `there is no ${what}`)
/** The same for the Python packages that `run` installs together under these names. */
export const lackingPython = (...names: string[]): string | false =>
  lacking(`Python with ${names.join(', ')}`, ...names.map((name) => `python/${name}.installed`))

// A runtime without the compiler cannot run a source file.
export const hasCompiler = (): boolean => spawnSync('java', ['--list-modules'], { encoding: 'utf8' }).stdout?.includes('jdk.compiler') === true

export interface Ended {
  code: number | null
  stdout: string
  stderr: string
}

/** Runs a program to its end. */
export async function execute(program: string, args: string[], env: Record<string, string> = {}): Promise<Ended> {
  const child = spawn(program, args, { env: { ...process.env, ...env }, stdio: ['ignore', 'pipe', 'pipe'], timeout: LIMIT_MS })
  let stdout = ''
  let stderr = ''
  child.stdout.setEncoding('utf8').on('data', (text) => (stdout += text))
  child.stderr.setEncoding('utf8').on('data', (text) => (stderr += text))
  const [code] = (await once(child, 'close')) as [number | null]
  return { code, stdout, stderr }
}

/** Runs a client program and makes each line that it prints a test. */
export async function runChecks(t: TestContext, program: string, args: string[], env: Record<string, string> = {}): Promise<void> {
  const { code, stdout, stderr } = await execute(program, args, env)
  const lines = stdout.split('\n').filter((line) => /^(not )?ok /.test(line))
  for (const line of lines) {
    const [result = '', reason] = line.split('\t')
    await t.test(result.replace(/^(not )?ok /, ''), () => {
      assert.ok(result.startsWith('ok '), reason === undefined ? stderr : JSON.parse(reason))
    })
  }
  assert.match(stdout, new RegExp(`^end ${lines.length}$`, 'm'), `the program ended early (${code}):\n${stdout}\n${stderr}`)
  assert.ok(lines.length > 0, 'it checked something')
}
