/**
 * Nodes on one PostgreSQL, with their points in one ClickHouse, or forwarded to one node where there is none, under writes, while they are killed, paused, cut off from
 * their state and decommissioned at random, work is rebalanced, and PostgreSQL is restarted, killed and stands still. At the end every acknowledged point is there; of no work two owners wrote by turns; of no schedule
 * a turn was run twice; no two nodes were sure to own one thing at one time.
 *
 *   node test/crash/cluster.ts [events] [seed] [nodes]
 */
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { type Random, seeded } from '../../kernel/lib/random/index.ts'
import { NO_CLICKHOUSE, startClickHouse } from '../support/clickhouse/clickhouse.ts'
import { FaultyLink } from '../support/faulty-link.ts'
import { freePort } from '../support/free-port.ts'
import { startPostgres, type TestPostgres } from '../support/postgres.ts'
import { type RunningServer, runServer } from '../support/server.ts'
import { SCHEDULES, WORKS } from './cluster-work.ts'

export interface ClusterLoop {
  events: number
  seed: number
  nodes?: number
}

export interface ClusterOutcome {
  sent: number
  /** Acknowledged points that are not there. */
  missing: number
  /** Writes of an owner behind one of a later owner. */
  behindFence: number
  /** Turns that were run twice. */
  twice: number
  /** Moments at which a node was sure of what a later owner had been sure of before. */
  twoSure: number
  /** Moments at which a node went on with what it had lost. */
  deaf: number
  /** Works and schedules that nobody did at the end. */
  idle: string[]
  points: string
  events: Record<string, number>
  writes: number
  turns: number
  handOvers: number
  /** From a death to the next write of a work by another, milliseconds. */
  takeovers: number[]
}

const HEARTBEAT_SECS = 0.5
const CALM_MS = 60_000
const WINDOW = 20_000

interface Peer {
  id: number
  port: number
  link: FaultyLink
  config: string
  file: string
  server: RunningServer | undefined
}

async function get(port: number, path: string, init: RequestInit = {}): Promise<{ status: number; body: unknown }> {
  try {
    const answer = await fetch(`http://127.0.0.1:${port}${path}`, { ...init, signal: AbortSignal.timeout(5000) })
    const text = await answer.text()
    return { status: answer.status, body: text === '' ? undefined : JSON.parse(text) }
  } catch {
    return { status: 0, body: undefined }
  }
}

const json = (payload: object): RequestInit => ({ method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(payload) })

