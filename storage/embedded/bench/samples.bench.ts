/**
 * Samples for evaluators, from the memtable and from segments: first (nothing decoded), again, and with a cache that holds a part of them; the newest of
 * many series; all fields of a table one after the other, as a dashboard asks them. Wall and processor time.
 * `node storage/embedded/bench/samples.bench.ts [hosts] [steps]`
 */
import type { SampleRequest } from 'svcdb/lib/columns'
import { EngineReader } from '../read/reader.ts'
import { SampleBlocks } from '../read/samples/source-blocks.ts'
import { TestDatabase } from '../testing/engine-state.ts'
import { BENCH_FIELDS, BENCH_INTERVAL, BENCH_START, fillBench } from './bench-data.ts'

const hosts = Number(process.argv[2] ?? 100_000)
const steps = Number(process.argv[3] ?? 20)
const RUNS = 7
const CACHE_BYTES = 256 << 20

interface Case {
  fields?: readonly string[]
  cacheBytes?: number
  request: Partial<SampleRequest>
}

function processorMs(): number {
  const { user, system } = process.cpuUsage()
  return (user + system) / 1000
}

async function all(db: TestDatabase, where: string, cases: Record<string, Case>): Promise<void> {
  for (const [name, { fields = ['usage_0'], cacheBytes = CACHE_BYTES, request }] of Object.entries(cases)) {
    const context = { ...(await db.context()), sampleBlocks: new SampleBlocks(cacheBytes) }
    const taken: { wall: number; processor: number }[] = []
    let samples = 0
    for (let run = 0; run < RUNS; run++) {
      const [from, before] = [performance.now(), processorMs()]
      const reader = await EngineReader.open(context)
      samples = 0
      for (const field of fields) {
        const set = await reader.samples({ namespace: 'default', measurement: 'cpu', field, ...request })
        for await (const { times } of set.blocks()) samples += times.length
      }
      reader.close()
      taken.push({ wall: performance.now() - from, processor: processorMs() - before })
    }
    const best = (of: 'wall' | 'processor'): number => Math.min(...taken.slice(1).map((one) => one[of]))
    const rate = (best('processor') * 1e6) / samples
    console.log(
      `${where}, ${name}: ${samples} samples, first ${taken[0].wall.toFixed(1)} ms (processor ${taken[0].processor.toFixed(1)}), again ${best('wall').toFixed(2)} ms (processor ${best('processor').toFixed(2)}, ${rate.toFixed(1)} ns a sample)`,
    )
  }
}

async function both(hosts: number, steps: number, decimals: number, cases: Record<string, Case>): Promise<void> {
  const db = new TestDatabase()
  db.config.rowGroupRows = 32_768
  fillBench(db, hosts, steps, decimals)
  await all(db, 'memtable', cases)
  await db.flush()
  await all(db, 'segment', cases)
  db.close()
}

const hour = { start: BENCH_START + 300n * BENCH_INTERVAL, end: BENCH_START + 660n * BENCH_INTERVAL }
await both(1000, 720, 2, {
  'one of 1000 series, an hour': { request: { matchers: [{ tag: 'hostname', op: '=', value: 'host_7' }], ...hour } },
  '1000 series, an hour': { request: hour },
  'ten fields of 1000 series, all': { fields: BENCH_FIELDS, request: {} },
  'the same, a cache for a part': { fields: BENCH_FIELDS, cacheBytes: 16 << 20, request: {} },
})
await both(hosts, steps, 0, { [`newest of ${hosts} series`]: { request: { newestOnly: true, start: BENCH_START + BigInt(steps - 10) * BENCH_INTERVAL } } })
process.exit(0)
