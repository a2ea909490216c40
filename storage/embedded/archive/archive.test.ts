/** Old segments go to a store and are read there as before; with late rows, deletes, retention, drops and restarts. */
import { existsSync } from 'node:fs'
import { DuckDBInstance } from '@duckdb/node-api'
import t from 'tap'
import { answers, archived, at, COLD, NONE, objectsIn, opened, type Point, segmentsIn, sql, write, writeDays } from '../testing/archiving.ts'
import { inside } from '../testing/catalog-faults.ts'
import { folderStore } from '../testing/folder-store.ts'
import { closeAndRemove, NOW_MS, openEngine, rowsOf, tempDir } from '../testing/harness.ts'
import { HeldLog } from '../testing/held-log.ts'

t.setTimeout(300_000)

for (const remote of [false, true]) {
  t.test(`days behind the threshold are moved and read as before, from ${remote ? 'a bucket' : 'a folder'}`, async (t) => {
    const [dir, folder] = [tempDir(), tempDir()]
    let engine = await opened(dir, folderStore(folder, remote))
    await writeDays(engine, 24, 8)
    await writeDays(engine, 0, 0)
    const before = await answers(engine)
    const local = segmentsIn(dir).length
    const result = await archived(engine, { ...COLD, maxObjects: 4 })
    t.same(result, { ...NONE, objects: 4, rows: 80 }, 'the oldest first')
    t.same(
      objectsIn(folder).map((key) => key.replace(/\d{10}-[0-9a-f]{8}/, 'ID')),
      [8, 9, 10, 11].map((day) => `namespace=/measurement=cpu/date=2023-12-${String(day).padStart(2, '0')}/ID.parquet`),
    )
    t.same(await answers(engine), before)
    let moved = 4
    for (let run = 0; run < 5; run++) moved += (await archived(engine, { ...COLD, maxObjects: 4 })).objects
    t.equal(moved, 14, 'days 24 to 11 ago')
    t.ok(segmentsIn(dir).length < local)
    t.same(await answers(engine), before)
    const plan = await engine.explain({ namespace: '', measurement: 'cpu', start: at(20), end: at(18) })
    t.ok(plan.segments.read <= 3, 'segments are told apart by their days')
    await engine.close()
    engine = await opened(dir, folderStore(folder, remote))
    t.same(await answers(engine), before, 'after a restart')
    t.same(await archived(engine), NONE)
    await closeAndRemove(engine, dir, folder)
  })
}

t.test('what a run looks at grows as the measurements do', async (t) => {
  const [dir, folder] = [tempDir(), tempDir()]
  const engine = await opened(dir, folderStore(folder))
  const count = 20
  await write(
    engine,
    Array.from({ length: count }, (_, i) => ({ measurement: `m${i}`, tags: ['host', 'a'], time: at(0), fields: { a: i, b: i } })),
  )
  await engine.flush()
  const held: string[] = []
  engine.holdRetention((_, measurement) => void held.push(measurement))
  const { byId } = inside(engine).schema
  let looks = 0
  const each = byId[Symbol.iterator].bind(byId)
  Object.defineProperty(byId, Symbol.iterator, {
    *value() {
      for (const measurement of each()) {
        looks++
        yield measurement
      }
    },
  })
  t.same(await archived(engine), NONE)
  t.same(held.sort(), Array.from({ length: count }, (_, i) => `m${i}`).sort(), 'each is asked for once')
  t.ok(looks <= count, `${looks} looks at ${count} measurements`)
  await closeAndRemove(engine, dir, folder)
})

