/**
 * Fills the disk under the real server and checks what the documents promise: writes answer 507 with Retry-After: 5 and never appear, reads and
 * /ready go on, memory stays flat, writes resume without a restart, and a restart has the same data. Each scenario fills another part:
 *
 * - log: the whole volume, by the log alone
 * - parts: one after the other the volumes that exports, backups, segments and the catalog are on, so that each alone is what fails
 * - catalog: the catalog's own volume, without a server
 * - protocols: the whole volume, while points come by every protocol
 * - churn: the whole volume at random moments, while everything is flushed and merged
 *
 *   node test/crash/full-disk.ts [seed] [scenario]
 *
 * SVC_DISK_CYCLES sets how often churn fills the disk. The last line is the report as JSON; without the right to mount it says `skipped`.
 */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { Random } from '../../storage/conformance/random.ts'
import { CatalogStore } from '../../storage/embedded/catalog/store.ts'
import { DiskWriter } from './disk-writer.ts'
import { ServerProcess } from './server.ts'
import { mayMount, SmallDisk } from './small-disk.ts'
import { ALL_PROTOCOLS, MEASUREMENT, TEXT_PROTOCOLS } from './workload.ts'

/** A client that honours Retry-After: 5 comes back twice; the rest is for a busy machine. */
const RESUME_LIMIT_MS = 15_000
const READY_LIMIT_MS = 60_000
/** Resident memory moves by much more than this within a round of refusals, up and down, but what leaks grows in each. */
const FLAT_BYTES = 8 << 20
const ROUNDS = 8
const SMALL = { wal_max_file_size: 131_072, memtable_flush_threshold: 131_072, maintenance_interval_secs: 1, compaction_fan_in: 2 }

interface Context {
  folder: string
  data: string
  random: Random
  cycles: number
}

export interface ScenarioReport {
  acknowledged: number
  refused: number
  points: number
  /** From space being free to the first write accepted. */
  resumedMs: number
  /** What failed for want of space, as the server's log has it. */
  failed: { flush: number; merge: number; catalog: number }
}

type Scenario = (context: Context) => Promise<ScenarioReport>

const scenarios: Record<string, Scenario> = {
  log: async (context) => {
    const disk = SmallDisk.mount(context.data, 16)
    return withServer(context, [disk], {}, async (run) => {
      disk.fill(1_500_000)
      await run.writer.until507()
      await run.whileFull()
      await run.flat()
      disk.fill()
      await run.restart('SIGKILL')
      await run.whileFull()
      disk.release()
      // The very next write.
      run.resumedMs = await run.writer.accepted(1)
    })
  },
  parts: async (context) => {
    const mount = (part: string): SmallDisk => SmallDisk.mount(join(context.data, part), 4)
    const parts = { segments: mount('segments'), catalog: mount('catalog'), exports: mount('exports'), backups: mount('backups') }
    return withServer(context, Object.values(parts), { ...SMALL, max_memtable_memory: 4 << 20 }, async (run) => {
      await run.writer.write(100)
      await run.onlyThisFails(parts.exports, '/api/v1/export/parquet', { measurement: MEASUREMENT.line_protocol, output_path: 'all.parquet' })
      await run.onlyThisFails(parts.backups, '/api/v1/admin/backup', { target_dir: 'first' })
      const verified = await run.post('/api/v1/admin/backup/verify', { backup_dir: 'first' })
      if (verified.status !== 200) throw new Error(`the backup is not whole: ${verified.text}`)

      parts.segments.fill()
      const { text } = await run.writer.until507()
      if (!/no space to flush/.test(text)) throw new Error(`the refusal does not say that flushing has no space: ${text}`)
      await run.whileFull()
      await run.flat()
      parts.segments.release()
      await run.resumes()

      // The file has room ahead: commits may go on for a while.
      parts.catalog.fill()
      await run.writer.write(60)
      await run.whileFull()
      parts.catalog.release()
      await run.resumes()
      if (run.failed().flush === 0) throw new Error('no flush has failed for want of space')
    })
  },
  catalog: async (context) => {
    const disk = SmallDisk.mount(context.data, 4)
    try {
      return await fullCatalog(disk)
    } finally {
      disk.unmount()
    }
  },
  protocols: async (context) => {
    const disk = SmallDisk.mount(context.data, 16)
    return withServer(
      context,
      [disk],
      {},
      async (run) => {
        for (let round = 0; round < 2; round++) {
          disk.fill(300_000)
          await run.writer.until507()
          await run.whileFull()
          disk.release()
          await run.resumes()
          await run.writer.write(60)
        }
        disk.fill()
        await run.restart('SIGKILL')
        await run.whileFull()
        disk.release()
        await run.resumes()
      },
      true,
    )
  },
  churn: async (context) => {
    const { random } = context
    const disk = SmallDisk.mount(context.data, 24)
    return withServer(context, [disk], { ...SMALL, max_memtable_memory: 8 << 20 }, async (run) => {
      for (let cycle = 0; cycle < context.cycles; cycle++) {
        const stop = run.writer.keepWriting()
        await setTimeout(random.below(400))
        // A little room now and then: for the segment, say, but not for the catalog.
        disk.fill(random.chance(0.5) ? 0 : random.below(200_000))
        await setTimeout(200 + random.below(800))
        await run.readable()
        disk.release()
        await stop()
        await run.resumes()
        if (random.chance(0.3)) await run.restart(random.chance(0.5) ? 'SIGKILL' : 'SIGTERM')
      }
    })
  },
}

