import { join } from 'node:path'
import t, { type Test } from 'tap'
import { type FileSystem, realFileSystem } from '../../common/log/file-system.ts'
import type { EmbeddedEngine } from '../engine.ts'
import { failCommits, holdCommit, inside, loseOutcome } from '../testing/catalog-faults.ts'
import { closeAndRemove, crashCopy, NOW, openEngine, rowsOf, tempDir, writeFloat } from '../testing/harness.ts'

t.setTimeout(120_000)
const QUIET = { maintenance_interval_secs: 3600, compaction_fan_in: 64 }

async function quietEngine(t: Test, config: Record<string, unknown> = {}): Promise<{ engine: EmbeddedEngine; dir: string }> {
  const dir = tempDir()
  const engine = await openEngine(dir, { ...QUIET, ...config })
  t.teardown(() => closeAndRemove(engine, dir))
  await engine.tidy() // the pass that the start begins with has ended
  return { engine, dir }
}

/** What a start finds if the process is killed now. */
async function afterCrash<T>(dir: string, body: (engine: EmbeddedEngine) => Promise<T>, config: Record<string, unknown> = {}): Promise<T> {
  const copy = crashCopy(dir)
  const engine = await openEngine(copy, { ...QUIET, ...config })
  try {
    return await body(engine)
  } finally {
    await closeAndRemove(engine, copy)
  }
}

const codeOf = (promise: Promise<unknown>) => promise.then(() => 'done').catch(({ code }: { code: string }) => code)

t.test('a commit behind that of a flush, which finds no space, keeps the log that the memtable needs', async (t) => {
  const { engine, dir } = await quietEngine(t)
  const { writer, memtables, catalog } = inside(engine)
  await writeFloat(engine, 'm', 'a', NOW, { v: 1, w: 1 })
  await engine.flush()
  await writeFloat(engine, 'm', 'a', NOW + 1n, { v: 2, w: 2 })
  const held = holdCommit(engine)
  const flush = codeOf(engine.flush())
  await held.reached
  const other = writer.commit()
  held.fail()
  t.equal(await flush, 'STORAGE_FULL')
  await other
  t.equal(memtables.frozen.length, 1)
  t.equal(catalog.counters()?.walFloor, memtables.frozen[0].firstWal)
  const want = [`a ${NOW} v=1 w=1`, `a ${NOW + 1n} v=2 w=2`]
  t.same(await afterCrash(dir, (again) => rowsOf(again, 'm')), want)
  t.same(await rowsOf(engine, 'm'), want)
})

t.test('a commit behind that of a flush, which succeeds, does not ask for the log again', async (t) => {
  const { engine, dir } = await quietEngine(t)
  const { writer, memtables, catalog } = inside(engine)
  await writeFloat(engine, 'm', 'a', NOW, { v: 1, w: 1 })
  const held = holdCommit(engine)
  const flush = engine.flush()
  await held.reached
  const floors: unknown[] = []
  const others = [1, 2].map(() => writer.commit({}, () => floors.push(catalog.counters()?.walFloor)))
  held.succeed()
  await Promise.all([flush, ...others])
  t.same(floors, [memtables.active.firstWal, memtables.active.firstWal])
  t.same(await afterCrash(dir, (again) => rowsOf(again, 'm')), [`a ${NOW} v=1 w=1`])
})

t.test('a final drop keeps the number of its log file through a failed commit', async (t) => {
  const { engine, dir } = await quietEngine(t)
  const { writer, schema } = inside(engine)
  for (const m of ['x', 'keep']) await writeFloat(engine, m, 'a', NOW, { v: 1, w: 1 })
  await engine.flush()
  for (const m of ['x', 'keep']) await writeFloat(engine, m, 'a', NOW + 1n, { v: 2, w: 2 })
  await engine.drop('', 'x', { final: true })
  await engine.tidy()
  const before = [...schema.goneTables]
  t.equal(before.length, 1)
  failCommits(engine, 1)
  t.equal(await codeOf(engine.flush()), 'STORAGE_FULL')
  await writer.commit()
  t.same([...schema.goneTables], before)
  const want = [`a ${NOW} v=1 w=1`, `a ${NOW + 1n} v=2 w=2`]
  t.same(await afterCrash(dir, (again) => rowsOf(again, 'keep')), want)
})

t.test('a dropped table is forgotten in the commit from which on the log has no rows of it', async (t) => {
  const { engine } = await quietEngine(t)
  const { writer, schema, catalog } = inside(engine)
  for (const m of ['x', 'keep']) await writeFloat(engine, m, 'a', NOW, { v: 1, w: 1 })
  await engine.drop('', 'x', { final: true })
  await engine.tidy()
  t.not(catalog.store.getJson('gone/0000000000'), undefined)
  t.equal(schema.goneTables.size, 1)
  const stop = failCommits(engine, 1)
  t.equal(await codeOf(writer.commit()), 'STORAGE_FULL')
  stop()
  await engine.flush()
  t.equal(schema.goneTables.size, 0)
  t.equal(catalog.store.getJson('gone/0000000000'), undefined)
})