t.test('late rows of archived days are merged when read, and archived beside', async (t) => {
  const [dir, folder] = [tempDir(), tempDir()]
  const engine = await opened(dir, folderStore(folder))
  await writeDays(engine, 14, 12)
  await writeDays(engine, 0, 0)
  await archived(engine)
  await write(engine, [
    { measurement: 'cpu', tags: ['host', 'h1'], time: at(13, 1), fields: { a: 1000 } },
    { measurement: 'cpu', tags: ['host', 'late'], time: at(13, 1), fields: { a: 5 } },
  ])
  const before = await answers(engine)
  t.ok((before[0] as string[]).includes(`h1 ${at(13, 1)} a=1000 b=${1 / 3} note=n1`), 'fields of both')
  await engine.flush()
  t.same(await answers(engine), before)
  t.same(await archived(engine), { ...NONE, objects: 1, rows: 2 })
  t.equal(objectsIn(folder).length, 4)
  t.same(await answers(engine), before)
  await closeAndRemove(engine, dir, folder)
})

t.test('zero keeps its sign where there is nothing but zeros', async (t) => {
  const [dir, folder] = [tempDir(), tempDir()]
  const engine = await opened(dir, folderStore(folder))
  const signs = [0, -0, -0, 0]
  await write(
    engine,
    signs.map((a, i) => ({ measurement: 'zeros', tags: ['host', 'a'], time: at(14) + BigInt(i), fields: { a } })),
  )
  await writeDays(engine, 0, 0)
  t.match(await archived(engine), { objects: 1, rows: 4 })
  const found = ((await sql(engine, 'SELECT 1 / a FROM zeros ORDER BY _time')) as number[][]).flat()
  t.same(found, [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, Number.NEGATIVE_INFINITY, Number.POSITIVE_INFINITY])
  await closeAndRemove(engine, dir, folder)
})

t.test('archived rows can be deleted, and written again', async (t) => {
  const [dir, folder] = [tempDir(), tempDir()]
  let engine = await opened(dir, folderStore(folder), { deleted_rows_rewrite_secs: 0 })
  await writeDays(engine, 14, 12)
  await writeDays(engine, 0, 0)
  await archived(engine)
  const before = await rowsOf(engine, 'cpu')
  await engine.delete({ namespace: '', measurement: 'cpu', matchers: [{ tag: 'host', op: '=', value: 'h1' }], start: at(13), end: at(12) })
  const left = before.filter((row) => !row.startsWith('h1') || !(BigInt(row.split(' ')[1]) >= at(13) && BigInt(row.split(' ')[1]) < at(12)))
  t.ok(left.length < before.length)
  t.same(await rowsOf(engine, 'cpu'), left)
  await engine.tidy()
  await engine.close()
  engine = await opened(dir, folderStore(folder), { deleted_rows_rewrite_secs: 0 })
  await engine.tidy()
  t.same(await rowsOf(engine, 'cpu'), left, 'the tombstone stays as long as the object')
  await write(engine, [{ measurement: 'cpu', tags: ['host', 'h1'], time: at(13, 1), fields: { a: 7 } }])
  t.same(await rowsOf(engine, 'cpu'), [...left, `h1 ${at(13, 1)} a=7`].sort())
  await closeAndRemove(engine, dir, folder)
})

t.test('retention, a delete of everything and a drop take objects away', async (t) => {
  const [dir, folder] = [tempDir(), tempDir()]
  let engine = await opened(dir, folderStore(folder))
  await writeDays(engine, 14, 12)
  await writeDays(engine, 0, 0)
  await archived(engine)
  t.equal(objectsIn(folder).length, 3)
  await engine.delete({ namespace: '', measurement: 'cpu', start: at(15), end: at(13, -720) })
  await engine.tidy()
  await engine.archive.run(COLD)
  t.equal(objectsIn(folder).length, 2, 'a delete of a whole day')
  await engine.close()
  engine = await opened(dir, folderStore(folder), { retention_secs: 12 * 86_400 })
  await engine.tidy()
  await engine.archive.run(COLD)
  t.equal(objectsIn(folder).length, 1, 'retention')
  await engine.drop('', 'cpu')
  await engine.tidy()
  await engine.archive.run(COLD)
  t.same(objectsIn(folder), [], 'a drop')
  t.same(segmentsIn(dir), [])
  await closeAndRemove(engine, dir, folder)
})

