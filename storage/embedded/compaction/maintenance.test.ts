import { globSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { until } from '../../../test/support/until.ts'
import type { EmbeddedEngine } from '../engine.ts'
import { inside } from '../testing/catalog-faults.ts'
import { closeAndRemove, crashCopy, NOW, openEngine, rowsOf, tempDir, writeFloat } from '../testing/harness.ts'
import { HeldLog } from '../testing/held-log.ts'

t.setTimeout(120_000)

/** An engine whose merges wait until they are let go; the second write of `m` makes one due. */
async function merging(t: Test, config: Record<string, unknown> = {}) {
  const dir = tempDir()
  const log = new HeldLog()
  const engine = await openEngine(dir, { maintenance_interval_secs: 3600, compaction_fan_in: 2, ...config }, log.fs)
  t.teardown(() => closeAndRemove(engine, dir))
  const { pool, maintenance } = inside(engine)
  const compact = pool.compact.bind(pool)
  let go: () => void = () => {}
  let reach: () => void = () => {}
  const reached = new Promise<void>((resolve) => (reach = resolve))
  const waiting = new Promise<void>((resolve) => (go = resolve))
  pool.compact = async (...args) => {
    // The thread has taken what is deleted so far with it.
    const made = await compact(...args)
    reach()
    await waiting
    return made
  }
  for (const i of [0n, 1n]) {
    for (const host of ['a', 'b']) await writeFloat(engine, 'm', host, NOW + i, { v: 1, w: 1 })
    if (i === 0n) await engine.flush()
  }
  return { engine, log, dir, reached, go, settled: () => maintenance.settled(), pool }
}

async function afterCrash<T>(dir: string, body: (engine: EmbeddedEngine) => Promise<T>): Promise<T> {
  const copy = crashCopy(dir)
  const engine = await openEngine(copy, { maintenance_interval_secs: 3600, compaction_fan_in: 64 })
  try {
    return await body(engine)
  } finally {
    await closeAndRemove(engine, copy)
  }
}

const count = (engine: EmbeddedEngine) => inside(engine).segments.all().length
const HOST_A = { namespace: '', measurement: 'm', matchers: [{ tag: 'host', op: '=', value: 'a' } as const], start: NOW, end: NOW + 100n }

t.test('a merge that begins while a delete is on its way does not count it as applied', async (t) => {
  const { engine, log, dir, reached, go, settled } = await merging(t, { compaction_fan_in: 64 })
  await engine.flush()
  const held = log.hold()
  const deleted = engine.delete(HOST_A)
  await held
  const { config } = inside(engine)
  config.compaction_fan_in = 2
  await engine.tidy()
  await reached
  go()
  await settled()
  t.equal(count(engine), 1, 'merged before the delete')
  log.succeed()
  await deleted
  const want = [`b ${NOW} v=1 w=1`, `b ${NOW + 1n} v=1 w=1`]
  t.same(await rowsOf(engine, 'm'), want)
  await inside(engine).writer.commit()
  t.same(await afterCrash(dir, (again) => rowsOf(again, 'm')), want)
})

t.test('what a merge is reading is not removed under it, and what was deleted meanwhile stays deleted', async (t) => {
  const { engine, dir, reached, go, settled } = await merging(t)
  await engine.flush()
  await reached
  await engine.delete({ namespace: '', measurement: 'm' })
  await engine.tidy()
  t.equal(count(engine), 2, 'the pass leaves them')
  t.same(await rowsOf(engine, 'm'), [])
  go()
  await settled()
  t.same(await rowsOf(engine, 'm'), [], 'the merge has put the rows together, the tombstone is still there')
  await engine.tidy()
  t.equal(count(engine), 0)
  t.same(await afterCrash(dir, (again) => rowsOf(again, 'm')), [])
})

t.test('a merge of a measurement that is dropped meanwhile leaves no file', async (t) => {
  const { engine, dir, reached, go, settled } = await merging(t)
  await engine.flush()
  await reached
  await engine.drop('', 'm', { final: true })
  go()
  await settled()
  await engine.tidy()
  t.equal(count(engine), 0)
  t.same(globSync('**/*.parquet', { cwd: join(dir, 'segments') }), [])
})

t.test('a segment of which a merge leaves no row goes, and no file of none comes in its place', async (t) => {
  const { engine, dir, go, settled } = await merging(t, { compaction_fan_in: 64, deleted_rows_rewrite_secs: 0 })
  go()
  await engine.flush()
  // Series by name: only who reads a file sees that they are all that it has.
  await engine.delete({ ...HOST_A, matchers: [{ tag: 'host', op: '=~', value: 'a|b' }] })
  await engine.tidy()
  await settled()
  t.equal(count(engine), 0)
  await until('no file is left', () => globSync('**/*.*', { cwd: join(dir, 'segments') }).length === 0, 20_000)
})

t.test('what was deleted before a merge stays deleted, whichever of the merged segments has it', async (t) => {
  const dir = tempDir()
  const engine = await openEngine(dir, { maintenance_interval_secs: 3600, compaction_fan_in: 3 })
  t.teardown(() => closeAndRemove(engine, dir))
  // A segment each, by ascending numbers of series.
  for (const host of ['a', 'b', 'c']) {
    await writeFloat(engine, 'm', host, NOW, { v: 1, w: 1 })
    await writeFloat(engine, 'm', host, NOW + 1n, { v: 1, w: 1 })
    await engine.flush()
  }
  await inside(engine).maintenance.settled()
  t.equal(count(engine), 1, 'they are merged')
  for (const host of ['a', 'c']) await engine.delete({ ...HOST_A, matchers: [{ tag: 'host', op: '=', value: host }], end: NOW + 1n })
  const want = [`a ${NOW + 1n} v=1 w=1`, `b ${NOW} v=1 w=1`, `b ${NOW + 1n} v=1 w=1`, `c ${NOW + 1n} v=1 w=1`]
  for (const _ of ['at once', 'after a pass', 'after another']) {
    t.same(await rowsOf(engine, 'm'), want)
    await engine.tidy()
  }
  t.same(await afterCrash(dir, (again) => rowsOf(again, 'm')), want)
})

t.test('merges that fail make room for others of their table, and are tried again', async (t) => {
  const { engine, go, pool, settled } = await merging(t, { compaction_fan_in: 64, deleted_rows_rewrite_secs: 0 })
  go()
  await engine.flush()
  const [first, second] = inside(engine)
    .segments.all()
    .map(({ id }) => id)
  const tried: number[] = []
  const compact = pool.compact.bind(pool)
  let broken = true
  pool.compact = async (request) => {
    tried.push(...request.segments)
    if (broken && request.segments[0] === first) throw new Error('it cannot be read now')
    return compact(request)
  }
  await engine.delete({ ...HOST_A })
  await engine.tidy()
  await settled()
  await engine.tidy()
  await settled()
  t.ok(tried.includes(second), `tried: ${tried}`)
  broken = false
  await engine.tidy()
  await settled()
  t.notOk(
    inside(engine)
      .segments.all()
      .some(({ id }) => id === first),
    'written again once it can be read',
  )
})

t.test('series emptied while a batch is in a decoder’s hands are given back later', async (t) => {
  const dir = tempDir()
  const engine = await openEngine(dir, { maintenance_interval_secs: 3600 })
  t.teardown(() => closeAndRemove(engine, dir))
  await writeFloat(engine, 'm', 'a', NOW, { v: 1 })
  const batch = engine.batch('')
  await engine.delete({ namespace: '', measurement: 'm' })
  await engine.tidy()
  t.equal((await engine.usage('')).series, 1, 'the batch may name it')
  engine.recycle(batch)
  await engine.tidy()
  t.equal((await engine.usage('')).series, 0)
})

t.test('merges of many tables are looked for in several turns of the loop', async (t) => {
  const dir = tempDir()
  const engine = await openEngine(dir, { maintenance_interval_secs: 3600 })
  t.teardown(() => closeAndRemove(engine, dir))
  const tables = 600
  for (let i = 0; i < tables; i++) await writeFloat(engine, `m${i}`, 'a', NOW, { v: 1, w: 1 })
  await engine.flush()
  const { maintenance, segments } = inside(engine)
  await maintenance.settled()
  t.equal(segments.tables.size, tables)
  /** Segments that were looked at, by turn. */
  const turns: Set<number>[] = [new Set()]
  const isClaimed = segments.isClaimed.bind(segments)
  segments.isClaimed = (id) => {
    turns.at(-1)?.add(id)
    return isClaimed(id)
  }
  let over = false
  const turn = (): void => {
    turns.push(new Set())
    if (!over) setImmediate(turn)
  }
  turn()
  await engine.tidy()
  await maintenance.settled()
  over = true
  t.equal(new Set(turns.flatMap((ids) => [...ids])).size, tables, 'all of them')
  const most = Math.max(...turns.map(({ size }) => size))
  t.ok(most <= 128, `${most} in one turn`)
})
