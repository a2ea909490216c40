/**
 * What questions cost over rows that came out of order: batches of five steps of 1,000 hosts are sent shuffled within a span of them, so that memtables' chunks
 * and segments overlap in time, and nothing is merged. Medians of ten answers in milliseconds of wall, with nothing read yet for the first.
 *
 *   node test/scale/out-of-order.bench.ts [main.ts]
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { seeded } from 'svcdb/lib/random'
import { MAIN, runServer } from '../support/server.ts'

const HOSTS = 1000
const STEPS = 2160
const STEP = 10
const BATCH_STEPS = 5
const START = 1_700_000_000
const END = START + STEPS * STEP
const HALF = START + (STEPS * STEP) / 2
const ASKED = 10
/** Batches that a batch may be early or late, and bytes of a memtable: the last has all rows in one. */
const CASES: readonly (readonly [span: number, threshold: number])[] = [
  [1, 8 << 20],
  [4, 8 << 20],
  [40, 8 << 20],
  [40, 256 << 20],
]

const range = (query: string, step: number, start: number): string =>
  `/api/v1/query_range?query=${encodeURIComponent(query)}&start=${start}&end=${END}&step=${step}`
const time = (seconds: number): string => `timestamp '${new Date(seconds * 1000).toISOString().slice(0, 19)}Z'`
const DURING = `_time >= ${time(HALF)} AND _time < ${time(END)}`
const QUESTIONS: readonly (readonly [name: string, path: string, statement?: string])[] = [
  ['avg_over_time of 1 h by host', range('avg by (hostname) (avg_over_time(cpu_usage_user[1h]))', 3600, HALF)],
  ['sum(rate[5m])', range('sum(rate(cpu_usage_user[5m]))', 60, END - 3600)],
  ['sum(rate[1h])', range('sum(rate(cpu_usage_user[1h]))', 3600, HALF)],
  ['selector > 90', range('count(cpu_usage_user > 90)', 60, HALF)],
  [
    'SQL double-groupby',
    '/api/v1/svc/sql',
    `SELECT time_bucket(INTERVAL '1 hour', _time) AS t, hostname, avg(usage_user) FROM cpu WHERE ${DURING} GROUP BY 1, 2 ORDER BY 1, 2`,
  ],
  ['SQL count > 90', '/api/v1/svc/sql', `SELECT count(*) FROM cpu WHERE usage_user > 90 AND ${DURING}`],
]

async function ask(url: string, path: string, statement?: string): Promise<number> {
  const began = performance.now()
  const body = statement === undefined ? {} : { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ query: statement }) }
  const answer = await fetch(url + path, body)
  const text = await answer.text()
  if (!answer.ok) throw new Error(`${path}: ${answer.status} ${text}`)
  return performance.now() - began
}

function batches(span: number): number[] {
  const random = seeded(1)
  const keys = Array.from({ length: STEPS / BATCH_STEPS }, (_, batch) => ({ batch, key: batch + random() * span }))
  return keys.sort((a, b) => a.key - b.key).map(({ batch }) => batch)
}

function rowsOf(batch: number): string {
  const lines: string[] = []
  for (let step = batch * BATCH_STEPS; step < (batch + 1) * BATCH_STEPS; step++)
    for (let host = 0; host < HOSTS; host++)
      lines.push(`cpu,hostname=host_${host} usage_user=${(step * 7 + host * 3) % 100}i,usage_system=${(step * 3 + host) % 100}i ${START + step * STEP}`)
  return lines.join('\n')
}

async function run(main: string, span: number, threshold: number): Promise<void> {
  const dir = mkdtempSync(join(tmpdir(), 'svc-order-bench-'))
  const config = join(dir, 'svc.toml')
  writeFileSync(
    config,
    `plugins = ["line_protocol", "sql", "promql"]\n[server]\nhttp_addr = "127.0.0.1:0"\n[database]\nresult_cache_size = 0\nmaintenance_interval_secs = 3600\nmemtable_flush_threshold = ${threshold}\n`,
  )
  const server = await runServer(config, { main, env: { SVC_DATA_DIR: join(dir, 'data') } })
  try {
    for (const batch of batches(span)) {
      const answer = await fetch(`${server.url}/write?precision=s&backfill=true`, { method: 'POST', body: rowsOf(batch) })
      if (!answer.ok) throw new Error(await answer.text())
    }
    console.log(`\nwithin ${span} batches, memtables of ${threshold >> 20} MiB`)
    for (const [name, path, statement] of QUESTIONS) {
      const first = await ask(server.url, path, statement)
      const times: number[] = []
      for (let i = 0; i < ASKED; i++) times.push(await ask(server.url, path, statement))
      const median = times.sort((a, b) => a - b)[ASKED >> 1]
      console.log(`${name.padEnd(30)} first ${first.toFixed(0).padStart(6)}, then ${median.toFixed(1).padStart(6)}`)
    }
  } finally {
    await server.stop()
    rmSync(dir, { recursive: true })
  }
}

const main = process.argv[2] ?? MAIN
for (const [span, threshold] of CASES) await run(main, span, threshold)
