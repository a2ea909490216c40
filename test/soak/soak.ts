/**
 * A live node as dashboards see it: a real server takes rows of many series in random order over two connections, answers three questions each
 * second (a rate over the last five minutes, the top five of the newest values, an average of the last minute in SQL), deletes some points every 15 s,
 * and lets retention remove what is old. Prints memory, disk, latency and rows by window of time, and fails when one of them grows.
 *
 *   node test/soak/soak.ts [minutes] [--rate full|half|rows a second] [--series n] [--alone seconds] [--past seconds] [--config file] [--url address --pid number]
 *                          [--automation [--row-readers n]]
 *
 * With --past, rows of so many seconds before are written first, as fast as they are taken: the questions' range is full of data from the beginning on.
 *
 * With --automation 100,000 rows/s are written, unless --rate says otherwise, beside triggers, rollups and readers of the change stream (automation.ts); their lags
 * are printed, and may not grow either.
 *
 * Options of node itself are given to the server, too: --cpu-prof, for instance. With --url another server is tried, one that runs already: VictoriaMetrics, for instance. It is asked in PromQL only.
 */
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { type RunningServer, runServer } from '../support/server.ts'
import { Automation, LAGS, SHARD_SECS, TOLERANCE_SHARDS } from './automation.ts'
import { Load } from './load.ts'
import { deleteSome, PROMQL_QUESTIONS, type Question, SQL_QUESTIONS } from './questions.ts'
import { grown, header, line, measures, type Window } from './windows.ts'

const CONNECTIONS = 2
const QUESTION_EVERY_MS = 1000
const DELETE_EVERY_MS = 15_000
const SAMPLE_EVERY_MS = 500
/** Range and window of the widest question, and what a flush takes. */
const FULL_SECS = 420
/** Until memory is flat: of writes and questions, and with rollups beside them, whose sources retention has begun to remove by then. */
const MEMORY_SECS = 120
const AUTOMATION_SECS = 600
/** Clock ticks of a second in /proc. */
const TICKS = 100
/** Rows a second of the past where no rate is given. */
const PAST_RATE = 200_000
const MIB = 1 << 20
/** Part of the rows that are taken at full speed. */
const HALF = 0.5
/** Rows a second. */
const AUTOMATION_RATE = '100000'

interface SoakOptions {
  minutes: number
  rate: 'full' | 'half' | number
  series: number
  /** Seconds of writes without questions, to compare with. */
  alone: number
  /** Seconds whose rows are written first. */
  past: number
  /** Of the server, in place of the one made here. */
  config?: string
  other?: { url: string; pid: number }
  /** Readers of all rows; absent = no automation. */
  rowReaders?: number
}

interface Target {
  url: string
  pid: number
  dataDir?: string
  questions: readonly Question[]
  deletes: boolean
  output(): string
  stop(): Promise<unknown>
}

