/** How replay divides what it reads among memtables: what a start finds after it, and after another crash. */
import t, { type Test } from 'tap'
import type { EmbeddedEngine } from '../engine.ts'
import { Memtable } from '../memtable/memtable.ts'
import { inside } from '../testing/catalog-faults.ts'
import { closeAndRemove, crashCopy, NOW, openEngine, rowsOf, tempDir, writeFloat } from '../testing/harness.ts'

t.setTimeout(120_000)

const QUIET = { maintenance_interval_secs: 3600, compaction_fan_in: 64 }
const SMALL = { ...QUIET, memtable_flush_threshold: 64 << 10 }
/** Rows of a write: two writes reach the small threshold, one does not. */
const ROWS = 1200

/** A data directory whose log has three writes in one file, and that has no segment. */
async function crashed(t: Test): Promise<string> {
  const dir = tempDir()
  const engine = await openEngine(dir, QUIET)
  for (let i = 0; i < 3; i++) await writeRows(engine, i * ROWS)
  const { wal, segments } = inside(engine)
  t.same([wal.file, segments.all()], [1, []])
  const copy = crashCopy(dir)
  await closeAndRemove(engine, dir)
  return copy
}

function writeRows(engine: EmbeddedEngine, first: number): Promise<unknown> {
  const batch = engine.batch('')
  const ref = engine.resolver.measurement('', 'm')
  const series = engine.resolver.series(ref, ['host', 'a'])
  const table = batch.table(ref)
  for (let i = first; i < first + ROWS; i++) {
    const time = NOW + BigInt(i)
    const row = table.addRow(series, Number(BigInt.asIntN(32, time)), Number(time >> 32n), 0)
    for (const field of ['v', 'w']) table.column(field, 'float64').setF64(row, i + 0.5)
  }
  return engine.write(batch)
}

/** Waits until what replay has frozen is in segments, then looks at what a start finds after another crash. */
async function check(t: Test, engine: EmbeddedEngine, dir: string): Promise<void> {
  const { maintenance, memtables, segments } = inside(engine)
  await maintenance.flushed(memtables.active.id - 1)
  t.same(
    segments.all().map(({ rows }) => rows),
    [2 * ROWS],
    'two writes are in a segment',
  )
  t.equal(memtables.active.rows, ROWS, 'the log is needed for the third')
  const copy = crashCopy(dir)
  const again = await openEngine(copy, QUIET)
  t.equal((await rowsOf(again, 'm')).length, 3 * ROWS)
  await closeAndRemove(again, copy)
}

t.test('a memtable that has reached the threshold is frozen behind the record', async (t) => {
  const dir = await crashed(t)
  const engine = await openEngine(dir, SMALL)
  t.teardown(() => closeAndRemove(engine, dir))
  await check(t, engine, dir)
})

t.test('one that is full is frozen before the next record: the addresses that it has left are for one', async (t) => {
  const dir = await crashed(t)
  const full = Object.getOwnPropertyDescriptor(Memtable.prototype, 'full') as PropertyDescriptor
  Object.defineProperty(Memtable.prototype, 'full', {
    configurable: true,
    get(this: Memtable) {
      return this.rows >= 2 * ROWS
    },
  })
  const engine = await openEngine(dir, QUIET).finally(() => Object.defineProperty(Memtable.prototype, 'full', full))
  t.teardown(() => closeAndRemove(engine, dir))
  await check(t, engine, dir)
})

t.test('a point that is written again once its measurement has a table of its own is one point after a crash', async (t) => {
  for (const fields of [{ v: 2, w: 2 }, { w: 2 }] as Record<string, number>[]) {
    const dir = tempDir()
    const engine = await openEngine(dir, QUIET)
    await writeFloat(engine, 'm', 'a', NOW, { v: 1 })
    await writeFloat(engine, 'm', 'a', NOW, fields)
    const copy = crashCopy(dir)
    await closeAndRemove(engine, dir)
    const again = await openEngine(copy, QUIET)
    const wanted = [`a ${NOW} v=${fields.v ?? 1} w=2`]
    t.same(await rowsOf(again, 'm'), wanted)
    await again.flush()
    t.same(await rowsOf(again, 'm'), wanted, 'the older row is of a segment before')
    await closeAndRemove(again, copy)
  }
})
