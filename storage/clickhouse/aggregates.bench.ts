/**
 * `sum by (dc) (rate(...))` in three ways, in turns: a statement as somebody who knows ClickHouse would write it over the same tables, PromQL with the aggregation in
 * ClickHouse, and PromQL over samples that are read. `node storage/clickhouse/aggregates.bench.ts [series] [samples of each] [questions]`, medians.
 */
import { startClickHouse } from '../../test/support/clickhouse/clickhouse.ts'
import { testContext } from '../conformance/context.ts'
import { Client } from './client.ts'
import { sectionOf } from './config.ts'
import { ClickHouseEngine } from './engine.ts'
import { ALLOW_GRIDS } from './grid-functions.ts'
import { WITHIN_DAYS } from './settings.ts'
import type { Answered, Asked } from './testing/aggregate-job.ts'

const series = Number(process.argv[2] ?? 1000)
const samples = Number(process.argv[3] ?? 2000)
const turns = Number(process.argv[4] ?? 7)
const JOB = new URL('./testing/aggregate-job.ts', import.meta.url)
const GROUPS = 10
const EVERY_MS = 10_000
const BATCH_ROWS = 100_000
const START_MS = Date.UTC(2024, 0, 1)
const END_MS = START_MS + samples * EVERY_MS
const RANGE_MS = 300_000
const STEP_MS = 60_000
const prefix = `a${process.pid}`

const server = await startClickHouse()
const engine = new ClickHouseEngine(testContext({ ooo_shard_tolerance: 1_000_000, clickhouse: { ...server.section, prefix } }, () => END_MS))
await engine.open()
const client = new Client(sectionOf({ clickhouse: server.section }))

await write()
for (const table of ['narrow', 'series']) await client.command(`OPTIMIZE TABLE ${prefix}_n_default.${table} FINAL`)
let life = 0
for await (const { columns } of client.blocks(`SELECT any(life) FROM ${prefix}_n_default.narrow`)) life = Number(new BigUint64Array(columns[0].bytes.buffer)[0])

for (const [name, first] of [
  ['over all of the time, a step a minute', START_MS + RANGE_MS],
  ['at one time', END_MS],
] as const) {
  const question: Asked = { query: 'sum by (dc) (rate(requests_total[5m]))', startMs: first, endMs: END_MS, stepMs: first === END_MS ? 0 : STEP_MS }
  const ways: [string, () => Promise<unknown>][] = [
    ['by hand', () => drain(byHand(first))],
    ['aggregated in ClickHouse', () => ask(question, true)],
    ['over samples', () => ask(question, false)],
  ]
  const times = ways.map((): number[] => [])
  for (let turn = 0; turn < turns; turn++) for (const [i, [, way]] of ways.entries()) times[i].push(await timed(way))
  const [hand, ...ours] = times.map(median)
  console.log(`${name}: by hand ${hand.toFixed(0)} ms`)
  for (const [i, ms] of ours.entries()) console.log(`  ${ways[i + 1][0]} ${ms.toFixed(0)} ms, ${(ms / hand).toFixed(2)} times`)
}
await engine.close()
await client.close()
await server.stop()
process.exit()

async function write(): Promise<void> {
  const measurement = engine.resolver.measurement('default', 'requests_total')
  const numbers = Array.from({ length: series }, (_, i) => engine.resolver.series(measurement, ['dc', `dc${i % GROUPS}`, 'host', `host${i}`]))
  for (let first = 0; first < samples; ) {
    const batch = engine.batch('default')
    const rows = batch.table(measurement)
    for (let n = 0; first < samples && n < BATCH_ROWS; first++, n += series) {
      const time = BigInt(START_MS + first * EVERY_MS) * 1_000_000n
      const [low, high] = [Number(BigInt.asIntN(32, time)), Number(time >> 32n)]
      for (let i = 0; i < series; i++) rows.column('value', 'float64').setF64(rows.addRow(numbers[i], low, high, 0), (first % 700) * ((i % 9) + 1))
    }
    const { rejected } = await engine.write(batch, { backfill: true })
    if (rejected > 0) throw new Error(`${rejected} rows were refused`)
  }
}

function byHand(first: number): string {
  const time = (ms: number): string => `toDateTime64(${ms / 1000}, 0, 'UTC')`
  const grid = `timeSeriesRateToGrid(${time(first)}, ${time(END_MS)}, ${STEP_MS / 1000}, ${RANGE_MS / 1000})(CAST(time AS DateTime64(0, 'UTC')), value)`
  const rows = `${prefix}_n_default.narrow FINAL WHERE life = ${life} AND time > ${time(first - RANGE_MS)} AND time <= ${time(END_MS)}`
  const tags = `SELECT series, tags['dc'] AS dc FROM ${prefix}_n_default.series FINAL WHERE life = ${life}`
  return `SELECT CAST(dc AS String), sumForEach(rate) FROM (SELECT series, ${grid} AS rate FROM ${rows} GROUP BY series) AS r JOIN (${tags}) AS t USING series GROUP BY dc`
}

async function drain(statement: string): Promise<void> {
  for await (const _ of client.blocks(statement, { settings: [WITHIN_DAYS, ALLOW_GRIDS], timeoutMs: 0 }));
}

async function ask(question: Asked, aggregates: boolean): Promise<void> {
  const [answer] = await engine.run<Answered[]>(JOB, { questions: [question], aggregates }).result
  if (answer.series.length !== Math.min(GROUPS, series) || answer.declined > 0) throw new Error('the answer is not what was asked for')
}

async function timed(way: () => Promise<unknown>): Promise<number> {
  const begun = performance.now()
  await way()
  return performance.now() - begun
}

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[values.length >> 1]
}
