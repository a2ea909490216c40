/**
 * Cuts the power of the real server at random moments: its data lies on a disk that forgets what was not synced (power-disk.ts, mounted by
 * power-mount.ts). While points come in by every listener, others are deleted, dropped and restored, and backups are taken. After each cut the server must
 * start, every acknowledged batch must be there in full, none in part, what was deleted stays deleted, and a backup that was acknowledged
 * restores, also when the cut hit another one that was to take its place, or comes right after the restore.
 *
 * Under `wal_fsync_policy = "periodic_<ms>"` it must start as well; a cut may cost the newest batches, but none that was acknowledged two syncs of
 * the log ago, and never one with later ones left.
 *
 *   node test/crash/power-cut.ts [cuts] [seed] [policy]
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { cp, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { Random } from '../../storage/conformance/random.ts'
import { Deletions } from './deletions.ts'
import type { Sync } from './fuse.ts'
import { begun, counter, SMALL } from './kill-loop.ts'
import { countBySql, Ledger, readBatches } from './ledger.ts'
import { PowerMount } from './power-mount.ts'
import { failure, ServerProcess } from './server.ts'
import { mayMount } from './small-disk.ts'
import { ALL_PROTOCOLS } from './workload.ts'
import type { WriterOptions } from './writer.ts'

const WRITER = fileURLToPath(new URL('./writer.ts', import.meta.url))
/** For a start, and for a stop; every call to the disk is one to another process, which a busy machine lets wait. */
const LIMIT_MS = 240_000
const LONGEST_RUN_MS = 2000
/** Part of the cuts that hit the server while it starts. */
const WHILE_STARTING = 0.2
/** A start changes the disk about so many times. */
const CHANGES_OF_START = 60
const CHANGES_OF_RUN = 40
/** Of a server that changes nothing any more. */
const IDLE_MS = 1000
const WITH_BACKUP = 0.3
/** Part of these whose answer comes before the cut at any rate. */
const FINISHED_BACKUP = 0.6
/** Part of the backups that take the place of the one before, and of the restores after which the power is cut. */
const REPLACING_BACKUP = 0.6
const CUT_RESTORE = 0.5
const SQL_EVERY = 5
/** Part of the starts after which drops cannot be undone. */
const FINAL_DROPS = 0.3
/** In turn: what is acknowledged is durable, and what is acknowledged will be soon. */
export const POLICIES = ['per_batch', 'periodic_100'] as const
export type Policy = (typeof POLICIES)[number]

export interface PowerCutOptions {
  cuts: number
  seed: number
  policy: Policy
  /** Syncs that do nothing: the checks must notice. */
  broken?: Sync[]
  log?: (line: string) => void
}

export interface PowerCutReport {
  cuts: number
  acknowledged: number
  points: number
  /** Acknowledged batches that cuts have cost, under a periodic policy. */
  lost: number
  /** Backups acknowledged before a cut, and restored after it. */
  backups: number
  slowestReadyMs: number
  /** Operations of the deleting client; absent under a periodic policy. */
  lives?: Record<string, number>
}

/** @throws Error naming seed, cut and what is wrong. */
export async function powerCuts(options: PowerCutOptions): Promise<PowerCutReport> {
  const folder = await mkdtemp(join(tmpdir(), 'svc-power-'))
  const loop = new Loop(folder, await PowerMount.mount(join(folder, 'disk'), options.broken), options)
  try {
    const report = await loop.run()
    await loop.close()
    await rm(folder, { recursive: true, force: true })
    return report
  } catch (error) {
    const kept = join(folder, 'kept')
    if (options.broken === undefined) await loop.keep(kept)
    await loop.close()
    if (options.broken !== undefined) await rm(folder, { recursive: true, force: true })
    throw options.broken !== undefined ? error : new Error(`${(error as Error).message}\nthe data is kept in ${kept}`, { cause: error })
  }
}