/** The catalog alone: a commit that finds no space changes nothing, however often it is tried. */
async function fullCatalog(disk: SmallDisk): Promise<ScenarioReport> {
  const key = (i: number): string => `state/test/${String(i).padStart(6, '0')}`
  const stored = new Set<number>()
  let refused = 0
  const commit = async (store: CatalogStore, i: number): Promise<boolean> => {
    try {
      await store.transaction((writes) => {
        for (let part = 0; part < 8; part++) writes.put(`${key(i)}/${part}`, Buffer.alloc(30_000, i))
      })
      stored.add(i)
      return true
    } catch (error) {
      if ((error as { code?: string }).code !== 'STORAGE_FULL') throw error
      refused++
      return false
    }
  }
  const check = (store: CatalogStore): void => {
    for (let i = 0; i < 110; i++) {
      const parts = Array.from({ length: 8 }, (_, part) => store.get(`${key(i)}/${part}`)).filter((value) => value?.every((byte) => byte === i))
      if (parts.length !== (stored.has(i) ? 8 : 0))
        throw new Error(`commit ${i} was ${stored.has(i) ? 'accepted' : 'refused'}, ${parts.length} of its 8 parts are there`)
    }
  }
  const store = await CatalogStore.open(disk.path, true)
  await commit(store, 0)
  disk.fill(100_000)
  for (let i = 1; i < 100; i++) await commit(store, i)
  check(store)
  disk.release()
  if (!(await commit(store, 100))) throw new Error('a commit is refused although there is space')
  check(store)
  await store.close()
  await withoutLockFile(disk)
  const again = await CatalogStore.open(disk.path, false)
  check(again)
  await again.close()
  return { acknowledged: stored.size, refused, points: stored.size * 8, resumedMs: 0, failed: { flush: 0, merge: 0, catalog: refused } }
}

/** As a restored copy has none: there is no room for it, which would end this process. */
async function withoutLockFile(disk: SmallDisk): Promise<void> {
  await rm(join(disk.path, 'lock.mdb'))
  disk.fill()
  const outcome = await CatalogStore.open(disk.path, false).catch((error) => error.code as string)
  if (outcome !== 'STORAGE_FULL') throw new Error(`a catalog without its lock file, on a full disk, gives ${outcome}`)
  disk.release()
}

class Run {
  resumedMs = -1
  server: ServerProcess
  readonly writer: DiskWriter
  private readonly start: () => Promise<ServerProcess>
  private said = ''

  constructor(server: ServerProcess, writer: DiskWriter, start: () => Promise<ServerProcess>) {
    this.server = server
    this.writer = writer
    this.start = start
  }

  /** What must hold while there is no space. */
  async whileFull(): Promise<void> {
    await this.readable()
    await this.writer.check()
    await this.readable()
  }

  async readable(): Promise<void> {
    const ready = await fetch(`${this.server.url}/ready`)
    if (ready.status !== 200) throw new Error(`/ready answers ${ready.status} on a full disk: ${await ready.text()}`)
    const sql = await this.post('/api/v1/svc/sql', { query: `SELECT count(*) FROM ${MEASUREMENT.json}` })
    if (sql.status !== 200) throw new Error(`SQL answers ${sql.status} on a full disk: ${sql.text}`)
  }

  /** Refused writes cost no memory. */
  async flat(): Promise<void> {
    const grown: number[] = []
    let before = await this.resident()
    for (let round = 0; round < ROUNDS; round++) {
      await this.writer.write(800)
      const after = await this.resident()
      if (after - before <= FLAT_BYTES) return
      grown.push(after - before)
      before = after
    }
    throw new Error(`each round of 800 refused writes has grown the process, by ${grown.join(', ')} bytes`)
  }

  /** Space is there again: a write is accepted soon. */
  async resumes(): Promise<void> {
    this.resumedMs = Math.max(this.resumedMs, await this.writer.accepted(RESUME_LIMIT_MS))
  }

