import t, { type Test } from 'tap'
import type { EmbeddedEngine } from '../engine.ts'
import { closeAndRemove, crashCopy, NOW, openEngine, rowsOf, tempDir, writeFloat } from '../testing/harness.ts'

t.setTimeout(120_000)
const QUIET = { maintenance_interval_secs: 3600, compaction_fan_in: 64 }

async function opened(t: Test, config: Record<string, unknown>, dir = tempDir()): Promise<{ engine: EmbeddedEngine; dir: string }> {
  const engine = await openEngine(dir, { ...QUIET, ...config })
  t.teardown(() => closeAndRemove(engine, dir))
  return { engine, dir }
}

/** One point of each series, all in one write. */
function writeAll(engine: EmbeddedEngine, tags: readonly string[][]): Promise<unknown> {
  const batch = engine.batch('')
  const ref = engine.resolver.measurement('', 'm')
  const table = batch.table(ref)
  for (const each of tags)
    table.column('v', 'float64').setF64(table.addRow(engine.resolver.series(ref, each), Number(BigInt.asIntN(32, NOW)), Number(NOW >> 32n), 0), 1)
  return engine.write(batch)
}

const hosts = (count: number, from = 0) => Array.from({ length: count }, (_, i) => ['host', `h${from + i}`])

t.test('a write that begins too many series leaves nothing of them', async (t) => {
  const { engine, dir } = await opened(t, { max_new_series_per_write: 16 })
  await writeFloat(engine, 'm', 'first', NOW, { v: 1 })
  await t.rejects(writeAll(engine, hosts(17)), { code: 'BAD_REQUEST', message: /more than 16 series/ })
  await writeFloat(engine, 'm', 'h16', NOW, { v: 2 })
  await writeFloat(engine, 'm', 'other', NOW, { v: 3 })
  const rows = [`first ${NOW} v=1`, `h16 ${NOW} v=2`, `other ${NOW} v=3`]
  t.same(await rowsOf(engine, 'm'), rows)
  const again = await opened(t, {}, crashCopy(dir))
  t.same(await rowsOf(again.engine, 'm'), rows, 'after a crash')
})

t.test('its tags are bounded in bytes, as often as they are said', async (t) => {
  const { engine } = await opened(t, { max_new_series_bytes_per_write: 1 << 20 })
  const long = Array.from({ length: 60 }, (_, i) => [`t${i}`, 'x'.repeat(4000)]).flat()
  const tags = (count: number) => hosts(count).map((host) => [...host, ...long])
  await t.rejects(writeAll(engine, tags(5)), {
    code: 'BAD_REQUEST',
    message: /more than 1048576 bytes of tags of series at once; .* database.max_new_series_bytes_per_write/,
  })
  t.same(await engine.measurements(''), [])
  for (const count of [4, 8, 8]) await writeAll(engine, tags(count))
  t.equal((await rowsOf(engine, 'm')).length, 8, 'known ones are not counted')
})