class Loop {
  private readonly folder: string
  private readonly mount: PowerMount
  private readonly options: PowerCutOptions
  private readonly random: Random
  private readonly base = BigInt(Date.now()) * 1_000_000n
  private readonly ledger: Ledger
  private readonly deletions: Deletions | undefined
  private readonly report: PowerCutReport = { cuts: 0, acknowledged: 0, points: 0, lost: 0, backups: 0, slowestReadyMs: 0 }
  private server: ServerProcess | undefined
  private finalDrops = false
  /** The first batch of the run before: those from here on are compared after the next cut. */
  private checked = 0
  /** The directory of the newest backup, and what must be in it: what was acknowledged before it, or before the one whose place it was to take. */
  private backup: { name: string; acknowledged?: ReadonlySet<number> } | undefined
  /** Under a periodic policy: the batches of the last run, and those of them that the cut may not have cost. */
  private inDoubt: { first: number; durable: ReadonlySet<number> } | undefined

  constructor(folder: string, mount: PowerMount, options: PowerCutOptions) {
    this.folder = folder
    this.mount = mount
    this.options = options
    this.random = new Random(options.seed)
    this.ledger = new Ledger(join(folder, 'ledger'), this.base)
    if (!this.periodic) this.deletions = new Deletions(join(folder, 'lives'), this.base, { done: 0, undone: 0 })
  }

  async run(): Promise<PowerCutReport> {
    const { options, report, random } = this
    let cut = 0
    try {
      for (; cut < options.cuts; cut++) {
        if (random.chance(WHILE_STARTING)) {
          const starting = await this.start()
          await this.cutPower(starting, random.below(CHANGES_OF_START), IDLE_MS)
        }
        const running = await this.startReady()
        await this.forgive(running.url)
        const found = await this.compare(running.url, this.checked)
        await this.deletions?.check(running.url, cut % SQL_EVERY === 0)
        this.checked = Math.max(0, this.ledger.next - 200)
        const runMs = await this.work(running)
        options.log?.(`cut ${cut}: after ${runMs} ms; ${found} points found before, ${this.ledger.acknowledged.size} batches acknowledged, ${report.lost} lost`)
      }
      // Once more over everything: after the last cut, and after one that follows a clean stop.
      for (let round = 0; round < 2; round++) {
        const running = await this.startReady()
        await this.forgive(running.url)
        report.points = await this.compare(running.url, 0)
        await this.deletions?.check(running.url, true)
        const counted = await countBySql(running.url, ALL_PROTOCOLS)
        if (counted !== report.points) throw new Error(`SQL counts ${counted} points, the native query ${report.points}`)
        const code = await running.end('SIGTERM', LIMIT_MS)
        if (code !== 0) throw new Error(`the server has answered SIGTERM with exit code ${code}:\n${running.output}`)
        await this.mount.cut(random.below(1 << 30))
      }
      report.acknowledged = this.ledger.acknowledged.size
      if (this.deletions !== undefined) report.lives = this.deletions.counts()
      return report
    } catch (error) {
      throw failure(`seed ${options.seed}, policy ${options.policy}, cut ${cut}`, error, this.server)
    }
  }

  /** Copies the disk as it is: it goes with the mount. */
  async keep(to: string): Promise<void> {
    if (this.server?.running) await this.server.end('SIGKILL', LIMIT_MS)
    await cp(this.mount.path, to, { recursive: true })
  }

  async close(): Promise<void> {
    const ended = this.server?.running ? this.server.end('SIGKILL', LIMIT_MS) : undefined
    await this.mount.unmount()
    await ended
  }

  private get periodic(): boolean {
    return this.options.policy !== 'per_batch'
  }

  private async start(): Promise<ServerProcess> {
    this.finalDrops = this.random.chance(FINAL_DROPS)
    const database = {
      ...SMALL,
      warm_up_ms: 0,
      data_dir: join(this.mount.path, 'data'),
      wal_fsync_policy: this.options.policy,
      ...(this.finalDrops ? {} : { soft_delete_ttl_secs: 86_400 }),
    }
    this.server = await ServerProcess.spawn({ folder: this.folder, engine: 'embedded', sql: true, allProtocols: true, plugins: ['backup'], database })
    return this.server
  }

  private async startReady(): Promise<ServerProcess> {
    const started = await this.start()
    this.report.slowestReadyMs = Math.max(this.report.slowestReadyMs, await started.ready(LIMIT_MS))
    return started
  }