  /** The request finds no space and says so, everything else goes on, and once there is space it is done. */
  async onlyThisFails(disk: SmallDisk, path: string, body: unknown): Promise<void> {
    disk.fill()
    const refused = await this.post(path, body)
    if (refused.status !== 507 || refused.retryAfter !== '5') throw new Error(`${path} answers ${refused.status} on a full disk: ${refused.text}`)
    this.writer.forget()
    await this.writer.write(100)
    const { full } = this.writer
    if (full !== undefined) throw new Error(`writes are refused although their disk has space: ${full.text}`)
    await this.whileFull()
    disk.release()
    const done = await this.post(path, body)
    if (done.status !== 200) throw new Error(`${path} answers ${done.status} once there is space: ${done.text}`)
  }

  async post(path: string, body: unknown): Promise<{ status: number; text: string; retryAfter: string | null }> {
    const headers = { 'content-type': 'application/json' }
    const answer = await fetch(this.server.url + path, { method: 'POST', headers, body: JSON.stringify(body) })
    return { status: answer.status, text: await answer.text(), retryAfter: answer.headers.get('retry-after') }
  }

  async restart(signal: 'SIGKILL' | 'SIGTERM'): Promise<void> {
    this.said += this.server.output
    const code = await this.server.end(signal)
    if (signal === 'SIGTERM' && code !== 0) throw new Error(`the server has answered SIGTERM with exit code ${code}:\n${this.server.output}`)
    this.server = await this.start()
    this.writer.url = this.server.url
    this.writer.ports = this.server.ports
    await this.writer.check()
  }

  failed(): ScenarioReport['failed'] {
    const text = this.said + this.server.output
    const count = (pattern: RegExp): number => text.match(pattern)?.length ?? 0
    return { flush: count(/cannot flush the memtable/g), merge: count(/cannot merge segments/g), catalog: count(/cannot write the catalog/g) }
  }

  private async resident(): Promise<number> {
    const text = await (await fetch(`${this.server.url}/metrics`)).text()
    return Number(/^svc_process_resident_memory_bytes (\S+)/m.exec(text)?.[1])
  }
}

async function withServer(
  context: Context,
  disks: SmallDisk[],
  database: Record<string, number>,
  body: (run: Run) => Promise<void>,
  allProtocols = false,
): Promise<ScenarioReport> {
  const { folder, data } = context
  let server: ServerProcess | undefined
  let writer: DiskWriter | undefined
  const start = async (): Promise<ServerProcess> => {
    server = await ServerProcess.spawn({
      ...{ folder, engine: 'embedded', sql: true, plugins: ['export', 'backup'], allProtocols },
      database: { data_dir: data, ...database },
    })
    await server.ready(READY_LIMIT_MS)
    return server
  }
  try {
    await start()
    writer = new DiskWriter((server as ServerProcess).url, allProtocols ? ALL_PROTOCOLS : TEXT_PROTOCOLS)
    writer.ports = (server as ServerProcess).ports
    const run = new Run(server as ServerProcess, writer, start)
    await writer.accepted(1)
    await body(run)
    await writer.write(20)
    await writer.check()
    await run.restart('SIGKILL')
    await run.restart('SIGTERM')
    const report = {
      acknowledged: writer.acknowledged,
      refused: writer.refused,
      points: writer.points,
      resumedMs: Math.round(run.resumedMs),
      failed: run.failed(),
    }
    await run.server.end('SIGTERM')
    return report
  } catch (error) {
    const cause = (error as Error).cause === undefined ? '' : ` (${(error as Error).cause})`
    throw new Error(
      `${(error as Error).message}${cause}; the server ${server?.running ? 'is still running' : 'has exited'}\nits last words:\n${server?.output.slice(-4000)}`,
      { cause: error },
    )
  } finally {
    writer?.close()
    if (server?.running) await server.end('SIGKILL')
    for (const disk of disks) disk.unmount()
  }
}

async function main([seedText = String(Date.now() % 1_000_000), only]: string[]): Promise<number> {
  const seed = Number(seedText)
  const folder = await mkdtemp(join(tmpdir(), 'svc-disk-'))
  try {
    const other = mayMount(folder)
    if (other !== undefined && 'exitCode' in other) return other.exitCode
    if (other !== undefined) {
      console.log(JSON.stringify({ skipped: other.reason }))
      return 0
    }
    const reports: Record<string, ScenarioReport> = {}
    for (const [name, scenario] of Object.entries(scenarios)) {
      if (only !== undefined && only !== name) continue
      const began = performance.now()
      const random = new Random(seed)
      const cycles = Number(process.env.SVC_DISK_CYCLES ?? 20)
      const place = join(folder, name)
      try {
        reports[name] = await scenario({ folder, data: place, random, cycles })
      } catch (error) {
        throw new Error(`seed ${seed}, scenario ${name}: ${(error as Error).message}`, { cause: error })
      }
      console.log(`${name}: ${Math.round(performance.now() - began)} ms`)
    }
    console.log(JSON.stringify(reports))
    return 0
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

if (import.meta.main) process.exit(await main(process.argv.slice(2)))
