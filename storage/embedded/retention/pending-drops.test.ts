import t from 'tap'
import { testContext } from '../../conformance/index.ts'
import { EmbeddedEngine } from '../engine.ts'
import { closeAndRemove, crashCopy, NOW, NOW_MS, openEngine, rowsOf, tempDir, writeFloat } from '../testing/harness.ts'

const HOUR_MS = 3_600_000
const TABLES: Record<string, Record<string, number>> = { 'a table of its own': { v: 1, w: 2 }, 'a shared table': { v: 1 } }

for (const [table, fields] of Object.entries(TABLES))
  t.test(`retention takes nothing of a measurement whose drop can be undone, until it is undone: ${table}`, async (t) => {
    const dir = tempDir()
    const clock = { ms: NOW_MS }
    const config = { maintenance_interval_secs: 3600, soft_delete_ttl_secs: 86_400, retention_secs: 3600 }
    const engine = new EmbeddedEngine(testContext({ ...config, data_dir: dir }, () => clock.ms))
    await engine.open()
    t.teardown(() => closeAndRemove(engine, dir))
    for (const measurement of ['dropped', 'kept']) await writeFloat(engine, measurement, 'a', NOW, fields)
    await engine.flush()
    const rows = await rowsOf(engine, 'dropped')
    t.equal(rows.length, 1)
    await engine.drop('', 'dropped')
    clock.ms += 3 * HOUR_MS
    await writeFloat(engine, 'clock', 'a', BigInt(clock.ms) * 1_000_000n, fields)
    await engine.tidy()
    t.same(await rowsOf(engine, 'kept'), [])
    await engine.restore('', 'dropped')
    t.same(await rowsOf(engine, 'dropped'), rows)
    await engine.tidy()
    t.same(await rowsOf(engine, 'dropped'), [])
  })

t.test('how drops have ended outlives the log that says so', async (t) => {
  const dir = tempDir()
  const config = { maintenance_interval_secs: 3600, soft_delete_ttl_secs: 86_400 }
  const engine = await openEngine(dir, config)
  t.teardown(() => closeAndRemove(engine, dir))
  for (const measurement of ['restored', 'gone']) await writeFloat(engine, measurement, 'a', NOW, { v: 1, w: 2 })
  await engine.flush()
  await engine.drop('', 'restored')
  await engine.tidy() // the catalog knows of the drop
  await engine.restore('', 'restored')
  await engine.drop('', 'gone', { final: true })
  await writeFloat(engine, 'other', 'a', NOW, { v: 1 })
  await engine.flush()
  const copy = crashCopy(dir)
  const again = await openEngine(copy, config)
  t.teardown(() => closeAndRemove(again, copy))
  t.same(await rowsOf(again, 'restored'), [`a ${NOW} v=1 w=2`])
  await t.rejects(again.restore('', 'gone'), { code: 'NOT_FOUND', message: /grace period has passed/ })
})