t.test('what a failed commit was to store, the next one stores: definitions, deletes, drops, series given back', async (t) => {
  const { engine, dir } = await quietEngine(t, { soft_delete_ttl_secs: 3600 })
  const { writer, catalog } = inside(engine)
  for (const m of ['m', 'soft', 'last']) for (const host of ['a', 'b']) await writeFloat(engine, m, host, NOW, { v: 1, w: 1 })
  await engine.flush()
  await writeFloat(engine, 'new', 'a', NOW, { v: 1, w: 1 })
  await engine.delete({ namespace: '', measurement: 'm', matchers: [{ tag: 'host', op: '=', value: 'a' }] })
  await engine.drop('', 'soft')
  await engine.drop('', 'last', { final: true })
  const mend = failCommits(engine, Number.POSITIVE_INFINITY) // a pass of maintenance may be at one too
  t.equal(await codeOf(writer.commit()), 'STORAGE_FULL')
  mend()
  await engine.flush()
  t.equal(catalog.store.getJson<{ name: string }>('measurement/0000000003')?.name, 'new')
  t.equal(catalog.store.getJson('measurement/0000000002'), undefined)
  t.not(catalog.store.getJson('drop/0000000001'), undefined)
  const check = async (again: EmbeddedEngine) => {
    t.same(
      (await again.measurements('')).map(({ name }) => name),
      ['m', 'new'],
    )
    t.same(await rowsOf(again, 'm'), [`b ${NOW} v=1 w=1`])
    t.same(await rowsOf(again, 'new'), [`a ${NOW} v=1 w=1`])
    t.equal((await again.usage('')).series, 4, 'two of soft, one of m, one of new')
    await again.restore('', 'soft')
    t.equal((await rowsOf(again, 'soft')).length, 2)
  }
  await afterCrash(dir, check, { soft_delete_ttl_secs: 3600 })
})

t.test('what is stored is not stored again: a pass that finds nothing new commits nothing', async (t) => {
  const { engine } = await quietEngine(t, { soft_delete_ttl_secs: 3600 })
  const { db } = inside(engine).catalog.store
  const commits = () => (db.getStats() as { lastTxnId: number }).lastTxnId
  for (const m of ['m', 'soft']) for (const host of ['a', 'b']) await writeFloat(engine, m, host, NOW, { v: 1, w: 1 })
  await engine.delete({ namespace: '', measurement: 'm', matchers: [{ tag: 'host', op: '=', value: 'a' }] })
  await engine.drop('', 'soft')
  await engine.flush()
  await engine.tidy()
  const before = commits()
  t.ok(before > 0)
  await engine.tidy()
  t.equal(commits(), before)
})

t.test('a flush whose commit fails takes its files back', async (t) => {
  const { engine, dir } = await quietEngine(t)
  await writeFloat(engine, 'm', 'a', NOW, { v: 1, w: 1 })
  failCommits(engine, 1)
  t.equal(await codeOf(engine.flush()), 'STORAGE_FULL')
  await engine.flush()
  const files = inside(engine).segments.all()
  t.equal(files.length, 1)
  t.same(
    realFileSystem.filesSync(join(dir, 'segments')),
    files.map(({ file }) => file.slice('segments/'.length)),
  )
})

t.test('files that a commit of unknown outcome was to add stay: the catalog may name them', async (t) => {
  const { engine, dir } = await quietEngine(t)
  await writeFloat(engine, 'm', 'a', NOW, { v: 1, w: 1 })
  loseOutcome(engine)
  t.equal(await codeOf(engine.flush()), 'OVERLOADED')
  const found = await afterCrash(dir, async (again) => ({ segments: inside(again).segments.all().length, rows: await rowsOf(again, 'm') }))
  t.same(found, { segments: 1, rows: [`a ${NOW} v=1 w=1`] })
})

t.test('files that a delete has freed stay part of the database while the commit that takes them out fails', async (t) => {
  const { engine, dir } = await quietEngine(t)
  for (const host of ['a', 'b']) await writeFloat(engine, 'm', host, NOW, { v: 1, w: 1 })
  await engine.flush()
  await writeFloat(engine, 'm', 'c', NOW + 5n, { v: 1, w: 1 })
  await engine.flush()
  failCommits(engine, 2)
  await engine.delete({ namespace: '', measurement: 'm', start: NOW, end: NOW + 1n })
  await engine.tidy().catch(() => {})
  await engine.tidy().catch(() => {})
  await engine.tidy()
  await engine.tidy()
  t.equal(inside(engine).segments.all().length, 1)
  const want = [`c ${NOW + 5n} v=1 w=1`]
  t.same(await rowsOf(engine, 'm'), want)
  t.same(await afterCrash(dir, (again) => rowsOf(again, 'm')), want)
})

