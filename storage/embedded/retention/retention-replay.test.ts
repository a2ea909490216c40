import { rmSync } from 'node:fs'
import t from 'tap'
import { closeAndRemove, crashCopy, NOW, openEngine, rowsOf, tempDir, writeFloat } from '../testing/harness.ts'

const HOUR = 3_600_000_000_000n

const TABLES: Record<string, Record<string, number>> = { 'a table of its own': { v: 1, w: 2 }, 'a shared table': { v: 1 } }

for (const [table, fields] of Object.entries(TABLES)) {
  t.test(`rows that retention has masked do not come back out of the log after a crash: ${table}`, async (t) => {
    let dir = tempDir()
    const config = { retention_secs: 4 * 3600, retention: { brief: 2 * 3600 } }
    let engine = await openEngine(dir, config)
    t.teardown(() => closeAndRemove(engine, dir))
    for (const age of [6n, 3n, 0n])
      for (const measurement of ['cpu', 'brief']) await writeFloat(engine, measurement, 'a', NOW - age * HOUR, fields, { backfill: true })
    await engine.tidy()
    const cpu = await rowsOf(engine, 'cpu')
    const brief = await rowsOf(engine, 'brief')
    t.same([cpu.length, brief.length], [2, 1])
    for (let crash = 0; crash < 2; crash++) {
      const copy = crashCopy(dir)
      await engine.close()
      rmSync(dir, { recursive: true })
      dir = copy
      engine = await openEngine(dir, config)
      t.same(await rowsOf(engine, 'cpu'), cpu, 'before any pass of maintenance')
      t.same(await rowsOf(engine, 'brief'), brief)
    }
    await engine.tidy()
    await engine.flush()
    t.same(await rowsOf(engine, 'cpu'), cpu)
    t.same(await rowsOf(engine, 'brief'), brief)
  })
}
