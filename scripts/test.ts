/**
 * Runs the tests: each file in a process of its own, as many at once as there are processors and one more, the long ones first.
 *
 *   node scripts/test.ts [part of a path ...] [--slow [--turn n] | --all] [--jobs n] [--again]
 *
 * Without a part of a path the slow ones (slow-tests.ts) are left out; --slow runs those only, with --turn what CI has of them: some always, and of the others
 * the part that the number says, so that those that follow each other have all. With --again files that failed, two of them at most, are run once more in
 * the end, each by itself and with the seeds that it printed: one that passes then failed for want of time or memory, and is listed as unsteady.
 * The files are written with tap and print TAP. They are run by plain node and not by tap's own runner, which loads module hooks into each process and
 * each of its threads: a file that starts engine threads takes more than twice the processor time under them. What a file prints is shown when it fails;
 * the last line counts assertions as tap does.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { globSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { EACH, IN_TURN, TURNS } from './slow-tests.ts'

const ROOT = join(import.meta.dirname, '..')
const TIMEOUT_MS = 600_000
const CACHE = { NODE_COMPILE_CACHE: join(ROOT, 'node_modules/.cache/svc-test') }
/** Fewer files strip their types themselves. */
const MANY = 20
/** More than that is a fault of the change, not of the machine. */
const MAX_AGAIN = 2
/** Of a file's output, from its end. */
const MAX_OUTPUT = 8 << 20
/** Those with packages of their own, run by their own commands. */
const APART = /(^|\/)node_modules\/|^test\/interop\/|^examples\//
/** Begun first, so that none of them is what everybody waits for in the end. */
const LONG = [
  'storage/embedded/conformance-crash.test.ts',
  'storage/embedded/conformance-lives.test.ts',
  'storage/embedded/conformance.test.ts',
  'test/crash/crash.test.ts',
  'test/crash/power-cut.test.ts',
  'test/crash/full-disk.test.ts',
  'test/crash/bit-flips.test.ts',
  'test/compat/compat.test.ts',
  'storage/embedded/archive/',
  'storage/embedded/backup/',
  'storage/embedded/retention/',
  'test/',
]

const { values, positionals } = parseArgs({
  options: {
    jobs: { type: 'string', short: 'j' },
    slow: { type: 'boolean', default: false },
    turn: { type: 'string' },
    all: { type: 'boolean', default: false },
    again: { type: 'boolean', default: false },
  },
  allowPositionals: true,
})
const jobs = Number(values.jobs ?? availableParallelism() + 1)
if (!Number.isInteger(jobs) || jobs < 1) fail(`cannot run ${values.jobs} files at once: give a whole number from 1`)
const rank = (file: string): number => {
  const found = LONG.findIndex((name) => file.startsWith(name))
  return found === -1 ? LONG.length : found
}
const turn = values.turn === undefined ? undefined : Number(values.turn)
if (turn !== undefined && !(Number.isSafeInteger(turn) && turn >= 0)) fail(`cannot run turn "${values.turn}": it is a whole number from 0`)
const isIn = (names: readonly string[], file: string): boolean => names.some((name) => file.startsWith(name))
const chosen = (file: string): boolean => {
  if (positionals.length > 0) return positionals.some((part) => file.includes(part))
  return values.all || (isIn(EACH, file) || isIn(IN_TURN, file)) === values.slow
}
const found = globSync('**/*.test.ts', { cwd: ROOT, exclude: (name) => name === 'node_modules' }).filter((file) => !APART.test(file) && chosen(file))
const files = (turn === undefined ? found : ofTurn(found, turn)).sort((a, b) => rank(a) - rank(b) || (a < b ? -1 : 1))
if (files.length === 0) fail(`cannot find tests: no file *.test.ts has ${positionals.map((part) => `"${part}"`).join(' or ')} in its path`)

interface Outcome {
  ok: boolean
  counts: Counts
  text: string
}

type Counts = Record<'total' | 'pass' | 'fail' | 'skip' | 'todo', number>

/** Files beside each other have different turns: those of a folder take about as long. */
function ofTurn(slow: readonly string[], number: number): string[] {
  const others = slow.filter((file) => !isIn(EACH, file)).sort()
  return slow.filter((file) => isIn(EACH, file) || others.indexOf(file) % TURNS === number % TURNS)
}

const running = new Set<ChildProcess>()
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.once(signal, () => {
    for (const child of running) killGroup(child)
    process.exit(1)
  })
}

const began = performance.now()
const total: Counts = { total: 0, pass: 0, fail: 0, skip: 0, todo: 0 }
let failed: string[] = []
const failures = new Map<string, Outcome>()
let done = 0
process.stdout.write('TAP version 14\n')
const queue = [...files]
if (files.length >= MANY) stripTypes()
await Promise.all(Array.from({ length: jobs }, work))
if (values.again && failed.length <= MAX_AGAIN) await runAgain()
process.stdout.write(`1..${files.length}\n`)
if (failed.length > 0) process.stdout.write(`# failed: ${failed.join(' ')}\n`)
const counted = Object.entries(total).filter(([name, count]) => count > 0 || name === 'pass')
process.stdout.write(`# { ${counted.map(([name, count]) => `${name}: ${count}`).join(', ')} }\n# time=${Math.round(performance.now() - began)}ms\n`)
process.exitCode = failed.length === 0 ? 0 : 1

