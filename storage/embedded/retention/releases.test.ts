/** Series that have lost all rows are given back: in slices, by whoever finds them, after a restart too, and never when their record failed. */
import { readdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import t from 'tap'
import { until } from '../../../test/support/until.ts'
import { realFileSystem } from '../../common/log/file-system.ts'
import { testContext } from '../../conformance/index.ts'
import { EmbeddedEngine } from '../engine.ts'
import { SeriesIndex } from '../series/series-index.ts'
import { SLICE, type Slices } from '../slices.ts'
import { inside } from '../testing/catalog-faults.ts'
import { closeAndRemove, crashCopy, NOW, NOW_MS, openEngine, rowsOf, tempDir, writeFloat } from '../testing/harness.ts'
import { HeldLog } from '../testing/held-log.ts'

t.setTimeout(300_000)
const SERIES = SLICE * 3

async function writeAll(engine: EmbeddedEngine, measurement: string, time: bigint, count = SERIES): Promise<void> {
  const batch = engine.batch('')
  const ref = engine.resolver.measurement('', measurement)
  const table = batch.table(ref)
  for (let i = 0; i < count; i++) {
    const row = table.addRow(engine.resolver.series(ref, ['half', String(i % 2), 'host', String(i)]), Number(BigInt.asIntN(32, time)), Number(time >> 32n), i)
    table.column('v', 'float64').setF64(row, i)
    table.column('w', 'float64').setF64(row, i)
  }
  await engine.write(batch, { backfill: true })
}

const by = (tag: string, value: string) => ({ namespace: '', measurement: 'm', matchers: [{ tag, op: '=' as const, value }] })
const series = async (engine: EmbeddedEngine): Promise<number> => (await engine.usage('')).series

/** Counts what is asked of and done to single series within a turn of the loop, and remembers the maximum. */
function watchTurns(): { max(): number; stop(): void } {
  const { isLive, release, measurementOf } = SeriesIndex.prototype
  let steps = 0
  let max = 0
  const step = (n: number): void => {
    steps += n
    max = Math.max(max, steps)
  }
  Object.assign(SeriesIndex.prototype, {
    isLive(this: SeriesIndex, number: number) {
      step(1)
      return isLive.call(this, number)
    },
    measurementOf(this: SeriesIndex, number: number) {
      step(1)
      return measurementOf.call(this, number)
    },
    release(this: SeriesIndex, numbers: Int32Array) {
      step(numbers.length)
      return release.call(this, numbers)
    },
  })
  let watching = true
  const turn = (): void => {
    steps = 0
    if (watching) setImmediate(turn)
  }
  turn()
  return {
    max: () => max,
    stop: () => {
      watching = false
      Object.assign(SeriesIndex.prototype, { isLive, release, measurementOf })
    },
  }
}

t.test('no turn of the main loop handles more series than some slices, whatever goes', async (t) => {
  const dir = tempDir()
  const clock = { ms: NOW_MS }
  const engine = new EmbeddedEngine(testContext({ data_dir: dir, retention: { brief: 3600 } }, () => clock.ms))
  await engine.open()
  t.teardown(() => closeAndRemove(engine, dir))
  await writeAll(engine, 'm', NOW)
  await engine.flush()
  await writeAll(engine, 'final', NOW)
  const watch = watchTurns()
  t.teardown(watch.stop)
  // A slice asks three things of each series: is it live, whose is it, and have it back; and two slices may share a turn.
  const bound = SLICE * 3 * 2
  const within = async (name: string, work: () => Promise<unknown>): Promise<void> => {
    await work()
    t.ok(watch.max() <= bound, `${name}: ${watch.max()} of ${SERIES * 3}`)
  }
  await within('nothing', async () => t.equal((await engine.delete(by('host', 'nobody'))).series, 0))
  await within('one', async () => t.equal((await engine.delete(by('host', '1'))).series, 1))
  await within('half', async () => t.equal((await engine.delete(by('half', '0'))).series, SERIES / 2))
  await within('all', async () => t.equal((await engine.delete({ namespace: '', measurement: 'm' })).series, SERIES / 2 - 1))
  await within('a final drop', () => engine.drop('', 'final', { final: true }))
  t.equal(await series(engine), 0)
  watch.stop()
  await writeAll(engine, 'brief', NOW)
  clock.ms += 7_200_000
  await writeFloat(engine, 'm', 'clock', NOW + 7_200_000_000_000n, { v: 1 })
  const again = watchTurns()
  t.teardown(again.stop)
  await engine.tidy()
  t.ok(again.max() > 0 && again.max() <= bound, `retention: ${again.max()}`)
  t.equal(await series(engine), 1)
})

t.test('a delete reaches what was acknowledged before its call, and nothing that begins after it', async (t) => {
  const dir = tempDir()
  const engine = await openEngine(dir)
  t.teardown(() => closeAndRemove(engine, dir))
  for (let round = 0; round < 5; round++) {
    await writeFloat(engine, 'm', `h${round}`, NOW, { v: round })
    const deleted = engine.delete({ namespace: '', measurement: 'm', matchers: [{ tag: 'host', op: '=~', value: 'h.*' }] })
    const beside = writeFloat(engine, 'm', 'other', NOW + BigInt(round), { v: round })
    t.equal((await deleted).series, 1, 'the series of a moment ago is known')
    await beside
    await writeFloat(engine, 'm', `h${round}`, NOW + 1n, { v: -round })
    const rows = await rowsOf(engine, 'm')
    t.same(
      rows.filter((row) => row.startsWith('h')),
      [`h${round} ${NOW + 1n} v=${-round}`],
    )
    t.equal(rows.length, round + 2)
    await engine.delete({ namespace: '', measurement: 'm', matchers: [{ tag: 'host', op: '=', value: `h${round}` }] })
  }
})

t.test('a measurement that goes while its series are selected is not found', async (t) => {
  const dir = tempDir()
  const engine = await openEngine(dir)
  t.teardown(() => closeAndRemove(engine, dir))
  await writeFloat(engine, 'm', 'a', NOW, { v: 1 })
  const deleted = engine.delete(by('host', 'a'))
  await engine.drop('', 'm')
  await t.rejects(deleted, { code: 'NOT_FOUND' })
})

t.test('a pathological regular expression is refused in its time', async (t) => {
  const dir = tempDir()
  const engine = await openEngine(dir)
  t.teardown(() => closeAndRemove(engine, dir))
  await writeFloat(engine, 'm', `${'a'.repeat(40)}b`, NOW, { v: 1 })
  await t.rejects(engine.delete({ namespace: '', measurement: 'm', matchers: [{ tag: 'host', op: '=~', value: '(a+)+' }] }), { code: 'BAD_REQUEST' })
  t.equal(await series(engine), 1)
})

for (const end of ['stopped', 'killed'] as const)
  t.test(`series that a delete emptied while a decoder held a batch are given back after a restart: ${end}`, async (t) => {
    let dir = tempDir()
    let engine = await openEngine(dir)
    t.teardown(() => closeAndRemove(engine, dir))
    for (const host of ['a', 'b']) await writeFloat(engine, 'm', host, NOW, { v: 1, w: 2 })
    await writeFloat(engine, 'n', 'a', NOW, { v: 1, w: 2 })
    await engine.flush()
    const held = engine.batch('')
    await engine.delete(by('host', 'a'))
    await engine.delete({ namespace: '', measurement: 'n' })
    await engine.flush()
    await engine.tidy()
    t.equal(await series(engine), 3, 'nobody knows what the decoder will do')
    engine.recycle(held)
    if (end === 'stopped') await engine.close()
    else {
      const copy = crashCopy(dir)
      await closeAndRemove(engine, dir)
      dir = copy
    }
    engine = await openEngine(dir)
    await engine.tidy()
    t.equal(await series(engine), 1)
    t.same(await rowsOf(engine, 'm'), [`b ${NOW} v=1 w=2`])
    await writeFloat(engine, 'm', 'a', NOW, { v: 3, w: 4 })
    t.same(await rowsOf(engine, 'm'), [`a ${NOW} v=3 w=4`, `b ${NOW} v=1 w=2`])
  })

t.test('a series that waits is given back although a later segment spans its number, unless it was written to', async (t) => {
  const dir = tempDir()
  const engine = await openEngine(dir)
  t.teardown(() => closeAndRemove(engine, dir))
  const write = (...hosts: string[]) => Promise.all(hosts.map((host) => writeFloat(engine, 'm', host, NOW, { v: 1, w: 2 })))
  await write('a', 'b', 'c', 'd')
  const held = engine.batch('')
  await engine.delete({ namespace: '', measurement: 'm', matchers: [{ tag: 'host', op: '=~', value: 'b|c' }] })
  await write('a', 'c', 'd')
  await engine.flush()
  t.equal(await series(engine), 4)
  engine.recycle(held)
  await engine.tidy()
  t.equal(await series(engine), 3)
  t.same(
    await rowsOf(engine, 'm'),
    ['a', 'c', 'd'].map((host) => `${host} ${NOW} v=1 w=2`),
  )
})

t.test('a restart gives nothing back that was written to again behind the delete, and is in a segment by now', async (t) => {
  const dir = tempDir()
  const engine = await openEngine(dir)
  t.teardown(() => closeAndRemove(engine, dir))
  await writeFloat(engine, 'm', 'a', NOW, { v: 1, w: 2 })
  await writeFloat(engine, 'm', 'b', NOW, { v: 1, w: 2 })
  await engine.flush()
  const held = engine.batch('')
  await engine.delete({ namespace: '', measurement: 'm' })
  await writeFloat(engine, 'm', 'a', NOW, { v: 3, w: 4 })
  await engine.flush()
  await engine.tidy()
  const copy = crashCopy(dir)
  engine.recycle(held)
  const again = await openEngine(copy)
  t.teardown(() => closeAndRemove(again, copy))
  await again.tidy()
  t.same(await rowsOf(again, 'm'), [`a ${NOW} v=3 w=4`])
  t.equal(await series(again), 1, 'the other one has nothing left')
})

t.test('a crash between the slices of a final drop leaves no series of it, also when the log has forgotten the drop', async (t) => {
  const dir = tempDir()
  const engine = await openEngine(dir)
  t.teardown(() => closeAndRemove(engine, dir))
  await writeAll(engine, 'm', NOW)
  await engine.flush()
  const logs = (): string[] => readdirSync(join(dir, 'wal'))
  const before = logs()
  let goOn = (): void => {}
  const { slices } = (inside(engine).releases as unknown as { dependencies: { slices: Slices } }).dependencies
  const { next } = slices
  t.teardown(() => Object.assign(slices, { next }))
  Object.assign(slices, { next: () => new Promise<void>((resolve) => (goOn = resolve)) })
  const dropped = engine.drop('', 'm', { final: true })
  await writeFloat(engine, 'other', 'a', NOW, { v: 1, w: 2 })
  while ((await series(engine)) > SERIES) await setTimeout(5)
  t.equal(await series(engine), SERIES - SLICE + 1, 'one slice was done')
  const flushed = engine.flush()
  while (logs().some((name) => before.includes(name))) await setTimeout(5)
  const copy = crashCopy(dir)
  Object.assign(slices, { next })
  goOn()
  await Promise.all([dropped, flushed])
  t.equal(await series(engine), 1)
  const after = await openEngine(copy, { max_series_cardinality: 2 })
  t.teardown(() => closeAndRemove(after, copy))
  t.match(await writeFloat(after, 'm', '1', NOW, { v: 1 }), { written: 1 }, 'the budget is free')
  t.same(await rowsOf(after, 'm'), [`1 ${NOW} v=1`])
})

for (const host of ['a', 'b'])
  t.test(`a release that the log refuses is not stored by a commit in between: the ${host === 'a' ? 'first' : 'last'} series of a block`, async (t) => {
    const dir = tempDir()
    let fail = false
    let blocked: (() => void) | undefined
    const write: typeof realFileSystem.write = (fd, bytes, from, length, position, done) => {
      if (!fail) return realFileSystem.write(fd, bytes, from, length, position, done)
      blocked = () => done(Object.assign(new Error('no space'), { code: 'ENOSPC' }), 0)
    }
    const engine = await openEngine(dir, {}, { ...realFileSystem, write })
    await writeFloat(engine, 'm', 'a', NOW, { v: 1, w: 2 })
    await writeFloat(engine, 'm', 'b', NOW, { v: 1, w: 2 })
    await engine.flush()
    // So that the next commit writes the block with the series again.
    if (host === 'a') await writeFloat(engine, 'm', 'c', NOW, { v: 1, w: 2 })
    else await engine.delete(by('host', 'a'))
    const before = await series(engine)
    const held = engine.batch('')
    await engine.delete(by('host', host))
    engine.recycle(held)
    fail = true
    await engine.tidy() // gives the series back, with a record that waits for the disk
    t.equal(await series(engine), before - 1)
    await until('the record is on its way', () => blocked !== undefined)
    await inside(engine).writer.commit()
    fail = false
    blocked?.()
    await until('it is live again', async () => (await series(engine)) === before)
    await writeFloat(engine, 'm', host, NOW, { v: 3, w: 4 })
    const want = await rowsOf(engine, 'm')
    t.equal(want.length, before)
    const copy = crashCopy(dir)
    await closeAndRemove(engine, dir)
    const after = await openEngine(copy)
    t.same(await rowsOf(after, 'm'), want)
    await after.close()
    rmSync(copy, { recursive: true })
  })

t.test('a release that the log refuses brings nothing back of a measurement that has gone meanwhile', async (t) => {
  const dir = tempDir()
  const log = new HeldLog()
  const engine = await openEngine(dir, { maintenance_interval_secs: 3600 }, log.fs)
  t.teardown(() => closeAndRemove(engine, dir))
  for (const host of ['a', 'b']) await writeFloat(engine, 'm', host, NOW, { v: 1, w: 2 })
  await engine.flush()
  const held = engine.batch('')
  await engine.delete(by('host', 'a'))
  const reached = log.hold()
  const dropped = engine.drop('', 'm', { final: true })
  await reached
  engine.recycle(held)
  const { releases } = inside(engine)
  await releases.run()
  t.equal(await series(engine), 1)
  const next = log.step()
  await dropped
  t.equal(await series(engine), 0)
  await next
  t.equal(releases.ownersBefore(0, 1).size, 1, 'the record is on its way')
  log.fail()
  await until('it has failed', () => releases.ownersBefore(0, 1).size === 0)
  t.equal(await series(engine), 0)
})

t.test('a tombstone is waited for until the last of its series was looked at', async (t) => {
  const dir = tempDir()
  const engine = await openEngine(dir, { maintenance_interval_secs: 3600 })
  t.teardown(() => closeAndRemove(engine, dir))
  for (const host of ['a', 'b', 'c', 'd', 'e']) await writeFloat(engine, 'm', host, NOW, { v: 1, w: 2 })
  await engine.tidy()
  const { releases, tombstones } = inside(engine)
  const { dependencies } = releases as unknown as { dependencies: { slices: Slices } }
  let goOn = (): void => {}
  const held = new Promise<void>((resolve) => (goOn = resolve))
  dependencies.slices = { size: 2, next: () => held }
  const deleted = engine.delete({ namespace: '', measurement: 'm' })
  await until('some are given back', async () => (await series(engine)) === 3)
  const [id] = tombstones.byId.keys()
  t.ok(releases.waitsFor(id))
  goOn()
  await deleted
  t.equal(await series(engine), 0)
  t.notOk(releases.waitsFor(id))
})

t.test('the series of a delete of many lie in blocks of the catalog, and go with the tombstone', async (t) => {
  const dir = tempDir()
  let engine = await openEngine(dir, { deleted_rows_rewrite_secs: 3600 })
  t.teardown(() => closeAndRemove(engine, dir))
  await writeAll(engine, 'm', NOW)
  await writeAll(engine, 'm', NOW + 1n)
  await engine.flush()
  const left = async (): Promise<number> => (await rowsOf(engine, 'm')).length
  t.equal((await engine.delete({ ...by('half', '0'), end: NOW + 1n })).series, SERIES / 2)
  await engine.tidy()
  for (const _ of ['with the entry in the catalog', 'again']) {
    t.equal(await left(), SERIES * 1.5)
    await engine.close()
    engine = await openEngine(dir, { deleted_rows_rewrite_secs: 3600 })
  }
  await engine.close()
  engine = await openEngine(dir, { deleted_rows_rewrite_secs: 0, maintenance_interval_secs: 1 })
  const store = () => inside(engine).catalog.store
  t.ok([...store().keys('masked/')].length > 0)
  for (let i = 0; i < 1200 && [...store().keys('masked/')].length > 0; i++) {
    await setTimeout(50)
    await engine.tidy()
  }
  t.same([...store().keys('masked/')], [], 'written again without the rows, the file needs it no more')
  t.same([...store().keys('tombstone/')], [])
  t.equal(await left(), SERIES * 1.5)
})

t.test('deletes work where nobody asks queries', async (t) => {
  const dir = tempDir()
  const engine = new EmbeddedEngine(
    (await import('../../conformance/index.ts')).testContext({ data_dir: dir, preset: 'small', query_threads: 1 }, () => Number(NOW / 1_000_000n)),
  )
  await engine.open()
  t.teardown(() => closeAndRemove(engine, dir))
  await writeFloat(engine, 'm', 'a', NOW, { v: 1 })
  t.equal((await engine.delete(by('host', 'a'))).series, 1)
  t.equal(await series(engine), 0)
})

t.test('retention moves for any number of measurements', async (t) => {
  const dir = tempDir()
  const engine = await openEngine(dir)
  t.teardown(() => closeAndRemove(engine, dir))
  await writeFloat(engine, 'm', 'a', NOW, { v: 1 })
  const { releases } = inside(engine)
  for (let measurement = 1; measurement <= 200_000; measurement++) releases.expired(measurement, NOW, 1)
  await releases.run()
  await engine.drop('', 'm', { final: true })
  t.equal(await series(engine), 0)
})
