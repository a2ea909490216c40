import t from 'tap'
import { closeAndRemove, crashCopy, NOW, openEngine, rowsOf, tempDir } from '../testing/harness.ts'

t.test('series of batches that reach the log in another order than they were decoded in are all there after a crash', async (t) => {
  const dir = tempDir()
  const engine = await openEngine(dir)
  const batches = ['a', 'b', 'c', 'd'].map((host, i) => {
    const ref = engine.resolver.measurement('', i === 1 ? 'other' : 'm')
    const batch = engine.batch('')
    const row = batch.table(ref).addRow(engine.resolver.series(ref, ['host', host]), Number(BigInt.asIntN(32, NOW)), Number(NOW >> 32n), 0)
    batch.table(ref).column('v', 'float64').setF64(row, 1)
    return batch
  })
  // The third is never written: its number stays out.
  const [a, b, c, d] = batches
  for (const batch of [d, b, a]) await engine.write(batch)
  const all = async (from: typeof engine): Promise<string[]> => [...(await rowsOf(from, 'm')), ...(await rowsOf(from, 'other'))]
  const before = await all(engine)
  t.equal(before.length, 3)
  const copy = crashCopy(dir)
  const again = await openEngine(copy)
  t.same(await all(again), before)
  await closeAndRemove(again, copy)
  engine.recycle(c)
  await closeAndRemove(engine, dir)
})
