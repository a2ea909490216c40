/**
 * A dashboard that many have open: the same question so many times at once, and as many that differ in what does not change their cost, in turns.
 *
 *   node test/scale/equal-questions.bench.ts [rounds]
 */
import { mkdtemp, rm } from 'node:fs/promises'
import { Agent, get } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { ServerProcess } from '../crash/server.ts'
import { bodies, STEP } from './rows.ts'

const SERIES = 1000
const STEPS = 360
const AT_ONCE = [1, 4, 16, 64]
const ROUNDS = Number(process.argv[2] ?? 12)
const LOOKBACK = 300

const STATEMENTS = [
  `SELECT region, time_bucket(INTERVAL '1 minute', _time) AS minute, avg(user) FROM cpu GROUP BY region, minute ORDER BY region, minute`,
  `SELECT host, quantile_disc(user, 0.5) FROM cpu GROUP BY host ORDER BY host`,
]

const agent = new Agent({ keepAlive: true, maxSockets: 256 })

function ask(url: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const sent = get(url, { agent }, (answer) => {
      let text = ''
      answer.setEncoding('utf8').on('data', (part: string) => {
        text += part
      })
      answer.on('end', () => (answer.statusCode === 200 ? resolve(text) : reject(new Error(`${answer.statusCode}: ${text}`))))
    })
    sent.once('error', reject)
  })
}

/** Milliseconds until the last of them is answered. @throws Error when answers differ. */
async function round(urls: readonly string[]): Promise<number> {
  const began = performance.now()
  const answers = await Promise.all(urls.map(ask))
  const took = performance.now() - began
  if (new Set(answers).size !== 1) throw new Error('answers differ')
  return took
}

const median = (values: number[]): string =>
  values
    .sort((a, b) => a - b)
    [values.length >> 1].toFixed(1)
    .padStart(12)

const folder = await mkdtemp(join(tmpdir(), 'svc-equal-'))
const server = await ServerProcess.spawn({ folder, engine: 'embedded', sql: true, plugins: ['promql'], database: { result_cache_size: 0 } })
try {
  await server.ready(60_000)
  const end = Math.floor(Date.now() / 1000 / STEP) * STEP
  for (const body of bodies({ first: 0, hosts: SERIES, steps: STEPS, start: end - (STEPS - 1) * STEP, rowsPerBody: 10_000 })) {
    const answer = await fetch(`${server.url}/write?precision=s`, { method: 'POST', body })
    if (answer.status !== 204) throw new Error(`cannot write rows: ${answer.status} ${await answer.text()}`)
  }
  process.stdout.write(`${'ms, median of the last answer'.padEnd(52)}${['equal', 'different'].map((title) => title.padStart(12)).join('')}\n`)
  for (const query of ['sum by (region) (rate(cpu_user[5m]))', 'max(cpu_user{host="host_0000003"})']) {
    const url = (lookback: number): string =>
      `${server.url}/api/v1/query_range?${new URLSearchParams({ query, start: String(end - 1800), end: String(end), step: '15', lookback_delta: `${lookback}s` })}`
    await compare(query, url)
  }
  for (const query of STATEMENTS) {
    const url = (limit: number): string => `${server.url}/api/v1/svc/sql?${new URLSearchParams({ q: `${query} LIMIT ${1000 + limit}` })}`
    await compare(query, url)
  }
} finally {
  agent.destroy()
  if (server.running) await server.end('SIGKILL')
  await rm(folder, { recursive: true, force: true })
}

/** @param url of a question, whose cost does not depend on the number. */
async function compare(query: string, url: (number: number) => string): Promise<void> {
  for (let i = 0; i < 20; i++) await round([url(LOOKBACK)])
  for (const count of AT_ONCE) {
    const equal: number[] = []
    const different: number[] = []
    for (let i = 0; i < ROUNDS; i++) {
      equal.push(await round(Array.from({ length: count }, () => url(LOOKBACK))))
      different.push(await round(Array.from({ length: count }, (_, k) => url(LOOKBACK + k))))
    }
    process.stdout.write(`${`${query}, ${count} at once`.padEnd(52)}${median(equal)}${median(different)}\n`)
  }
}
