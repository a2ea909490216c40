/** What is kept of memtables and segments goes with them, though questions that began before have read them since. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { MetricsRegistry } from 'svcdb/testkit'
import t from 'tap'
import { testContext } from '../../../conformance/index.ts'
import { EmbeddedEngine } from '../../engine.ts'
import { closeAndRemove, NOW, NOW_MS, tempDir } from '../../testing/harness.ts'

const SAMPLES = new URL('../../testing/held-samples-job.ts', import.meta.url)
const EMIT = new URL('../../testing/worker-job.ts', import.meta.url)
const ROWS = 20_000
/** A sample that is kept takes more. */
const SAMPLE_BYTES = 8

t.test('what a question reads of a memtable that was flushed since goes with the question', async (t) => {
  const dir = tempDir()
  const registry = new MetricsRegistry()
  const engine = new EmbeddedEngine({ ...testContext({ data_dir: dir, query_threads: 1 }, () => NOW_MS), metrics: registry.child('storage') })
  await engine.open()
  t.teardown(() => closeAndRemove(engine, dir))
  const { resolver } = engine
  const measurement = resolver.measurement('', 'cpu')
  const batch = engine.batch('')
  const table = batch.table(measurement)
  for (let row = 0; row < ROWS; row++) {
    const time = NOW - BigInt(ROWS - row) * 1_000_000n
    const at = table.addRow(resolver.series(measurement, ['host', `h${row % 1000}`]), Number(BigInt.asIntN(32, time)), Number(time >> 32n), row)
    table.column('a', 'float64').setF64(at, row % 1000)
  }
  await engine.write(batch)
  /** Once the thread has said what it keeps. */
  const kept = async (): Promise<number> => {
    const job = engine.run<number>(EMIT, { kind: 'emit', chunks: 1, bytes: 10 })
    for await (const _ of job.output);
    await job.result
    return Number(/^svc_sample_cache_bytes (\S+)$/m.exec(await registry.text())?.[1])
  }
  const question = async (name: string, meanwhile: () => Promise<void>): Promise<number> => {
    const go = join(dir, name)
    const job = engine.run<number>(SAMPLES, { measurement: 'cpu', field: 'a', go })
    for await (const _ of job.output) {
      await meanwhile()
      writeFileSync(go, '')
    }
    return job.result
  }
  t.equal(await question('first', async () => {}), ROWS)
  t.ok((await kept()) > ROWS * SAMPLE_BYTES, 'samples of a memtable are kept')
  t.equal(await question('second', () => engine.flush()), ROWS)
  t.ok((await kept()) < ROWS * SAMPLE_BYTES, `${await kept()} bytes are kept of what nobody can ask for`)
})
