/** Memory under steady writes is flat: counted in rows, not in time, and in what was taken, not in what the collector has come to free. */
import { MetricsRegistry } from 'svcdb/testkit'
import t from 'tap'
import { testContext } from '../conformance/index.ts'
import { EmbeddedEngine } from './engine.ts'
import { closeAndRemove, NOW, NOW_MS, tempDir } from './testing/harness.ts'

t.setTimeout(300_000)

const MIB = 1 << 20
const SERIES = 2000
const BATCH = 5000
const BATCHES = 240
/** The most of each is looked at, and of each third of them the median: one that the collector came late to says nothing. */
const WINDOWS = 24
const FLUSH = MIB
/** What memtables, buffers and batches may differ from moment to moment. */
const SLACK = 6 * MIB

t.test('steady writes take no more memory the longer they go on', async (t) => {
  const dir = tempDir()
  const registry = new MetricsRegistry()
  const context = testContext({ data_dir: dir, memtable_flush_threshold: FLUSH, max_memtable_memory: 16 * FLUSH }, () => NOW_MS)
  const engine = new EmbeddedEngine({ ...context, metrics: registry.child('storage') })
  await engine.open()
  t.teardown(() => closeAndRemove(engine, dir))
  const { resolver } = engine
  const measurement = resolver.measurement('', 'cpu')
  const series = Array.from({ length: SERIES }, (_, i) => resolver.series(measurement, ['host', `h${i}`]))
  let row = 0
  const write = async (): Promise<void> => {
    const batch = engine.batch('')
    const table = batch.table(measurement)
    for (let i = 0; i < BATCH; i++, row++) {
      const time = NOW - 3_600_000_000_000n + BigInt(row) * 1_000_000n
      const at = table.addRow(series[(row * 7919) % SERIES], Number(BigInt.asIntN(32, time)), Number(time >> 32n), i)
      for (const name of ['a', 'b', 'c']) table.column(name, 'float64').setF64(at, row % 1000)
    }
    await engine.write(batch)
  }
  const metric = async (name: string): Promise<number> => Number(new RegExp(`^svc_${name} (\\S+)$`, 'm').exec(await registry.text())?.[1])
  /** Shared buffers that are nobody's any more and not collected yet among them. */
  const taken = (): number => process.memoryUsage().arrayBuffers
  const most = new Array<number>(WINDOWS).fill(0)
  for (let i = 0; i < BATCHES; i++) {
    // At a pace that flushes keep, however busy the machine is.
    while ((await metric('memtable_memory_bytes')) > 4 * FLUSH) await new Promise((resolve) => setTimeout(resolve, 5))
    await write()
    const window = Math.floor((i * WINDOWS) / BATCHES)
    most[window] = Math.max(most[window], taken())
  }
  await engine.flush()
  const flushes = await metric('flushes_total')
  t.ok(flushes > 20, `${flushes} memtables were flushed, of 1 MiB each`)
  const third = WINDOWS / 3
  const [, second, last] = [0, 1, 2].map((i) => median(most.slice(i * third, (i + 1) * third)))
  t.ok(last <= second + SLACK, `at most ${most.map((bytes) => (bytes / MIB).toFixed(1)).join(', then ')} MiB`)
  const consumers = await registry.text()
  t.match(consumers, /^svc_memory_bytes\{consumer="memtable"\} \d+$/m)
  const free = Number(/^svc_memory_bytes\{consumer="memtable_free"\} (\d+)$/m.exec(consumers)?.[1])
  t.ok(free <= 2 * FLUSH, 'and no more is kept than two memtables')
})

function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b)
  return (sorted[(sorted.length - 1) >> 1] + sorted[sorted.length >> 1]) / 2
}
