/**
 * SQL through the engine against the best statement written by hand for the same Parquet files, with tags as ENUM in a DuckDB table.
 * node storage/embedded/bench/sql.bench.ts [hosts] [steps] [rounds]
 */
import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { availableParallelism, tmpdir } from 'node:os'
import { join } from 'node:path'
import { DuckDBInstance } from '@duckdb/node-api'
import { MetricsRegistry } from 'svcdb/testkit'
import { createEngine } from '../index.ts'

const hosts = Number(process.argv[2] ?? 1000)
const steps = Number(process.argv[3] ?? 1080)
const rounds = Number(process.argv[4] ?? 40)
const HOUR = 3_600_000_000_000n
const START = ((BigInt(Date.now()) * 1_000_000n) / HOUR) * HOUR - 4n * HOUR
const FIELDS = ['user', 'system', 'idle', 'nice', 'iowait', 'irq', 'softirq', 'steal', 'guest', 'guest_nice'].map((f) => `usage_${f}`)

const dir = mkdtempSync(join(tmpdir(), 'svc-sql-bench-'))
const log = { debug: () => {}, info: () => {}, warn: console.warn, error: console.error }
const engine = createEngine({ config: { data_dir: dir }, log, metrics: new MetricsRegistry().child('storage'), now: Date.now })
await engine.open()
await fill()
await engine.flush()

const files = readdirSync(join(dir, 'segments'), { recursive: true, encoding: 'utf8' })
  .filter((name) => name.endsWith('.parquet'))
  .map((name) => `'${join(dir, 'segments', name)}'`)
const duck = await (await DuckDBInstance.create(':memory:', { threads: String(availableParallelism()) })).connect()
await duck.run('SET parquet_metadata_cache = true')
await duck.run(`CREATE TYPE host AS ENUM (SELECT 'host_' || i FROM range(${hosts}) t(i) ORDER BY 1)`)
await duck.run(`CREATE TABLE tags AS SELECT i::INTEGER AS _series, ('host_' || i)::host AS hostname FROM range(${hosts}) t(i)`)

const from = `FROM read_parquet([${files.join(', ')}])`
const bucket = (ns: bigint): string => `epoch_ns(_time) - epoch_ns(_time) % ${ns}`
const one = `timestamp '${new Date(Number((START + HOUR) / 1_000_000n)).toISOString()}'`
const two = `timestamp '${new Date(Number((START + 2n * HOUR) / 1_000_000n)).toISOString()}'`
const questions: { name: string; asked: string; hand: string }[] = [
  {
    name: 'one host, one hour, by minute',
    asked: `SELECT time_bucket(INTERVAL '1 minute', _time) AS t, max(usage_user) FROM cpu WHERE hostname = 'host_7' AND _time >= ${one} AND _time < ${two} GROUP BY 1 ORDER BY 1`,
    hand: `SELECT make_timestamp_ns(b), m FROM (SELECT ${bucket(60_000_000_000n)} AS b, max(usage_user::DOUBLE) AS m ${from} WHERE _series = 7 AND _time >= ${one}::TIMESTAMP_NS AND _time < ${two}::TIMESTAMP_NS GROUP BY 1) ORDER BY 1`,
  },
  {
    name: 'double-groupby-1',
    asked: "SELECT time_bucket(INTERVAL '1 hour', _time) AS t, hostname, avg(usage_user) FROM cpu GROUP BY 1, 2 ORDER BY 1, 2",
    hand: `SELECT make_timestamp_ns(b) AS t, hostname, a FROM (SELECT ${bucket(HOUR)} AS b, _series, avg(usage_user) AS a ${from} GROUP BY 1, 2) JOIN tags USING (_series) ORDER BY 1, 2`,
  },
  {
    name: 'double-groupby-all',
    asked: `SELECT time_bucket(INTERVAL '1 hour', _time) AS t, hostname, ${FIELDS.map((f) => `avg(${f})`).join(', ')} FROM cpu GROUP BY 1, 2 ORDER BY 1, 2`,
    hand: `SELECT make_timestamp_ns(b) AS t, hostname, p.* EXCLUDE (b, _series) FROM (SELECT ${bucket(HOUR)} AS b, _series, ${FIELDS.map((f) => `avg(${f})`).join(', ')} ${from} GROUP BY 1, 2) p JOIN tags USING (_series) ORDER BY 1, 2`,
  },
  { name: 'high-cpu-all', asked: 'SELECT count(*) FROM cpu WHERE usage_user > 90', hand: `SELECT count(*) ${from} WHERE usage_user > 90` },
  {
    name: 'lastpoint',
    asked: 'SELECT hostname, max(_time), arg_max(usage_user, _time) FROM cpu GROUP BY hostname ORDER BY hostname',
    hand: `SELECT hostname, make_timestamp_ns(m), v FROM (SELECT _series, max(epoch_ns(_time)) AS m, arg_max(usage_user::DOUBLE, epoch_ns(_time)) AS v ${from} GROUP BY 1) JOIN tags USING (_series) ORDER BY 1`,
  },
]

const job = new URL('../../../plugins/sql/sql-job.ts', import.meta.url)
for (const { name, asked, hand } of questions) {
  const through = await median(async () => {
    const running = engine.run<{ rows: number }>(job, { namespace: '', query: asked, maxRows: 1_000_000 })
    for await (const _ of running.output);
    return (await running.result).rows
  })
  const byHand = await median(async () => {
    let rows = 0
    for (const chunk of await (await duck.run(hand)).fetchAllChunks()) rows += chunk.rowCount
    return rows
  })
  if (through.rows !== byHand.rows) throw new Error(`${name}: ${through.rows} rows and ${byHand.rows} by hand`)
  console.log(
    `${name.padEnd(32)} svc ${through.ms.toFixed(1).padStart(7)} ms (JSON included)   by hand ${byHand.ms.toFixed(1).padStart(7)} ms   ${(through.ms / byHand.ms).toFixed(2)}`,
  )
}
await engine.close()
rmSync(dir, { recursive: true })
process.exit(0)

async function fill(): Promise<void> {
  const cpu = engine.resolver.measurement('', 'cpu')
  let state = 1
  const random = () => (state = (Math.imul(state, 1664525) + 1013904223) >>> 0) / 2 ** 32
  const level = Float64Array.from({ length: hosts * FIELDS.length }, () => Math.floor(random() * 100))
  for (let step = 0; step < steps; step++) {
    const batch = engine.batch('')
    const table = batch.table(cpu)
    const time = START + BigInt(step) * 10_000_000_000n
    for (let host = 0; host < hosts; host++) {
      const row = table.addRow(engine.resolver.series(cpu, ['hostname', `host_${host}`]), Number(BigInt.asIntN(32, time)), Number(time >> 32n), host)
      for (const [f, field] of FIELDS.entries()) {
        const at = host * FIELDS.length + f
        level[at] = Math.min(100, Math.max(0, level[at] + (random() - 0.5) * 2))
        table.column(field, 'float64').setF64(row, Math.round(level[at]))
      }
    }
    await engine.write(batch)
  }
}

async function median(body: () => Promise<number>): Promise<{ ms: number; rows: number }> {
  const times: number[] = []
  let rows = 0
  for (let i = 0; i < rounds; i++) {
    const began = performance.now()
    rows = await body()
    times.push(performance.now() - began)
  }
  return { ms: times.sort((a, b) => a - b)[rounds >> 1], rows }
}
