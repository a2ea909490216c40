/**
 * Kills the real server at random moments, while points come in by every protocol, and checks after each restart that every acknowledged batch is there in full, no batch in
 * part, no point twice and every value right; that what was deleted stays deleted and what was not is untouched, that a request without an
 * answer is done in full or not at all, and that drops can be undone (deletions.ts).
 *
 *   node test/crash/kill-loop.ts [iterations] [seed]
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { Random } from '../../storage/conformance/random.ts'
import { Deletions } from './deletions.ts'
import { countBySql, Ledger } from './ledger.ts'
import { failure, ServerProcess } from './server.ts'
import { ALL_PROTOCOLS, TEXT_PROTOCOLS } from './workload.ts'
import type { WriterOptions } from './writer.ts'

const LONGEST_RUN_MS = 3000
/** Part of the kills that hit the server while it starts. */
const KILLED_WHILE_STARTING = 0.2
const WRITER = fileURLToPath(new URL('./writer.ts', import.meta.url))

/** So small that a few hundred batches flush and compact. */
export const SMALL = {
  wal_max_file_size: 131_072,
  memtable_flush_threshold: 131_072,
  maintenance_interval_secs: 1,
  compaction_fan_in: 2,
  deleted_rows_rewrite_secs: 0,
}
/** Iterations from one comparison of the deletes with SQL to the next. */
const SQL_EVERY = 5
/** Part of the starts after which drops cannot be undone. */
const FINAL_DROPS = 0.3

export interface KillLoopOptions {
  iterations: number
  seed: number
  engine?: string
  /** Compare with what SQL counts. */
  sql?: boolean
  /** The longest a start may take. */
  readyLimitMs?: number
  log?: (line: string) => void
}

export interface KillLoopReport {
  kills: number
  acknowledged: number
  points: number
  slowestReadyMs: number
  /** Data files after the last kill: that flushes did happen. */
  segments: number
  /** Deletes, drops, restores and so on that were acknowledged; absent for an engine that keeps nothing. */
  lives?: Record<string, number>
  /** Requests among them that the kill left without an answer: done after all, and not done. */
  doubtful: { done: number; undone: number }
  /** Merges before the kills, as far as they were asked for. */
  compactions: number
}

