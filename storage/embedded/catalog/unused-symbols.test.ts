import { join } from 'node:path'
import { SvcError } from 'svcdb/lib/errors'
import t from 'tap'
import { testContext } from '../../conformance/index.ts'
import type { SeriesIndex } from '../series/series-index.ts'
import { closeAndRemove, crashCopy, NOW, openEngine, rowsOf, tempDir, writeFloat } from '../testing/harness.ts'
import { newIndex } from '../testing/series.ts'
import { Catalog } from './catalog.ts'
import { dropUnusedSymbols } from './unused-symbols.ts'

const { log } = testContext({}, () => 0)
t.setTimeout(180_000)
const SERIES = 20_000
/** More than a block of symbols has. */
const KEPT = 1250

async function stored(dir: string): Promise<SeriesIndex> {
  const catalog = await Catalog.open(join(dir, 'catalog'), false)
  const index = newIndex()
  catalog.loadSeries(index)
  await catalog.close()
  return index
}

const live = (index: SeriesIndex): string[] =>
  Array.from({ length: index.count }, (_, series) => series).flatMap((series) => (index.isLive(series) ? [`${series} ${index.tagsOf(series).join(' ')}`] : []))

t.test('texts that only released series used go with the next start', async (t) => {
  const dir = tempDir()
  let engine = await openEngine(dir)
  t.teardown(() => closeAndRemove(engine, dir))
  const writes: Promise<unknown>[] = []
  for (let i = 0; i < SERIES; i++) writes.push(writeFloat(engine, 'm', `host ${i}`, NOW, { v: i }))
  await Promise.all(writes)
  await engine.flush()
  // Some of each block stay, and the newest.
  const stays = (i: number): boolean => i % (SERIES / KEPT) === 7 || i === SERIES - 1
  const kept = Array.from({ length: SERIES }, (_, i) => i).filter(stays)
  await engine.delete({ namespace: '', measurement: 'm', matchers: [{ tag: 'host', op: '!~', value: kept.map((i) => `host ${i}`).join('|') }] })
  await engine.tidy()
  const rows = await rowsOf(engine, 'm')
  t.equal(rows.length, KEPT + 1)
  await engine.close()

  const before = await stored(dir)
  t.ok(before.symbols.count > SERIES)
  t.equal(before.live, KEPT + 1)
  const copy = crashCopy(dir)
  engine = await openEngine(dir)
  t.same(await rowsOf(engine, 'm'), rows)
  // A series that is there, one that was given back, and a new one; and again from the log and from the catalog.
  for (const host of ['host 7', 'host 8', 'another']) await writeFloat(engine, 'm', host, NOW + 1n, { v: 1 })
  const more = [...rows, ...['host 7', 'host 8', 'another'].map((host) => `${host} ${NOW + 1n} v=1`)].sort()
  t.same(await rowsOf(engine, 'm'), more)
  await engine.close()
  engine = await openEngine(dir)
  t.same(await rowsOf(engine, 'm'), more)
  await engine.close()
  const after = await stored(dir)
  t.equal(after.symbols.count, KEPT + 5, 'the empty text, the key, and a value for each series')
  t.equal(after.count, SERIES + 2)

  const catalog = await Catalog.open(join(copy, 'catalog'), false)
  const { transaction } = catalog.store
  const failing = (code: 'STORAGE_FULL' | 'OVERLOADED') => Object.assign(catalog.store, { transaction: () => Promise.reject(new SvcError(code, 'no')) })
  failing('STORAGE_FULL')
  t.equal(await dropUnusedSymbols(catalog.store, log), 0, 'a full disk keeps no start from going on')
  failing('OVERLOADED')
  await t.rejects(dropUnusedSymbols(catalog.store, log), { code: 'OVERLOADED' }, 'what leaves the catalog unknown does')
  Object.assign(catalog.store, { transaction })
  t.equal(await dropUnusedSymbols(catalog.store, log), before.symbols.count - (KEPT + 3))
  t.equal(await dropUnusedSymbols(catalog.store, log), 0, 'nothing is left to do')
  await catalog.close()
  t.same(live(await stored(copy)), live(before), 'each series is what it was, under its number')
  engine = await openEngine(dir)
})

t.test('few unused texts are not worth writing everything anew', async (t) => {
  const dir = tempDir()
  const engine = await openEngine(dir)
  for (let i = 0; i < 50; i++) await writeFloat(engine, 'm', `host ${i}`, NOW, { v: i })
  await engine.flush()
  await engine.delete({ namespace: '', measurement: 'm' })
  await engine.tidy()
  await closeAndRemove(engine)
  t.ok((await stored(dir)).symbols.count > 50)
  const catalog = await Catalog.open(join(dir, 'catalog'), false)
  t.equal(await dropUnusedSymbols(catalog.store, log), 0)
  await catalog.close()
})
