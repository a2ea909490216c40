/** Large texts that are encrypted are read within the memory of a query: row groups, flushed and merged, have few of them. */
import t, { type Test } from 'tap'
import { fill, NOW, str, type TestPoint } from '../../conformance/points.ts'
import type { EmbeddedEngine } from '../engine.ts'
import { inside } from '../testing/catalog-faults.ts'
import type { Decoded } from '../testing/decoded-job.ts'
import { closeAndRemove, openEngine, tempDir } from '../testing/harness.ts'

t.setTimeout(300_000)
process.env.SVC_TEST_LARGE = Buffer.alloc(32, 5).toString('base64')
const JOB = new URL('../testing/decoded-job.ts', import.meta.url)
const BYTES = 60_000
const STEP = 50
const POOL = Array.from({ length: 1 << 15 }, (_, i) => ((i * 2_654_435_761) >>> 0).toString(36).padStart(7, '0')).join('')

async function opened(t: Test, config: Record<string, unknown>, dir = tempDir()): Promise<EmbeddedEngine> {
  const engine = await openEngine(dir, {
    field_encryption: { columns: { text: 'k' }, keys: { k: 'SVC_TEST_LARGE' } },
    compaction_fan_in: 2,
    maintenance_interval_secs: 3600,
    query_threads: 1,
    ...config,
  })
  t.teardown(() => closeAndRemove(engine, dir))
  return engine
}

/** @param texts that differ. */
async function write(engine: EmbeddedEngine, from: number, rows: number, texts = rows): Promise<void> {
  for (let row = from; row < from + rows; row += STEP) {
    const points = Array.from({ length: STEP }, (_, i): TestPoint => {
      const at = (((row + i) % texts) * 37) % (POOL.length - BYTES)
      return {
        measurement: 'm',
        tags: { host: 'a' },
        time: NOW + BigInt(row + i),
        fields: { text: str(POOL.slice(at, at + BYTES)), plain: str(`row ${row + i}`) },
      }
    })
    await engine.write(fill(engine, points).batch)
  }
  await engine.flush()
}

const read = async (engine: EmbeddedEngine, query: string): Promise<unknown[][]> =>
  (await engine.run<Decoded>(JOB, { namespace: 'default', query, parameters: [] }, { timeoutMs: 60_000 }).result).rows

t.test('rows are read, flushed and merged', async (t) => {
  const engine = await opened(t, { merge_memory_limit: 64 << 20, per_query_memory_limit: 128 << 20 })
  const sums = `SELECT count(*)::DOUBLE, sum(length(text))::DOUBLE, max(plain) FROM m`
  await write(engine, 0, 1000)
  t.same(await read(engine, sums), [[1000, 1000 * BYTES, 'row 999']], 'flushed')
  await write(engine, 1000, 1000)
  await engine.tidy()
  await inside(engine).maintenance.settled()
  t.equal(inside(engine).segments.all().length, 1)
  t.same(await read(engine, sums), [[2000, 2000 * BYTES, 'row 999']], 'merged')
})

for (const texts of [1000, 10])
  t.test(`rows that were stored before the switch to encryption are merged, ${texts} texts`, async (t) => {
    const dir = tempDir()
    const before = await openEngine(dir, { maintenance_interval_secs: 3600 })
    await write(before, 0, 1000, texts)
    await write(before, 1000, 1000, texts)
    await before.close()
    const engine = await opened(t, { merge_memory_limit: 64 << 20, per_query_memory_limit: 128 << 20 }, dir)
    const query = 'SELECT count(*)::DOUBLE, sum(length(text))::DOUBLE, sum((hash(text) % 1000) * (hash(plain) % 1000))::DOUBLE FROM m'
    const expected = await read(engine, query)
    await engine.tidy()
    await inside(engine).maintenance.settled()
    const [segment, ...others] = inside(engine).segments.all()
    t.same([others.length, typeof segment.sidecar], [0, 'string'])
    t.same(await read(engine, query), expected)
  })