export async function killLoop({
  iterations,
  seed,
  engine = 'embedded',
  sql = engine === 'embedded',
  readyLimitMs = 60_000,
  log = () => {},
}: KillLoopOptions): Promise<KillLoopReport> {
  const random = new Random(seed)
  const folder = await mkdtemp(join(tmpdir(), 'svc-crash-'))
  const base = BigInt(Date.now()) * 1_000_000n
  const ledger = new Ledger(join(folder, 'ledger'), base)
  const report: KillLoopReport = { kills: 0, acknowledged: 0, points: 0, slowestReadyMs: 0, segments: 0, doubtful: { done: 0, undone: 0 }, compactions: 0 }
  const protocols = engine === 'embedded' ? ALL_PROTOCOLS : TEXT_PROTOCOLS
  const deletions = engine === 'embedded' ? new Deletions(join(folder, 'lives'), base, report.doubtful) : undefined
  let server: ServerProcess | undefined
  let finalDrops = false
  let iteration = 0

  const start = async () => {
    finalDrops = random.chance(FINAL_DROPS)
    const database = { ...SMALL, ...(finalDrops ? {} : { soft_delete_ttl_secs: 86_400 }) }
    server = await ServerProcess.spawn({ folder, engine, sql, allProtocols: engine === 'embedded', ...(engine === 'embedded' ? { database } : {}) })
    return server
  }
  const startReady = async () => {
    const started = await start()
    report.slowestReadyMs = Math.max(report.slowestReadyMs, await started.ready(readyLimitMs))
    return started
  }

  try {
    let checked = 0
    for (; iteration < iterations; iteration++) {
      if (random.chance(KILLED_WHILE_STARTING)) {
        const starting = await start()
        await setTimeout(random.below(800))
        await starting.end('SIGKILL')
        report.kills++
      }
      const running = await startReady()
      await ledger.compare(running.url, checked, protocols)
      await deletions?.check(running.url, sql && iteration % SQL_EVERY === 0)
      // Batches of the round before are read once more, after another kill.
      checked = ledger.next === 0 ? 0 : Math.max(0, Math.min(...ledger.unknown, ledger.next - 200))
      const retry = [...ledger.unknown].filter(() => random.chance(0.5))
      const options: WriterOptions = {
        url: running.url,
        ports: running.ports,
        protocols,
        ledger: join(folder, 'ledger'),
        base: String(base),
        retry,
        first: ledger.next,
        connections: 1 + random.below(4),
        pauseMs: random.below(8),
      }
      const writer = spawn(process.execPath, [WRITER, JSON.stringify(options)], { stdio: ['ignore', 'inherit', 'inherit'] })
      const deleter = deletions?.start({ url: running.url, seed: random.below(1 << 30), pauseMs: random.below(5), finalDrops })
      const finished = once(writer, 'exit')
      // Half of the runs are short: 1 ms, 55 ms and 3 s are equally far apart; the others last long enough to flush and compact.
      const runMs = random.chance(0.5) ? Math.round(LONGEST_RUN_MS ** random.next()) : 1 + random.below(LONGEST_RUN_MS)
      await Promise.race([begun(ledger), finished])
      await setTimeout(runMs)
      if (runMs > LONGEST_RUN_MS / 2) report.compactions += await counter(running.url, 'svc_compactions_total')
      await running.end('SIGKILL')
      report.kills++
      const [code] = (await finished) as [number]
      if (code !== 0) throw new Error(`the client has exited with ${code}`)
      await deleter
      await ledger.load()
      log(`iteration ${iteration}: killed after ${runMs} ms, ${ledger.acknowledged.size} batches acknowledged, ${ledger.unknown.size} unknown`)
    }
    // Once more over everything: after a kill, and after a clean stop.
    for (const round of ['kill', 'clean stop']) {
      const running = await startReady()
      report.points = await ledger.compare(running.url, 0, protocols)
      await deletions?.check(running.url, sql)
      if (sql) {
        const counted = await countBySql(running.url, protocols)
        if (counted !== report.points) throw new Error(`SQL counts ${counted} points, the native query ${report.points}, after a ${round}`)
      }
      // Before the clean stop, which flushes in any case.
      if (round === 'kill') report.segments = await filesIn(join(folder, 'data', 'segments'))
      const code = await running.end('SIGTERM')
      if (code !== 0) throw new Error(`the server has answered SIGTERM with exit code ${code}:\n${running.output}`)
    }
    report.acknowledged = ledger.acknowledged.size
    if (deletions !== undefined) report.lives = deletions.counts()
    await rm(folder, { recursive: true, force: true })
    return report
  } catch (error) {
    if (server?.running) await server.end('SIGKILL')
    throw failure(`seed ${seed}, iteration ${iteration}, data kept in ${folder}`, error, server)
  }
}

/** Value of a counter at /metrics, 0 without one. */
export async function counter(url: string, name: string): Promise<number> {
  const body = await (await fetch(`${url}/metrics`)).text()
  return Number(new RegExp(`^${name} (\\d+)`, 'm').exec(body)?.[1] ?? 0)
}

async function filesIn(folder: string): Promise<number> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true }).catch(() => [])
  return entries.filter((entry) => entry.isFile()).length
}

/** Resolves when the client has sent something new. */
export async function begun(ledger: Ledger): Promise<void> {
  const { next } = ledger
  for (let i = 0; i < 500 && ledger.next === next; i++) {
    await setTimeout(10)
    await ledger.load()
  }
}

if (import.meta.main) {
  const [iterations = '100', seed = String(Date.now() % 1_000_000)] = process.argv.slice(2)
  const log = (line: string) => void process.stdout.write(`${line}\n`)
  log(`seed ${seed}`)
  const report = await killLoop({ iterations: Number(iterations), seed: Number(seed), log })
  log(
    `${report.kills} kills, ${report.acknowledged} batches acknowledged, ${report.points} points in ${report.segments} segments, slowest start ${Math.round(report.slowestReadyMs)} ms`,
  )
  const lives = Object.entries(report.lives ?? {}).map(([kind, count]) => `${kind} ${count}`)
  log(`${lives.join(', ')}; in doubt: ${report.doubtful.done} done, ${report.doubtful.undone} not; ${report.compactions} merges`)
}