/** @throws Error where there is no PostgreSQL. */
export async function clusterLoop({ events: rounds, seed, nodes: count = 5 }: ClusterLoop): Promise<ClusterOutcome> {
  const random = seeded(seed)
  const postgres = await startPostgres()
  if (postgres === undefined) throw new Error('there is no PostgreSQL')
  const folder = mkdtempSync(join(tmpdir(), 'svc-cluster-'))
  const clickhouse = NO_CLICKHOUSE === undefined ? await startClickHouse() : undefined
  const database = await postgres.database()
  const upstreamPort = await freePort()
  const central =
    clickhouse !== undefined
      ? undefined
      : await runServer(configFile(join(folder, 'central.toml'), 'plugins = ["grpc", "native"]\n[database]\nwarm_up_ms = 0\n'), {
          keepData: true,
          env: { SVC_GRPC_BIND: `127.0.0.1:${upstreamPort}`, SVC_DATA_DIR: join(folder, 'central') },
        })
  const engine =
    clickhouse !== undefined
      ? `engine = "clickhouse"\n[database.clickhouse]\nurl = "${clickhouse.url}"\nprefix = "t${seed}"\n`
      : `engine = "forward"\n[database.forward]\nbatch_interval_ms = 20\nmax_pause_secs = 1\n[[database.forward.upstream]]\nurl = "http://127.0.0.1:${upstreamPort}"\n`
  const peers: Peer[] = []
  for (let id = 1; id <= count; id++) {
    const link = await FaultyLink.to(postgres.port)
    const port = await freePort()
    const text = `plugins = ["line_protocol", ${clickhouse === undefined ? '' : '"native", '}"cluster", "${join(import.meta.dirname, 'cluster-work.ts')}"]
[server]
http_addr = "127.0.0.1:${port}"
shutdown_timeout_secs = 10
[state]
engine = "postgres"
url = "${database.replace(String(postgres.port), String(link.port))}"
retry_secs = 3
statement_timeout_secs = 3
connect_timeout_secs = 2
[cluster]
node_id = ${id}
heartbeat_interval_secs = ${HEARTBEAT_SECS}
[database]
${engine}`
    peers.push({ id, port, link, config: configFile(join(folder, `${id}.toml`), text), file: join(folder, `sure-${id}`), server: undefined })
  }
  const start = async (peer: Peer): Promise<void> => {
    const env = { SVC_BIND: `127.0.0.1:${peer.port}`, SVC_CLUSTER_FILE: peer.file }
    const dataDir = { SVC_DATA_DIR: join(folder, `data-${peer.id}`) }
    const options = clickhouse === undefined ? { env: { ...env, ...dataDir } } : { env, noData: true }
    peer.server = await runServer(peer.config, { keepData: true, ...options })
  }
  const base = BigInt(Date.now()) * 1_000_000n
  const load = new Load(peers, base, seeded(seed + 1))
  const events: Record<string, number> = {}
  const deaths: { at: number; id: number }[] = []
  try {
    await start(peers[0])
    await Promise.all(peers.slice(1).map(start))
    await get(peers[0].port, '/api/v1/admin/rebalance', { method: 'POST' })
    load.start()
    for (let round = 0; round < rounds; round++) {
      await sleep(200 + random() * 1200)
      const what = random() < 0.15 ? await disturbState(postgres, random) : await disturb(peers, random, start, deaths)
      events[what] = (events[what] ?? 0) + 1
    }
    for (const peer of peers) peer.link.mend()
    const sent = await load.stop()
    await calm(peers)
    await get(peers[0].port, '/api/v1/admin/rebalance', { method: 'POST' })
    const client = new pg.Client({ connectionString: database })
    await client.connect()
    const counts = async () => ({ ...(await countsOf(client)) })
    const before = await counts()
    let idle = [...WORKS, ...SCHEDULES]
    for (const end = Date.now() + CALM_MS; idle.length > 0 && Date.now() < end; await sleep(100)) {
      const now = await counts()
      idle = idle.filter((work) => (now[work] ?? 0) <= (before[work] ?? 0))
    }
    const found = await judged(client)
    await client.end()
    const port = central === undefined ? peers[0].port : Number(new URL(central.url).port)
    const missing = await missingOf(port, base, sent)
    const sure = sureness(peers)
    return {
      ...{ sent, missing, ...found, idle, events, points: clickhouse === undefined ? 'forwarded to one node' : 'ClickHouse' },
      ...{ twoSure: sure.twoSure, deaf: sure.deaf, takeovers: deaths.flatMap(({ at, id }) => sure.takeoverAfter(at, id)) },
    }
  } catch (error) {
    for (const { id, server } of peers) process.stderr.write(`--- node ${id}\n${server?.output().slice(-2000)}\n`)
    throw error
  } finally {
    await load.stop()
    for (const { server } of peers) if (server !== undefined) endQuietly(server.pid)
    if (central !== undefined) endQuietly(central.pid)
    await Promise.all(peers.map(({ link }) => link.close()))
    await clickhouse?.stop()
    await postgres.stop()
    rmSync(folder, { recursive: true, force: true })
  }
}

function configFile(path: string, text: string): string {
  writeFileSync(path, text)
  return path
}