async function soak(options: SoakOptions): Promise<boolean> {
  const { minutes, series, alone } = options
  const seconds = minutes * 60
  const windowSecs = minutes >= 120 ? 900 : minutes >= 5 ? 30 : 10
  // Longer than the questions' range, and short enough that it works for most of the run.
  const retention = Math.min(3600, Math.max(FULL_SECS, Math.round(seconds / 8)))
  const folder = await mkdtemp(join(tmpdir(), 'svc-soak-'))
  const target = options.other === undefined ? await own(folder, retention, options) : others(options.other)
  const lags = options.rowReaders === undefined ? [] : LAGS
  const questions = target.questions.map(({ name }) => name)
  const names = [...questions, ...lags]
  let rate = typeof options.rate === 'number' ? options.rate : undefined
  const past = { rows: Math.round((rate ?? PAST_RATE) * options.past), seconds: options.past, until: Date.now() }
  const load = new Load({ url: target.url, series, connections: CONNECTIONS, rate: () => rate, past })
  const windows: Window[] = []
  const history: { at: number; rows: number }[] = []
  let failures: string[] = []
  let answers = new Map<string, number[]>()
  let ended = false
  let turn = 0
  let began = performance.now()
  const elapsed = (): number => (performance.now() - began) / 1000

  const ask = async ({ name, ask }: Question): Promise<void> => {
    const asked = performance.now()
    try {
      await ask(target.url)
    } catch (error) {
      failures.push(`${name} after ${Math.round(performance.now() - asked)} ms: ${(error as Error).message}`)
    }
    note(name, performance.now() - asked)
  }
  const dashboard = async (): Promise<void> => {
    while (!ended) {
      const next = performance.now() + QUESTION_EVERY_MS
      for (const question of target.questions) if (!ended) await ask(question)
      await setTimeout(Math.max(0, next - performance.now()))
    }
  }
  const deleter = async (): Promise<void> => {
    while (target.deletes && !ended) {
      for (let waited = 0; waited < DELETE_EVERY_MS && !ended; waited += SAMPLE_EVERY_MS) await setTimeout(SAMPLE_EVERY_MS)
      if (!ended) await ask({ name: 'delete', ask: (url) => deleteSome(url, turn++, series) })
    }
  }
  const measure = async (until: number): Promise<void> => {
    while (elapsed() < until) {
      const from = { at: elapsed(), rows: load.rows, refused: load.refused, processor: processorSeconds(target.pid) }
      let memory = 0
      for (const end = Math.min(until, from.at + windowSecs); elapsed() < end; await setTimeout(SAMPLE_EVERY_MS))
        memory = Math.max(memory, resident(target.pid))
      history.push({ at: elapsed(), rows: load.rows })
      const behind = history.findLast(({ at }) => at < elapsed() - retention)?.rows ?? 0
      const window: Window = {
        end: elapsed(),
        seconds: elapsed() - from.at,
        rows: load.rows - from.rows,
        refused: load.refused - from.refused,
        answers,
        failures,
        memory,
        disk: target.dataDir === undefined ? Number.NaN : bytesBelow(target.dataDir),
        kept: load.rows - behind,
        processor: processorSeconds(target.pid) - from.processor,
      }
      answers = new Map()
      failures = []
      windows.push(window)
      print(line(window, names))
    }
  }

  const note = (name: string, ms: number): void => {
    const known = answers.get(name)
    if (known === undefined) answers.set(name, [ms])
    else known.push(ms)
  }
  const automation = new Automation(target.url, note, (text) => failures.push(text))

  try {
    if (options.rowReaders !== undefined) await automation.start(options.rowReaders)
    load.start()
    while (load.inPast) await Promise.race([setTimeout(SAMPLE_EVERY_MS), load.failed.then(() => new Promise<never>(() => {}))])
    if (past.rows > 0) print(`${load.rows} rows of the ${past.seconds} s before in ${Math.round(elapsed())} s`)
    const before = load.rows
    // Lags of rows from before say nothing.
    answers = new Map()
    began = performance.now()
    print(
      `${series} series, ${rate === undefined ? `${options.rate} speed` : `${rate} rows/s`}, ${minutes} minutes, retention of ${retention} s; ${alone} s of writes alone first`,
    )
    print(header(names))
    const broken = load.failed.then(() => new Promise<never>(() => {}))
    await Promise.race([measure(alone), broken])
    const aloneRate = (load.rows - before) / elapsed()
    if (options.rate === 'half') rate = aloneRate * HALF
    const asking = Promise.all([dashboard(), deleter()])
    const first = windows.length
    await Promise.race([measure(alone + seconds), broken])
    const consumers = await memoryByConsumer(target.url)
    ended = true
    await asking
    await load.stop()
    if (consumers !== '') print(`MiB by consumer: ${consumers}`)
    if (options.rowReaders !== undefined) print(automation.stop())
    const asked = windows.slice(first)
    const mean = asked.reduce((sum, { rows }) => sum + rows, 0) / asked.reduce((sum, { seconds }) => sum + seconds, 0)
    if (alone > 0) print(`rows/s alone ${Math.round(aloneRate)}, with questions ${Math.round(mean)} (${Math.round((mean / aloneRate) * 100)} %)`)
    const found = grown(asked, measures({ questions, lags, full: FULL_SECS, memory: lags.length > 0 ? AUTOMATION_SECS : MEMORY_SECS }))
    if (found.unjudged.length > 0) print(`too short to tell whether they grow: ${found.unjudged.join(', ')}`)
    const failed = windows.flatMap((window) => window.failures)
    for (const text of [...found.grown, ...(failed.length === 0 ? [] : [`${failed.length} requests failed, the first: ${failed[0]}`])]) print(`FAILED: ${text}`)
    return found.grown.length === 0 && failed.length === 0
  } catch (error) {
    throw new Error(`${(error as Error).message}\nthe server's last words:\n${target.output().slice(-4000)}`, { cause: error })
  } finally {
    ended = true
    automation.stop()
    await target.stop()
    await rm(folder, { recursive: true, force: true })
  }
}

