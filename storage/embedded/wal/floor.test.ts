/** The log's floor, below which no file is needed. */
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { closeAndRemove, crashCopy, NOW, openEngine, rowsOf, tempDir, writeFloat } from '../testing/harness.ts'

/** Of deletes whose records fill several files. */
const DELETES = 6000
const AT_ONCE = 500

t.test('while nothing but changes is written, files with them alone go too', async (t) => {
  const dir = tempDir()
  const config = { maintenance_interval_secs: 3600, wal_max_file_size: 65_536, wal_max_unflushed: 1 }
  const engine = await openEngine(dir, config)
  for (const host of ['a', 'b']) await writeFloat(engine, 'm', host, NOW, { v: 1, w: 1 })
  await engine.flush()
  const files = (): number => readdirSync(join(dir, 'wal')).length
  const matchers = [{ tag: 'host', op: '=', value: 'a' } as const]
  let most = 0
  for (let i = 0; i < DELETES; i += AT_ONCE) {
    await Promise.all(Array.from({ length: AT_ONCE }, () => engine.delete({ namespace: '', measurement: 'm', matchers, start: NOW, end: NOW + 1n })))
    await engine.tidy()
    most = Math.max(most, files())
  }
  t.ok(most <= 3, `there were up to ${most}`)
  await writeFloat(engine, 'm', 'a', NOW + 1n, { v: 2, w: 2 })
  const want = [`a ${NOW + 1n} v=2 w=2`, `b ${NOW} v=1 w=1`]
  t.same(await rowsOf(engine, 'm'), want)
  const copy = crashCopy(dir)
  await closeAndRemove(engine, dir)
  const again = await openEngine(copy, config)
  t.same(await rowsOf(again, 'm'), want, 'the same after a crash')
  await closeAndRemove(again, copy)
})
