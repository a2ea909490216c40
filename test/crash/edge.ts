/**
 * An edge and the node that it sends to, killed at random, and a link between them that is cut, stalled, delayed and half closed, while numbered points come in.
 * What was acknowledged at the edge is stored at the end, each point once and as it was sent.
 *
 *   node test/crash/edge.ts [points] [seed] [pause between events, ms]
 */
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { seeded } from '../../kernel/lib/random/index.ts'
import { disturb, FaultyLink } from '../support/faulty-link.ts'
import { freePort } from '../support/free-port.ts'
import { type RunningServer, runServer } from '../support/server.ts'

export interface EdgeLoop {
  points: number
  seed: number
  /** Longest pause between two events. */
  pauseMs: number
  /** Only the link fails; for as long, whatever the number of points. */
  linkOnlyMs?: number
}

export interface EdgeOutcome {
  sent: number
  stored: number
  different: number
  wrong: number
  setAside: number
  dropped: number
  events: Record<string, number>
  /** The most that the edge had while the link failed, in bytes: resident memory, and its folder on the disk. */
  memory: number
  disk: number
}

const LONGEST_MS = 600_000
const LOOK_MS = 1000
/** Points that one statement looks at: it has no more memory than for so many. */
const SLICE = 1_000_000

/** Resident bytes of a process; 0 where it has ended, or the system does not say. */
function residentOf(pid: number): number {
  try {
    return Number(/^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? 0) * 1024
  } catch {
    return 0
  }
}

function bytesIn(folder: string): number {
  const files = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile())
  return files.reduce((sum, { parentPath, name }) => sum + (statSync(join(parentPath, name), { throwIfNoEntry: false })?.size ?? 0), 0)
}

