import { setTimeout } from 'node:timers/promises'
import t from 'tap'
import { sql } from '../testing/archiving.ts'
import { closeAndRemove, NOW, openEngine, rowsOf, tempDir, writeFloat } from '../testing/harness.ts'

const HOUR = 3_600_000_000_000n
const MINUTE = HOUR / 60n

t.test('rows that retention has masked do not come back when files of a shared table are merged', async (t) => {
  const dir = tempDir()
  // The one with the shorter retention shares its table with one that is kept longer: a merge cannot leave its rows out by time alone.
  const engine = await openEngine(dir, { retention_secs: 8 * 3600, retention: { brief: 2 * 3600 }, compaction_fan_in: 2, maintenance_interval_secs: 3600 })
  t.teardown(() => closeAndRemove(engine, dir))
  for (const age of [5n, 0n])
    for (const measurement of ['cpu', 'brief']) await writeFloat(engine, measurement, 'a', NOW - age * HOUR, { v: 1 }, { backfill: true })
  await engine.flush()
  const brief = await rowsOf(engine, 'brief')
  t.equal(brief.length, 1)
  await writeFloat(engine, 'cpu', 'a', NOW + MINUTE, { v: 1 })
  await engine.flush()
  const segments = async () => (await engine.explain({ namespace: '', measurement: 'cpu' })).segments.total
  for (let tries = 0; (await segments()) > 1; tries++) {
    if (tries === 500) throw new Error('the files are not merged')
    t.same(await rowsOf(engine, 'brief'), brief)
    await setTimeout(20)
  }
  t.same(await rowsOf(engine, 'brief'), brief)
  t.equal((await rowsOf(engine, 'cpu')).length, 3)
})

t.test('the oldest row that retention keeps is found by its time in the file that merges have left', async (t) => {
  const dir = tempDir()
  const engine = await openEngine(dir, { retention_secs: 2 * 3600, compaction_fan_in: 2, maintenance_interval_secs: 3600 })
  t.teardown(() => closeAndRemove(engine, dir))
  const oldest = NOW - 2n * HOUR
  for (const [i, time] of [oldest - MINUTE, oldest, NOW].entries()) await writeFloat(engine, 'cpu', 'a', time, { v: i, w: 1 }, { backfill: true })
  await engine.flush()
  await engine.tidy()
  await writeFloat(engine, 'cpu', 'a', NOW + MINUTE, { v: 3, w: 1 })
  await engine.flush()
  const segments = async () => (await engine.explain({ namespace: '', measurement: 'cpu' })).segments.total
  for (let tries = 0; (await segments()) > 1; tries++) {
    if (tries === 500) throw new Error('the files are not merged')
    await setTimeout(20)
  }
  t.same(await sql(engine, `SELECT v FROM cpu WHERE _time <= ${oldest}`), [[1]])
  t.equal((await rowsOf(engine, 'cpu')).length, 3)
})
