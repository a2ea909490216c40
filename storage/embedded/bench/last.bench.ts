/**
 * The newest row of each series, with ever more rows behind it: first, again, and with a batch of new rows before each question; beside it DuckDB's scan.
 * node storage/embedded/bench/last.bench.ts [hosts] [steps] [steps]
 */
import { TableBatch } from 'svcdb/lib/columns'
import { EngineReader } from '../read/reader.ts'
import { SampleBlocks } from '../read/samples/source-blocks.ts'
import { TestDatabase, type TestMeasurement } from '../testing/engine-state.ts'
import { BENCH_INTERVAL, BENCH_START } from './bench-data.ts'

const hosts = Number(process.argv[2] ?? 1000)
const sizes = [Number(process.argv[3] ?? 1000), Number(process.argv[4] ?? 10_000)]
/** Steps of a segment. */
const FLUSH_STEPS = 1000
const ROUNDS = 15
const LASTPOINT = (from: string): string => `SELECT hostname, max(_time), arg_max(usage_user, _time) FROM ${from} GROUP BY hostname ORDER BY hostname`

function write(db: TestDatabase, cpu: TestMeasurement, series: readonly number[], step: number): void {
  const batch = new TableBatch(cpu.ref)
  const time = BENCH_START + BigInt(step) * BENCH_INTERVAL
  const column = batch.column('usage_user', 'float64')
  for (const number of series) column.setF64(batch.addRow(number, Number(BigInt.asIntN(32, time)), Number(time >> 32n), 0), Math.floor(Math.random() * 100))
  db.append(cpu, batch)
}

/** Milliseconds of the wall and of the processor, the best of some rounds. */
async function best(rounds: number, before: () => void, body: () => Promise<void>): Promise<string> {
  let [wall, processor] = [Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY]
  for (let round = 0; round < rounds; round++) {
    before()
    const used = process.cpuUsage()
    const from = performance.now()
    await body()
    wall = Math.min(wall, performance.now() - from)
    const { user, system } = process.cpuUsage(used)
    processor = Math.min(processor, (user + system) / 1000)
  }
  return `${wall.toFixed(2)} ms (${processor.toFixed(2)} of processor)`
}

for (const steps of sizes) {
  const db = new TestDatabase()
  const cpu = db.measurement('cpu', { usage_user: 'float64' })
  const series = Array.from({ length: hosts }, (_, host) => db.series(cpu, { hostname: `host_${host}`, region: `region-${host % 9}` }))
  let step = 0
  while (step < steps) {
    write(db, cpu, series, step++)
    if (step % FLUSH_STEPS === 0) await db.flush()
  }
  let sampleBlocks = new SampleBlocks(64 << 20)
  const reader = async (): Promise<EngineReader> => EngineReader.open({ ...(await db.context()), sampleBlocks })
  const sql = async (query: string): Promise<void> => {
    const open = await reader()
    let rows = 0
    for await (const chunk of await open.sql({ namespace: 'default', query })) rows += chunk.rows
    open.close()
    if (rows !== hosts) throw new Error(`${rows} rows of ${hosts} hosts`)
  }
  const samples = async (): Promise<void> => {
    const open = await reader()
    const set = await open.samples({ namespace: 'default', measurement: 'cpu', field: 'usage_user', newestOnly: true })
    for await (const { times } of set.blocks()) if (times.length !== hosts) throw new Error(`${times.length} samples of ${hosts} hosts`)
    open.close()
  }
  const forget = (): void => void (sampleBlocks = new SampleBlocks(64 << 20))
  const nothing = (): void => {}
  const more = (): void => write(db, cpu, series, step++)
  await sql(LASTPOINT('cpu'))
  const where = `${(hosts * steps) / 1e6} M rows`
  console.log(`${where}, SQL by a scan: ${await best(5, nothing, () => sql(LASTPOINT('(SELECT * FROM cpu) AS cpu')))}`)
  console.log(`${where}, SQL, nothing known: ${await best(3, forget, () => sql(LASTPOINT('cpu')))}`)
  console.log(`${where}, SQL, again: ${await best(ROUNDS, nothing, () => sql(LASTPOINT('cpu')))}`)
  console.log(`${where}, SQL, after ${hosts} new rows: ${await best(ROUNDS, more, () => sql(LASTPOINT('cpu')))}`)
  console.log(`${where}, samples, nothing known: ${await best(3, forget, samples)}`)
  console.log(`${where}, samples, after ${hosts} new rows: ${await best(ROUNDS, more, samples)}`)
  db.close()
}
process.exit(0)