export async function edgeLoop({ points, seed, pauseMs, linkOnlyMs }: EdgeLoop): Promise<EdgeOutcome> {
  const random = seeded(seed)
  const folder = mkdtempSync(join(tmpdir(), 'svc-edge-loop-'))
  const [grpcPort, edgePort] = [await freePort(), await freePort()]
  const link = await FaultyLink.to(grpcPort)
  const centralConfig = join(folder, 'central.toml')
  const edgeConfig = join(folder, 'edge.toml')
  writeFileSync(centralConfig, 'plugins = ["grpc", "sql"]\n[database]\nwarm_up_ms = 0\n')
  writeFileSync(
    edgeConfig,
    `plugins = ["line_protocol"]\n[database]\nengine = "forward"\n[database.forward]\nfile_size = 65536\nbatch_points = 500\nbatch_interval_ms = 20\nmax_pause_secs = 1\ntimeout_secs = 3\n[[database.forward.upstream]]\nurl = "http://127.0.0.1:${link.port}"\n`,
  )
  const startCentral = (): Promise<RunningServer> =>
    runServer(centralConfig, { keepData: true, env: { SVC_GRPC_BIND: `127.0.0.1:${grpcPort}`, SVC_DATA_DIR: join(folder, 'central') } })
  const startEdge = (): Promise<RunningServer> =>
    runServer(edgeConfig, { keepData: true, env: { SVC_BIND: `127.0.0.1:${edgePort}`, SVC_DATA_DIR: join(folder, 'edge') } })
  let [central, edge] = await Promise.all([startCentral(), startEdge()])
  const events: Record<string, number> = {}
  const start = BigInt(Date.now()) * 1_000_000n
  let sent = 0
  let stop = false
  let [memory, disk] = [0, 0]
  const looking = setInterval(() => {
    memory = Math.max(memory, residentOf(edge.pid))
    disk = Math.max(disk, bytesIn(join(folder, 'edge')))
  }, LOOK_MS)
  const sending = (async () => {
    while (!stop && (linkOnlyMs !== undefined || sent < points)) {
      const many = Math.min(1 + Math.floor(random() * 300), linkOnlyMs === undefined ? points - sent : 300)
      const lines = Array.from({ length: many }, (_, i) => `m,s=${(sent + i) % 7} v=${sent + i}i,half=${(sent + i) / 2} ${start + BigInt(sent + i)}`).join('\n')
      const status = await fetch(`http://127.0.0.1:${edgePort}/write`, { method: 'POST', body: lines, signal: AbortSignal.timeout(10_000) }).then(
        async (answer) => {
          await answer.arrayBuffer()
          return answer.status
        },
        () => 0,
      )
      // What was not acknowledged is sent again: the same points.
      if (status === 204) sent += many
      else await sleep(20)
      if (linkOnlyMs !== undefined) await sleep(20)
    }
  })()
  try {
    for (
      const end = Date.now() + (linkOnlyMs ?? LONGEST_MS);
      Date.now() < end && (linkOnlyMs !== undefined || sent < points);
      await sleep(random() * pauseMs)
    ) {
      const what = linkOnlyMs === undefined ? random() : 1
      if (what < 0.25) {
        events['edge killed'] = (events['edge killed'] ?? 0) + 1
        process.kill(edge.pid, 'SIGKILL')
        edge = await startEdge()
      } else if (what < 0.4) {
        events['upstream killed'] = (events['upstream killed'] ?? 0) + 1
        process.kill(central.pid, 'SIGKILL')
        await sleep(random() * pauseMs)
        central = await startCentral()
      } else {
        const name = `link: ${await disturb(link, random, pauseMs, sleep)}`
        events[name] = (events[name] ?? 0) + 1
      }
    }
    stop = linkOnlyMs !== undefined
    await sending
    link.mend()
    const sql = async (query: string): Promise<number[]> => {
      const answer = await fetch(`${central.url}/api/v1/svc/sql`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ query }),
      })
      const text = await answer.text()
      if (!answer.ok) throw new Error(`"${query}" is answered ${answer.status}: ${text}`)
      return (JSON.parse(text).rows[0] as unknown[]).map(Number)
    }
    // The measurement may not be there yet.
    const count = (): Promise<number> =>
      sql('SELECT count(*) FROM m').then(
        ([rows]) => rows,
        () => 0,
      )
    for (const end = Date.now() + LONGEST_MS; Date.now() < end && (await count()) < sent; ) await sleep(200)
    let [different, wrong] = [0, 0]
    for (let from = 0; from < sent; from += SLICE) {
      const [more, bad] = await sql(
        `SELECT count(DISTINCT v), count(*) FILTER (WHERE epoch_ns(_time) - ${start} <> v OR half * 2 <> v OR s <> CAST(v % 7 AS VARCHAR)) FROM m WHERE v >= ${from} AND v < ${from + SLICE}`,
      )
      different += more
      wrong += bad
    }
    const stored = await count()
    const metrics = await (await fetch(`http://127.0.0.1:${edgePort}/metrics`)).text()
    const total = (name: string): number =>
      [...metrics.matchAll(new RegExp(`^${name}(?:\\{[^}]*\\})? (\\d+)`, 'gm'))].reduce((sum, [, value]) => sum + Number(value), 0)
    const [setAside, dropped] = [total('svc_forward_set_aside_points_total'), total('svc_forward_dropped_points_total')]
    return { sent, stored, different, wrong, setAside, dropped, events, memory, disk }
  } finally {
    clearInterval(looking)
    stop = true
    await sending.catch(() => {})
    await Promise.all([edge.stop(), central.stop()])
    await link.close()
    rmSync(folder, { recursive: true, force: true })
  }
}

if (import.meta.main) {
  const [points = 100_000, seed = Math.floor(Math.random() * 2 ** 31), pauseMs = 1000] = process.argv.slice(2).map(Number)
  const outcome = await edgeLoop({ points, seed, pauseMs })
  console.log(`seed ${seed}: ${JSON.stringify(outcome)}`)
  const { sent, stored, different, wrong, setAside, dropped } = outcome
  if (stored !== sent || different !== sent || wrong + setAside + dropped > 0) process.exitCode = 1
}
