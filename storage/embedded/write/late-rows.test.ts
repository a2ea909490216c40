import t from 'tap'
import { sql } from '../testing/archiving.ts'
import { closeAndRemove, NOW, openEngine, rowsOf, tempDir, writeFloat } from '../testing/harness.ts'

const request = { namespace: '', measurement: 'm' }

t.test('rows that come late but repeat none are read without deduplication', async (t) => {
  const dir = tempDir()
  const engine = await openEngine(dir)
  for (const i of [5, 6, 7, 8, 0, 1, 2, 3, 9, 4]) await writeFloat(engine, 'm', 'a', NOW + BigInt(i), { v: i })
  t.match(await engine.explain(request), { deduplicated: false, bufferedRows: 10 })
  await engine.flush()
  t.match(await engine.explain(request), { deduplicated: false, segments: { total: 1, read: 1 } })
  t.equal((await rowsOf(engine, 'm')).length, 10)
  await closeAndRemove(engine, dir)
})

t.test('a row written twice is one row, and only its time is deduplicated', async (t) => {
  const dir = tempDir()
  const engine = await openEngine(dir)
  for (const [time, v] of [
    [1, 1],
    [2, 2],
    [3, 3],
    [2, 20],
  ]) {
    await writeFloat(engine, 'm', 'a', NOW + BigInt(time), { v })
  }
  const rows = [`a ${NOW + 1n} v=1`, `a ${NOW + 2n} v=20`, `a ${NOW + 3n} v=3`]
  t.same(await rowsOf(engine, 'm'), rows)
  t.match(await engine.explain(request), { deduplicated: true })
  t.match(await engine.explain({ ...request, start: NOW + 3n }), { deduplicated: false }, 'another time')
  await engine.flush()
  t.match(await engine.explain(request), { deduplicated: false }, 'the flush has merged them')
  t.same(await rowsOf(engine, 'm'), rows)
  await writeFloat(engine, 'm', 'a', NOW + 1n, { v: 10 })
  t.match(await engine.explain(request), { deduplicated: true }, 'a row that may repeat one of a segment')
  t.same(await rowsOf(engine, 'm'), [`a ${NOW + 1n} v=10`, ...rows.slice(1)])
  await engine.flush()
  t.same(await rowsOf(engine, 'm'), [`a ${NOW + 1n} v=10`, ...rows.slice(1)])
  await closeAndRemove(engine, dir)
})

t.test('a row is found again behind one that came as late as any of its table', async (t) => {
  const dir = tempDir()
  const engine = await openEngine(dir)
  t.teardown(() => closeAndRemove(engine, dir))
  for (const [time, v] of [
    [10, 1],
    [0, 2],
    [10, 3],
  ]) {
    await writeFloat(engine, 'm', 'a', NOW + BigInt(time), { v })
  }
  const rows = [`a ${NOW} v=2`, `a ${NOW + 10n} v=3`]
  t.same(await sql(engine, 'SELECT v FROM m ORDER BY _time, v'), [[2], [3]])
  t.same(await rowsOf(engine, 'm'), rows)
  await engine.flush()
  t.same(await rowsOf(engine, 'm'), rows)
})

t.test('a late row is deduplicated when the search for its time would be long', async (t) => {
  const dir = tempDir()
  const engine = await openEngine(dir)
  for (let i = 1; i < 200; i++) await writeFloat(engine, 'm', 'a', NOW + BigInt(i), { v: i })
  await writeFloat(engine, 'm', 'a', NOW, { v: 0 })
  t.match(await engine.explain(request), { deduplicated: true })
  t.equal((await rowsOf(engine, 'm')).length, 200)
  await closeAndRemove(engine, dir)
})

t.test('after a restart a row below the newest stored one may repeat it', async (t) => {
  const dir = tempDir()
  let engine = await openEngine(dir)
  await writeFloat(engine, 'm', 'a', NOW + 5n, { v: 1 })
  await engine.close()
  engine = await openEngine(dir)
  await writeFloat(engine, 'm', 'a', NOW + 5n, { v: 2 })
  await writeFloat(engine, 'm', 'b', NOW + 6n, { v: 3 })
  t.same(await rowsOf(engine, 'm'), [`a ${NOW + 5n} v=2`, `b ${NOW + 6n} v=3`])
  await closeAndRemove(engine, dir)
})

t.test('rows at both ends of time: a query of one series finds those in between', async (t) => {
  const dir = tempDir()
  const engine = await openEngine(dir)
  const first = -(2n ** 63n) + 2n
  // Enough other series for the rows of one to be found along their links.
  for (let host = 0; host < 40; host++) await writeFloat(engine, 'm', `h${host}`, NOW, { v: host })
  for (const time of [NOW + 10n, NOW + 5n, first, NOW + 7n]) await writeFloat(engine, 'm', 'a', time, { v: 1 }, { backfill: true })
  const found: bigint[] = []
  for await (const { times } of engine.scan({ ...request, matchers: [{ tag: 'host', op: '=', value: 'a' }], start: NOW })) found.push(...times)
  t.same(found, [NOW + 5n, NOW + 7n, NOW + 10n])
  await closeAndRemove(engine, dir)
})