async function work(): Promise<void> {
  for (let file = queue.shift(); file !== undefined; file = queue.shift()) {
    const since = performance.now()
    const { ok, counts, text } = await run(file)
    add(counts, 1)
    if (!ok) {
      failed.push(file)
      failures.set(file, { ok, counts, text })
    }
    const shown = ok ? skipped(text) : text
    process.stdout.write(`${shown}${ok ? 'ok' : 'not ok'} ${++done} - ${file} # time=${Math.round(performance.now() - since)}ms\n`)
  }
}

/** Takes those out of `failed` that pass by themselves, and lists them. */
async function runAgain(): Promise<void> {
  const still: string[] = []
  for (const file of failed) {
    const first = failures.get(file) as Outcome
    const second = await run(file, seedsIn(first.text))
    process.stdout.write(second.ok ? `# unsteady: ${file} failed among others and passed by itself\n` : `# again by itself: ${second.text}`)
    if (!second.ok) {
      still.push(file)
      continue
    }
    add(first.counts, -1)
    add(second.counts, 1)
  }
  failed = still
}

function add(counts: Counts, sign: 1 | -1): void {
  for (const name of Object.keys(total) as (keyof Counts)[]) total[name] += sign * counts[name]
}

/** So that the second run of a random test is the one that failed. Where it printed several, the last: that of the failure. */
function seedsIn(text: string): Record<string, string> {
  const named = [...text.matchAll(/\b((?:SVC_)?(?:[A-Z]+_)?SEED)=(\d+)/g)].map(([, name, seed]) => [name, seed])
  const said = [...text.matchAll(/\(seed (\d+)\)/g)].map(([, seed]) => ['SVC_SEED', seed])
  return Object.fromEntries([...said, ...named])
}

function run(file: string, seeds: Record<string, string> = {}): Promise<Outcome> {
  const env = { ...process.env, ...seeds, TAP_TIMEOUT: String(TIMEOUT_MS / 1000), ...CACHE }
  // A process group, so that servers which a test started end with it.
  const child = spawn(process.execPath, [file], { cwd: ROOT, env, stdio: ['ignore', 'pipe', 'pipe'], detached: true })
  running.add(child)
  let text = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (data: Buffer) => {
      text = (text + data.toString()).slice(-MAX_OUTPUT)
    })
  }
  let late = false
  const timer = setTimeout(() => {
    late = true
    killGroup(child)
  }, TIMEOUT_MS)
  return new Promise((resolve) => {
    child.once('close', (code, signal) => {
      clearTimeout(timer)
      running.delete(child)
      const counts = countsOf(text)
      // A file that ends before its first test has passed nothing.
      const ok = code === 0 && counts.total > 0 && counts.fail === 0
      if (!ok && counts.fail === 0) counts.fail = 1
      const why = late ? `# took longer than ${TIMEOUT_MS / 1000} s\n` : code === 0 ? '# has no test\n' : `# exit code ${code ?? signal}\n`
      resolve({ ok, counts, text: ok ? text : `# ${file}\n${text.replace(/\n?$/, '\n')}${why}` })
    })
  })
}

/** Beside the first files, which are the long ones: whatever it has not done when a file begins, that file does for itself. */
function stripTypes(): void {
  const child = spawn(process.execPath, [join(import.meta.dirname, 'strip-tests.ts'), ...files], {
    cwd: ROOT,
    env: { ...process.env, ...CACHE },
    stdio: 'ignore',
    detached: true,
  })
  running.add(child)
  child.once('close', () => running.delete(child))
}

/** Of tap's last line, such as "# { total: 9, pass: 7, fail: 1, skip: 1 }". */
function countsOf(text: string): Counts {
  const line = [...text.matchAll(/^# \{ (total: \d+.*) \}$/gm)].at(-1)?.[1] ?? ''
  const of = (name: string): number => Number(new RegExp(`\\b${name}: (\\d+)`).exec(line)?.[1] ?? 0)
  return { total: of('total'), pass: of('pass'), fail: of('fail'), skip: of('skip'), todo: of('todo') }
}

/** What was not tried, with its reason. */
function skipped(text: string): string {
  return [...text.matchAll(/^ *ok .*# SKIP.*\n/gm)].join('')
}

function killGroup(child: ChildProcess): void {
  try {
    process.kill(-(child.pid as number), 'SIGKILL')
  } catch {
    // it has ended
  }
}

function fail(message: string): never {
  process.stderr.write(`${message}\n`)
  process.exit(2)
}
