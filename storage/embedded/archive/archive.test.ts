/** Old segments go to a store and are read there as before; with deletes, late rows, retention, restarts and crashes. */
import { existsSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { DuckDBInstance } from '@duckdb/node-api'
import t from 'tap'
import type { ArchiveResult, ObjectStore } from '../../../kernel/storage.ts'
import { testContext } from '../../conformance/index.ts'
import { EmbeddedEngine } from '../engine.ts'
import { folderStore } from '../testing/folder-store.ts'
import { closeAndRemove, crashCopy, NOW, NOW_MS, rowsOf, tempDir } from '../testing/harness.ts'

t.setTimeout(300_000)

const DAY = 86_400_000_000_000n
const COLD = { coldAfterSecs: 10 * 86_400, maxObjects: 100 }
const SQL_JOB = new URL('../testing/table-job.ts', import.meta.url)
const NONE = { objects: 0, rows: 0, awaitingRollup: 0, incomplete: 0 }

/** Closed when a test fails before it does so. */
const current = new Set<EmbeddedEngine>()
t.afterEach(async () => {
  for (const engine of current) await engine.close()
  current.clear()
})

async function opened(dir: string, store: ObjectStore | undefined, config: Record<string, unknown> = {}, nowMs = NOW_MS): Promise<EmbeddedEngine> {
  const engine = new EmbeddedEngine(testContext({ ooo_shard_tolerance: 1_000_000, compaction_fan_in: 64, data_dir: dir, ...config }, () => nowMs))
  await engine.open()
  current.add(engine)
  if (store !== undefined) engine.archive.attach(store)
  return engine
}

interface Point {
  measurement: string
  tags: string[]
  time: bigint
  fields: Record<string, number | string>
}

async function write(engine: EmbeddedEngine, points: readonly Point[]): Promise<void> {
  const batch = engine.batch('')
  for (const [i, { measurement, tags, time, fields }] of points.entries()) {
    const ref = engine.resolver.measurement('', measurement)
    const table = batch.table(ref)
    const row = table.addRow(engine.resolver.series(ref, tags), Number(BigInt.asIntN(32, time)), Number(time >> 32n), i)
    for (const [name, value] of Object.entries(fields)) {
      if (typeof value === 'number') table.column(name, 'float64').setF64(row, value)
      else {
        const bytes = Buffer.from(value)
        const place = batch.heap.reserve(bytes.length)
        batch.heap.bytes.set(bytes, place)
        table.column(name, 'string').setPair(row, place, bytes.length)
      }
    }
  }
  const { rejected, rejections } = await engine.write(batch, { backfill: true })
  if (rejected > 0) throw new Error(rejections[0].message)
}

const at = (daysAgo: number, i = 0): bigint => NOW - BigInt(daysAgo) * DAY + BigInt(i) * 60_000_000_000n

/** A measurement with a table of its own, one day each flush, oldest first; and the newest row of all, now. */
async function writeDays(engine: EmbeddedEngine, from: number, to: number, rows = 20): Promise<void> {
  for (let day = from; day >= to; day--) {
    await write(
      engine,
      Array.from({ length: rows }, (_, i) => ({
        measurement: 'cpu',
        tags: i % 4 === 0 ? ['host', `h${i % 3}`, 'date', 'x'] : ['host', `h${i % 3}`],
        time: at(day, i),
        fields: { a: i / 4 + day, b: i % 5 === 0 ? -0 : i / 3, note: `n${i}` },
      })),
    )
    await engine.flush()
  }
}

const objectsIn = (folder: string): string[] =>
  readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.parquet'))
    .sort()
const segmentsIn = (dir: string): string[] => objectsIn(join(dir, 'segments'))

async function sql(engine: EmbeddedEngine, query: string): Promise<unknown> {
  const job = engine.run<unknown>(SQL_JOB, { namespace: '', query })
  for await (const _ of job.output) throw new Error('the job emits nothing')
  return job.result
}

const QUERIES = [
  'SELECT * FROM cpu ORDER BY ALL',
  'SELECT host, count(*) AS n, sum(a) AS a, min(b) AS b, max(note) AS note FROM cpu GROUP BY host ORDER BY host',
  `SELECT time_bucket('1 day', _time) AS day, count(*) AS n FROM cpu GROUP BY 1 ORDER BY 1`,
  `SELECT a, b, "date" FROM cpu WHERE host = 'h1' AND _time < '${new Date(NOW_MS - 20 * 86_400_000).toISOString()}' ORDER BY ALL`,
]

async function answers(engine: EmbeddedEngine): Promise<unknown[]> {
  const out: unknown[] = [await rowsOf(engine, 'cpu')]
  for (const query of QUERIES) out.push(await sql(engine, query))
  return out
}

async function archived(engine: EmbeddedEngine, options = COLD): Promise<ArchiveResult> {
  const result = await engine.archive.run(options)
  if (result.failure !== undefined) throw result.failure
  return result
}

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

t.test('an object that cannot be deleted goes later, and never under a query', async (t) => {
  const [dir, folder] = [tempDir(), tempDir()]
  let broken = true
  const store = folderStore(folder, false, (operation) => {
    if (operation === 'remove' && broken) throw new Error('no')
  })
  let engine = await opened(dir, store)
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
  engine = await opened(dir, store)
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
    const engine = await opened(dir, store)
    await writeDays(engine, 14, 12)
    await writeDays(engine, 0, 0)
    const before = await answers(engine)
    const result = await engine.archive.run(COLD)
    t.match(result.failure, /gone/)
    t.same(await answers(engine), before, 'a store that fails')
    const left = objectsIn(folder).length
    const copy = await opened(crashed, folderStore(folder))
    t.same(await answers(copy), before, `a crash before ${operation}`)
    await archived(copy)
    t.same(await answers(copy), before)
    t.equal(objectsIn(folder).length, 3, `of ${left} objects without entries none is left`)
    await closeAndRemove(copy, crashed)
    await closeAndRemove(engine, dir, folder)
  }
})