  /** Lets the clients work until the power goes, and checks what only this run can tell. @returns how long that was. */
  private async work(running: ServerProcess): Promise<number> {
    const { random, ledger } = this
    const first = ledger.next
    const options: WriterOptions = {
      url: running.url,
      ports: running.ports,
      protocols: ALL_PROTOCOLS,
      ledger: join(this.folder, 'ledger'),
      base: String(this.base),
      retry: [],
      first,
      // One under a periodic policy: the order of its batches is that of the log.
      connections: this.periodic ? 1 : 1 + random.below(4),
      pauseMs: random.below(8),
    }
    const writer = spawn(process.execPath, [WRITER, JSON.stringify(options)], { stdio: ['ignore', 'inherit', 'inherit'] })
    const finished = once(writer, 'exit')
    const deleter = this.deletions?.start({ url: running.url, seed: random.below(1 << 30), pauseMs: random.below(5), finalDrops: this.finalDrops })
    // Half of the runs are short, the others last long enough to flush and merge.
    const runMs = random.chance(0.5) ? Math.round(LONGEST_RUN_MS ** random.next()) : 1 + random.below(LONGEST_RUN_MS)
    await Promise.race([begun(ledger), finished])
    const backup = !this.periodic && random.chance(WITH_BACKUP) ? this.backUp(running.url) : undefined
    await setTimeout(runMs)
    if (random.chance(FINISHED_BACKUP)) await backup
    const durable = this.periodic ? await this.syncedTwice(running.url) : undefined
    await this.cutPower(running, random.below(CHANGES_OF_RUN), IDLE_MS)
    const [code] = (await finished) as [number]
    if (code !== 0) throw new Error(`the client has exited with ${code}`)
    await deleter
    await ledger.load()
    await backup
    if (backup !== undefined) await this.checkBackup()
    if (durable !== undefined) this.inDoubt = { first, durable }
    return runMs
  }

  /** Waits for two syncs of the log: one may have begun before. @returns what was acknowledged before them. */
  private async syncedTwice(url: string): Promise<ReadonlySet<number>> {
    await this.ledger.load()
    const acknowledged = new Set(this.ledger.acknowledged)
    const syncs = await counter(url, 'svc_wal_fsync_total')
    const since = performance.now()
    while ((await counter(url, 'svc_wal_fsync_total')) < syncs + 2) {
      if (performance.now() - since > LIMIT_MS) throw new Error(`the log of a server that is written to was not synced in ${LIMIT_MS} ms`)
      await setTimeout(5)
    }
    return acknowledged
  }

  private async cutPower(server: ServerProcess, changes: number, limitMs: number): Promise<void> {
    const idle = new AbortController()
    const frozen = this.mount.freeze(changes)
    await Promise.race([frozen, setTimeout(limitMs, undefined, { signal: idle.signal }).then(() => this.mount.freeze(0))])
    idle.abort()
    // A process that waits for the disk ends only when that answers.
    const ended = server.end('SIGKILL', LIMIT_MS)
    await this.mount.refuse()
    await ended
    await frozen
    await this.mount.cut(this.random.below(1 << 30))
    this.report.cuts++
  }

  private async compare(url: string, from: number): Promise<number> {
    return this.ledger.compare(url, from, ALL_PROTOCOLS)
  }

  /** Takes out of the ledger what the last cut may have cost under a periodic policy. @throws Error when it has cost more, or left a hole. */
  private async forgive(url: string): Promise<void> {
    const { ledger, inDoubt } = this
    this.inDoubt = undefined
    if (inDoubt === undefined) return
    const { present } = await readBatches(url, this.base, inDoubt.first, ledger.next, ALL_PROTOCOLS)
    const newest = Math.max(inDoubt.first - 1, ...present)
    for (let batch = inDoubt.first; batch < ledger.next; batch++) {
      if (!ledger.acknowledged.has(batch) || present.has(batch)) continue
      if (inDoubt.durable.has(batch)) throw new Error(`batch ${batch} is missing, though the log was synced twice since it was acknowledged`)
      if (batch < newest) throw new Error(`acknowledged batch ${batch} is missing, though batch ${newest} is there`)
      ledger.acknowledged.delete(batch)
      this.report.lost++
    }
  }

