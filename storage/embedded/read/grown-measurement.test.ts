/** A measurement that has grown a second field: older rows lie in a shared table, newer ones in its own. */
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { closeAndRemove, NOW, openEngine, rowsOf, tempDir, writeFloat } from '../testing/harness.ts'

const PATIENCE_MS = 60_000

t.test('a value that was written again stays so when merges of the shared table give its older rows a higher sequence', async (t) => {
  const dir = tempDir()
  const engine = await openEngine(dir, { compaction_fan_in: 2 })
  await writeFloat(engine, 'a', 'h', NOW, { value: 1 })
  await engine.flush()
  await writeFloat(engine, 'a', 'h', NOW, { value: 2, other: 5 })
  await engine.flush()
  const wanted = [`h ${NOW} value=2 other=5`]
  t.same(await rowsOf(engine, 'a'), wanted)
  await writeFloat(engine, 'b', 'h', NOW, { value: 9 })
  await writeFloat(engine, 'c', 'h', NOW, { value: 9 })
  await engine.flush()
  const segments = async () => (await engine.explain({ namespace: '', measurement: 'b' })).segments.total
  for (const end = Date.now() + PATIENCE_MS; (await segments()) > 1 && Date.now() < end; ) await sleep(20)
  t.equal(await segments(), 1, 'the shared segments are merged')
  t.same(await rowsOf(engine, 'a'), wanted)
  await closeAndRemove(engine, dir)
})
