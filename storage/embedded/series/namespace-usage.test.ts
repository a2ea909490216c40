/** What namespaces hold, where rows of several lie in one file, over flushes and merges. */
import { setTimeout } from 'node:timers/promises'
import t from 'tap'
import { f64, NOW, type TestPoint, write } from '../../conformance/points.ts'
import { closeAndRemove, openEngine, tempDir } from '../testing/harness.ts'

t.setTimeout(120_000)
const rows = (measurement: string, from: number, count: number): TestPoint[] =>
  Array.from({ length: count }, (_, i) => ({ measurement, tags: { h: 'a' }, time: NOW + BigInt(from + i), fields: { value: f64(i) }, mixed: true }))

t.test('a shared file counts by its rows, after merges too', async (t) => {
  const dir = tempDir()
  let engine = await openEngine(dir, { compaction_fan_in: 2, maintenance_interval_secs: 1, deleted_rows_rewrite_secs: 0 })
  t.teardown(() => closeAndRemove(engine, dir))
  const plan = () => engine.explain({ namespace: 'alpha', measurement: 'up' })
  const held = () => Promise.all(['alpha', 'beta'].map(async (namespace) => (await engine.usage(namespace)).bytes))
  let total = 0
  for (let flush = 0; flush < 4; flush++) {
    await write(engine, rows('up', flush * 9000, 9000), { namespace: 'alpha', backfill: true })
    await write(engine, rows('up', flush * 1000, 1000), { namespace: 'beta', backfill: true })
    await engine.flush()
  }
  for (let i = 0; i < 1200 && (await plan()).segments.total > 1; i++) await setTimeout(50)
  t.equal((await plan()).segments.total, 1, 'they were merged')
  const share = ([alpha, beta]: number[]): number => Math.round((alpha / (alpha + beta)) * 1000) / 1000
  t.equal(share(await held()), 0.9)
  total = (await held())[0] + (await held())[1]
  await engine.close()
  engine = await openEngine(dir, { compaction_fan_in: 2, maintenance_interval_secs: 1, deleted_rows_rewrite_secs: 0 })
  t.equal(share(await held()), 0.9, 'after a restart')
  t.same(await Promise.all(['alpha', 'beta'].map(async (namespace) => (await engine.usage(namespace)).series)), [1, 1])
  t.ok(Math.abs((await held())[0] + (await held())[1] - total) <= 2)
  t.same([(await engine.usage('')).bytes, (await engine.usage('other')).bytes], [0, 0])

  await engine.drop('alpha', 'up', { final: true })
  t.equal((await held())[0], 0)
  await write(engine, rows('up', 0, 10), { namespace: 'alpha', backfill: true })
  t.ok((await held())[0] < 2000, 'the rows of the one before are not its own')
  await engine.flush()
  t.ok((await held())[0] < 5000)
  t.equal((await plan()).bufferedRows, 0)
})

t.test('without tenants files say nothing of namespaces', async (t) => {
  const dir = tempDir()
  const engine = await openEngine(dir)
  t.teardown(() => closeAndRemove(engine, dir))
  await write(engine, rows('up', 0, 1000), { namespace: '', backfill: true })
  const before = (await engine.usage('')).bytes
  await engine.flush()
  const { bytes, series, measurements } = await engine.usage('')
  t.same([series, measurements], [1, 1])
  t.ok(bytes > 0 && bytes < before, `${bytes} bytes of ${before}`)
})
