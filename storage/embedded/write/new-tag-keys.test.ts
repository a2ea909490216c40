/** The bound on the tag keys of a measurement: however rows arrive, over restarts, and for writes that are under way together. */
import t, { type Test } from 'tap'
import type { EmbeddedEngine } from '../engine.ts'
import { closeAndRemove, crashCopy, NOW, openEngine, tempDir } from '../testing/harness.ts'

t.setTimeout(120_000)

async function opened(t: Test, limit: number, dir = tempDir()): Promise<{ engine: EmbeddedEngine; dir: string }> {
  const engine = await openEngine(dir, { max_tags_per_measurement: limit, maintenance_interval_secs: 3600 })
  t.teardown(() => closeAndRemove(engine, dir))
  return { engine, dir }
}

/** A batch with a row of each series. @param mixed in one table for all measurements. */
function batchOf(engine: EmbeddedEngine, rows: readonly (readonly [measurement: string, ...keys: string[]])[], mixed = false) {
  const batch = engine.batch('')
  for (const [i, [name, ...keys]] of rows.entries()) {
    const ref = engine.resolver.measurement('', name)
    const table = mixed ? batch.mixed() : batch.table(ref)
    const series = engine.resolver.series(
      ref,
      keys.flatMap((key) => [key, 'x']),
    )
    table.column('v', 'float64').setF64(table.addRow(series, Number(BigInt.asIntN(32, NOW)), Number(NOW >> 32n), i), 1)
  }
  return batch
}

const tagsOf = async (engine: EmbeddedEngine): Promise<Record<string, string[]>> =>
  Object.fromEntries((await engine.measurements('')).map(({ name, tags }) => [name, tags]))

for (const mixed of [false, true])
  t.test(mixed ? 'rows of many measurements in one table' : 'rows of one measurement', async (t) => {
    const { engine, dir } = await opened(t, 3)
    const rows = [
      ['m', 'a', 'b'],
      ['n', 'a'],
      ['m', 'c', 'd'],
      ['m', 'a', 'c'],
      ['n', 'd'],
      ['m', 'a', 'e'],
    ] as const
    const result = await engine.write(batchOf(engine, rows, mixed))
    const refused = (position: number, key: string) => ({
      code: 'INVALID_POINT',
      position,
      message: new RegExp(`"${key}" .*"m".* 4 .*max_tags_per_measurement is 3`),
    })
    t.match(result, { written: 4, rejected: 2, rejections: [refused(2, 'c'), refused(5, 'e')] })
    const tags = { m: ['a', 'b', 'c'], n: ['a', 'd'] }
    t.same(await tagsOf(engine), tags)
    const again = await opened(t, 1, crashCopy(dir))
    t.same(await tagsOf(again.engine), tags, 'a lower limit takes nothing away')
    t.match(
      await again.engine.write(
        batchOf(
          again.engine,
          [
            ['m', 'b'],
            ['m', 'e'],
            ['n', 'a'],
          ],
          mixed,
        ),
      ),
      { written: 2, rejections: [{ position: 1 }] },
    )
  })

t.test('writes that are under way together', async (t) => {
  const { engine } = await opened(t, 3)
  const batches = ['a', 'b', 'c', 'd', 'e'].map((key) => batchOf(engine, [['m', key]]))
  const results = await Promise.all(batches.map((batch) => engine.write(batch)))
  t.same(
    results.map(({ written }) => written),
    [1, 1, 1, 0, 0],
  )
  t.same(await tagsOf(engine), { m: ['a', 'b', 'c'] })
})

t.test('series that are deleted leave room', async (t) => {
  const { engine } = await opened(t, 2)
  await engine.write(
    batchOf(engine, [
      ['m', 'a'],
      ['m', 'b'],
    ]),
  )
  await engine.delete({ namespace: '', measurement: 'm', matchers: [{ tag: 'a', op: '=', value: 'x' }] })
  t.match(await engine.write(batchOf(engine, [['m', 'c']])), { written: 1 })
  t.same(await tagsOf(engine), { m: ['b', 'c'] })
  t.match(await engine.write(batchOf(engine, [['m', 'a']])), { rejected: 1 }, 'which the deleted ones have no more of than others')
  t.same(await tagsOf(engine), { m: ['b', 'c'] })
})

t.test('many keys and series in any order', async (t) => {
  const { engine } = await opened(t, 100)
  const rows = Array.from({ length: 400 }, (_, i) => ['m', ...Array.from({ length: 1 + (i % 7) }, (_, j) => `k${(i * 31 + j * 57) % 150}`)] as const)
  const keys = new Set<string>()
  const fit = rows.map(([, ...own]) => {
    const union = new Set([...keys, ...own])
    const fits = union.size <= 100
    if (fits) for (const key of own) keys.add(key)
    return fits
  })
  const { written } = await engine.write(batchOf(engine, rows))
  t.equal(written, fit.filter((fits) => fits).length)
  t.same(await tagsOf(engine), { m: [...keys].sort() })
})
