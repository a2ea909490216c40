/**
 * A counter of many series that was written a moment ago, each round in another order, and lies in many small segments and the memtable: what the ends of
 * windows need of it, first (nothing decoded) and again, with room for all samples packed, and whole. Processor time.
 * `node storage/embedded/bench/live.bench.ts [hosts] [segments]`
 */
import { type SampleRequest, TableBatch } from 'svcdb/lib/columns'
import { EngineReader } from '../read/reader.ts'
import { SampleBlocks } from '../read/samples/source-blocks.ts'
import { TestDatabase } from '../testing/engine-state.ts'
import { BENCH_START } from './bench-data.ts'

const hosts = Number(process.argv[2] ?? 5000)
const segments = Number(process.argv[3] ?? 20)
/** Of each series in a segment. */
const ROUNDS = 75
const ROUND_MS = 100
const RUNS = 5

function round(db: TestDatabase, soak: ReturnType<TestDatabase['measurement']>, series: Int32Array, totals: Float64Array, start: number): void {
  for (let i = series.length - 1; i > 0; i--) {
    const j = Math.floor(Math.random() * (i + 1))
    const other = series[i]
    series[i] = series[j]
    series[j] = other
  }
  const batch = new TableBatch(soak.ref)
  const column = batch.column('a', 'float64')
  for (let i = 0; i < series.length; i++) {
    const time = BENCH_START + BigInt(start + Math.floor((i / series.length) * ROUND_MS)) * 1_000_000n
    const row = batch.addRow(series[i], Number(BigInt.asIntN(32, time)), Number(time >> 32n), 0)
    column.setF64(row, (totals[series[i]] += 1 + (i & 7)))
  }
  db.append(soak, batch)
}

const db = new TestDatabase()
db.config.rowGroupRows = 32_768
const soak = db.measurement('soak', { a: 'float64' })
const series = Int32Array.from({ length: hosts }, (_, host) => db.series(soak, { host: `h${host}` }))
const totals = new Float64Array(series.reduce((most, one) => Math.max(most, one), 0) + 1)
let at = 0
for (let segment = 0; segment <= segments; segment++) {
  for (let r = 0; r < ROUNDS; r++, at += ROUND_MS) round(db, soak, series, totals, at)
  if (segment < segments) await db.flush()
}
const start = Number(BENCH_START / 1_000_000n)
const count = Math.floor(at / 15_000)
const windows = { first: start + 60_007, interval: 15_000, count: Math.max(1, count - 4), range: 60_000 }
const request: SampleRequest = { namespace: 'default', measurement: 'soak', field: 'a', start: BENCH_START, end: BENCH_START + BigInt(at) * 1_000_000n }
const samples = hosts * ROUNDS * (segments + 1)
const cases: Record<string, { cache: number; files?: true; request: SampleRequest }> = {
  'ends of windows, room for all packed': { cache: samples * 6, request: { ...request, windows } },
  'ends of windows, room for a fifth': { cache: samples, request: { ...request, windows } },
  'ends of windows, in files': { cache: samples, files: true, request: { ...request, windows } },
  'ends of windows, room for all decoded': { cache: samples * 25, files: true, request: { ...request, windows } },
  'whole, in files': { cache: samples, files: true, request },
  'whole, room for all packed': { cache: samples * 6, request },
  'whole, room for a fifth': { cache: samples, request },
}
for (const [name, { cache, files, request }] of Object.entries(cases)) {
  const scratch = files === undefined ? undefined : { directory: db.config.tempDir, budget: 2 ** 32, name: 'bench' }
  const context = { ...(await db.context()), sampleBlocks: new SampleBlocks(cache, scratch) }
  const taken: number[] = []
  let given = 0
  for (let run = 0; run < RUNS; run++) {
    const before = process.cpuUsage()
    const reader = await EngineReader.open(context)
    given = 0
    for await (const { times } of (await reader.samples(request)).blocks()) given += times.length
    reader.close()
    const { user, system } = process.cpuUsage(before)
    taken.push((user + system) / 1000)
  }
  const again = Math.min(...taken.slice(1))
  const memory = process.memoryUsage()
  console.log(
    `${name}: ${given} of ${samples} samples, first ${taken[0].toFixed(0)} ms, again ${again.toFixed(0)} ms, ${((again * 1e6) / samples).toFixed(1)} ns a sample; kept ${(context.sampleBlocks.bytes / 2 ** 20).toFixed(0)} MiB, buffers ${(memory.arrayBuffers / 2 ** 20).toFixed(0)}, resident ${(memory.rss / 2 ** 20).toFixed(0)} MiB`,
  )
}
process.exit(0)