/** Does something to a node, and says what. It is well again, or soon will be, when this resolves. */
async function disturb(peers: readonly Peer[], random: Random, start: (peer: Peer) => Promise<void>, deaths: { at: number; id: number }[]): Promise<string> {
  const peer = peers[Math.floor(random() * peers.length)]
  const other = peers[(peers.indexOf(peer) + 1 + Math.floor(random() * (peers.length - 1))) % peers.length]
  const pid = peer.server?.pid as number
  const heartbeats = (least: number, most: number): number => HEARTBEAT_SECS * 1000 * (least + random() * (most - least))
  const what = random()
  if (what < 0.3) {
    process.kill(pid, 'SIGKILL')
    deaths.push({ at: Date.now(), id: peer.id })
    await sleep(heartbeats(0, 8))
    await start(peer)
    return 'killed'
  }
  if (what < 0.55) {
    process.kill(pid, 'SIGSTOP')
    await sleep(heartbeats(0.5, 8))
    process.kill(pid, 'SIGCONT')
    return 'paused'
  }
  if (what < 0.75) {
    const stall = random() < 0.5
    if (stall) peer.link.stall()
    else peer.link.cut()
    await sleep(heartbeats(0.5, 8))
    peer.link.mend()
    return stall ? 'state stalled' : 'state cut off'
  }
  if (what < 0.9) {
    const { status } = await get(other.port, `/api/v1/admin/nodes/${peer.id}/decommission`, { method: 'POST' })
    if (status !== 202) return `decommission: ${status}`
    for (let i = 0; i < 100; i++) {
      const { body } = await get(other.port, '/api/v1/admin/nodes')
      const view = (body as { items: { node_id: number; status: string }[] } | undefined)?.items.find(({ node_id }) => node_id === peer.id)
      if (view?.status === 'decommissioned') break
      await sleep(100)
    }
    await peer.server?.stop()
    await start(peer)
    for (let i = 0; i < 100; i++)
      if ((await get(other.port, '/api/v1/admin/nodes', json({ node_id: peer.id, addr: `127.0.0.1:${peer.port}` }))).status === 201) break
      else await sleep(100)
    return 'decommissioned'
  }
  const { status } = await get(peer.port, '/api/v1/admin/rebalance', { method: 'POST' })
  return status === 202 ? 'rebalanced' : `rebalance: ${status}`
}

/** PostgreSQL itself, for all of them. */
async function disturbState(postgres: TestPostgres, random: Random): Promise<string> {
  const what = random()
  const goes = sleep(HEARTBEAT_SECS * 1000 * (0.5 + random() * 7.5))
  if (what < 0.3) {
    await postgres.restart()
    return 'PostgreSQL restarted'
  }
  if (what < 0.6) {
    await postgres.kill()
    await goes
    await postgres.start()
    return 'PostgreSQL killed'
  }
  const goOn = postgres.pause()
  await goes
  goOn()
  return 'PostgreSQL paused'
}

/** All nodes active and ready. */
async function calm(peers: readonly Peer[]): Promise<void> {
  for (const end = Date.now() + CALM_MS; Date.now() < end; await sleep(100)) {
    const states = await Promise.all(peers.map(({ port }) => get(port, '/ready')))
    if (states.every(({ status }) => status === 200)) return
  }
  throw new Error('the nodes did not become ready when they were let alone')
}

/** Numbered points to any node that takes them; what was not acknowledged is sent again, perhaps to another. */
class Load {
  private readonly peers: readonly Peer[]
  private readonly base: bigint
  private readonly random: Random
  private sent = 0
  private going = false
  private running: Promise<void> | undefined

  constructor(peers: readonly Peer[], base: bigint, random: Random) {
    this.peers = peers
    this.base = base
    this.random = random
  }

  start(): void {
    this.going = true
    this.running = this.run()
  }

  async stop(): Promise<number> {
    this.going = false
    await this.running
    return this.sent
  }

  private async run(): Promise<void> {
    while (this.going) {
      const many = 1 + Math.floor(this.random() * 50)
      const lines = Array.from({ length: many }, (_, i) => `m,s=${(this.sent + i) % 7} v=${this.sent + i} ${this.base + BigInt(this.sent + i)}`).join('\n')
      for (let done = false; !done && this.going; ) {
        const { port } = this.peers[Math.floor(this.random() * this.peers.length)]
        const { status } = await get(port, '/write', { method: 'POST', body: lines })
        done = status === 204
        if (done) this.sent += many
        else await sleep(20)
      }
      await sleep(10)
    }
  }
}

async function missingOf(port: number, base: bigint, sent: number): Promise<number> {
  let missing = 0
  for (let from = 0; from < sent; from += WINDOW) {
    const to = Math.min(sent, from + WINDOW)
    const plan = { measurement: 'm', range: { start: String(base + BigInt(from)), end: String(base + BigInt(to)) }, limit: WINDOW }
    let there = new Set<number>()
    // Those that are forwarded come when they come.
    for (const end = Date.now() + CALM_MS; there.size < to - from && Date.now() < end; await sleep(200)) {
      const { status, body } = await get(port, '/api/v1/svc/query', json(plan))
      if (status === 200) there = new Set((body as { fields: { v: number } }[]).map(({ fields }) => fields.v))
    }
    for (let v = from; v < to; v++) if (!there.has(v)) missing++
  }
  return missing
}

