/** Fields of every type that were written before they were encrypted come out of a merge as they were. */
import t from 'tap'
import { bool, dec, f64, hist, i64, NOW, str, type TestPoint, u64, write } from '../../conformance/points.ts'
import { inside } from '../testing/catalog-faults.ts'
import { closeAndRemove, openEngine, rowsOf, tempDir } from '../testing/harness.ts'

process.env.SVC_TEST_SWITCHED = Buffer.alloc(32, 3).toString('base64')
const ENCRYPTED = ['f', 'i', 'u', 'b', 's', 'd', 'h']
const field_encryption = { columns: Object.fromEntries(ENCRYPTED.map((name) => [name, 'k'])), keys: { k: 'SVC_TEST_SWITCHED' } }

/** @param round rows of another round differ in their values, and in what they lack. */
function points(from: number, count: number, round: number): TestPoint[] {
  return Array.from({ length: count }, (_, k) => {
    const i = from + k
    const fields: TestPoint['fields'] = { always: i64(1n) }
    const values = [
      f64(i / 3 + round),
      i64(BigInt(i)),
      u64(BigInt(i)),
      bool(i % 2 === 0),
      str(`é${i}`.repeat(i % 50)),
      dec(`${i}.5`),
      hist(Uint8Array.of(i & 255, 7)),
    ]
    for (const [n, name] of ENCRYPTED.entries()) if ((i + n + round) % 5 > 0) fields[name] = values[n]
    return { measurement: 'm', tags: { host: `h${i % 4}` }, time: NOW + BigInt(i), fields }
  })
}

t.test('rows of every type, with duplicates', async (t) => {
  const dir = tempDir()
  const quiet = { maintenance_interval_secs: 3600 }
  let engine = await openEngine(dir, quiet)
  for (const [round, from] of [0, 1500].entries()) {
    await write(engine, points(from, 3000, round), { namespace: '' })
    await engine.flush()
  }
  const before = await rowsOf(engine, 'm')
  t.equal(before.length, 4500)
  await engine.close()
  engine = await openEngine(dir, { ...quiet, compaction_fan_in: 2, field_encryption })
  await engine.tidy()
  await inside(engine).maintenance.settled()
  t.equal(inside(engine).segments.all().length, 1)
  t.same(await rowsOf(engine, 'm'), before)
  await closeAndRemove(engine, dir)
})
