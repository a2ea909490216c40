import { rmSync } from 'node:fs'
import { join } from 'node:path'
import type { StorageEngine } from 'svcdb'
import type { WriteBatch } from 'svcdb/lib/columns'
import { SvcError } from 'svcdb/lib/errors'
import t from 'tap'
import { realFileSystem } from '../../common/log/file-system.ts'
import { Catalog } from '../catalog/catalog.ts'
import type { EmbeddedEngine } from '../engine.ts'
import { inside } from '../testing/catalog-faults.ts'
import { closeAndRemove, crashCopy, NOW, openEngine, rowsOf, tempDir, writeFloat } from '../testing/harness.ts'
import { newIndex } from '../testing/series.ts'
import type { SeriesIndex } from './series-index.ts'

/** A batch with a row of each host, as a decoder leaves it. */
function filled(engine: StorageEngine, hosts: readonly string[], value: number, time = NOW): WriteBatch {
  const batch = engine.batch('')
  const ref = engine.resolver.measurement('', 'm')
  const table = batch.table(ref)
  for (const [i, host] of hosts.entries()) {
    const row = table.addRow(engine.resolver.series(ref, ['host', host]), Number(BigInt.asIntN(32, time)), Number(time >> 32n), i)
    table.column('v', 'float64').setF64(row, value)
  }
  return batch
}

const hosts = (count: number, prefix: string) => Array.from({ length: count }, (_, i) => `${prefix}${i}`)

/** What the catalog of a directory has. */
async function stored(dir: string): Promise<SeriesIndex> {
  const catalog = await Catalog.open(join(dir, 'catalog'), false)
  const index = newIndex()
  catalog.loadSeries(index)
  await catalog.close()
  return index
}

/** The index of an engine. */
const indexOf = (engine: EmbeddedEngine): SeriesIndex => inside(engine).index

t.test('series of a batch that is refused after others were stored do not come back as duplicates', async (t) => {
  const dir = tempDir()
  let engine = await openEngine(dir)
  await writeFloat(engine, 'm', 'first', NOW, { v: 0 })
  const held = filled(engine, hosts(50, 'h'), 1)
  await writeFloat(engine, 'm', 'other', NOW, { v: 0 })
  await engine.flush()
  engine.recycle(held)
  await engine.write(filled(engine, hosts(50, 'h'), 2))
  await engine.flush()
  await engine.close()
  t.equal((await stored(dir)).count, 52)
  engine = await openEngine(dir)
  await engine.write(filled(engine, hosts(50, 'h'), 3))
  const rows = await rowsOf(engine, 'm')
  t.equal(rows.length, 52)
  t.equal(rows.filter((row) => row.endsWith('v=3')).length, 50, 'the same points are replaced')
  t.equal(indexOf(engine).live, 52)
  await closeAndRemove(engine, dir)
})

t.test('a batch that others overtake is stored like any other', async (t) => {
  const dir = tempDir()
  const engine = await openEngine(dir)
  const held = filled(engine, hosts(20, 'h'), 1)
  for (let i = 0; i < 3; i++) {
    await engine.write(filled(engine, [...hosts(5, `other${i}-`), 'h7'], 2, NOW + BigInt(i)))
    await engine.flush()
  }
  await engine.write(held)
  const rows = await rowsOf(engine, 'm')
  t.equal(rows.length, 15 + 3 + 19, 'h7 has one row of each time, the newest of the first')
  t.ok(rows.includes(`h7 ${NOW} v=1`))
  t.equal(indexOf(engine).live, 35)
  const copy = crashCopy(dir)
  const again = await openEngine(copy)
  t.same(await rowsOf(again, 'm'), rows)
  await closeAndRemove(again, copy)
  await closeAndRemove(engine, dir)
})

t.test('what is refused leaves no text behind: in memory, in the log, in the catalog', async (t) => {
  const dir = tempDir()
  const engine = await openEngine(dir, { max_series_cardinality: 20 })
  await engine.write(filled(engine, hosts(9, 'ok'), 1))
  await engine.flush()
  const index = indexOf(engine)
  const before = { symbols: index.symbols.count, bytes: index.symbols.used, count: index.count, memory: index.memory }
  for (let round = 0; round < 40; round++) {
    const named = hosts(5, `refused-${round}-${'-'.repeat(100)}`)
    engine.recycle(filled(engine, named, 1)) // cancelled
    t.match(await engine.write(filled(engine, named, 1, NOW - 10n ** 18n)), { written: 0 }, 'too old')
    t.match(await engine.write(filled(engine, named, Number.NaN)), { written: 0 }, 'a value that is not stored')
    const batch = engine.batch('')
    const ref = engine.resolver.measurement('', 'm')
    t.throws(() => hosts(30, `many-${round}-`).forEach((host) => void engine.resolver.series(ref, ['host', host])), { code: 'CARDINALITY_EXCEEDED' })
    engine.recycle(batch)
  }
  t.same({ symbols: index.symbols.count, bytes: index.symbols.used, count: index.count, memory: index.memory }, before)
  // While somebody's batch is open, too, what is over the budget leaves nothing.
  const held = filled(engine, hosts(11, 'held'), 1)
  const { memory } = index
  for (let i = 0; i < 300; i++) t.throws(() => filled(engine, [`x${i}${'x'.repeat(1000)}`], 1), { code: 'CARDINALITY_EXCEEDED' })
  t.equal(index.memory, memory)
  engine.recycle(held)
  await writeFloat(engine, 'm', 'ok1', NOW + 1n, { v: 1 })
  await engine.close()
  const after = await stored(dir)
  t.equal(after.count, 9)
  t.equal(after.symbols.count, before.symbols)
  await closeAndRemove(engine, dir)
})

