/** What the entry of a merged segment says. */
import { join } from 'node:path'
import t from 'tap'
import { readSql } from '../read/sources.ts'
import { TestDatabase } from '../testing/engine-state.ts'
import { TestSegments } from '../testing/test-segments.ts'

const WIDE = { wide: true }

for (const { name, values, encoding } of [
  { name: '31 bits are enough', values: [214_748_364, 0.5], encoding: { kind: 'scaled', scale: 1 } },
  { name: 'one more takes 64', values: [2 ** 31, 7], encoding: { kind: 'scaled', scale: 0, ...WIDE } },
  { name: 'so does its negative', values: [-(2 ** 31), 7], encoding: { kind: 'scaled', scale: 0, ...WIDE } },
  { name: 'digits after the point count', values: [214_748_365, 0.5], encoding: { kind: 'scaled', scale: 1, ...WIDE } },
  { name: 'the largest below 2^53', values: [900_719_925_474_099, 0.5], encoding: { kind: 'scaled', scale: 1, ...WIDE } },
  { name: 'from 2^53 on they are no integers', values: [900_719_925_474_100, 0.5], encoding: { kind: 'plain' } },
])
  t.test(`integers of a merge: ${name}`, async (t) => {
    const db = new TestDatabase()
    t.teardown(() => db.close())
    const segments = new TestSegments(db)
    const m = db.measurement('m', { v: 'float64' })
    for (const [i, v] of values.entries()) {
      db.write(m, [{ tags: {}, time: BigInt(i), fields: { v } }])
      segments.freeze()
      await segments.flush()
    }
    await segments.compact(m.table.id, m.def.id, 0)
    const [{ file, columns }, ...more] = segments.all
    t.same(more, [])
    t.same(columns[0].encoding, encoding)
    const { duck, dataDir } = await db.target()
    const power = encoding.kind === 'scaled' ? 10 ** (encoding.scale ?? 0) : 1
    const stored = await duck.run(`SELECT v::DOUBLE AS v FROM ${readSql([join(dataDir, file)])} ORDER BY _time`)
    t.same(
      stored.map(({ v }) => Number(v) / power),
      values,
    )
  })

t.test('a merged segment spans the series of all that were merged', async (t) => {
  const db = new TestDatabase()
  t.teardown(() => db.close())
  const segments = new TestSegments(db)
  const m = db.measurement('m', { v: 'float64' })
  const hosts = ['a', 'b', 'c']
  const [first, , last] = hosts.map((host) => db.series(m, { host }))
  for (const written of [hosts.slice(1), hosts.slice(0, 2)]) {
    db.write(
      m,
      written.map((host) => ({ tags: { host }, time: 1n, fields: { v: 1 } })),
    )
    segments.freeze()
    await segments.flush()
  }
  t.same(
    segments.all.map(({ minSeries, maxSeries }) => [minSeries, maxSeries]),
    [
      [first + 1, last],
      [first, last - 1],
    ],
  )
  await segments.compact(m.table.id, m.def.id, 0)
  t.match(segments.all, [{ minSeries: first, maxSeries: last }])
})
