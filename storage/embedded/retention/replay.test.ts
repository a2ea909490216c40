import t from 'tap'
import { closeAndRemove, crashCopy, NOW, openEngine, rowsOf, tempDir, writeFloat } from '../testing/harness.ts'

const TABLES: Record<string, Record<string, number>> = { 'a table of its own': { v: 1, w: 2 }, 'a shared table': { v: 1 } }

for (const [table, fields] of Object.entries(TABLES)) {
  t.test(`deleted points of series that the catalog has given back stay deleted when the log brings them back: ${table}`, async (t) => {
    const dir = tempDir()
    const engine = await openEngine(dir)
    t.teardown(() => closeAndRemove(engine, dir))
    for (const host of ['a', 'b']) await writeFloat(engine, 'm', host, NOW, fields)
    await engine.delete({ namespace: '', measurement: 'm' })
    await writeFloat(engine, 'm', 'a', NOW + 1n, fields)
    const left = await rowsOf(engine, 'm')
    t.equal(left.length, 1)
    // Stores what was given back; the log is still needed for the point behind the delete.
    await engine.tidy()
    const copy = crashCopy(dir)
    const again = await openEngine(copy)
    t.teardown(() => closeAndRemove(again, copy))
    t.same(await rowsOf(again, 'm'), left)
    await again.flush()
    t.same(await rowsOf(again, 'm'), left)
  })
}
