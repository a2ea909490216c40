/** An archive whose store fails, is away or holds something else; crashes, corruption, backups, and the bound of local copies. */

import { readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { constants } from 'node:os'
import { join } from 'node:path'
import type { ObjectStore } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import t, { type Test } from 'tap'
import type { EmbeddedEngine } from '../engine.ts'
import { answers, archived, at, COLD, NONE, objectsIn, opened, segmentsIn, sql, write, writeDays } from '../testing/archiving.ts'
import { failCommits } from '../testing/catalog-faults.ts'
import { folderStore } from '../testing/folder-store.ts'
import { closeAndRemove, crashCopy, NOW_MS, rowsOf, tempDir } from '../testing/harness.ts'

t.setTimeout(300_000)

/** An engine that is closed with the test, however that ends. */
async function open(t: Test, ...args: Parameters<typeof opened>): Promise<EmbeddedEngine> {
  const engine = await opened(...args)
  t.teardown(() => engine.close())
  return engine
}

t.test('an object that cannot be deleted goes later, and never under a query', async (t) => {
  const [dir, folder] = [tempDir(), tempDir()]
  let broken = true
  const store = folderStore(folder, false, (operation) => {
    if (operation === 'remove' && broken) throw new Error('no')
  })
  let engine = await open(t, dir, store)
  await writeDays(engine, 14, 12)
  await writeDays(engine, 0, 0)
  await archived(engine)
  const go = join(dir, 'go')
  const reading = engine.run<number>(new URL('../testing/held-scan-job.ts', import.meta.url), { measurement: 'cpu', go })
  const output = reading.output[Symbol.asyncIterator]()
  await output.next()
  await engine.drop('', 'cpu')
  await engine.tidy()
  broken = false
  await engine.archive.run(COLD)
  t.equal(objectsIn(folder).length, 3, 'somebody reads them')
  broken = true
  writeFileSync(go, '')
  await output.next()
  t.equal(await reading.result, 80)
  const failed = await engine.archive.run(COLD)
  t.match(failed.failure, /no/)
  await engine.close()
  t.equal(objectsIn(folder).length, 3)
  broken = false
  engine = await open(t, dir, store)
  await archived(engine)
  t.same(objectsIn(folder), [])
  await closeAndRemove(engine, dir, folder)
})

t.test('a crash between the upload and the commit, or before the upload, loses nothing and leaves nothing', async (t) => {
  for (const operation of ['put', 'size'] as const) {
    const [dir, folder] = [tempDir(), tempDir()]
    let crashed = ''
    const store = folderStore(folder, false, (done, key) => {
      if (done === operation && key.includes('date=2023-12-19')) {
        crashed = crashCopy(dir)
        throw new Error('gone')
      }
    })
    const engine = await open(t, dir, store)
    await writeDays(engine, 14, 12)
    await writeDays(engine, 0, 0)
    const before = await answers(engine)
    const result = await engine.archive.run(COLD)
    t.match(result.failure, /gone/)
    t.same(await answers(engine), before, 'a store that fails')
    const left = objectsIn(folder).length
    const copy = await open(t, crashed, folderStore(folder))
    t.same(await answers(copy), before, `a crash before ${operation}`)
    await archived(copy)
    t.same(await answers(copy), before)
    t.equal(objectsIn(folder).length, 3, `of ${left} objects without entries none is left`)
    await closeAndRemove(copy, crashed)
    await closeAndRemove(engine, dir, folder)
  }
})

t.test('a table that cannot be moved does not hold up the others', async (t) => {
  const [dir, folder] = [tempDir(), tempDir()]
  const store = folderStore(folder, false, (operation, key) => {
    if (operation === 'put' && key.includes('measurement=cpu')) throw new Error('too large')
  })
  const engine = await open(t, dir, store)
  await writeDays(engine, 14, 12)
  await write(engine, [{ measurement: 'other', tags: ['host', 'a'], time: at(12), fields: { a: 1, b: 2 } }])
  await engine.flush()
  await writeDays(engine, 0, 0)
  const before = await answers(engine)
  t.match(await engine.archive.run(COLD), { objects: 1, rows: 1, failure: /too large/ })
  t.same(await answers(engine), before)
  t.same(await rowsOf(engine, 'other'), [`a ${at(12)} a=1 b=2`])
  await closeAndRemove(engine, dir, folder)
})

t.test('a store that takes nothing is asked three times a run, and what it said first is told', async (t) => {
  const [dir, folder] = [tempDir(), tempDir()]
  let puts = 0
  const store = folderStore(folder, false, (operation, key) => {
    if (operation === 'put' && key.includes('measurement=')) throw new Error(`refused ${++puts}`)
  })
  const engine = await open(t, dir, store)
  const rows = (day: number) => ['a', 'b', 'c', 'd', 'e'].map((measurement) => ({ measurement, tags: ['host', 'a'], time: at(day), fields: { a: 1, b: 2 } }))
  for (const day of [12, 0]) {
    await write(engine, rows(day))
    await engine.flush()
  }
  for (const run of [0, 1]) {
    t.match(await engine.archive.run(COLD), { objects: 0, rows: 0, failure: new RegExp(`refused ${run * 3 + 1}$`) })
    t.equal(puts, run * 3 + 3)
  }
  await closeAndRemove(engine, dir, folder)
})

t.test('what is stored is compared with what was written', async (t) => {
  const [dir, folder] = [tempDir(), tempDir()]
  for (const remote of [false, true]) {
    const good = folderStore(folder, remote)
    const store: ObjectStore = {
      ...good,
      async put(key, path) {
        await good.put(key, path)
        if (!key.endsWith('.parquet')) return
        const bytes = readFileSync(join(folder, key))
        bytes[bytes.length >> 1] ^= 1
        writeFileSync(join(folder, key), bytes)
      },
    }
    const engine = await open(t, dir, store)
    if (!remote) {
      await writeDays(engine, 12, 12)
      await writeDays(engine, 0, 0)
    }
    const before = await answers(engine)
    t.match((await engine.archive.run(COLD)).failure, /cannot verify archived object "namespace=.*checksum/)
    t.same(await answers(engine), before)
    await engine.close()
  }
  rmSync(dir, { recursive: true })
  rmSync(folder, { recursive: true })
})

/** Asks again while the answer is OVERLOADED, for a minute. */
async function retried<T>(ask: () => Promise<T>): Promise<T> {
  for (let left = 600; ; left--) {
    try {
      return await ask()
    } catch (error) {
      if ((error as { code?: string }).code !== 'OVERLOADED' || left === 0) throw error
      await new Promise((resolve) => setTimeout(resolve, 100))
    }
  }
}

t.test('a store that is away or corrupt fails the queries that need it, and no others', async (t) => {
  for (const remote of [false, true]) {
    const [dir, folder] = [tempDir(), tempDir()]
    const engine = await open(t, dir, folderStore(folder, remote))
    await writeDays(engine, 14, 13)
    await writeDays(engine, 0, 0)
    const before = await answers(engine)
    await archived(engine)
    renameSync(folder, `${folder}-away`)
    const recent = `SELECT count(*) AS n FROM cpu WHERE _time > '${new Date(NOW_MS - 86_400_000).toISOString()}'`
    t.same(await sql(engine, recent), [[20n]])
    await t.rejects(sql(engine, 'SELECT count(*) FROM cpu'), { code: 'OVERLOADED', message: /archived segment "namespace=.*folder/ })
    await t.rejects(rowsOf(engine, 'cpu'), { code: 'OVERLOADED' })
    renameSync(`${folder}-away`, folder)
    // What was being fetched for the query before may still fail, for whoever asks meanwhile.
    t.same(await retried(() => answers(engine)), before)
    await engine.close()
    const path = join(folder, objectsIn(folder)[0])
    const bytes = readFileSync(path)
    bytes[bytes.length >> 1] ^= 1
    writeFileSync(path, bytes)
    const again = await open(t, dir, folderStore(folder, remote))
    await t.rejects(rowsOf(again, 'cpu'), { code: 'DATABASE_ERROR', message: /checksum/ })
    t.same(await sql(again, recent), [[20n]])
    await again.close()
    const without = await open(t, dir, undefined)
    await t.rejects(rowsOf(without, 'cpu'), { code: 'OVERLOADED', message: /no object store is attached/ })
    t.same(await sql(without, recent), [[20n]])
    await closeAndRemove(without, dir, folder)
  }
})

t.test('a backup names archived segments, and what is restored from it reads them', async (t) => {
  const [dir, folder, other] = [tempDir(), tempDir(), tempDir()]
  const engine = await open(t, dir, folderStore(folder))
  await writeDays(engine, 14, 12)
  await writeDays(engine, 0, 0)
  await archived(engine)
  const before = await answers(engine)
  await engine.backup.create(join(other, 'backup'))
  await engine.backup.verify(join(other, 'backup'))
  await engine.close()
  const target = join(other, 'restored')
  const closed = await open(t, tempDir(), undefined)
  await closed.backup.restore(join(other, 'backup'), target)
  const restored = await open(t, target, folderStore(folder))
  t.same(await answers(restored), before)
  await closeAndRemove(restored, dir, folder, other)
})

t.test('a corrupt segment keeps its day, and others go', async (t) => {
  const [dir, folder] = [tempDir(), tempDir()]
  let engine = await open(t, dir, folderStore(folder))
  await writeDays(engine, 14, 12)
  await writeDays(engine, 0, 0)
  const second = segmentsIn(dir).find((name) => name.endsWith('0000000002.parquet')) as string
  await engine.close()
  const bytes = readFileSync(join(dir, 'segments', second))
  bytes[bytes.length >> 1] ^= 1
  writeFileSync(join(dir, 'segments', second), bytes)
  engine = await open(t, dir, folderStore(folder))
  await t.rejects(rowsOf(engine, 'cpu'), { code: 'DATABASE_ERROR' })
  t.same(await archived(engine), { ...NONE, objects: 1, rows: 20, incomplete: 1 })
  await closeAndRemove(engine, dir, folder)
})

t.test('a store that comes when queries have run already', async (t) => {
  const [dir, folder] = [tempDir(), tempDir()]
  const first = await open(t, dir, folderStore(folder))
  await writeDays(first, 14, 13)
  await writeDays(first, 0, 0)
  const before = await answers(first)
  await archived(first)
  await first.close()
  const engine = await open(t, dir, undefined)
  await t.rejects(rowsOf(engine, 'cpu'), { code: 'OVERLOADED' })
  t.same((await engine.archive.run(COLD)).failure, new SvcError('INVALID_REQUEST', 'cannot archive: no object store is attached'))
  const go = join(dir, 'go')
  const held = engine.run<number>(new URL('../testing/held-scan-job.ts', import.meta.url), { measurement: 'cpu', go })
  await held.output[Symbol.asyncIterator]().next()
  t.throws(() => engine.archive.attach(folderStore(join(dir, 'cold'))), { code: 'CONFIG_ERROR', message: /lies in the data directory/ })
  engine.archive.attach(folderStore(folder))
  t.throws(() => engine.archive.attach(folderStore(folder)), /is attached already/)
  t.same(await answers(engine), before)
  writeFileSync(go, '')
  await t.rejects(held.result, /./, 'it runs where the folder was not known yet')
  t.same(await answers(engine), before)
  await closeAndRemove(engine, dir, folder)
})

t.test('local copies stay within their bound', async (t) => {
  const [dir, folder] = [tempDir(), tempDir()]
  const gets: string[] = []
  const store = folderStore(folder, true, (operation, key) => {
    if (operation === 'get') gets.push(key)
  })
  const engine = await open(t, dir, store, { segment_cache_size: 1 << 20 })
  for (let day = 16; day >= 12; day--) {
    await write(
      engine,
      Array.from({ length: 30_000 }, (_, i) => ({
        measurement: 'cpu',
        tags: ['host', `h${i % 3}`],
        time: at(day) + BigInt(i) * 1_000_000n,
        fields: { a: Math.sin(i + day), b: Math.cos(i * day) },
      })),
    )
    await engine.flush()
  }
  await writeDays(engine, 0, 0)
  await archived(engine)
  gets.length = 0
  // Of statements that DuckDB answers: samples are kept without their objects.
  const count = (day: number) =>
    sql(engine, `SELECT count(atan2(a, b)) AS n FROM cpu WHERE _time >= make_timestamp_ns(${at(day)}) AND _time < make_timestamp_ns(${at(day - 1)})`)
  for (const day of [16, 16, 15]) t.same(await count(day), [[30_000n]])
  t.equal(gets.length, 2, 'the second time it is there')
  for (const day of [14, 13, 12, 16]) t.same(await count(day), [[30_000n]])
  t.equal(gets.length, 6, 'the least recently used made room')
  const cached = objectsIn(join(dir, 'archive-cache'))
  t.ok(cached.length < 5 && cached.length > 0)
  await t.rejects(sql(engine, 'SELECT count(atan2(a, b)) FROM cpu'), { code: 'OVERLOADED', message: /segment_cache_size/ })
  t.same(await count(15), [[30_000n]], 'and the bytes were given back')
  await closeAndRemove(engine, dir, folder)
})

t.test('a commit that fails: what it was to add goes when nothing of it is stored, and stays when that is not known', async (t) => {
  for (const [errno, code, left] of [
    [constants.errno.ENOSPC, 'STORAGE_FULL', 2],
    [constants.errno.EINVAL, 'OVERLOADED', 3],
  ] as const) {
    const [dir, folder] = [tempDir(), tempDir()]
    const engine = await open(t, dir, folderStore(folder))
    for (const day of [14, 13]) await write(engine, [{ measurement: 'cpu', tags: ['host', 'a'], time: at(day), fields: { a: day, b: 1 } }])
    await engine.flush()
    await write(engine, [{ measurement: 'cpu', tags: ['host', 'a'], time: at(0), fields: { a: 0, b: 1 } }])
    await engine.flush()
    const before = await rowsOf(engine, 'cpu')
    failCommits(engine, 1, errno)
    t.match((await engine.archive.run({ ...COLD, maxObjects: 1 })).failure, { code })
    t.equal(segmentsIn(dir).length, left, `${code}: the segment that was cut, its rest, and the newest`)
    t.equal(objectsIn(folder).length, 1)
    t.same(await rowsOf(engine, 'cpu'), before)
    await engine.close()
    const again = await open(t, dir, folderStore(folder))
    t.same(await rowsOf(again, 'cpu'), before)
    t.equal(segmentsIn(dir).length, 2, 'no entry names the rest')
    await archived(again)
    t.same(await rowsOf(again, 'cpu'), before)
    t.equal(objectsIn(folder).length, 2)
    await closeAndRemove(again, dir, folder)
  }
})
