/** Samples for evaluators, from the memtable and from a segment, first and again. `node storage/embedded/bench/samples.bench.ts [hosts] [steps]` */
import type { SampleRequest } from 'svcdb/lib/columns'
import { EngineReader } from '../read/reader.ts'
import { SampleBlocks } from '../read/samples/source-blocks.ts'
import { TestDatabase } from '../testing/engine-state.ts'
import { BENCH_INTERVAL, BENCH_START, fillBench } from './bench-data.ts'

const hosts = Number(process.argv[2] ?? 100_000)
const steps = Number(process.argv[3] ?? 20)
const RUNS = 7

async function all(db: TestDatabase, where: string, cases: Record<string, Partial<SampleRequest>>): Promise<void> {
  for (const [name, request] of Object.entries(cases)) {
    const context = { ...(await db.context()), sampleBlocks: new SampleBlocks(256 << 20) }
    const taken: number[] = []
    let samples = 0
    for (let run = 0; run < RUNS; run++) {
      const from = performance.now()
      const reader = await EngineReader.open(context)
      const set = await reader.samples({ namespace: 'default', measurement: 'cpu', field: 'usage_0', ...request })
      samples = 0
      for await (const { times } of set.blocks()) samples += times.length
      reader.close()
      taken.push(performance.now() - from)
    }
    const again = taken.slice(1).sort((a, b) => a - b)[(RUNS - 1) >> 1]
    console.log(`${where}, ${name}: ${samples} samples, first ${taken[0].toFixed(1)} ms, again ${again.toFixed(2)} ms`)
  }
}

async function both(hosts: number, steps: number, cases: Record<string, Partial<SampleRequest>>): Promise<void> {
  const db = new TestDatabase()
  fillBench(db, hosts, steps, 0)
  await all(db, 'memtable', cases)
  await db.flush()
  await all(db, 'segment', cases)
  db.close()
}

await both(1000, 720, {
  'one of 1000 series, an hour': {
    matchers: [{ tag: 'hostname', op: '=', value: 'host_7' }],
    start: BENCH_START + 300n * BENCH_INTERVAL,
    end: BENCH_START + 660n * BENCH_INTERVAL,
  },
  '1000 series, an hour': { start: BENCH_START + 300n * BENCH_INTERVAL, end: BENCH_START + 660n * BENCH_INTERVAL },
})
await both(hosts, steps, { [`newest of ${hosts} series`]: { newestOnly: true, start: BENCH_START + BigInt(steps - 10) * BENCH_INTERVAL } })
process.exit(0)