const rowsOf = async (client: pg.Client, prefix: string): Promise<{ key: string; value: unknown }[]> => {
  const { rows } = await client.query<{ key: Buffer; value: Buffer }>(
    `SELECT key, value FROM svc.state WHERE owner = 'witness' AND key >= $1 AND key < $2 ORDER BY key`,
    [Buffer.from(prefix), Buffer.from(`${prefix}\xff`, 'latin1')],
  )
  return rows.map(({ key, value }) => ({ key: key.toString(), value: JSON.parse(value.toString()) }))
}

async function countsOf(client: pg.Client): Promise<Record<string, number>> {
  const counts: Record<string, number> = {}
  for (const { key, value } of await rowsOf(client, 'count/')) counts[key.split('/')[1]] = value as number
  for (const { key } of await rowsOf(client, 'turn/')) counts[key.split('/')[1]] = (counts[key.split('/')[1]] ?? 0) + 1
  return counts
}

async function judged(client: pg.Client): Promise<Pick<ClusterOutcome, 'behindFence' | 'twice' | 'writes' | 'turns' | 'handOvers'>> {
  const newest = new Map<string, number>()
  let [behindFence, handOvers] = [0, 0]
  const log = await rowsOf(client, 'log/')
  for (const { key, value: token } of log as { key: string; value: number }[]) {
    const work = key.split('/')[1]
    const before = newest.get(work) ?? 0
    if (token < before) behindFence++
    if (token > before && before > 0) handOvers++
    newest.set(work, Math.max(before, token))
  }
  const twice = (await rowsOf(client, 'twice/')).length
  return { behindFence, twice, writes: log.length, turns: (await rowsOf(client, 'turn/')).length, handOvers }
}

/** What the nodes were sure of, in the order of this machine's clock. */
function sureness(peers: readonly Peer[]): { twoSure: number; deaf: number; takeoverAfter(at: number, id: number): number[] } {
  const lines = peers
    .filter(({ file }) => existsSync(file))
    .flatMap(({ id, file }) =>
      readFileSync(file, 'utf8')
        .split('\n')
        .map((line) => ({ id, words: line.split(' ') })),
    )
  const moments = lines
    .flatMap(({ id, words: [work, token, at] }) => (at === undefined || at === '' ? [] : [{ id, work, token: Number(token), at: Number(at) }]))
    .sort((a, b) => a.at - b.at)
  const deaf = lines.filter(({ words: [word] }) => word === 'deaf').length
  const newest = new Map<string, { token: number; at: number }>()
  let twoSure = 0
  for (const { work, token, at } of moments) {
    const before = newest.get(work)
    if (before !== undefined && token < before.token && at > before.at) twoSure++
    if (before === undefined || token > before.token) newest.set(work, { token, at })
  }
  return {
    twoSure,
    deaf,
    takeoverAfter: (at, id) =>
      WORKS.flatMap((work) => {
        const mine = moments.filter((moment) => moment.work === work)
        const last = mine.findLast((moment) => moment.at <= at)
        const next = mine.find((moment) => moment.at > at)
        return last?.id === id && next !== undefined ? [next.at - at] : []
      }),
  }
}

function endQuietly(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL')
  } catch {
    // it has ended by itself
  }
}

if (import.meta.main) {
  const [events = '60', seed = String(Math.floor(Math.random() * 2 ** 31)), nodes = '5'] = process.argv.slice(2)
  process.stdout.write(`seed ${seed}\n`)
  const outcome = await clusterLoop({ events: Number(events), seed: Number(seed), nodes: Number(nodes) })
  const { takeovers, ...rest } = outcome
  const sorted = takeovers.toSorted((a, b) => a - b)
  const quantile = (q: number): string => `${sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * q))] ?? '-'}`
  process.stdout.write(
    `${JSON.stringify(rest, undefined, 1)}\n${sorted.length} takeovers, ms: median ${quantile(0.5)}, 0.9 ${quantile(0.9)}, most ${quantile(1)}; a heartbeat is ${HEARTBEAT_SECS * 1000}\n`,
  )
  const { missing, behindFence, twice, twoSure, deaf, idle } = outcome
  if (missing + behindFence + twice + twoSure + deaf + idle.length > 0) process.exitCode = 1
}
