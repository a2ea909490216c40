/**
 * How fast points come from a broker and go to one; no test. Broker and all others on this machine, each a process of its own.
 *
 *   node test/interop/kafka-speed.ts source [rows] [lines a record] [rounds]   this server's source, and Telegraf's kafka_consumer that writes to this server, in turns
 *   node test/interop/kafka-speed.ts sink [rows] [rounds]                      writes over HTTP, without and with a sink
 *
 * Needs what `test/interop/run kafka-speed` fetches and builds.
 */
process.env.SVC_INTEROP_CACHE ??= join(process.env.HOME ?? '', '.cache/svc-interop')

import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { Kafka, logLevel } from 'kafkajs'
import { type RunningServer, runServer } from '../support/server.ts'
import type { KafkaBroker } from './kafka-broker.ts'

// It looks for the cache as it is loaded.
const { startKafka } = await import('./kafka-broker.ts')

const TICKS_PER_SECOND = 100
const PARTITIONS = 4
const SERIES = 1000
/** Bytes of what is sent to the broker at a time, about. */
const TOGETHER = 500_000
const WRITE_ROWS = 5000
const CONNECTIONS = 2
const LIMIT_MS = 170_000

const start = (BigInt(Date.now()) - 3_600_000n) * 1_000_000n
const lineOf = (row: number): string =>
  `cpu,host=h${row % SERIES},region=r${row % 7} usage=${row % 100}.5,idle=${row % 77}i,load=${(row % 1000) / 8} ${start + BigInt(row) * 1000n}`

/** Seconds of processor that a process has used. */
async function processor(pid: number): Promise<number> {
  const fields = (await readFile(`/proc/${pid}/stat`, 'utf8')).split(') ')[1].split(' ')
  return (Number(fields[11]) + Number(fields[12])) / TICKS_PER_SECOND
}

async function metric({ url }: RunningServer, name: string): Promise<number> {
  const text = await (await fetch(`${url}/metrics`)).text()
  return Number(new RegExp(`^${name} (\\S+)`, 'm').exec(text)?.[1] ?? Number.NaN)
}

async function reach(what: () => Promise<boolean>, why: string): Promise<void> {
  for (const end = Date.now() + LIMIT_MS; !(await what()); await sleep(50)) if (Date.now() > end) throw new Error(`it takes too long: ${why}`)
}

const written = (server: RunningServer): Promise<number> => metric(server, 'svc_points_written_total')

async function fill(broker: KafkaBroker, topic: string, rows: number, lines: number): Promise<void> {
  const kafka = new Kafka({ brokers: [broker.address()], logLevel: logLevel.NOTHING })
  const producer = kafka.producer()
  await producer.connect()
  let messages: { partition: number; value: string }[] = []
  let bytes = 0
  for (let row = 0, record = 0; row < rows; row += lines, record++) {
    const value = Array.from({ length: Math.min(lines, rows - row) }, (_, i) => lineOf(row + i)).join('\n')
    messages.push({ partition: record % PARTITIONS, value })
    bytes += value.length
    if (bytes < TOGETHER && row + lines < rows) continue
    await producer.send({ topic, messages })
    messages = []
    bytes = 0
  }
  await producer.disconnect()
}

interface Used {
  seconds: number
  /** Of processor, by program. */
  processor: Record<string, number>
}

const said = (what: string, rows: number, { seconds, processor }: Used): string =>
  `${what}: ${Math.round(rows / seconds).toLocaleString('en')} rows/s; µs of processor a row: ${Object.entries(processor)
    .map(([name, secs]) => `${name} ${((secs / rows) * 1e6).toFixed(2)}`)
    .join(', ')}`

async function server(folder: string, plugins: string[], sections: string): Promise<RunningServer> {
  const file = join(folder, 'svc.toml')
  await writeFile(file, `plugins = ${JSON.stringify(plugins)}\n[server]\nmax_body_size = 100000000\n[database]\nwarm_up_ms = 0\n${sections}`)
  return runServer(file)
}

/** From the first point that is stored to the last. */
async function measured(svc: RunningServer, rows: number, pids: Record<string, number>): Promise<Used> {
  await reach(async () => (await written(svc)) > 0, 'the first points')
  const first = await written(svc)
  const before = await Promise.all(Object.values(pids).map(processor))
  const began = performance.now()
  await reach(async () => (await written(svc)) >= rows, 'the last points')
  const seconds = (performance.now() - began) / 1000
  const after = await Promise.all(Object.values(pids).map(processor))
  const share = rows / (rows - first)
  return { seconds: seconds * share, processor: Object.fromEntries(Object.keys(pids).map((name, i) => [name, (after[i] - before[i]) * share])) }
}

async function bySource(broker: KafkaBroker, folder: string, topic: string, rows: number): Promise<Used> {
  const section = `[kafka]\nbrokers = "${broker.address()}"\ntopics = ["${topic}"]\ngroup_id = "svc-${Date.now()}"\nauto_offset_reset = "earliest"\nfetch_wait_ms = 100\n`
  const svc = await server(folder, ['kafka', 'line_protocol'], section)
  try {
    return await measured(svc, rows, { svc: svc.pid, broker: broker.pid() })
  } finally {
    await svc.stop()
  }
}

