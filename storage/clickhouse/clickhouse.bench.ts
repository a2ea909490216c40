/**
 * ClickHouse behind the engine, against the same ClickHouse fed and asked by hand: the same blocks into a table of the same definition, and statements as somebody
 * who knows ClickHouse would write them over it. `node storage/clickhouse/clickhouse.bench.ts [hosts] [steps]`, alternately, medians.
 */
import { startClickHouse } from '../../test/support/clickhouse/clickhouse.ts'
import { testContext } from '../conformance/index.ts'
import { Client } from './client.ts'
import { sectionOf } from './config.ts'
import { ClickHouseEngine } from './engine.ts'
import { seriesId } from './series-id.ts'
import { WITHIN_DAYS } from './settings.ts'
import { ask } from './testing/sql.ts'

const hosts = Number(process.argv[2] ?? 200)
const steps = Number(process.argv[3] ?? 2000)
const BATCH_STEPS = 100
const START_MS = Date.UTC(2024, 0, 1)
const fields = Array.from({ length: 10 }, (_, i) => `usage_${i}`)
const server = await startClickHouse()
const now = () => START_MS + steps * 10_000
const engine = new ClickHouseEngine(testContext({ ooo_shard_tolerance: 1_000_000, clickhouse: { ...server.section, prefix: `b${process.pid}` } }, now))
await engine.open()
const client = new Client(sectionOf({ clickhouse: server.section }))

const median = (values: number[]): number => values.toSorted((a, b) => a - b)[values.length >> 1]
const value = (host: number, step: number, field: number): number => Math.round(50 + 40 * Math.sin(host + step / 30 + field)) + 0.25 * field
const pass = async (work: () => Promise<unknown>): Promise<number> => {
  const begun = performance.now()
  await work()
  return performance.now() - begun
}

const names = Array.from({ length: hosts }, (_, i) => `host_${i}`)
const database = `b${process.pid}_n_default`
const table = `bench_${process.pid}.cpu`
const ids = names.map((name) => seriesId(1_000_000, ['hostname', name]))
const bytes = ({ buffer }: BigInt64Array | Float64Array): Uint8Array => new Uint8Array(buffer)

async function byHand(first: number): Promise<void> {
  const rows = BATCH_STEPS * hosts
  const series = new Uint8Array(rows * 16)
  const times = new BigInt64Array(rows)
  const columns = fields.map(() => new Float64Array(rows))
  for (let s = 0, row = 0; s < BATCH_STEPS; s++)
    for (let h = 0; h < hosts; h++, row++) {
      series.set(ids[h], row * 16)
      times[row] = BigInt(START_MS + (first + s) * 10_000) * 1_000_000n
      for (const [i, column] of columns.entries()) column[row] = value(h, first + s, i)
    }
  const nulls = new Uint8Array(rows)
  const values = fields.map((_, i) => ({ name: `f${i}`, type: 'Nullable(Float64)', nulls, data: bytes(columns[i]) }))
  await client.insert(
    table,
    [{ name: 'series', type: 'UInt128', data: series }, { name: 'time', type: "DateTime64(9, 'UTC')", data: bytes(times) }, ...values],
    rows,
    `${first}`,
  )
}

async function byEngine(first: number): Promise<void> {
  const batch = engine.batch('default')
  const measurement = engine.resolver.measurement('default', 'cpu')
  const rows = batch.table(measurement)
  const series = names.map((name) => engine.resolver.series(measurement, ['hostname', name]))
  for (let s = 0; s < BATCH_STEPS; s++) {
    const time = BigInt(START_MS + (first + s) * 10_000) * 1_000_000n
    const [low, high] = [Number(BigInt.asIntN(32, time)), Number(time >> 32n)]
    for (let h = 0; h < hosts; h++) {
      const row = rows.addRow(series[h], low, high, 0)
      for (const [i, name] of fields.entries()) rows.column(name, 'float64').setF64(row, value(h, first + s, i))
    }
  }
  const { rejected } = await engine.write(batch, { backfill: true })
  if (rejected > 0) throw new Error(`${rejected} rows were refused`)
}

await byEngine(0)
let own = ''
for await (const { columns } of client.blocks(`SELECT name FROM system.tables WHERE database = '${database}' AND name LIKE 'm_%'`))
  own = String(Buffer.from(columns[0].texts?.[0] ?? []))
