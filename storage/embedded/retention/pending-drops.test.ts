import t from 'tap'
import { testContext } from '../../conformance/index.ts'
import { EmbeddedEngine } from '../engine.ts'
import { closeAndRemove, NOW, NOW_MS, rowsOf, tempDir, writeFloat } from '../testing/harness.ts'

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
