/**
 * An edge whose disk, or whose queue, is full while its upstream is away: writes answer 507 with Retry-After and are counted, those that were acknowledged stay,
 * writes resume without a restart as soon as there is room, and at the end the upstream has each acknowledged point once.
 *
 *   node test/crash/edge-disk.ts [seed]
 *
 * The last line is the report as JSON; without the right to mount it says `skipped`.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { seeded } from '../../kernel/lib/random/index.ts'
import { FaultyLink } from '../support/faulty-link.ts'
import { freePort } from '../support/free-port.ts'
import { type RunningServer, runServer } from '../support/server.ts'
import { mayMount, SmallDisk } from './small-disk.ts'

export interface EdgeDiskReport {
  acknowledged: number
  stored: number
  wrong: number
  /** Answers 507. */
  refused: number
  /** As the edge counts those for its queue. */
  counted: number
  lost: number
  /** From space being free to the first write that is taken. */
  resumedMs: number
}

const LIMIT_MS = 120_000

interface Answer {
  status: number
  retryAfter: string | null
}

class Run {
  readonly random: () => number
  readonly url: string
  acknowledged = 0
  refused = 0

  constructor(random: () => number, url: string) {
    this.random = random
    this.url = url
  }

  /** Writes the next points; those that are not taken are the next again. */
  async write(): Promise<Answer> {
    const many = 1 + Math.floor(this.random() * 400)
    const first = this.acknowledged
    const filler = 'x'.repeat(100)
    const lines = Array.from({ length: many }, (_, i) => `m,s=${(first + i) % 7} v=${first + i}i,text="${filler}" ${BASE + BigInt(first + i)}`).join('\n')
    const answer = await fetch(`${this.url}/write`, { method: 'POST', body: lines, signal: AbortSignal.timeout(30_000) })
    await answer.arrayBuffer()
    if (answer.status === 204) this.acknowledged += many
    if (answer.status === 507) this.refused++
    return { status: answer.status, retryAfter: answer.headers.get('retry-after') }
  }

  async until(status: number): Promise<Answer> {
    for (const end = Date.now() + LIMIT_MS; Date.now() < end; ) {
      const answer = await this.write()
      if (answer.status === status) return answer
      if (answer.status !== 204 && answer.status !== 507) throw new Error(`a write answers ${answer.status}`)
      if (answer.status === 507) await sleep(50)
    }
    throw new Error(`no write has answered ${status}`)
  }

  async total(name: string): Promise<number> {
    const metrics = await (await fetch(`${this.url}/metrics`)).text()
    return [...metrics.matchAll(new RegExp(`^${name}(?:\\{[^}]*\\})? (\\d+)`, 'gm'))].reduce((sum, [, value]) => sum + Number(value), 0)
  }
}

const BASE = BigInt(Date.now()) * 1_000_000n

async function scenario(folder: string, seed: number, what: 'disk' | 'queue'): Promise<EdgeDiskReport> {
  const disk = SmallDisk.mount(join(folder, 'edge'), 16)
  const [grpcPort, edgePort] = [await freePort(), await freePort()]
  const link = await FaultyLink.to(grpcPort)
  const config = (name: string, text: string): string => {
    writeFileSync(join(folder, `${name}.toml`), text)
    return join(folder, `${name}.toml`)
  }
  const central = await runServer(config('central', 'plugins = ["grpc", "sql"]\n[database]\nwarm_up_ms = 0\n'), {
    keepData: true,
    env: { SVC_GRPC_BIND: `127.0.0.1:${grpcPort}`, SVC_DATA_DIR: join(folder, 'central') },
  })
  const bound = what === 'queue' ? 4 << 20 : 1 << 30
  const forward = `file_size = 65536\nbatch_interval_ms = 0\nmax_pause_secs = 1\ntimeout_secs = 5\nmax_size = ${bound}`
  const edgeConfig = config(
    'edge-node',
    `plugins = ["line_protocol"]\n[database]\nengine = "forward"\n[database.forward]\n${forward}\n[[database.forward.upstream]]\nurl = "http://127.0.0.1:${link.port}"\n`,
  )
  const start = (): Promise<RunningServer> => runServer(edgeConfig, { keepData: true, env: { SVC_BIND: `127.0.0.1:${edgePort}`, SVC_DATA_DIR: disk.path } })
  let edge = await start()
  try {
    const run = new Run(seeded(seed), `http://127.0.0.1:${edgePort}`)
    for (let i = 0; i < 5; i++) await run.until(204)
    link.cut()
    if (what === 'disk') disk.fill(500_000)
    const full = await run.until(507)
    if (full.retryAfter !== '5') throw new Error(`Retry-After is ${full.retryAfter}`)
    if ((await fetch(`${run.url}/health`)).status !== 200) throw new Error('the edge is not healthy')
    for (let i = 0; i < 20; i++) await run.write()
    const counted = await run.total('svc_forward_refused_writes_total')
    const free = Date.now()
    if (what === 'disk') disk.release()
    else link.mend()
    await run.until(204)
    const resumedMs = Date.now() - free
    // What was acknowledged on the disk that was full is there after a crash.
    process.kill(edge.pid, 'SIGKILL')
    edge = await start()
    for (let i = 0; i < 5; i++) await run.until(204)
    link.mend()
    const [stored, wrong] = await settled(central.url, run.acknowledged)
    const lost = (await run.total('svc_forward_dropped_points_total')) + (await run.total('svc_forward_set_aside_points_total'))
    return { acknowledged: run.acknowledged, stored, wrong, refused: run.refused, counted, lost, resumedMs }
  } finally {
    await Promise.all([edge.stop(), central.stop()])
    await link.close()
    disk.unmount()
  }
}

/** What the upstream has of the points up to the last that was acknowledged; of a write that was refused it may have more. */
async function settled(url: string, acknowledged: number): Promise<[stored: number, wrong: number]> {
  const query = `SELECT count(DISTINCT v), count(*) FILTER (WHERE epoch_ns(_time) - ${BASE} <> v OR s <> CAST(v % 7 AS VARCHAR)) FROM m WHERE v < ${acknowledged}`
  let found: [number, number] = [0, 0]
  for (const end = Date.now() + LIMIT_MS; Date.now() < end && found[0] < acknowledged; await sleep(200)) {
    const answer = await fetch(`${url}/api/v1/svc/sql`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ query }),
    })
    if (answer.ok) found = ((await answer.json()) as { rows: unknown[][] }).rows[0].map(Number) as [number, number]
  }
  return found
}

if (import.meta.main) {
  const folder = mkdtempSync(join(tmpdir(), 'svc-edge-disk-'))
  try {
    const other = mayMount(folder)
    if (other !== undefined && 'exitCode' in other) process.exitCode = other.exitCode
    else if (other !== undefined) console.log(JSON.stringify({ skipped: other.reason }))
    else {
      const seed = Number(process.argv[2] ?? Date.now() % 1_000_000)
      const report: Record<string, EdgeDiskReport> = {}
      for (const what of ['disk', 'queue'] as const) {
        const own = join(folder, what)
        report[what] = await scenario(own, seed, what)
      }
      console.log(JSON.stringify(report))
    }
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}
