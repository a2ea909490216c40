/** One cell of the sheet: so many rows of so many series, written to a server of its own over HTTP, asked, and started again. */
import { mkdtemp, readdir, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { ServerProcess } from '../crash/server.ts'
import { processorSeconds, resident } from './process-figures.ts'
import { type Question, questionsOf } from './questions.ts'
import { bodies, FIELDS, STEP } from './rows.ts'

const CONNECTIONS = 2
const ROWS_PER_BODY = 10_000
const READY_LIMIT_MS = 300_000
const STOP_LIMIT_MS = 300_000
/** A server is at rest when it takes less of a processor than this for so long. */
const REST_SHARE = 0.1
const REST_MS = 2000
const REST_LIMIT_MS = 120_000
const TIMES = 20
const TIMES_LARGE = 5

export interface Cell {
  rows: number
  series: number
}

export interface CellOptions {
  questions: boolean
  /** Milliseconds after which no more rows are written. */
  writeLimitMs: number
  log: (line: string) => void
}

/** Names of figures, and what they are; texts for what failed. */
export type Figures = Map<string, number | string>

export async function runCell({ rows, series }: Cell, { questions, writeLimitMs, log }: CellOptions): Promise<Figures> {
  const folder = await mkdtemp(join(tmpdir(), 'svc-scale-'))
  const figures: Figures = new Map()
  const start = (): Promise<ServerProcess> =>
    ServerProcess.spawn({
      folder,
      engine: 'embedded',
      sql: true,
      plugins: ['promql'],
      database: { result_cache_size: 0, max_series_cardinality: Math.max(1_000_000, series) },
    })
  let server = await start()
  try {
    await server.ready(READY_LIMIT_MS)
    figures.set('memory at start, MiB', resident(server.pid).now)
    const steps = Math.max(1, Math.round(rows / series))
    const end = Math.floor(Date.now() / 1000 / STEP) * STEP
    const written = await ingest(server, { series, steps, start: end - (steps - 1) * STEP, limitMs: writeLimitMs }, figures, log)
    figures.set('memory at ingest, peak, MiB', resident(server.pid).peak)
    await rest(server)
    figures.set('bytes a value', (await bytesBelow(join(folder, 'data', 'segments'))) / (written * FIELDS))
    figures.set('memory after ingest, MiB', resident(server.pid).now)
    for (const [name, value] of await gauges(server, series)) figures.set(name, value)
    if (questions) {
      for (const question of questionsOf(series, end)) await ask(server, question, figures, log)
      figures.set('memory after questions, MiB', resident(server.pid).now)
      figures.set('memory, peak, MiB', resident(server.pid).peak)
    }
    for (const signal of ['SIGKILL', 'SIGTERM'] as const) {
      const stopping = performance.now()
      await server.end(signal, STOP_LIMIT_MS)
      if (signal === 'SIGTERM') figures.set('stop, ms', performance.now() - stopping)
      server = await start()
      const ms = await server.ready(READY_LIMIT_MS)
      figures.set(`restart after ${signal}, ms`, ms)
      figures.set(`restart after ${signal}, processor ms`, processorSeconds(server.pid) * 1000)
      log(`  restart after ${signal}: ${Math.round(ms)} ms`)
      if (signal === 'SIGKILL') await rest(server)
    }
    figures.set('memory after restart, MiB', resident(server.pid).now)
    return figures
  } finally {
    if (server.running) await server.end('SIGKILL')
    await rm(folder, { recursive: true, force: true })
  }
}

interface IngestOptions {
  series: number
  steps: number
  start: number
  limitMs: number
}

/** @returns rows written. */
async function ingest(server: ServerProcess, { series, steps, start, limitMs }: IngestOptions, figures: Figures, log: (line: string) => void): Promise<number> {
  const began = performance.now()
  const before = processorSeconds(server.pid)
  let written = 0
  let logged = began
  let refused = 0
  const send = async (connection: number): Promise<void> => {
    const first = Math.floor((series * connection) / CONNECTIONS)
    const hosts = Math.floor((series * (connection + 1)) / CONNECTIONS) - first
    for (const body of bodies({ first, hosts, steps, start, rowsPerBody: ROWS_PER_BODY })) {
      if (performance.now() - began > limitMs) return
      while (true) {
        const answer = await fetch(`${server.url}/write?precision=s`, { method: 'POST', body })
        const text = await answer.text()
        if (answer.status === 204) break
        if (answer.status !== 503) throw new Error(`cannot write rows: ${answer.status} ${text}`)
        refused++
        await setTimeout(200)
      }
      written += body.length / rowBytes(body)
      if (performance.now() - logged > 10_000) {
        logged = performance.now()
        log(`  ${written} rows, ${Math.round(resident(server.pid).now)} MiB`)
      }
    }
  }
  await Promise.all(Array.from({ length: CONNECTIONS }, (_, connection) => send(connection)))
  const seconds = (performance.now() - began) / 1000
  if (written < steps * series) figures.set('rows written before the time was up', written)
  figures.set('ingest, µs of wall a row', (seconds * 1e6) / written)
  figures.set('ingest, µs of processor a row', ((processorSeconds(server.pid) - before) * 1e6) / written)
  if (refused > 0) figures.set('writes answered 503', refused)
  log(`  ${written} rows in ${seconds.toFixed(1)} s`)
  return written
}

const rowBytes = (body: Buffer): number => body.indexOf(10) + 1

/** Waits until flushes and merges are done. */
async function rest(server: ServerProcess): Promise<void> {
  for (const until = performance.now() + REST_LIMIT_MS; performance.now() < until; ) {
    const before = processorSeconds(server.pid)
    await setTimeout(REST_MS)
    if (processorSeconds(server.pid) - before < (REST_MS / 1000) * REST_SHARE) return
  }
}

async function gauges(server: ServerProcess, series: number): Promise<[string, number][]> {
  const text = await (await fetch(`${server.url}/metrics`)).text()
  const read = (name: string): number => Number(new RegExp(`^svc_${name} (\\S+)$`, 'm').exec(text)?.[1] ?? 0)
  const flushed = read('flush_written_bytes_total')
  return [
    ['segments', read('segments')],
    ['bytes merged a byte flushed', flushed === 0 ? 0 : read('compaction_written_bytes_total') / flushed],
    ['series index, bytes a series', read('interner_memory_bytes') / series],
  ]
}

async function ask(server: ServerProcess, question: Question, figures: Figures, log: (line: string) => void): Promise<void> {
  const { name, large } = question
  const first = performance.now()
  const failure = await answerTo(server, question)
  if (failure !== undefined) {
    figures.set(`${name}, ms`, failure)
    log(`  ${name}: ${failure}`)
    return
  }
  const firstMs = performance.now() - first
  const times: number[] = []
  const before = processorSeconds(server.pid)
  for (let i = 0; i < (large ? TIMES_LARGE : TIMES); i++) {
    const began = performance.now()
    await answerTo(server, question)
    times.push(performance.now() - began)
  }
  const processor = ((processorSeconds(server.pid) - before) * 1000) / times.length
  times.sort((a, b) => a - b)
  const median = times[times.length >> 1]
  figures.set(`${name}, first, ms`, firstMs)
  figures.set(`${name}, ms`, median)
  figures.set(`${name}, processor ms`, processor)
  log(`  ${name}: first ${firstMs.toFixed(1)}, median ${median.toFixed(1)}, processor ${processor.toFixed(1)} ms`)
}

/** @returns why there was none. */
async function answerTo(server: ServerProcess, { sql, promql }: Question): Promise<string | undefined> {
  const answer =
    sql === undefined
      ? await fetch(
          `${server.url}/api/v1/${promql?.path}?${new URLSearchParams(Object.entries(promql?.params ?? {}).map(([key, value]): [string, string] => [key, String(value)]))}`,
        )
      : await fetch(`${server.url}/api/v1/svc/sql`, { method: 'POST', body: JSON.stringify({ query: sql }), headers: { 'content-type': 'application/json' } })
  const bytes = Buffer.from(await answer.arrayBuffer())
  return answer.ok ? undefined : `${answer.status} ${bytes.subarray(0, 300).toString()}`
}

async function bytesBelow(folder: string): Promise<number> {
  let sum = 0
  for (const entry of await readdir(folder, { withFileTypes: true, recursive: true }))
    if (entry.isFile()) sum += (await stat(join(entry.parentPath, entry.name)).catch(() => ({ size: 0 }))).size
  return sum
}