t.test('measurements with one field share an object a day', async (t) => {
  const [dir, folder] = [tempDir(), tempDir()]
  const engine = await opened(dir, folderStore(folder))
  const points = (day: number): Point[] =>
    Array.from({ length: 60 }, (_, i) => ({ measurement: `m${i % 20}`, tags: [`k${i % 2}`, `v${i}`], time: at(day, i), fields: { value: i + day } }))
  for (const day of [13, 12, 0]) {
    await write(engine, points(day))
    await engine.flush()
  }
  const all = async () => Promise.all(Array.from({ length: 20 }, (_, i) => rowsOf(engine, `m${i}`)))
  const [before, m3] = [await all(), await sql(engine, 'SELECT * FROM m3 ORDER BY ALL')]
  t.same(await archived(engine), { ...NONE, objects: 2, rows: 120 })
  t.match(objectsIn(folder), [/^shared=value\/date=2023-12-19\//, /^shared=value\/date=2023-12-20\//])
  t.same(await all(), before)
  t.same(await sql(engine, 'SELECT * FROM m3 ORDER BY ALL'), m3)
  await engine.drop('', 'm4')
  await engine.tidy()
  t.same(await rowsOf(engine, 'm4'), [])
  t.same(await rowsOf(engine, 'm5'), before[5])
  const read = await duck(
    `SELECT measurement, k1, value, date::VARCHAR FROM read_parquet('${folder}/**/*.parquet', hive_partitioning = true) WHERE measurement = 'm3' ORDER BY ALL`,
  )
  t.equal(read.length, 6)
  t.same(read[0], ['m3', 'v23', 35, '2023-12-20'])
  await closeAndRemove(engine, dir, folder)
})

async function duck(query: string): Promise<unknown[][]> {
  const instance = await DuckDBInstance.create(':memory:')
  const connection = await instance.connect()
  try {
    return (await connection.runAndReadAll(query)).getRows() as unknown[][]
  } finally {
    connection.disconnectSync()
    instance.closeSync()
  }
}

t.test('DuckDB reads the folder by its partitions', async (t) => {
  const [dir, folder] = [tempDir(), tempDir()]
  const engine = await opened(dir, folderStore(folder))
  await writeDays(engine, 14, 12)
  await writeDays(engine, 0, 0)
  const cut = `_time < '${new Date(NOW_MS - 11 * 86_400_000).toISOString()}'`
  const fields = `host, "date" AS date_tag, a, b, note`
  const expected = await sql(engine, `SELECT epoch_ns(_time)::VARCHAR, ${fields} FROM cpu WHERE ${cut} ORDER BY ALL`)
  await archived(engine)
  const from = `read_parquet('${folder}/**/*.parquet', hive_partitioning = true)`
  t.same(await duck(`SELECT epoch_ns(_time)::VARCHAR, host, date_tag, a, b, note FROM ${from} ORDER BY ALL`), expected)
  t.same(await duck(`SELECT date::VARCHAR, measurement, namespace, count(*)::INTEGER FROM ${from} GROUP BY ALL ORDER BY ALL`), [
    ['2023-12-18', 'cpu', '', 20],
    ['2023-12-19', 'cpu', '', 20],
    ['2023-12-20', 'cpu', '', 20],
  ])
  const encodings = await duck(
    `SELECT DISTINCT path_in_schema, encodings FROM parquet_metadata('${folder}/**/*.parquet') WHERE path_in_schema IN ('host', 'date_tag') ORDER BY ALL`,
  )
  t.same(encodings, [
    ['date_tag', 'RLE_DICTIONARY'],
    ['host', 'RLE_DICTIONARY'],
  ])
  await closeAndRemove(engine, dir, folder)
})

t.test('what a rollup still needs, and days that newer data reaches into, wait', async (t) => {
  const [dir, folder] = [tempDir(), tempDir()]
  const engine = await opened(dir, folderStore(folder))
  await writeDays(engine, 14, 12)
  const release = engine.holdRetention((_, name) => (name === 'cpu' ? at(13) : undefined))
  await write(engine, [
    { measurement: 'cpu', tags: ['host', 'h0'], time: at(12, 700), fields: { a: 1 } },
    { measurement: 'cpu', tags: ['host', 'h0'], time: at(0), fields: { a: 1 } },
  ])
  await engine.flush()
  const before = await answers(engine)
  t.same(await archived(engine), { ...NONE, objects: 1, rows: 20, awaitingRollup: 1, incomplete: 1 })
  release()
  t.same(await archived(engine), { ...NONE, objects: 1, rows: 20, incomplete: 1 })
  t.same(await answers(engine), before)
  await closeAndRemove(engine, dir, folder)
})

t.test('a delete on its way masks what is archived meanwhile, and what of its segments stays', async (t) => {
  const [dir, folder] = [tempDir(), tempDir()]
  const log = new HeldLog()
  const engine = await openEngine(dir, { ooo_shard_tolerance: 1_000_000, compaction_fan_in: 64 }, log.fs)
  t.teardown(() => closeAndRemove(engine, dir, folder))
  engine.archive.attach(folderStore(folder))
  const days = [14, 13, 12, 0]
  for (const flushed of [days.slice(0, 3), days.slice(3)]) {
    const points = flushed.flatMap((day) => ['a', 'b'].map((host) => ({ measurement: 'cpu', tags: ['host', host], time: at(day), fields: { v: 1, w: 1 } })))
    await write(engine, points)
    await engine.flush()
  }
  const held = log.hold()
  const deleted = engine.delete({ namespace: '', measurement: 'cpu', matchers: [{ tag: 'host', op: '=', value: 'a' }] })
  await held
  t.match(await archived(engine, { ...COLD, maxObjects: 1 }), { objects: 1, rows: 2 })
  t.equal(segmentsIn(dir).length, 2, 'what comes behind the day stays')
  log.succeed()
  await deleted
  t.same(
    await rowsOf(engine, 'cpu'),
    days.map((day) => `b ${at(day)} v=1 w=1`),
  )
})

t.test('a segment of many days is cut where a run ends, and merges go on beside archived days', async (t) => {
  const [dir, folder] = [tempDir(), tempDir()]
  const engine = await opened(dir, folderStore(folder), { compaction_fan_in: 2 })
  for (let day = 20; day >= 13; day -= 1) await writeDays(engine, day, day, 8)
  await writeDays(engine, 0, 0)
  for (let i = 0; i < 1200 && segmentsIn(dir).length > 4; i++) await new Promise((resolve) => setTimeout(resolve, 50))
  const before = await answers(engine)
  const runs = []
  for (let i = 0; i < 5; i++) {
    runs.push((await archived(engine, { ...COLD, maxObjects: 3 })).objects)
    t.same(await answers(engine), before)
  }
  t.equal(
    runs.reduce((sum, n) => sum + n),
    8,
  )
  t.ok(Math.max(...runs) <= 3)
  for (let i = 0; i < 6; i++) await writeDays(engine, 0, 0, 5 + i)
  for (let i = 0; i < 1200 && segmentsIn(dir).length > 3; i++) await new Promise((resolve) => setTimeout(resolve, 50))
  t.ok(segmentsIn(dir).length <= 3, 'compaction is not held up')
  await closeAndRemove(engine, dir, folder)
})

t.test('encrypted fields are never archived', async (t) => {
  const [dir, folder] = [tempDir(), tempDir()]
  process.env.SVC_ARCHIVE_TEST_KEY = Buffer.alloc(32, 7).toString('base64')
  t.teardown(() => delete process.env.SVC_ARCHIVE_TEST_KEY)
  const engine = await opened(dir, folderStore(folder), { field_encryption: { columns: { a: 'k' }, keys: { k: 'SVC_ARCHIVE_TEST_KEY' } } })
  await writeDays(engine, 14, 12)
  await writeDays(engine, 0, 0)
  t.same(await archived(engine), NONE)
  t.equal(existsSync(folder) && objectsIn(folder).length, 0)
  await closeAndRemove(engine, dir, folder)
})