async function own(folder: string, retention: number, { config, rowReaders }: SoakOptions): Promise<Target> {
  const file = config ?? join(folder, 'svc.toml')
  if (config === undefined) {
    const toml = [
      `plugins = ${JSON.stringify(['native', 'line_protocol', 'promql', 'sql', ...(rowReaders === undefined ? [] : Automation.plugins)])}`,
      '[server]',
      'prom_query_timeout_secs = 60',
      'sql_query_timeout_secs = 60',
      '[database]',
      `retention_secs = ${retention}`,
      `shard_duration_secs = ${SHARD_SECS}`,
      ...(rowReaders === undefined ? [] : [`ooo_shard_tolerance = ${TOLERANCE_SHARDS}`, ...Automation.toml]),
    ]
    await writeFile(file, `${toml.join('\n')}\n`)
  }
  const server: RunningServer = await runServer(file, { nodeArgs: process.execArgv })
  const { url, pid, dataDir, output } = server
  return { url, pid, dataDir, questions: [...PROMQL_QUESTIONS, ...SQL_QUESTIONS], deletes: true, output, stop: () => server.stop() }
}

function others({ url, pid }: { url: string; pid: number }): Target {
  return { url, pid, questions: PROMQL_QUESTIONS, deletes: false, output: () => '', stop: async () => undefined }
}

/** The process and those it has started. */
function family(pid: number): number[] {
  const children = text(`/proc/${pid}/task/${pid}/children`).split(' ').map(Number).filter(Boolean)
  return [pid, ...children.flatMap(family)]
}

/** Bytes. */
function resident(pid: number): number {
  return family(pid).reduce((sum, one) => sum + Number(/^VmRSS:\s+(\d+)/m.exec(text(`/proc/${one}/status`))?.[1] ?? 0) * 1024, 0)
}

function processorSeconds(pid: number): number {
  const of = (one: number): number => {
    const fields = text(`/proc/${one}/stat`).split(') ')[1]?.split(' ') ?? []
    return (Number(fields[11] ?? 0) + Number(fields[12] ?? 0)) / TICKS
  }
  return family(pid).reduce((sum, one) => sum + of(one), 0)
}

/** Empty when there is no such file any more. */
function text(file: string): string {
  try {
    return readFileSync(file, 'utf8')
  } catch {
    return ''
  }
}

/** Empty for a server that does not tell. */
async function memoryByConsumer(url: string): Promise<string> {
  const metrics = await (await fetch(`${url}/metrics`)).text()
  const found = metrics.matchAll(/^svc_memory_bytes\{consumer="(\w+)"\} (\S+)$/gm)
  return [...found].map(([, consumer, bytes]) => `${consumer} ${Math.round(Number(bytes) / MIB)}`).join(', ')
}

function bytesBelow(folder: string): number {
  return readdirSync(folder, { withFileTypes: true, recursive: true })
    .filter((entry) => entry.isFile())
    .reduce((sum, entry) => sum + (statSync(join(entry.parentPath, entry.name), { throwIfNoEntry: false })?.blocks ?? 0) * 512, 0)
}

function print(line: string): void {
  process.stdout.write(`${line}\n`)
}

if (import.meta.main) {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      rate: { type: 'string' },
      automation: { type: 'boolean', default: false },
      'row-readers': { type: 'string', default: '1' },
      series: { type: 'string', default: '20000' },
      alone: { type: 'string', default: '20' },
      past: { type: 'string', default: '0' },
      config: { type: 'string' },
      url: { type: 'string' },
      pid: { type: 'string' },
    },
  })
  const rate = values.rate ?? (values.automation ? AUTOMATION_RATE : 'full')
  const passed = await soak({
    minutes: Number(positionals[0] ?? 10),
    rate: rate === 'half' || rate === 'full' ? rate : Number(rate),
    series: Number(values.series),
    alone: Number(values.alone),
    past: Number(values.past),
    ...(values.automation ? { rowReaders: Number(values['row-readers']) } : {}),
    ...(values.config === undefined ? {} : { config: values.config }),
    ...(values.url === undefined ? {} : { other: { url: values.url, pid: Number(values.pid) } }),
  })
  process.exit(passed ? 0 : 1)
}