t.test('what is stored is compared with what was written', async (t) => {
  const [dir, folder] = [tempDir(), tempDir()]
  for (const remote of [false, true]) {
    const good = folderStore(folder, remote)
    const store: ObjectStore = {
      ...good,
      async put(key, path) {
        await good.put(key, path)
        const bytes = readFileSync(join(folder, key))
        bytes[bytes.length >> 1] ^= 1
        writeFileSync(join(folder, key), bytes)
      },
    }
    const engine = await opened(dir, store)
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

t.test('a store that is away or damaged fails the queries that need it, and no others', async (t) => {
  for (const remote of [false, true]) {
    const [dir, folder] = [tempDir(), tempDir()]
    const engine = await opened(dir, folderStore(folder, remote))
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
    t.same(await answers(engine), before)
    await engine.close()
    const path = join(folder, objectsIn(folder)[0])
    const bytes = readFileSync(path)
    bytes[bytes.length >> 1] ^= 1
    writeFileSync(path, bytes)
    const again = await opened(dir, folderStore(folder, remote))
    await t.rejects(rowsOf(again, 'cpu'), { code: 'DATABASE_ERROR', message: /checksum/ })
    t.same(await sql(again, recent), [[20n]])
    await again.close()
    const without = await opened(dir, undefined)
    await t.rejects(rowsOf(without, 'cpu'), { code: 'OVERLOADED', message: /no object store is attached/ })
    t.same(await sql(without, recent), [[20n]])
    await closeAndRemove(without, dir, folder)
  }
})

t.test('local copies stay within their bound', async (t) => {
  const [dir, folder] = [tempDir(), tempDir()]
  const gets: string[] = []
  const store = folderStore(folder, true, (operation, key) => {
    if (operation === 'get') gets.push(key)
  })
  const engine = await opened(dir, store, { segment_cache_size: 1 << 20 })
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
  const count = (day: number) =>
    sql(engine, `SELECT count(*) AS n FROM cpu WHERE _time >= make_timestamp_ns(${at(day)}) AND _time < make_timestamp_ns(${at(day - 1)})`)
  for (const day of [16, 16, 15]) t.same(await count(day), [[30_000n]])
  t.equal(gets.length, 2, 'the second time it is there')
  for (const day of [14, 13, 12, 16]) t.same(await count(day), [[30_000n]])
  t.equal(gets.length, 6, 'the least recently used made room')
  const cached = objectsIn(join(dir, 'archive-cache'))
  t.ok(cached.length < 5 && cached.length > 0)
  await t.rejects(sql(engine, 'SELECT count(*) FROM cpu'), { code: 'OVERLOADED', message: /segment_cache_size/ })
  t.same(await count(15), [[30_000n]], 'and the bytes were given back')
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

t.test('a segment of many days is cut where a run ends, and merges go on beside archived days', async (t) => {
  const [dir, folder] = [tempDir(), tempDir()]
  const engine = await opened(dir, folderStore(folder), { compaction_fan_in: 2 })
  for (let day = 20; day >= 13; day -= 1) await writeDays(engine, day, day, 8)
  await writeDays(engine, 0, 0)
  for (let i = 0; i < 100 && segmentsIn(dir).length > 4; i++) await new Promise((resolve) => setTimeout(resolve, 50))
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
  for (let i = 0; i < 100 && segmentsIn(dir).length > 3; i++) await new Promise((resolve) => setTimeout(resolve, 50))
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