  private async backUp(url: string): Promise<void> {
    // Never twice the same name of a new one: that files are gone is not durable either.
    if (this.backup?.acknowledged === undefined || !this.random.chance(REPLACING_BACKUP)) this.backup = { name: `backup-${this.report.cuts}` }
    const { backup } = this
    await this.ledger.load()
    const acknowledged = new Set(this.ledger.acknowledged)
    const { status, body } = await post(url, 'backup', { target_dir: backup.name }).catch(() => ({ status: 0, body: '' }))
    if (status !== 200 && status !== 0) throw new Error(`a backup answers ${status}: ${body}`)
    if (status === 200) backup.acknowledged = acknowledged
  }

  /** A directory in which a backup was acknowledged has a whole one, another a whole one or none; a server that starts on it has all that was acknowledged before. */
  private async checkBackup(): Promise<void> {
    const backups = join(this.mount.path, 'data', 'backups')
    const { name, acknowledged } = this.backup as NonNullable<Loop['backup']>
    const restored = `restored-${this.report.cuts}`
    const again = await this.startReady()
    const { status, body } = await post(again.url, 'restore', { backup_dir: name, target_dir: restored })
    if (status !== 200 && (acknowledged !== undefined || !/no such directory|never finished/.test(body)))
      throw new Error(`a backup that was ${acknowledged === undefined ? 'cut off' : 'acknowledged'} answers ${status}: ${body}`)
    if (this.random.chance(CUT_RESTORE)) await this.cutPower(again, 0, IDLE_MS)
    else await again.end('SIGTERM', LIMIT_MS)
    if (status === 200 && acknowledged !== undefined) {
      const database = { ...SMALL, data_dir: join(backups, restored) }
      const copy = await ServerProcess.spawn({ folder: this.folder, engine: 'embedded', sql: false, database })
      try {
        await copy.ready(LIMIT_MS)
        const { present } = await readBatches(copy.url, this.base, 0, this.ledger.next, ALL_PROTOCOLS)
        for (const batch of acknowledged) if (!present.has(batch)) throw new Error(`batch ${batch}, acknowledged before the backup, is not in it`)
      } finally {
        await copy.end('SIGTERM', LIMIT_MS)
      }
      this.report.backups++
    }
    await rm(join(backups, restored), { recursive: true, force: true })
  }
}

async function post(url: string, route: string, body: object): Promise<{ status: number; body: string }> {
  const answer = await fetch(`${url}/api/v1/admin/${route}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  })
  return { status: answer.status, body: await answer.text() }
}

/** As mayMount of small-disk.ts, for file systems served by a process. */
export function mayServeDisk(folder: string): ReturnType<typeof mayMount> {
  return existsSync('/dev/fuse') ? mayMount(folder) : { reason: 'there is no /dev/fuse here' }
}

if (import.meta.main) {
  const folder = await mkdtemp(join(tmpdir(), 'svc-power-'))
  const barred = mayServeDisk(folder)
  await rm(folder, { recursive: true })
  if (barred !== undefined && 'exitCode' in barred) process.exit(barred.exitCode)
  const say = (line: string): void => void process.stdout.write(`${line}\n`)
  if (barred !== undefined) say(JSON.stringify({ skipped: barred.reason }))
  else {
    const [cuts = '20', seed = String(Date.now() % 1_000_000), policy] = process.argv.slice(2)
    const { SVC_POWER_BROKEN } = process.env
    const broken = SVC_POWER_BROKEN?.split(',').filter((name): name is Sync => name === 'fsync' || name === 'fsyncdir')
    for (const each of POLICIES) {
      if (policy !== undefined && policy !== each) continue
      say(`seed ${seed}, policy ${each}`)
      say(JSON.stringify(await powerCuts({ cuts: Number(cuts), seed: Number(seed), policy: each, ...(broken === undefined ? {} : { broken }), log: say })))
    }
  }
}
