/** A restore whose record is on its way when the measurement is dropped once more: it stands, whatever becomes of the drop. */
import t from 'tap'
import { closeAndRemove, crashCopy, NOW, openEngine, rowsOf, tempDir, writeFloat } from '../testing/harness.ts'
import { HeldLog } from '../testing/held-log.ts'

const CONFIG = { soft_delete_ttl_secs: 3600, maintenance_interval_secs: 3600 }

for (const succeeds of [false, true])
  t.test(`the drop behind it ${succeeds ? 'takes effect' : 'finds no space'}`, async (t) => {
    const log = new HeldLog()
    const dir = tempDir()
    const engine = await openEngine(dir, CONFIG, log.fs)
    t.teardown(() => closeAndRemove(engine, dir))
    await writeFloat(engine, 'm', 'a', NOW, { v: 1 })
    await engine.drop('', 'm')
    const held = log.hold()
    const restored = engine.restore('', 'm')
    await held
    const dropped = engine.drop('', 'm').then(
      () => 'dropped',
      ({ code }: { code: string }) => code,
    )
    await log.step()
    await restored
    if (succeeds) log.succeed()
    else log.fail()
    t.equal(await dropped, succeeds ? 'dropped' : 'STORAGE_FULL')
    if (succeeds) {
      t.same(await rowsOf(engine, 'm'), [])
      await engine.restore('', 'm')
    }
    await writeFloat(engine, 'm', 'a', NOW + 1n, { v: 2 })
    t.equal((await rowsOf(engine, 'm')).length, 2)
    await engine.flush()
    const copy = crashCopy(dir)
    const again = await openEngine(copy, CONFIG)
    t.teardown(() => closeAndRemove(again, copy))
    t.equal((await rowsOf(again, 'm')).length, 2)
  })
