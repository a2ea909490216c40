/** Encrypted columns in engine threads: flushed, read, merged and changed over, with no plain text in the files. */
import { readdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { compactSegments } from '../compaction/compactor.ts'
import { streamSql } from '../duckdb/stream.ts'
import { relation } from '../read/relation.ts'
import { scanScope, scanSeries } from '../read/scan.ts'
import { collect, type FieldSpec, TestDatabase, type TestMeasurement, type TestPoint } from '../testing/engine-state.ts'
import type { SegmentMeta } from '../threads/segment-entry.ts'
import { ENCRYPTED_BLOCK_ROWS } from './block.ts'
import { mergedKeys } from './encrypted-write.ts'
import type { KeyMaterial } from './keys.ts'

const ALL: [bigint, bigint] = [-(2n ** 63n), 2n ** 63n - 1n]
const START = 1_700_000_000_000_000_000n
const SPEC: FieldSpec = { num: 'float64', int: 'int64', big: 'uint64', flag: 'bool', text: 'string', dec: { decimal: 2 }, hist: 'histogram', plain: 'float64' }
const SECRET = ['num', 'int', 'big', 'flag', 'text', 'dec', 'hist']
const keys = { k1: new Uint8Array(32).fill(1), k2: new Uint8Array(32).fill(2) }
const encrypting = (names: readonly string[], key = 'k1'): KeyMaterial => ({ columns: Object.fromEntries(names.map((name) => [name, key])), keys })

/** A database that follows `db` in its state, with other keys: as after a restart. */
function withKeys(db: TestDatabase, material: KeyMaterial, cacheBytes = 8 << 20): void {
  db.config.encryption = { ...material, cacheBytes }
  db.config.compression = 'none' // so that a text in the clear can be found
  db.reopen()
}

function pointsFrom(from: number, count: number): TestPoint[] {
  return Array.from({ length: count }, (_, i): TestPoint => {
    const n = from + i
    const fields: TestPoint['fields'] = { num: n / 3, int: BigInt(n) - 2n ** 40n, big: 2n ** 63n + BigInt(n), flag: n % 2 === 0, plain: n / 4 }
    if (n % 3 !== 0) fields.text = n % 5 === 0 ? '' : `SECRET-TEXT-${n}`
    if (n % 4 !== 0) fields.dec = -BigInt(n) * 10n ** 20n
    if (n % 6 !== 0) fields.hist = Uint8Array.from({ length: n % 20 }, (_, b) => n + b)
    if (n % 11 === 0) delete fields.num
    return { tags: { host: `h${n % 7}` }, time: START + BigInt(Math.floor(n / 7)) * 1000n, fields }
  })
}

type Row = { host: string; time: bigint; fields: Record<string, unknown> }

function expected(points: readonly TestPoint[]): Row[] {
  const rows = new Map<string, Row>()
  for (const { tags, time, fields } of points) {
    const key = `${tags!.host}/${time}`
    const row = rows.get(key) ?? { host: tags!.host, time, fields: {} }
    Object.assign(row.fields, fields)
    rows.set(key, row)
  }
  return [...rows.values()].sort((a, b) => (a.host < b.host ? -1 : a.host > b.host ? 1 : Number(a.time - b.time)))
}

async function scanned(db: TestDatabase, fields?: string[]): Promise<Row[]> {
  const context = await db.context()
  const scope = scanScope(context, { namespace: 'default', measurement: 'm', ...(fields === undefined ? {} : { fields }) })
  const rows = await collect(scanSeries(context, db.state.snapshotNow()!, scope, undefined))
  return rows
    .map(({ tags, time, fields }) => ({ host: tags.host, time, fields }))
    .sort((a, b) => (a.host < b.host ? -1 : a.host > b.host ? 1 : Number(a.time - b.time)))
}

async function sql(db: TestDatabase, m: TestMeasurement, columns: string[], rest: string): Promise<Record<string, unknown>[]> {
  const context = await db.context()
  const { sql, calls } = relation(context, db.state.snapshotNow()!, { measurement: m.def, time: ALL, columns })
  try {
    return await context.duck.run(rest.replace('$m', `(${sql})`))
  } finally {
    for (const call of calls) context.duck.removeSource(call)
  }
}

let nextMerged = 1000
async function merge(db: TestDatabase, m: TestMeasurement, deduplicate = true): Promise<SegmentMeta> {
  const inputs = db.state.snapshotNow()!.table(m.table.id).segments
  const target = await db.target()
  const request = {
    table: m.table.id,
    segments: inputs.map(({ id }) => id),
    segment: nextMerged++,
    sequence: inputs.at(-1)!.sequence,
    level: 1,
    deduplicate,
    dirty: null,
    cleared: 0,
  }
  const keyOf = mergedKeys(inputs, m.table, target.duck.encrypted.keys)
  const merged = (await compactSegments(inputs, request, target, {
    measurement: m.table.measurement < 0 ? undefined : m.def.id,
    removals: db.state,
    keyOf,
  }))!
  db.publish({ kind: 'segments', added: [merged], removed: inputs.map(({ id }) => id), droppedMemtable: -1 })
  return merged
}

/** Which of the texts occur in any file below the directory. */
function foundIn(dir: string, texts: readonly string[]): string[] {
  const files = readdirSync(dir, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile())
  const bytes = files.map((entry) => readFileSync(join(entry.parentPath, entry.name)))
  return texts.filter((text) => bytes.some((file) => file.includes(text)))
}

t.test('values of every type are read back, across blocks, duplicates and merges', async (t) => {
  const db = new TestDatabase()
  t.teardown(() => db.close())
  withKeys(db, encrypting(SECRET))
  const m = db.measurement('m', SPEC)
  const first = pointsFrom(0, ENCRYPTED_BLOCK_ROWS + 500)
  db.write(m, first)
  const [segment] = await db.flush()
  t.strictSame(
    segment.columns.map(({ name, encoding }) => [name, encoding.kind]),
    [...SECRET.map((name) => [name, 'encrypted']), ['plain', 'scaled']],
  )
  t.match(segment, {
    sidecar: segment.file.replace('.parquet', '.enc'),
    created: Number,
    sidecarBytes: readFileSync(join(db.dataDir, segment.sidecar!)).length,
  })
  t.strictSame(await scanned(db), expected(first), 'one segment')

  // Some fields of rows written again: the rest must come from the older segment, in the memtable and after a flush.
  const second = pointsFrom(ENCRYPTED_BLOCK_ROWS - 300, 900).map(
    (point, i): TestPoint => ({ ...point, fields: { int: BigInt(i), ...(i % 2 === 0 ? { text: `NEWER-${i}` } : { dec: 7n }) } }),
  )
  db.write(m, second)
  const both = [...first, ...second]
  t.strictSame(await scanned(db), expected(both), 'a segment and a memtable')
  await db.flush()
  t.strictSame(await scanned(db), expected(both), 'two segments')
  const merged = await merge(db, m)
  t.equal(merged.rows, expected(both).length)
  t.strictSame(await scanned(db), expected(both), 'merged')

  const wanted = expected(both)
  const [row] = await sql(
    db,
    m,
    ['text', 'int', 'dec', 'flag'],
    `SELECT count(*) n, count(text) texts, sum(int)::BIGINT s, min(dec) d, count(*) FILTER (flag) f FROM $m x`,
  )
  t.strictSame(
    { n: row.n, texts: row.texts, s: row.s, f: row.f },
    {
      n: BigInt(wanted.length),
      texts: BigInt(wanted.filter(({ fields }) => fields.text !== undefined).length),
      s: wanted.reduce((sum, { fields }) => sum + (fields.int as bigint), 0n),
      f: BigInt(wanted.filter(({ fields }) => fields.flag === true).length),
    },
  )
  const some = await sql(
    db,
    m,
    ['_time', 'host', 'text'],
    `SELECT host, _time::BIGINT t FROM (SELECT host, epoch_ns(_time) _time, text FROM $m y) x WHERE text = 'SECRET-TEXT-4567'`,
  )
  t.equal(some.length, 1, 'a condition on an encrypted column')
  t.strictSame(foundIn(db.dataDir, ['SECRET-TEXT', 'NEWER-']), [], 'no file holds a text')
})

t.test('large texts are read back, through blocks of few rows, and little of them is in memory', async (t) => {
  const db = new TestDatabase()
  t.teardown(() => db.close())
  const bound = 3 << 20
  withKeys(db, encrypting(['text', 'num']), bound)
  const m = db.measurement('m', { text: 'string', num: 'float64', plain: 'float64' })
  const rows = (from: number, n: number): TestPoint[] =>
    Array.from({ length: n }, (_, i) => {
      const row = from + i
      const fields = { ...(row % 9 === 0 ? {} : { text: `${row} `.repeat(10_000 + row) }), num: row, plain: row }
      return { tags: { host: `h${row % 2}` }, time: START + BigInt(row), fields }
    })
  const [first, second] = [rows(0, 300), rows(250, 100)]
  db.write(m, first)
  await db.flush()
  t.strictSame(await scanned(db), expected(first), 'one segment')
  db.write(m, second)
  await db.flush()
  const all = [...first, ...second]
  t.strictSame(await scanned(db), expected(all), 'two segments')
  t.equal((await merge(db, m)).rows, 350)
  t.strictSame(await scanned(db), expected(all), 'merged')
  const { duck } = await db.context()
  t.ok(duck.encrypted.bytes > 0 && duck.encrypted.bytes <= bound, `${duck.encrypted.bytes} bytes are kept`)
})

t.test('measurements that share a table', async (t) => {
  const db = new TestDatabase()
  t.teardown(() => db.close())
  withKeys(db, encrypting(['text']))
  const m = db.measurement('m', { text: 'string' }, { shared: 7 })
  const other = db.measurement('other', { text: 'string' }, { shared: 7 })
  const points: TestPoint[] = []
  for (let round = 0; round < 3; round++) {
    const fresh = pointsFrom(round * 700, 700).map((point, i): TestPoint => ({ ...point, fields: { text: `SECRET-TEXT-${round}-${i}` } }))
    db.write(m, fresh)
    db.write(
      other,
      fresh.map((point) => ({ ...point, fields: { text: 'SECRET-TEXT of another' } })),
    )
    points.push(...fresh)
    await db.flush()
  }
  t.strictSame(await scanned(db), expected(points))
  t.equal((await merge(db, m, false)).rows, 4200)
  t.strictSame(await scanned(db), expected(points))
  t.strictSame(foundIn(db.dataDir, ['SECRET-TEXT']), [])
})

t.test('encryption switched on, keys exchanged, and switched off: merges bring old segments along', async (t) => {
  const db = new TestDatabase()
  t.teardown(() => db.close())
  withKeys(db, { columns: {}, keys: {} })
  const m = db.measurement('m', SPEC)
  const points = pointsFrom(0, 3000)
  db.write(m, points.slice(0, 1000))
  const [plain] = await db.flush()
  t.equal(plain.sidecar, undefined)
  t.strictSame(foundIn(db.dataDir, ['SECRET-TEXT-1']), ['SECRET-TEXT-1'], 'in the clear')

  withKeys(db, encrypting(SECRET))
  db.write(m, points.slice(1000, 2000))
  await db.flush()
  const again = points.slice(900, 1100).map((point, i): TestPoint => ({ ...point, fields: { num: i, text: `AGAIN-${i}` } }))
  db.write(m, again)
  await db.flush()
  const sofar = [...points.slice(0, 2000), ...again]
  t.strictSame(await scanned(db), expected(sofar), 'a plain and two encrypted segments')
  const mixed = await merge(db, m)
  t.strictSame(
    mixed.columns.map(({ encoding }) => encoding.kind),
    [...SECRET.map(() => 'encrypted'), 'scaled'],
  )
  t.strictSame(await scanned(db), expected(sofar), 'merged')
  t.notOk(readFileSync(join(db.dataDir, mixed.file)).includes('SECRET-TEXT'))

  withKeys(db, encrypting(SECRET, 'k2'))
  db.write(m, points.slice(2000))
  await db.flush()
  const all = [...sofar, ...points.slice(2000)]
  t.strictSame(await scanned(db), expected(all), 'each segment keeps the key that it was written with')
  const rotated = await merge(db, m)
  t.strictSame(rotated.columns[0].encoding, { kind: 'encrypted', key: 'k2' })
  withKeys(db, { columns: {}, keys: { k2: keys.k2 } })
  t.strictSame(await scanned(db), expected(all), 'the old key is not needed any more')

  const back = await merge(db, m)
  t.equal(back.sidecar, undefined)
  withKeys(db, { columns: {}, keys: {} })
  t.strictSame(await scanned(db), expected(all), 'in the clear again')
})

t.test('a key that is gone: what needs it says so, the rest works', async (t) => {
  const db = new TestDatabase()
  t.teardown(() => db.close())
  withKeys(db, encrypting(['text']))
  const m = db.measurement('m', SPEC)
  const points = pointsFrom(0, 100)
  db.write(m, points)
  await db.flush()
  withKeys(db, { columns: {}, keys: { k2: keys.k2 } })
  const gone = { code: 'ENCRYPTION_KEY_UNAVAILABLE', message: /key "k1"/ }
  await t.rejects(scanned(db), gone)
  await t.rejects(sql(db, m, ['text'], 'SELECT count(text) FROM $m x'), gone)
  t.equal((await scanned(db, ['num', 'plain'])).length, 100)
  t.strictSame(await sql(db, m, ['text', 'plain'], 'SELECT count(plain) n FROM $m x'), [{ n: 100n }])
})

t.test('a sidecar that was changed or put in place of another gives an error', async (t) => {
  const db = new TestDatabase()
  t.teardown(() => db.close())
  withKeys(db, encrypting(['num']), 0)
  const m = db.measurement('m', { num: 'float64' })
  const files: string[] = []
  for (let round = 0; round < 2; round++) {
    db.write(
      m,
      Array.from({ length: 3000 }, (_, i) => ({ tags: { host: 'a' }, time: START + BigInt(round * 3000 + i), fields: { num: Math.sqrt(i + round) } })),
    )
    const [segment] = await db.flush()
    files.push(join(db.dataDir, segment.sidecar!))
  }
  t.equal((await scanned(db)).length, 6000)
  const whole = readFileSync(files[0])
  for (const at of [8, 20, 500, whole.length - 40, whole.length - 10]) {
    const flipped = Buffer.from(whole)
    flipped[at] ^= 4
    writeFileSync(files[0], flipped)
    db.reopen()
    await t.rejects(scanned(db), { code: 'DATABASE_ERROR', message: /cannot read encrypted columns/ }, `byte ${at}`)
  }
  writeFileSync(files[0], whole)
  db.reopen()
  t.equal((await scanned(db)).length, 6000, 'as it was')
  renameSync(files[0], `${files[0]}.aside`)
  renameSync(files[1], files[0])
  renameSync(`${files[0]}.aside`, files[1])
  db.reopen()
  await t.rejects(scanned(db), { code: 'DATABASE_ERROR', message: /belongs to segment/ })
})

t.test('a field with the name of the row number keeps its values', async (t) => {
  const db = new TestDatabase()
  t.teardown(() => db.close())
  withKeys(db, encrypting(['text']))
  const m = db.measurement('m', { text: 'string', file_row_number: 'int64' })
  const points = Array.from(
    { length: 50 },
    (_, i): TestPoint => ({ tags: { host: `h${i % 3}` }, time: START + BigInt(i), fields: { text: `t${i}`, file_row_number: BigInt(i * 100) } }),
  )
  db.write(m, points.slice(0, 25))
  await db.flush()
  db.write(m, points.slice(25))
  await db.flush()
  t.strictSame(await scanned(db), expected(points))
  await merge(db, m, false)
  t.strictSame(await scanned(db), expected(points))
})

t.test('decrypted blocks in memory stay within their bound', async (t) => {
  const db = new TestDatabase()
  t.teardown(() => db.close())
  const bound = 3 * ENCRYPTED_BLOCK_ROWS * 8
  withKeys(db, encrypting(['num']), bound)
  const m = db.measurement('m', { num: 'float64' })
  db.write(
    m,
    Array.from({ length: 80_000 }, (_, i) => ({ tags: { host: 'a' }, time: START + BigInt(i), fields: { num: i / 2 } })),
  )
  await db.flush()
  t.strictSame(await sql(db, m, ['num'], 'SELECT sum(num) s FROM $m x'), [{ s: (80_000 * 79_999) / 4 }])
  const { duck } = await db.context()
  t.ok(duck.encrypted.bytes > 0 && duck.encrypted.bytes <= bound)
})

t.test('a statement left half done does not hold up the thread', async (t) => {
  const db = new TestDatabase()
  t.teardown(() => db.close())
  withKeys(db, encrypting(['num', 'text']))
  db.config.rowGroupRows = 32_768
  db.reopen()
  const m = db.measurement('m', { num: 'float64', text: 'string' })
  db.write(
    m,
    Array.from({ length: 200_000 }, (_, i) => ({ tags: { host: 'a' }, time: START + BigInt(i), fields: { num: i / 3, text: `text of row ${i % 977}` } })),
  )
  await db.flush()
  const { duck } = await db.context()
  const { sql } = relation(await db.context(), db.state.snapshotNow()!, { measurement: m.def, time: ALL, columns: ['num', 'text'] })
  for (let stop = 1; stop < 60_000; stop += 6000) {
    let rows = 0
    for await (const chunk of streamSql(duck, sql, undefined)) {
      rows += chunk.rows
      if (rows >= stop) break
    }
    t.ok(rows >= stop)
  }
  await duck.settled()
  const abort = new AbortController()
  const query = duck.run(`SELECT sum(a.num) FROM (${sql}) a, range(100)`, abort.signal)
  setTimeout(() => abort.abort(new Error('enough')), 20)
  await t.rejects(query, /enough/)
})
