/**
 * What a small question costs once its code is warm, part by part: each line does what the one above it does, and one thing more. Lines take turns, so that a
 * busy machine is as unfair to all; of the processor's time the quickest round counts, of the answers' times the middle.
 *
 *   node test/scale/small-questions.bench.ts [rounds]
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { Agent, type RequestOptions, request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { ServerProcess } from '../crash/server.ts'
import { threadTimes } from './process-figures.ts'
import { questionsOf } from './questions.ts'
import { bodies, STEP } from './rows.ts'

const SERIES = 1000
const STEPS = 360
const WARM = 300
const ASKED = 200
const ROUNDS = Number(process.argv[2] ?? 4)

/** A server of node's own that answers two bytes: what is asked of it costs what HTTP costs here. */
const BARE = `
  const server = require('node:http').createServer((_, answer) => answer.writeHead(200, { 'content-type': 'application/json' }).end('{}'))
  server.listen(0, '127.0.0.1', () => console.log(server.address().port))
`

interface Line {
  name: string
  pid: number
  url: string
  options: RequestOptions
  body?: string
  /** Milliseconds. */
  times: number[]
  main: number
  others: number
  bytes: number
}

const agent = new Agent({ keepAlive: true })

/** @returns bytes of the answer. @throws Error for one that is no success. */
function ask({ name, url, options, body }: Line): Promise<number> {
  return new Promise((resolve, reject) => {
    const sent = request(url, { agent, ...options }, (answer) => {
      let bytes = 0
      answer.on('data', (part: Buffer) => {
        bytes += part.length
      })
      answer.on('end', () => (answer.statusCode === 200 ? resolve(bytes) : reject(new Error(`${name} was answered ${answer.statusCode}`))))
    })
    sent.once('error', reject).end(body)
  })
}

async function fill(server: ServerProcess, end: number): Promise<void> {
  for (const body of bodies({ first: 0, hosts: SERIES, steps: STEPS, start: end - (STEPS - 1) * STEP, rowsPerBody: 10_000 })) {
    const answer = await fetch(`${server.url}/write?precision=s`, { method: 'POST', body })
    if (answer.status !== 204) throw new Error(`cannot write rows: ${answer.status} ${await answer.text()}`)
  }
}

function linesOf(bare: { pid: number; url: string }, { pid, url }: ServerProcess, end: number): Line[] {
  const line = (name: string, path: string, options: RequestOptions = {}, body?: string): Line => ({
    name,
    pid,
    url: url + path,
    options,
    ...(body === undefined ? {} : { body }),
    times: [],
    main: Number.POSITIVE_INFINITY,
    others: Number.POSITIVE_INFINITY,
    bytes: 0,
  })
  const post = { method: 'POST', headers: { 'content-type': 'application/json' } }
  const wanted = questionsOf(SERIES, end).filter(({ large }) => large !== true)
  return [
    { ...line('node:http alone', ''), ...bare },
    line('/health: routes and hooks', '/health'),
    line('PromQL 1: to an engine thread and back', '/api/v1/query?query=1'),
    line('SQL 1: and through DuckDB', '/api/v1/svc/sql', post, JSON.stringify({ query: 'SELECT 1' })),
    line('PromQL, a series without samples there', '/api/v1/query?query=cpu_user{host="none"}'),
    ...wanted.map(({ name, sql, promql }) => {
      if (sql !== undefined) return line(name, '/api/v1/svc/sql', post, JSON.stringify({ query: sql }))
      const params = Object.entries(promql?.params ?? {}).map(([key, value]): [string, string] => [key, String(value)])
      return line(name, `/api/v1/${promql?.path}?${new URLSearchParams(params)}`)
    }),
  ]
}

async function round(line: Line): Promise<void> {
  const before = threadTimes(line.pid)
  for (let i = 0; i < ASKED; i++) {
    const began = performance.now()
    line.bytes = await ask(line)
    line.times.push(performance.now() - began)
  }
  const after = threadTimes(line.pid)
  line.main = Math.min(line.main, (after.main - before.main) / ASKED)
  line.others = Math.min(line.others, (after.others - before.others) / ASKED)
}

const folder = await mkdtemp(join(tmpdir(), 'svc-small-'))
const child = spawn(process.execPath, ['-e', BARE], { stdio: ['ignore', 'pipe', 'inherit'] })
const server = await ServerProcess.spawn({ folder, engine: 'embedded', sql: true, plugins: ['promql'], database: { result_cache_size: 0 } })
try {
  const [port] = (await once(child.stdout, 'data')) as [Buffer]
  await server.ready(60_000)
  const end = Math.floor(Date.now() / 1000 / STEP) * STEP
  await fill(server, end)
  const lines = linesOf({ pid: child.pid as number, url: `http://127.0.0.1:${String(port).trim()}/` }, server, end)
  for (const line of lines) for (let i = 0; i < WARM; i++) await ask(line)
  for (let i = 0; i < ROUNDS; i++) for (const line of lines) await round(line)
  process.stdout.write(`${'µs'.padEnd(42)}${['p50', 'p99', 'main thread', 'others', 'bytes'].map((title) => title.padStart(12)).join('')}\n`)
  for (const { name, times, main, others, bytes } of lines) {
    times.sort((a, b) => a - b)
    const shown = [times[times.length >> 1], times[Math.floor(times.length * 0.99)], main, others].map((ms) => String(Math.round(ms * 1000)).padStart(12))
    process.stdout.write(`${name.padEnd(42)}${shown.join('')}${String(bytes).padStart(12)}\n`)
  }
} finally {
  child.kill()
  agent.destroy()
  if (server.running) await server.end('SIGKILL')
  await rm(folder, { recursive: true, force: true })
}
