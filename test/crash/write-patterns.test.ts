/** The number of segment files stays bounded on the real server whatever order points come in, and reads are right meanwhile and afterwards. */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { ServerProcess } from './server.ts'

const FAN_IN = 3
/** So small that each run flushes dozens of times. */
const SMALL = { memtable_flush_threshold: 65_536, wal_max_file_size: 65_536, maintenance_interval_secs: 1, compaction_fan_in: FAN_IN }
/** Levels of merging that a run can reach, each with fewer than fan-in segments that wait, and a merge under way. */
const LEVELS = 4
const BOUND = LEVELS * (FAN_IN - 1) + 2 * FAN_IN
const MIN_FLUSHES = 8
const SERIES = 100
const POINTS = 50_000
const LINES_PER_WRITE = 500
const SETTLE_MS = 30_000
const BASE_MS = Math.floor(Date.now() / 1000) * 1000 - 3_000_000
t.setTimeout(180_000)

interface Pattern {
  /** Line of point i, without what is the same for all. */
  line(i: number): string
  /** Answer of a count over everything. */
  points: number
  count: string
}

const series = (i: number, ms: number): string => `pattern,host=h${i % SERIES} v=${i}i,w=${i % 7} ${BASE_MS + ms}`
const STEPS = POINTS / SERIES
const step = (i: number): number => Math.floor(i / SERIES)
const COUNT = 'SELECT count(*) AS n, count(DISTINCT v) AS d FROM pattern'
const METRICS = 5000

const patterns: Record<string, Pattern> = {
  'in order': { line: (i) => series(i, step(i) * 1000), points: POINTS, count: COUNT },
  // 7919 has no factor in common with the number of steps: each comes once, far from the one before it.
  'out of order': { line: (i) => series(i, ((step(i) * 7919) % STEPS) * 1000), points: POINTS, count: COUNT },
  'a backfill, newest first': { line: (i) => series(i, (STEPS - step(i)) * 1000), points: POINTS, count: COUNT },
  'the same times again and again': { line: (i) => series(i, (step(i) % 20) * 1000), points: 20 * SERIES, count: COUNT },
  'many metrics of one field': {
    line: (i) => `metric_${i % METRICS} value=${i}.5 ${BASE_MS + Math.floor(i / METRICS) * 1000}`,
    points: POINTS / METRICS,
    count: `SELECT count(*) AS n, count(DISTINCT value) AS d FROM metric_${METRICS - 1}`,
  },
}

for (const [name, pattern] of Object.entries(patterns)) {
  t.test(`segments stay few: ${name}`, async (t) => {
    const server = await start(t)
    let most = 0
    for (let from = 0; from < POINTS; from += LINES_PER_WRITE) {
      await write(server.url, Array.from({ length: LINES_PER_WRITE }, (_, i) => pattern.line(from + i)).join('\n'))
      most = Math.max(most, await metric(server.url, 'segments'))
    }
    t.ok(most <= BOUND, `at most ${most} segments while writing, ${BOUND} are allowed`)
    t.same(await counted(server.url, pattern.count), [pattern.points, pattern.points], 'read while merging goes on')
    const flushes = await metric(server.url, 'flushes_total')
    t.ok(flushes >= MIN_FLUSHES, `${flushes} flushes`)
    const settled = LEVELS * (FAN_IN - 1)
    let left = Number.POSITIVE_INFINITY
    for (const until = performance.now() + SETTLE_MS; left > settled && performance.now() < until; await setTimeout(100))
      left = await metric(server.url, 'segments')
    t.ok(left <= settled, `${left} segments when merging has come to rest`)
    t.same(await counted(server.url, pattern.count), [pattern.points, pattern.points], 'and afterwards')
    t.equal(await metric(server.url, 'compaction_failures_total'), 0)
    t.comment(`${flushes} flushes, ${await metric(server.url, 'compactions_total')} merges, at most ${most} segments, ${left} in the end`)
  })
}

async function start(t: Test): Promise<ServerProcess> {
  const folder = await mkdtemp(join(tmpdir(), 'svc-patterns-'))
  const server = await ServerProcess.spawn({ folder, engine: 'embedded', sql: true, database: SMALL })
  t.teardown(async () => {
    await server.end('SIGKILL')
    await rm(folder, { recursive: true, force: true })
  })
  await server.ready(30_000)
  return server
}

async function write(url: string, body: string): Promise<void> {
  for (;;) {
    const headers = { 'content-type': 'text/plain; charset=utf-8' }
    const answer = await fetch(`${url}/api/v2/write?precision=ms&backfill=true`, { method: 'POST', headers, body })
    const said = await answer.text()
    if (answer.status === 204) return
    if (answer.status !== 503) throw new Error(`a write answers ${answer.status}: ${said.slice(0, 300)}`)
    await setTimeout(50) // back-pressure
  }
}

async function metric(url: string, name: string): Promise<number> {
  const body = await (await fetch(`${url}/metrics`)).text()
  return Number(new RegExp(`^svc_${name} (\\S+)`, 'm').exec(body)?.[1] ?? Number.NaN)
}

async function counted(url: string, query: string): Promise<number[]> {
  const answer = await fetch(`${url}/api/v1/svc/sql`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ query }) })
  const body = await answer.text()
  if (answer.status !== 200) throw new Error(`the count answers ${answer.status}: ${body.slice(0, 300)}`)
  return (JSON.parse(body) as { rows: number[][] }).rows[0]
}