await client.command(`CREATE DATABASE ${table.split('.')[0]}`)
await client.command(`CREATE TABLE ${table} AS ${database}.${own}`)
await byHand(0)
const inserts: [hand: number[], engine: number[]] = [[], []]
for (let step = BATCH_STEPS; step < steps; step += BATCH_STEPS) {
  inserts[0].push(await pass(() => byHand(step)))
  inserts[1].push(await pass(() => byEngine(step)))
}
const rate = (times: number[]): number => (hosts * BATCH_STEPS) / median(times)
const [hand, ours] = inserts.map(rate)
console.log(
  `ingest, rows of ${fields.length} values per ms: by hand ${hand.toFixed(0)}, by the engine ${ours.toFixed(0)}, ${((100 * ours) / hand).toFixed(0)} %`,
)
for (const name of [table, `${database}.${own}`]) await client.command(`OPTIMIZE TABLE ${name} FINAL`)
const series = (column: string): string => `SELECT series, tags['hostname'] AS ${column} FROM ${database}.series FINAL`

const drain = async (statement: string): Promise<number> => {
  let rows = 0
  for await (const block of client.blocks(statement, { settings: [WITHIN_DAYS], timeoutMs: 0 })) rows += block.rows
  return rows
}
const averages = (form: (name: string) => string): string => fields.map(form).join(', ')
for (const [name, hand, sql] of [
  [
    'double-groupby-all',
    `SELECT t, hostname, ${fields.map((_, i) => `a${i}`).join(', ')} FROM (SELECT toInt64(toUnixTimestamp(toStartOfHour(time))) AS t, series, ${fields.map((_, i) => `avg(f${i}) AS a${i}`).join(', ')} FROM ${table} FINAL GROUP BY t, series) AS r JOIN (${series('hostname')}) AS s USING series ORDER BY t, hostname`,
    `SELECT time_bucket('1h', _time) AS t, hostname, ${averages((field) => `avg(${field})`)} FROM cpu GROUP BY 1, 2 ORDER BY 1, 2`,
  ],
  [
    'double-groupby-1',
    `SELECT t, hostname, a0 FROM (SELECT toInt64(toUnixTimestamp(toStartOfHour(time))) AS t, series, avg(f0) AS a0 FROM ${table} FINAL GROUP BY t, series) AS r JOIN (${series('hostname')}) AS s USING series ORDER BY t, hostname`,
    `SELECT time_bucket('1h', _time) AS t, hostname, avg(usage_0) FROM cpu GROUP BY 1, 2 ORDER BY 1, 2`,
  ],
  [
    'lastpoint',
    `SELECT hostname, ${fields.map((_, i) => `a${i}`).join(', ')} FROM (SELECT series, ${fields.map((_, i) => `argMax(f${i}, time) AS a${i}`).join(', ')} FROM ${table} FINAL GROUP BY series) AS r JOIN (${series('hostname')}) AS s USING series ORDER BY hostname`,
    `SELECT hostname, ${averages((field) => `last(${field}, _time)`)} FROM cpu GROUP BY hostname ORDER BY hostname`,
  ],
  [
    'single-groupby-1-1-12',
    `SELECT toInt64(toUnixTimestamp(toStartOfMinute(time))) AS t, max(f0) FROM ${table} FINAL WHERE series IN (SELECT series FROM ${database}.series FINAL WHERE tags['hostname'] = 'host_7') GROUP BY t ORDER BY t`,
    `SELECT time_bucket('1m', _time) AS t, max(usage_0) FROM cpu WHERE hostname = 'host_7' GROUP BY t ORDER BY t`,
  ],
]) {
  const [theirs, ours]: [number[], number[]] = [[], []]
  for (let i = 0; i < 7; i++) {
    theirs.push(await pass(() => drain(hand)))
    ours.push(await pass(() => ask(engine, sql)))
  }
  console.log(
    `${name}: by hand ${median(theirs).toFixed(1)} ms, by the engine ${median(ours).toFixed(1)} ms, ${(median(ours) / median(theirs)).toFixed(2)} times`,
  )
}
await engine.close()
await client.close()
await server.stop()
process.exit()
