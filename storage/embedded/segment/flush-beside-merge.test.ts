/** A flush of large texts does not fail because a merge has taken the memory that they share: it would be tried again, and writes refused meanwhile. */
import { seeded } from 'svcdb/lib/random'
import t from 'tap'
import { fill, NOW, str, type TestPoint } from '../../conformance/points.ts'
import { closeAndRemove, openEngine, tempDir } from '../testing/harness.ts'

t.setTimeout(300_000)
const SEED = Number(process.env.SVC_SEED ?? Date.now() % 1_000_000)
const ROUNDS = 10
const ROWS = 14
const LONGEST = 1 << 20
const POOL = Array.from({ length: 1 << 18 }, (_, i) => ((i * 2_654_435_761) >>> 0).toString(36).padStart(7, '0')).join('')

t.test(`each flush ends while what was flushed before is merged: seed ${SEED}`, async (t) => {
  const random = seeded(SEED)
  const dir = tempDir()
  // As little as may be set.
  const engine = await openEngine(dir, { merge_memory_limit: 64 << 20, max_string_bytes: LONGEST, compaction_fan_in: 2, query_threads: 1 })
  t.teardown(() => closeAndRemove(engine, dir))
  const text = (): string => {
    const bytes = Math.floor(LONGEST * (0.3 + 0.7 * random()))
    const at = Math.floor(random() * (POOL.length - bytes))
    return POOL.slice(at, at + bytes)
  }
  for (let round = 0; round < ROUNDS; round++) {
    for (let row = 0; row < ROWS; row++) {
      const fields = { a: str(text()), b: str(text()) }
      const point: TestPoint = { measurement: 'm', tags: { host: `h${row % 3}` }, time: NOW + BigInt(round * ROWS + row), fields }
      await engine.write(fill(engine, [point]).batch)
    }
    await engine.flush()
  }
  t.pass('none has failed')
})
