/**
 * What a start costs: processor and wall time until the log says "ready" and the port answers, memory once nothing runs any more, and what `svc --version` costs.
 * Starts take turns, so that a busy machine is as unfair to all of them; of each the quickest counts, and the middle beside it.
 *
 *   node kernel/cli/start.bench.ts [starts] [main.ts ...]      default: this repository's sources, and dist/ where it is built
 */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

const ROOT = join(import.meta.dirname, '../..')
const CONFIGS = ['ingest-only', 'full'] as const
/** Nothing runs any more when so little processor time was used in so long. */
const QUIET = { ms: 1000, cpuMs: 15, tries: 30 }

interface Start {
  /** Milliseconds. */
  readyWall: number
  readyCpu: number
  /** All until nothing runs any more: what is done after `ready`. */
  idleCpu: number
  /** MiB. */
  rss: number
  anonymous: number
  threads: number
}

/** Of all threads, in milliseconds. Those that have ended are counted by the process alone, in ticks. */
function cpuMs(pid: number): number {
  let total = 0
  for (const id of readdirSync(`/proc/${pid}/task`)) {
    try {
      total += Number(readFileSync(`/proc/${pid}/task/${id}/schedstat`, 'utf8').split(' ')[0]) / 1e6
    } catch {
      // It has just ended.
    }
  }
  return total
}

function statusOf(pid: number, field: string): number {
  return Number(new RegExp(`^${field}:\\s+(\\d+)`, 'm').exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1])
}

async function idle(pid: number): Promise<void> {
  let before = cpuMs(pid)
  for (let i = 0; i < QUIET.tries; i++) {
    await sleep(QUIET.ms)
    const now = cpuMs(pid)
    if (now - before < QUIET.cpuMs) return
    before = now
  }
}

function serve(main: string, config: string, dataDir: string): ChildProcess {
  const env = { ...process.env, SVC_BIND: '127.0.0.1:0', SVC_GRPC_BIND: '127.0.0.1:0', SVC_FLIGHT_BIND: '127.0.0.1:0', SVC_DATA_DIR: dataDir }
  const args = [main, 'serve', '--config', join(ROOT, 'examples', config, 'svc.toml')]
  return spawn(process.execPath, args, { env, stdio: ['ignore', 'ignore', 'pipe'] })
}

/** What its log says; all of the log is read, so that it is never held up. */
function readyUrl({ stderr }: ChildProcess): Promise<string> {
  let output = ''
  return new Promise((resolve, reject) => {
    stderr?.on('data', (chunk) => {
      output += chunk
      const url = /ready url=(\S+)/.exec(output)?.[1]
      if (url !== undefined) resolve(url)
    })
    stderr?.on('end', () => reject(new Error(`the server ended:\n${output}`)))
  })
}

async function start(main: string, config: string): Promise<Start> {
  const dataDir = mkdtempSync(join(tmpdir(), 'svc-start-'))
  const began = performance.now()
  const child = serve(main, config, dataDir)
  const exited = once(child, 'exit')
  const pid = child.pid as number
  try {
    const url = await readyUrl(child)
    const readyWall = performance.now() - began
    const readyCpu = cpuMs(pid)
    if (!(await fetch(`${url}/ready`)).ok) throw new Error(`${main} says that it is ready, and is not`)
    await idle(pid)
    const threads = readdirSync(`/proc/${pid}/task`).length
    return { readyWall, readyCpu, idleCpu: cpuMs(pid), rss: statusOf(pid, 'VmRSS') / 1024, anonymous: statusOf(pid, 'RssAnon') / 1024, threads }
  } finally {
    child.kill('SIGTERM')
    await exited
    rmSync(dataDir, { recursive: true, force: true })
  }
}

function command(main: string, ...args: string[]): number {
  const began = performance.now()
  execFileSync(process.execPath, [main, ...args], { stdio: 'ignore' })
  return performance.now() - began
}

const best = (values: readonly number[]): string => {
  const sorted = values.toSorted((a, b) => a - b)
  return `${Math.round(sorted[0])}/${Math.round(sorted[sorted.length >> 1])}`.padStart(10)
}

if (process.platform !== 'linux') {
  process.stderr.write('cannot measure a start: it reads /proc, which only Linux has\n')
  process.exit(1)
}
const [count = '5', ...given] = process.argv.slice(2)
const mains = (given.length > 0 ? given : ['kernel/main.ts', 'dist/kernel/main.js'].map((file) => join(ROOT, file)).filter(existsSync)).map((file) =>
  resolve(file),
)
const starts = new Map<string, Start[]>()
const versions = new Map<string, number[]>()
// The first start of each compiles, and fills the cache of compiled code: it is shown by itself.
for (let i = 0; i <= Number(count); i++) {
  for (const main of mains) {
    for (const config of CONFIGS) {
      const key = `${config.padEnd(12)} ${main}`
      const one = await start(main, config)
      if (i === 0) process.stdout.write(`first: ${key}: ${Math.round(one.readyCpu)} ms of processor\n`)
      else starts.set(key, [...(starts.get(key) ?? []), one])
    }
    if (i > 0) versions.set(main, [...(versions.get(main) ?? []), command(main, '--version')])
  }
}
process.stdout.write('\nbest/median of:  ready CPU | ready wall |  idle CPU (ms) | RSS | anonymous (MiB) | threads\n')
for (const [key, of] of starts) {
  const columns = (['readyCpu', 'readyWall', 'idleCpu', 'rss', 'anonymous', 'threads'] as const).map((name) => best(of.map((one) => one[name])))
  process.stdout.write(`${columns.join(' ')}  ${key}\n`)
}
for (const [main, of] of versions) process.stdout.write(`${best(of)} ms wall  svc --version  ${main}\n`)
