/**
 * Takes backups of the real server under write load, restores each elsewhere and starts a server on it: every batch acknowledged before the
 * call is there in full, none is there in part, none that was refused. Some servers are killed while a backup is under way.
 *
 *   node test/crash/backup-loop.ts [iterations] [seed]
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { Random } from '../../storage/conformance/random.ts'
import { countBySql, Ledger, readBatches } from './ledger.ts'
import { failure, ServerProcess } from './server.ts'
import type { WriterOptions } from './writer.ts'

const WRITER = fileURLToPath(new URL('./writer.ts', import.meta.url))
const READY_LIMIT_MS = 60_000
const BACKUPS_PER_RUN = 2
/** Part of the runs that end with a kill during a backup. */
const KILLED = 0.5

/** So small that a few hundred batches flush and compact. */
const SMALL = { wal_max_file_size: 131_072, memtable_flush_threshold: 131_072, maintenance_interval_secs: 1, compaction_fan_in: 2 }

export interface BackupLoopReport {
  backups: number
  /** Servers killed while a backup was under way. */
  kills: number
  /** Backups that such a server had finished after all. */
  finished: number
  acknowledged: number
  /** Points of all backups together. */
  points: number
  slowestMs: number
}

export async function backupLoop({
  iterations,
  seed,
  log = () => {},
}: {
  iterations: number
  seed: number
  log?: (line: string) => void
}): Promise<BackupLoopReport> {
  const random = new Random(seed)
  const folder = await mkdtemp(join(tmpdir(), 'svc-backups-'))
  const base = BigInt(Date.now()) * 1_000_000n
  const ledger = new Ledger(join(folder, 'ledger'), base)
  const root = join(folder, 'data', 'backups')
  const report: BackupLoopReport = { backups: 0, kills: 0, finished: 0, acknowledged: 0, points: 0, slowestMs: 0 }
  let server: ServerProcess | undefined
  let iteration = 0

  const start = async (database: Record<string, string> = {}, at = folder) => {
    const started = await ServerProcess.spawn({ folder: at, engine: 'embedded', sql: true, plugins: ['backup'], database: { ...SMALL, ...database } })
    if (at === folder) server = started
    await started.ready(READY_LIMIT_MS)
    return started
  }
  /** Starts a server on a restored directory and compares; `acknowledged` must be there. */
  const check = async (name: string, acknowledged: ReadonlySet<number>) => {
    const at = join(folder, 'elsewhere')
    await mkdir(at, { recursive: true })
    const copy = await start({ data_dir: join(root, name) }, at)
    try {
      const { present, points } = await readBatches(copy.url, base, 0, ledger.next)
      for (const batch of acknowledged) if (!present.has(batch)) throw new Error(`batch ${batch}, acknowledged before the backup, is not in it`)
      for (const batch of ledger.none)
        if (present.has(batch)) throw new Error(`batch ${batch} is in the backup, though the server said that nothing of it is stored`)
      const counted = points === 0 ? 0 : await countBySql(copy.url)
      if (counted !== points) throw new Error(`SQL counts ${counted} points in the backup, the native query ${points}`)
      report.points += points
    } finally {
      await copy.end('SIGTERM')
    }
    await rm(join(root, name), { recursive: true })
  }

  try {
    for (; iteration < iterations; iteration++) {
      const running = await start()
      const options: WriterOptions = {
        url: running.url,
        ledger: join(folder, 'ledger'),
        base: String(base),
        retry: [...ledger.unknown],
        first: ledger.next,
        connections: 1 + random.below(4),
        pauseMs: random.below(5),
      }
      const writer = spawn(process.execPath, [WRITER, JSON.stringify(options)], { stdio: ['ignore', 'inherit', 'inherit'] })
      const finished = once(writer, 'exit')
      for (let n = 0; n < BACKUPS_PER_RUN; n++) {
        await setTimeout(500 + random.below(700))
        await ledger.load()
        const acknowledged = new Set(ledger.acknowledged)
        const began = performance.now()
        // The same directory each time, so that an older backup, whole or not, is replaced.
        await ask(running, 'backup', { target_dir: 'b' })
        report.slowestMs = Math.max(report.slowestMs, performance.now() - began)
        await ask(running, 'restore', { backup_dir: 'b', target_dir: 'restored' })
        await ledger.load()
        await check('restored', acknowledged)
        report.backups++
        log(`iteration ${iteration}: ${acknowledged.size} batches acknowledged before the backup are in it`)
      }
      await ledger.load()
      const acknowledged = new Set(ledger.acknowledged)
      if (random.chance(KILLED)) {
        const cut = ask(running, 'backup', { target_dir: 'cut' }).catch(() => {})
        await setTimeout(random.below(150))
        await running.end('SIGKILL')
        await cut
        report.kills++
      } else await running.end('SIGTERM')
      const [code] = (await finished) as [number]
      if (code !== 0) throw new Error(`the client has exited with ${code}`)
      await ledger.load()
      const again = await start()
      // Cut off, a backup is either refused or whole.
      const found = await post(again, 'restore', { backup_dir: 'cut', target_dir: 'restored' })
      if (found.status !== 200 && !/no such directory|never finished/.test(found.body))
        throw new Error(`a backup that a kill cut off answers ${found.status}: ${found.body}`)
      if (found.status === 200) {
        report.finished++
        await check('restored', acknowledged)
      }
      await ask(again, 'backup', { target_dir: 'cut' })
      await again.end('SIGTERM')
      await rm(join(root, 'cut'), { recursive: true })
    }
    report.acknowledged = ledger.acknowledged.size
    await rm(folder, { recursive: true, force: true })
    return report
  } catch (error) {
    if (server?.running) await server.end('SIGKILL')
    throw failure(`seed ${seed}, iteration ${iteration}, data kept in ${folder}`, error, server)
  }
}

async function post(server: ServerProcess, route: string, body: object): Promise<{ status: number; body: string }> {
  const answer = await fetch(`${server.url}/api/v1/admin/${route}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  })
  return { status: answer.status, body: await answer.text() }
}

async function ask(server: ServerProcess, route: string, body: object): Promise<void> {
  const answer = await post(server, route, body)
  if (answer.status !== 200) throw new Error(`${route} ${JSON.stringify(body)} answers ${answer.status}: ${answer.body}`)
}

if (import.meta.main) {
  const [iterations = '20', seed = String(Date.now() % 1_000_000)] = process.argv.slice(2)
  const log = (line: string) => void process.stdout.write(`${line}\n`)
  log(`seed ${seed}`)
  const report = await backupLoop({ iterations: Number(iterations), seed: Number(seed), log })
  log(
    `${report.backups} backups with ${report.points} points, ${report.kills} servers killed during one (${report.finished} had finished), ${report.acknowledged} batches acknowledged, slowest backup ${Math.round(report.slowestMs)} ms`,
  )
}