t.test('a commit that fails gives the segments free that it was to take out, and readers keep them', async (t) => {
  const { engine } = await quietEngine(t)
  const { manifest, segments: table } = inside(engine)
  await writeFloat(engine, 'm', 'a', NOW, { v: 1, w: 1 })
  await engine.flush()
  const segments = table.all()
  const held = holdCommit(engine)
  const removal = codeOf(manifest.remove(segments))
  await held.reached
  t.equal(table.claim(segments), undefined, 'nobody merges them meanwhile')
  t.same(table.all(), segments, 'a thread that starts now knows them')
  held.fail()
  t.equal(await removal, 'STORAGE_FULL')
  t.same(await rowsOf(engine, 'm'), [`a ${NOW} v=1 w=1`])
  const release = table.claim(segments)
  t.ok(release)
  release?.()
})

t.test('what is defined while a commit is under way is in the next one', async (t) => {
  const { engine, dir } = await quietEngine(t)
  const { writer } = inside(engine)
  await writeFloat(engine, 'm', 'a', NOW, { v: 1, w: 1 })
  const held = holdCommit(engine)
  const commit = writer.commit()
  await held.reached
  await writeFloat(engine, 'm', 'a', NOW + 1n, { v: 2, x: 2 })
  await writeFloat(engine, 'new', 'a', NOW, { v: 1 })
  held.succeed()
  await commit
  await engine.flush()
  await afterCrash(dir, async (again) => {
    t.same(await rowsOf(again, 'm'), [`a ${NOW} v=1 w=1`, `a ${NOW + 1n} v=2 x=2`])
    t.same(await rowsOf(again, 'new'), [`a ${NOW} v=1`])
  })
})

for (const [name, change] of [
  ['rows', (engine: EmbeddedEngine) => writeFloat(engine, 'm', 'a', NOW + 1n, { v: 2 })],
  ['a drop', (engine: EmbeddedEngine) => engine.drop('', 'm', { final: true })],
] as const)
  t.test(`plugins' state is not durable before ${name} that it may speak of`, async (t) => {
    const held = { calls: undefined as (() => void)[] | undefined }
    const fdatasync: FileSystem['fdatasync'] = (fd, done) => {
      const call = () => realFileSystem.fdatasync(fd, done)
      if (held.calls === undefined) call()
      else held.calls.push(call)
    }
    const dir = tempDir()
    const engine = await openEngine(dir, { ...QUIET, wal_fsync_policy: 'periodic_600000' }, { ...realFileSystem, fdatasync })
    t.teardown(() => closeAndRemove(engine, dir))
    await writeFloat(engine, 'm', 'a', NOW, { v: 1 })
    await engine.flush()
    await engine.tidy()
    const { catalog } = inside(engine)
    const calls: (() => void)[] = []
    held.calls = calls
    await change(engine)
    let stored = false
    const put = engine.state('test').transaction((tx) => tx.put('place', new Uint8Array(1)))
    void put.then(() => (stored = true))
    while (calls.length === 0 && !stored) await new Promise((resolve) => setImmediate(resolve))
    t.equal(stored, false)
    t.same([...catalog.store.keys('state/')], [])
    held.calls = undefined
    for (const call of calls) call()
    await put
    t.equal([...catalog.store.keys('state/')].length, 1)
  })

t.test('a commit waits until the log has, durably, what it has read the effect of', async (t) => {
  // Until it is undefined; a sync may be followed by another, of what was written meanwhile.
  let held: (() => void)[] | undefined = []
  const fdatasync: FileSystem['fdatasync'] = (fd, done) => {
    const call = () => realFileSystem.fdatasync(fd, done)
    if (held === undefined) call()
    else held.push(call)
  }
  const dir = tempDir()
  const engine = await openEngine(dir, { ...QUIET, wal_fsync_policy: 'periodic_600000' }, { ...realFileSystem, fdatasync })
  t.teardown(() => closeAndRemove(engine, dir))
  await engine.tidy()
  const { writer, catalog } = inside(engine)
  await writeFloat(engine, 'm', 'a', NOW, { v: 1 })
  await engine.delete({ namespace: '', measurement: 'm' })
  const commit = writer.commit()
  while (held.length === 0) await new Promise((resolve) => setImmediate(resolve))
  t.same(catalog.tombstones(), [], 'the record of the delete is not synced')
  const calls = held
  held = undefined
  for (const call of calls) call()
  await commit
  t.equal(catalog.tombstones().length, 1)
})
