/**
 * What a sample, a series and a question cost in ClickHouse and in a node before it, in processor time: `node storage/clickhouse/cost.bench.ts [series] [samples of each]`.
 * Gauges of integers, a sample each 10 s, in requests of 10,000. Merges are waited for, and counted. For docs/guides/sizing.md.
 */
import { setTimeout } from 'node:timers/promises'
import { startClickHouse } from '../../test/support/clickhouse/clickhouse.ts'
import { processorMs } from '../../test/support/processor-time.ts'
import { testContext } from '../conformance/context.ts'
import { Client } from './client.ts'
import { sectionOf } from './config.ts'
import { ClickHouseEngine } from './engine.ts'
import type { Answered, Asked } from './testing/aggregate-job.ts'

const series = Number(process.argv[2] ?? 200_000)
const samples = Number(process.argv[3] ?? 60)
const JOB = new URL('./testing/aggregate-job.ts', import.meta.url)
const GROUPS = 100
const EVERY_MS = 10_000
const REQUEST_ROWS = 10_000
/** Requests under way, as of so many senders: what waits for an insert joins the next. */
const SENDERS = 8
const START_MS = Date.UTC(2024, 0, 1)
const END_MS = START_MS + samples * EVERY_MS
const RANGE_MS = 300_000
const QUIET_MS = 2000
const prefix = `a${process.pid}`

interface Spent {
  /** Milliseconds of processor. */
  node: number
  clickhouse: number
  wall: number
}

const server = await startClickHouse()
const engine = new ClickHouseEngine(
  testContext({ ooo_shard_tolerance: 1_000_000, max_series_cardinality: 2 * series, clickhouse: { ...server.section, prefix } }, () => END_MS),
)
await engine.open()
const client = new Client(sectionOf({ clickhouse: server.section }))
const measurement = engine.resolver.measurement('default', 'requests_total')

const before = process.memoryUsage.rss()
const first = await spent(() => write(0, 1))
const rest = await spent(async () => {
  await write(1, samples)
  await merged()
})
const memory = process.memoryUsage.rss() - before
const rows = series * (samples - 1)
const per = (ms: number, of: number): string => ((ms * 1000) / of).toFixed(2)
console.log(`${series} series, ${samples} samples of each`)
console.log(`the first sample of a series: ${per(first.node, series)} µs of processor in the node, ${per(first.clickhouse, series)} in ClickHouse`)
console.log(
  `a sample: ${per(rest.node, rows)} µs in the node, ${per(rest.clickhouse, rows)} in ClickHouse, merges included; ${Math.round((rows / rest.wall) * 1000)} samples/s`,
)
console.log(`on disk: ${((await bytesOf('narrow')) / (rows + series)).toFixed(2)} bytes a sample, ${((await bytesOf('series')) / series).toFixed(1)} a series`)
console.log(`memory of the node: ${Math.round(memory / series)} bytes a series`)
for (const [name, startMs] of [
  ['at one time', END_MS],
  ['over all of the time, a step a minute', START_MS + RANGE_MS],
] as const) {
  const question: Asked = { query: 'sum by (dc) (rate(requests_total[5m]))', startMs, endMs: END_MS, stepMs: startMs === END_MS ? 0 : 60_000 }
  await ask(question)
  const { node, clickhouse, wall } = await spent(() => ask(question))
  const read = series * Math.min(samples, (END_MS - startMs + RANGE_MS) / EVERY_MS)
  console.log(
    `sum by (rate) ${name}: ${wall.toFixed(0)} ms, ${((clickhouse * 1e6) / read).toFixed(0)} ns of processor a sample in ClickHouse, ${node.toFixed(0)} ms in the node`,
  )
}
await engine.close()
await client.close()
await server.stop()
process.exit()

async function write(from: number, to: number): Promise<void> {
  const numbers = Array.from({ length: series }, (_, i) => engine.resolver.series(measurement, ['dc', `dc${i % GROUPS}`, 'host', `host${i}`]))
  const requests: [step: number, first: number][] = []
  for (let step = from; step < to; step++) for (let at = 0; at < series; at += REQUEST_ROWS) requests.push([step, at])
  const sender = async (): Promise<void> => {
    for (let request = requests.shift(); request !== undefined; request = requests.shift()) await send(numbers, ...request)
  }
  await Promise.all(Array.from({ length: SENDERS }, sender))
}

async function send(numbers: readonly number[], step: number, at: number): Promise<void> {
  const batch = engine.batch('default')
  const table = batch.table(measurement)
  const time = BigInt(START_MS + step * EVERY_MS) * 1_000_000n
  const [low, high] = [Number(BigInt.asIntN(32, time)), Number(time >> 32n)]
  for (let i = at; i < Math.min(series, at + REQUEST_ROWS); i++)
    table.column('value', 'float64').setF64(table.addRow(numbers[i], low, high, 0), step * ((i % 9) + 1) + (i % 100))
  const { rejected } = await engine.write(batch, { backfill: true })
  if (rejected > 0) throw new Error(`${rejected} rows were refused`)
}

/** Waits until ClickHouse merges nothing. */
async function merged(): Promise<void> {
  for (let quiet = 0; quiet < 2; quiet++) {
    await setTimeout(QUIET_MS)
    for await (const { columns } of client.blocks('SELECT toUInt64(count()) FROM system.merges'))
      if (new BigUint64Array(columns[0].bytes.buffer)[0] > 0n) quiet = -1
  }
}

async function spent(body: () => Promise<void>): Promise<Spent> {
  const [own, all, begun] = [process.cpuUsage(), processorMs(process.pid), performance.now()]
  await body()
  const { user, system } = process.cpuUsage(own)
  const node = (user + system) / 1000
  return { node, clickhouse: processorMs(process.pid) - all - node, wall: performance.now() - begun }
}

async function bytesOf(table: string): Promise<number> {
  let bytes = 0
  const select = `SELECT toUInt64(sum(bytes_on_disk)) FROM system.parts WHERE active AND database = '${prefix}_n_default' AND table = '${table}'`
  for await (const { columns } of client.blocks(select)) bytes = Number(new BigUint64Array(columns[0].bytes.buffer)[0])
  return bytes
}

async function ask(question: Asked): Promise<void> {
  const [answer] = await engine.run<Answered[]>(JOB, { questions: [question], aggregates: true }).result
  if (answer.series.length !== Math.min(GROUPS, series) || answer.declined > 0) throw new Error('the answer is not what was asked for')
}
