/**
 * Series that come and go on the real server: in each round a tenth of them end, as many begin, and time moves on, so that retention removes
 * what ended. What was given back must count against nothing, and memory must come to rest. Times run faster than the clock and lie in the past.
 *
 *   node test/crash/churn.ts [series] [rounds]
 */
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { ServerProcess } from './server.ts'

const SHARD_SECS = 60
const RETENTION_SECS = 120
/** Rounds after its last point until a series is behind retention: cutoffs are whole shards. */
const ROUNDS_KEPT = RETENTION_SECS / SHARD_SECS + 2
/** Part of the series that is written in each round, so that with those that wait for retention they stay below the limit. */
const ACTIVE = 0.65
const CHURN = 0.1
const LINES_PER_WRITE = 10_000
const CONNECTIONS = 2
const RELEASE_LIMIT_MS = 120_000
const READY_LIMIT_MS = 120_000
/** What the process has at rest is the least within this time: a flush or a collection that is at work is none of it. */
const REST_MS = 10_000
const MIB = 1 << 20

/** The engine's, and what the main thread takes in all. */
const GAUGES = [
  'memtable_memory_bytes',
  'interner_memory_bytes',
  'wal_buffer_bytes',
  'catalog_memory_bytes',
  'nodejs_heap_size_total_bytes',
  'nodejs_external_memory_bytes',
] as const
type Gauge = (typeof GAUGES)[number]

export interface Round extends Record<Gauge, number> {
  /** Series that were ever begun. */
  begun: number
  /** Live ones when the round has ended. */
  series: number
  released: number
  segments: number
  rss: number
}

export interface ChurnOptions {
  /** The most that may be live: max_series_cardinality. */
  series: number
  rounds: number
  log?: (line: string) => void
}

export interface ChurnReport {
  rounds: Round[]
  /** After a clean restart at the end. */
  restarted: Round
}

export async function churn({ series, rounds, log = () => {} }: ChurnOptions): Promise<ChurnReport> {
  const folder = await mkdtemp(join(tmpdir(), 'svc-churn-'))
  const active = Math.floor(series * ACTIVE)
  const ended = Math.floor(active * CHURN)
  // Far enough back that the last round is not in the future.
  const base = Math.floor(Date.now() / 1000 / SHARD_SECS) * SHARD_SECS - (rounds + 2) * SHARD_SECS
  const database = {
    max_series_cardinality: series,
    shard_duration_secs: SHARD_SECS,
    retention_secs: RETENTION_SECS,
    maintenance_interval_secs: 1,
  }
  const start = async (): Promise<ServerProcess> => {
    const started = await ServerProcess.spawn({ folder, engine: 'embedded', sql: false, database })
    await started.ready(READY_LIMIT_MS)
    return started
  }
  const report: ChurnReport = { rounds: [], restarted: undefined as unknown as Round }
  let server = await start()
  try {
    for (let round = 0; round < rounds; round++) {
      const first = round * ended
      await writeAll(server.url, first, active, base + round * SHARD_SECS)
      const measured = await released(server, active + ROUNDS_KEPT * ended, first + active)
      // What the test compares.
      if (round === Math.floor(rounds / 2) || round === rounds - 1) measured.rss = await restingRss(server, measured.rss)
      report.rounds.push(measured)
      log(`round ${round}: ${told(measured)}`)
    }
    await server.end('SIGTERM', READY_LIMIT_MS)
    server = await start()
    // As far as it was, which makes new threads and memtables.
    await writeAll(server.url, (rounds - 1) * ended, active, base + rounds * SHARD_SECS)
    report.restarted = await released(server, active + ROUNDS_KEPT * ended, (rounds - 1) * ended + active)
    log(`restarted: ${told(report.restarted)}`)
    await server.end('SIGTERM', READY_LIMIT_MS)
    return report
  } catch (error) {
    throw new Error(`${(error as Error).message}\nthe server's last words:\n${server.output.slice(-4000)}`, { cause: error })
  } finally {
    if (server.running) await server.end('SIGKILL')
    await rm(folder, { recursive: true, force: true })
  }
}

/** A point of each series. */
async function writeAll(url: string, first: number, count: number, secs: number): Promise<void> {
  let next = first
  const end = first + count
  const connection = async (): Promise<void> => {
    while (next < end) {
      const from = next
      next = Math.min(end, from + LINES_PER_WRITE)
      const lines = Array.from(
        { length: next - from },
        (_, i) => `churn,pod=pod-${String(from + i).padStart(9, '0')},zone=z${(from + i) % 5} v=${(from + i) % 1000},w=1 ${secs}`,
      )
      await write(url, lines.join('\n'))
    }
  }
  await Promise.all(Array.from({ length: CONNECTIONS }, connection))
}

async function write(url: string, body: string): Promise<void> {
  while (true) {
    const answer = await fetch(`${url}/api/v2/write?precision=s`, { method: 'POST', body, headers: { 'content-type': 'text/plain; charset=utf-8' } })
    const said = await answer.text()
    if (answer.status === 204) return
    if (answer.status !== 503) throw new Error(`a write answers ${answer.status}: ${said.slice(0, 500)}`)
    await setTimeout(100) // back-pressure
  }
}

/** Waits until no more series are live than may be. @throws Error when they are not given back. */
async function released(server: ServerProcess, most: number, begun: number): Promise<Round> {
  const until = performance.now() + RELEASE_LIMIT_MS
  while (true) {
    const measured = await measure(server, begun)
    if (measured.series <= most) return measured
    if (performance.now() > until) throw new Error(`${measured.series} series are live of which ${most} should be: ${told(measured)}`)
    await setTimeout(200)
  }
}

async function measure(server: ServerProcess, begun: number): Promise<Round> {
  const body = await (await fetch(`${server.url}/metrics`)).text()
  const value = (name: string): number => Number(new RegExp(`^svc_${name} (\\S+)`, 'm').exec(body)?.[1] ?? Number.NaN)
  const gauges = Object.fromEntries(GAUGES.map((name) => [name, value(name)])) as Record<Gauge, number>
  const rss = await residentBytes(server)
  return { begun, series: value('series'), released: value('series_released_total'), segments: value('segments'), rss, ...gauges }
}

async function residentBytes({ pid }: ServerProcess): Promise<number> {
  return Number(/^VmRSS:\s+(\d+)/m.exec(await readFile(`/proc/${pid}/status`, 'utf8'))?.[1]) * 1024
}

async function restingRss(server: ServerProcess, now: number): Promise<number> {
  let least = now
  for (const until = performance.now() + REST_MS; performance.now() < until; await setTimeout(500)) least = Math.min(least, await residentBytes(server))
  return least
}

function told(round: Round): string {
  const mib = (bytes: number): string => `${Math.round(bytes / MIB)} MiB`
  const gauges = GAUGES.map((name) => `${name.replace(/^nodejs_|_(size_total|memory|buffer)?_?bytes$/g, '')} ${mib(round[name])}`)
  return `${round.begun} begun, ${round.series} live, ${round.released} given back, ${round.segments} segments, RSS ${mib(round.rss)}, ${gauges.join(', ')}`
}

if (import.meta.main) {
  const [series = '1000000', rounds = '12'] = process.argv.slice(2)
  await churn({ series: Number(series), rounds: Number(rounds), log: (line) => void process.stdout.write(`${line}\n`) })
}
