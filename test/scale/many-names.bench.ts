/**
 * Very many metric names of a few series each: what writing them, flushing them and a start cost beside the same rows of one measurement, and what questions over all
 * names and listings cost, the first time after a start and once they are warm.
 *
 *   node test/scale/many-names.bench.ts [--names 20000] [--series 2] [--rounds 5] [--one] [--beside <folder>] [--only <part of a question's name>]
 *
 * --one writes the same rows as series of one measurement instead. --beside names a tree of another state of this code: both run at the same time and are asked in turn, and
 * a question whose answers differ is said to. Processor time is that of the server.
 */
import { createHash } from 'node:crypto'
import { mkdtemp, readdir, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { ServerProcess } from '../crash/server.ts'
import { processorSeconds, resident, threadTimes } from './process-figures.ts'

const { values: args } = parseArgs({
  options: {
    names: { type: 'string', default: '20000' },
    series: { type: 'string', default: '2' },
    rounds: { type: 'string', default: '5' },
    one: { type: 'boolean', default: false },
    beside: { type: 'string' },
    only: { type: 'string', default: '' },
  },
})
const NAMES = Number(args.names)
const SERIES = Number(args.series)
const ROUNDS = Number(args.rounds)
const LIMIT = NAMES * SERIES + 10
const ROWS_PER_BODY = 5000
const STEPS = 2
const STEP = 60
/** Names begin with one of these, in turn. */
const PREFIXES = ['http', 'go', 'node', 'process', 'kube', 'db', 'queue', 'disk']
const REST_MS = 2000
const REST_SHARE = 0.1
const REST_LIMIT_MS = 300_000
const READY_LIMIT_MS = 600_000

interface State {
  title: string
  folder: string
  spawn: () => Promise<ServerProcess>
  server: ServerProcess
  figures: Map<string, string>
}

interface Question {
  name: string
  /** POST body of a statement. */
  sql?: string
  path?: string
}

const nameOf = (i: number): string => `${PREFIXES[i % PREFIXES.length]}_metric_${String(i).padStart(6, '0')}`

function* bodies(end: number): Generator<string> {
  let lines: string[] = []
  for (let step = 0; step < STEPS; step++) {
    const time = end - (STEPS - 1 - step) * STEP
    for (let i = 0; i < NAMES; i++) {
      for (let s = 0; s < SERIES; s++) {
        const tags = `instance=host_${s},job=job_${i % 50}`
        lines.push(`${args.one ? `all,name=${nameOf(i)},${tags}` : `${nameOf(i)},${tags}`} value=${(i * 7 + s * 3 + step) % 1000} ${time}`)
        if (lines.length < ROWS_PER_BODY) continue
        yield lines.join('\n')
        lines = []
      }
    }
  }
  if (lines.length > 0) yield lines.join('\n')
}

function questions(end: number): Question[] {
  const instant = (query: string): Question => ({ name: query, path: `/api/v1/query?${new URLSearchParams({ query, time: String(end) })}` })
  const range = (query: string): Question => ({
    name: `${query}, 1 h by 60 s`,
    path: `/api/v1/query_range?${new URLSearchParams({ query, start: String(end - 3600), end: String(end), step: '60' })}`,
  })
  const get = (name: string, path: string): Question => ({ name, path })
  const table = (schema: string): string => `${schema} table_name = '${nameOf(NAMES >> 1)}'`
  return [
    get('names, /label/__name__/values', '/api/v1/label/__name__/values'),
    get('label names, /labels', '/api/v1/labels'),
    get('values of a label, /label/job/values', '/api/v1/label/job/values'),
    get('label names of one metric', `/api/v1/labels?${new URLSearchParams({ 'match[]': nameOf(NAMES >> 1) })}`),
    get('series of one metric', `/api/v1/series?${new URLSearchParams({ 'match[]': nameOf(NAMES >> 1) })}`),
    get('series of all, first 1000', `/api/v1/series?${new URLSearchParams({ 'match[]': '{__name__=~".+"}', limit: '1000' })}`),
    get('series of all', `/api/v1/series?${new URLSearchParams({ 'match[]': '{__name__=~".+"}' })}`),
    get('/status/tsdb', '/api/v1/status/tsdb'),
    instant(nameOf(NAMES >> 1)),
    instant('count({__name__=~".+"})'),
    instant('count({__name__=~"http_.*"})'),
    instant('sum by (__name__) ({job="job_7",__name__=~".+"})'),
    instant('sum by (__name__) ({__name__=~".+"})'),
    instant('topk(10, count by (__name__) ({__name__=~".+"}))'),
    instant('count by (job) ({__name__=~".+"})'),
    instant('count({instance="host_0"})'),
    range('sum(rate({__name__=~"http_.*"}[5m]))'),
    { name: 'columns of one table', sql: `SELECT column_name, data_type FROM information_schema.columns WHERE${table('')} ORDER BY 1` },
    {
      name: 'columns of one table of a schema',
      sql: `SELECT column_name FROM information_schema.columns WHERE${table(" table_schema = 'public' AND")} ORDER BY 1`,
    },
    { name: 'one table', sql: `SELECT table_name FROM information_schema.tables WHERE${table('')}` },
    { name: 'tables', sql: 'SELECT count(*) FROM information_schema.tables' },
    { name: 'columns', sql: 'SELECT count(*) FROM information_schema.columns' },
    get('measurements, native, page of 100', '/api/v1/measurements'),
    get('measurements, native, a later page', `/api/v1/measurements?offset=${NAMES >> 1}`),
  ].filter(({ name }) => name.includes(args.only))
}

async function state(title: string, tree: string | undefined): Promise<State> {
  const folder = await mkdtemp(join(tmpdir(), 'svc-names-'))
  const spawn = (): Promise<ServerProcess> =>
    ServerProcess.spawn({
      folder,
      engine: 'embedded',
      sql: true,
      plugins: ['promql'],
      database: { max_series_cardinality: Math.max(1_000_000, LIMIT) },
      sections: { server: { prom_series_limit: LIMIT } },
      ...(tree === undefined ? {} : { root: resolve(tree) }),
    })
  return { title, folder, spawn, server: await spawn(), figures: new Map() }
}

async function written(state: State, end: number): Promise<void> {
  const { server, figures } = state
  await server.ready(READY_LIMIT_MS)
  const before = processorSeconds(server.pid)
  const began = performance.now()
  for (const body of bodies(end)) {
    for (;;) {
      const answer = await fetch(`${server.url}/write?precision=s`, { method: 'POST', body })
      const text = await answer.text()
      if (answer.status === 204) break
      if (answer.status !== 503) throw new Error(`cannot write rows: ${answer.status} ${text}`)
      await setTimeout(200)
    }
  }
  const rows = NAMES * SERIES * STEPS
  figures.set('ingest, µs of wall a row', (((performance.now() - began) * 1000) / rows).toFixed(2))
  figures.set('ingest, µs of processor a row', (((processorSeconds(server.pid) - before) * 1e6) / rows).toFixed(2))
  figures.set('memory after ingest, peak, MiB', resident(server.pid).peak.toFixed(0))
}

async function flushed(state: State): Promise<void> {
  const { server, figures, folder } = state
  const began = performance.now()
  await server.end('SIGTERM', READY_LIMIT_MS)
  figures.set('stop, which flushes, ms', (performance.now() - began).toFixed(0))
  state.server = await state.spawn()
  figures.set('start, ms', (await state.server.ready(READY_LIMIT_MS)).toFixed(0))
  figures.set('start, processor ms', (processorSeconds(state.server.pid) * 1000).toFixed(0))
  await rest(state.server)
  figures.set('until at rest, processor ms', (processorSeconds(state.server.pid) * 1000).toFixed(0))
  figures.set('memory at rest, MiB', resident(state.server.pid).now.toFixed(0))
  const { files, bytes } = await filesBelow(join(folder, 'data'))
  figures.set('files', String(files))
  figures.set('MiB on disk', (bytes / 2 ** 20).toFixed(1))
}

async function rest(server: ServerProcess): Promise<void> {
  for (const until = performance.now() + REST_LIMIT_MS; performance.now() < until; ) {
    const before = processorSeconds(server.pid)
    await setTimeout(REST_MS)
    if (processorSeconds(server.pid) - before < (REST_MS / 1000) * REST_SHARE) return
  }
}

async function filesBelow(folder: string): Promise<{ files: number; bytes: number }> {
  const sum = { files: 0, bytes: 0 }
  for (const entry of await readdir(folder, { withFileTypes: true, recursive: true })) {
    if (!entry.isFile()) continue
    sum.files++
    sum.bytes += (await stat(join(entry.parentPath, entry.name)).catch(() => ({ size: 0 }))).size
  }
  return sum
}

interface Asked {
  wall: number
  processor: number
  /** What was answered, in short, without what differs from answer to answer. */
  answer: string
}

async function ask({ server: { url, pid } }: State, { path, sql }: Question): Promise<Asked> {
  const before = threadTimes(pid)
  const began = performance.now()
  const answer =
    sql === undefined
      ? await fetch(url + path)
      : await fetch(`${url}/api/v1/svc/sql`, { method: 'POST', body: JSON.stringify({ query: sql }), headers: { 'content-type': 'application/json' } })
  const text = await answer.text()
  const wall = performance.now() - began
  const after = threadTimes(pid)
  const plain = text.replace(/"(elapsed_ms|execution_time_ms)":[\d.]+/g, '')
  return {
    wall,
    processor: after.main + after.others - before.main - before.others,
    answer: answer.ok ? `${text.length} bytes ${createHash('sha256').update(plain).digest('hex').slice(0, 8)}` : `${answer.status} ${text.slice(0, 160)}`,
  }
}

const median = (values: number[]): number => values.sort((a, b) => a - b)[values.length >> 1]
const shown = (ms: number): string => (ms >= 100 ? ms.toFixed(0) : ms.toFixed(1)).padStart(9)

async function compare(states: readonly State[], question: Question): Promise<void> {
  const all = states.map(() => [] as Asked[])
  for (let round = 0; round <= ROUNDS; round++) for (const [i, one] of states.entries()) all[i].push(await ask(one, question))
  const differ = new Set(all.flatMap((asked) => asked.map(({ answer }) => answer))).size > 1
  for (const [i, [first, ...rest]] of all.entries()) {
    const cells = [first.wall, first.processor, median(rest.map(({ wall }) => wall)), median(rest.map(({ processor }) => processor))].map(shown)
    process.stdout.write(
      `${(i === 0 ? question.name : '').padEnd(58)} ${states[i].title.padEnd(7)}${cells.join('')}   ${differ || i === 0 ? first.answer : ''}\n`,
    )
  }
  if (differ) process.stdout.write('  answers differ\n')
}

const states = [await state('here', undefined), ...(args.beside === undefined ? [] : [await state('beside', args.beside)])]
try {
  const end = Math.floor(Date.now() / 1000 / STEP) * STEP
  for (const one of states) await written(one, end)
  for (const one of states) await flushed(one)
  for (const name of states[0].figures.keys())
    process.stdout.write(`${name.padEnd(40)}${states.map(({ title, figures }) => `${title} ${figures.get(name)}`.padStart(20)).join('')}\n`)
  process.stdout.write(`${'ms'.padEnd(66)}${['first', 'processor', 'median', 'processor'].map((title) => title.padStart(9)).join('')}\n`)
  for (const question of questions(end)) await compare(states, question)
  process.stdout.write(
    `memory after questions, MiB${states.map(({ title, server }) => ` ${title} ${resident(server.pid).now.toFixed(0)}, at most ${resident(server.pid).peak.toFixed(0)}`).join(';')}\n`,
  )
} finally {
  for (const { server, folder } of states) {
    if (server.running) await server.end('SIGKILL')
    await rm(folder, { recursive: true, force: true })
  }
}