async function byTelegraf(broker: KafkaBroker, folder: string, topic: string, rows: number): Promise<Used> {
  const svc = await server(folder, ['line_protocol'], '')
  const file = join(folder, 'telegraf.conf')
  await writeFile(
    file,
    `[agent]
interval = "1s"
flush_interval = "1s"
flush_jitter = "0s"
omit_hostname = true
metric_batch_size = 10000
metric_buffer_limit = 1000000
[[inputs.kafka_consumer]]
brokers = ["${broker.address()}"]
topics = ["${topic}"]
version = "2.8.0"
consumer_group = "telegraf-${Date.now()}"
offset = "oldest"
max_message_len = 10000000
max_undelivered_messages = 100000
data_format = "influx"
[[outputs.influxdb]]
urls = ["${svc.url}"]
skip_database_creation = true
content_encoding = "identity"
`,
  )
  const child: ChildProcess = spawn(join(process.env.SVC_INTEROP_CACHE as string, 'bin/telegraf'), ['--config', file], { stdio: ['ignore', 'ignore', 'pipe'] })
  let log = ''
  child.stderr?.on('data', (text) => (log = (log + text).slice(-5000)))
  const exited = once(child, 'exit')
  try {
    return await measured(svc, rows, { svc: svc.pid, telegraf: child.pid as number, broker: broker.pid() })
  } catch (error) {
    throw new Error(`${(error as Error).message}\n${log}`)
  } finally {
    child.kill('SIGKILL')
    await exited
    await svc.stop()
  }
}

async function writes(broker: KafkaBroker, folder: string, rows: number, topic: string | undefined): Promise<void> {
  const section = topic === undefined ? '' : `[[kafka.sink]]\nname = "out"\nbrokers = "${broker.address()}"\ntopic = "${topic}"\n`
  const svc = await server(folder, ['kafka', 'line_protocol'], section)
  try {
    if (topic !== undefined) await reach(async () => (await (await fetch(`${svc.url}/api/v1/connectors`)).text()).includes('"Idle"'), 'the sink is up')
    const bodies = Array.from({ length: Math.ceil(rows / WRITE_ROWS) }, (_, i) =>
      Array.from({ length: WRITE_ROWS }, (_, k) => lineOf(i * WRITE_ROWS + k)).join('\n'),
    )
    const pids = { svc: svc.pid, broker: broker.pid() }
    const before = await Promise.all(Object.values(pids).map(processor))
    const began = performance.now()
    let next = 0
    const send = async (): Promise<void> => {
      while (next < bodies.length) {
        const answer = await fetch(`${svc.url}/write`, { method: 'POST', body: bodies[next++] })
        await answer.arrayBuffer()
        if (answer.status !== 204) throw new Error(`the server answers ${answer.status}`)
      }
    }
    await Promise.all(Array.from({ length: CONNECTIONS }, send))
    const writing = (performance.now() - began) / 1000
    let note = ''
    if (topic !== undefined) {
      const at = await metric(svc, 'svc_kafka_sink_records_total\\{sink="out"\\}')
      await reach(async () => (await metric(svc, 'svc_kafka_sink_records_total\\{sink="out"\\}')) >= rows, 'all records are sent')
      const seconds = (performance.now() - began) / 1000
      note = `; of the records ${Math.round(at).toLocaleString('en')} went out meanwhile, all after ${seconds.toFixed(1)} s: ${Math.round(rows / seconds).toLocaleString('en')} records/s`
    }
    const after = await Promise.all(Object.values(pids).map(processor))
    const used = Object.fromEntries(Object.keys(pids).map((name, i) => [name, after[i] - before[i]]))
    console.log(said(topic === undefined ? 'writes alone' : 'writes with a sink', rows, { seconds: writing, processor: used }) + note)
  } finally {
    await svc.stop()
  }
}

const [what, ...words] = process.argv.slice(2)
const folder = await mkdtemp(join(tmpdir(), 'svc-kafka-speed-'))
const broker = await startKafka('4.4.0', { heapMb: 512 })
try {
  if (what === 'source') {
    const [rows = 2_000_000, lines = 1000, rounds = 2] = words.map(Number)
    await broker.createTopic('in', PARTITIONS, { 'max.message.bytes': 10_000_000 })
    await fill(broker, 'in', rows, lines)
    for (let round = 0; round < rounds; round++) {
      console.log(said(`source, ${lines} lines a record`, rows, await bySource(broker, folder, 'in', rows)))
      console.log(said(`Telegraf, ${lines} lines a record`, rows, await byTelegraf(broker, folder, 'in', rows)))
    }
  } else if (what === 'sink') {
    const [rows = 1_000_000, rounds = 2] = words.map(Number)
    for (let round = 0; round < rounds; round++) {
      await writes(broker, folder, rows, undefined)
      await broker.createTopic(`out-${round}`, PARTITIONS)
      await writes(broker, folder, rows, `out-${round}`)
    }
  } else throw new Error('say what to measure: source or sink')
} finally {
  await broker.stop()
  await rm(folder, { recursive: true, force: true })
}