t.test('a write that the log did not take leaves no series; batches that hold them define them again', async (t) => {
  const dir = tempDir()
  let full = false
  let during = () => {}
  const engine = await openEngine(
    dir,
    {},
    {
      ...realFileSystem,
      write: (fd, bytes, offset, length, position, done) => {
        during()
        if (full) return done(Object.assign(new Error('no space'), { code: 'ENOSPC' }), 0)
        realFileSystem.write(fd, bytes, offset, length, position, done)
      },
    },
  )
  await writeFloat(engine, 'm', 'first', NOW, { v: 0 })
  await engine.flush()
  const index = indexOf(engine)
  const symbols = index.symbols.count
  const early = filled(engine, ['a', 'b'], 1)
  const late: WriteBatch[] = []
  full = true
  during = () => {
    // While the record is on its way: others name the same series, and are written behind it.
    during = () => {}
    late.push(filled(engine, ['b', 'c', 'd'], 3, NOW + 2n))
    failed.push(engine.write(filled(engine, ['c', 'e'], 4, NOW + 3n)))
  }
  const failed = [engine.write(filled(engine, ['b', 'c'], 2, NOW + 1n))]
  await t.rejects(failed[0], { code: 'STORAGE_FULL' })
  t.equal(failed.length, 2)
  await t.rejects(failed[1], { code: 'STORAGE_FULL' })
  t.same([index.count, index.live, index.symbols.count], [1, 1, symbols])
  await engine.flush()
  full = false
  t.match(await engine.write(late[0]), { written: 3 })
  t.match(await engine.write(early), { written: 2 })
  const rows = ['first', 'a', 'b', 'b', 'c', 'd'].map((host) => host)
  t.same(
    (await rowsOf(engine, 'm')).map((row) => row.split(' ')[0]),
    rows.sort(),
  )
  t.equal(index.live, 5)
  const copy = crashCopy(dir)
  const again = await openEngine(copy)
  t.same(await rowsOf(again, 'm'), await rowsOf(engine, 'm'))
  t.equal(indexOf(again).live, 5)
  await closeAndRemove(again, copy)
  await closeAndRemove(engine, dir)
})

t.test('a commit stores nothing of a write that is on its way', async (t) => {
  const dir = tempDir()
  const catalog = await Catalog.open(join(dir, 'catalog'), true)
  const index = newIndex()
  const ref = { namespace: '', name: 'm', id: 0, fields: new Map() }
  index.publish(index.promote(index.resolve(ref, ['host', 'a'])))
  index.promote(index.resolve(ref, ['host', 'b', 'zone', 'z']))
  const counters = { nextSegment: 1, nextSequence: 1, nextTable: 0, nextMeasurement: 1, walFloor: 1, newest: {} }
  const change = { counters, entries: [], seriesBlocks: [], tombstones: [], tombstonesRemoved: [] }
  const owners = { ownersBefore: () => new Map<number, number>() }
  await catalog.commit(
    () => change,
    index,
    owners,
    () => {},
  )
  await catalog.close()
  const found = await stored(dir)
  t.same([found.count, found.symbols.count], [1, 3])
  rmSync(dir, { recursive: true })
})

t.test('texts beyond what symbols can address: the series is refused, others go on', async (t) => {
  const index = newIndex({ maxTextBytes: 64 })
  const ref = { namespace: '', name: 'm', id: 0, fields: new Map() }
  const first = index.resolve(ref, ['host', 'a'.repeat(40)])
  for (let i = 0; i < 3; i++) {
    const error = t.throws(() => index.resolve(ref, ['host', `${i}`.repeat(40)])) as unknown as SvcError
    t.ok(error instanceof SvcError)
    t.match(error, { code: 'CARDINALITY_EXCEEDED', message: /64 bytes/ })
  }
  t.equal(index.numberOf(index.resolve(ref, ['host', 'b'])), -2, 'there is room for a short one')
  index.publish(index.promote(first))
  t.equal(index.resolve(ref, ['host', 'a'.repeat(40)]), 0)
})

t.test('namespaces whose writes are refused leave nothing behind', async (t) => {
  const dir = tempDir()
  const engine = await openEngine(dir)
  for (let i = 0; i < 50; i++) {
    const batch = engine.batch(`n${i}`)
    const ref = engine.resolver.measurement(`n${i}`, 'm')
    batch.table(ref).addRow(engine.resolver.series(ref, ['host', 'a']), 0, 0, 0)
    t.match(await engine.write(batch), { written: 0, rejected: 1 })
  }
  const { windows, index } = inside(engine)
  t.equal(windows.size, 0)
  t.equal((index as unknown as { counts: { counts: Map<string, number> } }).counts.counts.size, 0)
  t.same(await engine.namespaces(), [])
  await closeAndRemove(engine, dir)
})

t.test('numbers and names of refused measurements are used again', async (t) => {
  const dir = tempDir()
  const engine = await openEngine(dir)
  await writeFloat(engine, 'm', 'a', NOW, { v: 1 })
  for (let i = 0; i < 100; i++) {
    const batch = engine.batch('')
    t.equal(engine.resolver.measurement('', `refused${i}`).id, 1)
    engine.recycle(batch)
  }
  await writeFloat(engine, 'n', 'a', NOW, { v: 1 })
  t.same(
    (await engine.measurements('')).map(({ name }) => name),
    ['m', 'n'],
  )
  await closeAndRemove(engine, dir)
})
