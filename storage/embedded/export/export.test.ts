/** Exports: values, order, encodings, size budget, memory, and what a failure leaves behind. */
import { existsSync, mkdirSync, readdirSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { asyncBufferFromFile, parquetReadObjects } from 'hyparquet'
import { compressors } from 'hyparquet-compressors'
import type { ExportRequest, ExportResult } from 'svcdb'
import t from 'tap'
import { TestDatabase, type TestPoint } from '../testing/engine-state.ts'
import { exportMeasurement } from './export.ts'
import { timeWindows } from './export-slices.ts'

const BASE = 1_700_000_000_000_000_000n

/** In the scratch space, where DuckDB can read it back. */
const output = (db: TestDatabase, name = 'out.parquet'): string => join(db.config.tempDir, 'out', name)

interface Options extends Partial<ExportRequest> {
  signal?: AbortSignal
  encrypted?: string[]
}

async function exported(db: TestDatabase, measurement: string, { signal, encrypted = [], ...request }: Options = {}): Promise<ExportResult> {
  const path = request.path ?? output(db)
  const task = {
    request: { namespace: 'default', measurement, maxBytes: 0, ...request, path },
    unfinished: `${path}.unfinished`,
    scratch: join(db.config.tempDir, 'scratch.parquet'),
    encrypted,
    config: db.config,
  }
  return exportMeasurement(await db.context(), db.state.snapshotNow()!, task, signal)
}

async function sql(db: TestDatabase, text: string): Promise<Record<string, unknown>[]> {
  return (await db.context()).duck.run(text.replaceAll('$file', `'${output(db)}'`))
}

/** Names in the output's directory and export files in the scratch space. */
function leftovers(db: TestDatabase): string[] {
  const list = (directory: string): string[] => (existsSync(directory) ? readdirSync(directory) : [])
  return [...list(dirname(output(db))), ...list(db.config.tempDir).filter((name) => name.endsWith('.parquet'))]
}

t.test('every type, out of segments and memtable, merged, in order', async (t) => {
  const db = new TestDatabase()
  t.teardown(() => db.close())
  const m = db.measurement('m', { f: 'float64', i: 'int64', u: 'uint64', b: 'bool', s: 'string', d: { decimal: 4 }, h: 'histogram' })
  const fields = (n: number): TestPoint['fields'] => ({
    f: n % 5 === 0 ? -0 : n / 8,
    i: -9007199254740993n - BigInt(n),
    u: 18446744073709551615n - BigInt(n),
    b: n % 2 === 0,
    s: `text "${n}" ü`,
    d: 10n ** 30n + BigInt(n),
    h: Uint8Array.of(n & 255, 0, 255),
  })
  const point = (host: number, n: number, values: TestPoint['fields']): TestPoint => ({
    tags: { host: `h${host}`, ...(host === 1 ? { zone: 'ü' } : {}) },
    time: BASE + BigInt(n),
    fields: values,
  })
  db.write(
    m,
    Array.from({ length: 300 }, (_, n) => point(n % 3, n, fields(n))),
  )
  await db.flush()
  // Duplicates that set single fields, in another segment and in the memtable, and new rows.
  db.write(m, [point(0, 0, { f: 1e300 }), point(1, 1, { s: 'again' })])
  await db.flush()
  db.write(m, [point(1, 1, { i: 5n }), point(2, 300, fields(300))])
  const result = await exported(db, 'm')
  t.match(result, { rows: 301, truncated: false, bytes: statSync(output(db)).size })
  t.same(leftovers(db), ['out.parquet'])
  const columns = await sql(db, 'SELECT column_name AS name, column_type AS type FROM (DESCRIBE SELECT * FROM $file)')
  t.strictSame(
    columns.map(({ name, type }) => `${name} ${type}`),
    ['_time TIMESTAMP_NS', 'host VARCHAR', 'zone VARCHAR', 'f DOUBLE', 'i BIGINT', 'u UBIGINT', 'b BOOLEAN', 's VARCHAR', 'd DECIMAL(38,4)', 'h BLOB'],
  )
  const rows = await sql(db, 'SELECT epoch_ns(_time) AS t, host, zone, f, 1 / f AS reciprocal, i, u, b, s, d::VARCHAR AS d, hex(h) AS h FROM $file')
  const expected = Array.from({ length: 301 }, (_, n) => {
    const host = n === 300 ? 2 : n % 3
    const all = { ...fields(n), ...(n === 0 ? { f: 1e300 } : {}), ...(n === 1 ? { s: 'again', i: 5n } : {}) } as Record<string, unknown>
    return { host, n, all }
  }).sort((a, b) => a.host - b.host || a.n - b.n)
  for (const [at, { host, n, all }] of expected.entries()) {
    const row = rows[at]
    t.match(row, { t: BASE + BigInt(n), host: `h${host}`, zone: host === 1 ? 'ü' : null, i: all.i, u: all.u, b: all.b, s: all.s }, `row ${at}`)
    t.ok(Object.is(row.f, all.f), `row ${at}: ${row.f}`)
    t.equal(row.d, `${String(all.d).slice(0, -4)}.${String(all.d).slice(-4)}`)
    t.equal(
      row.h,
      Buffer.from(all.h as Uint8Array)
        .toString('hex')
        .toUpperCase(),
    )
  }
  const encodings = await sql(db, `SELECT DISTINCT encodings FROM parquet_metadata($file) WHERE path_in_schema IN ('host', 'zone')`)
  t.same(encodings, [{ encodings: 'RLE_DICTIONARY' }])
  const foreign = await parquetReadObjects({ file: await asyncBufferFromFile(output(db)), compressors })
  t.same(
    foreign.map(({ host, s }) => `${host} ${s}`),
    rows.map(({ host, s }) => `${host} ${s}`),
    'another reader reads the same',
  )
})

t.test('zero keeps its sign where there is nothing but zeros', async (t) => {
  const db = new TestDatabase()
  t.teardown(() => db.close())
  const signs = [0, -0, -0, 0]
  const zeros = db.measurement('zeros', { f: 'float64', i: 'int64' })
  db.write(
    zeros,
    signs.map((f, n) => ({ tags: {}, time: BASE + BigInt(n), fields: { f, i: 1n } })),
  )
  await db.flush()
  await exported(db, 'zeros')
  const found = (await sql(db, 'SELECT f FROM $file ORDER BY _time')).map(({ f }) => f)
  t.ok(found.length === signs.length && found.every((f, n) => Object.is(f, signs[n])), found.map((f) => (Object.is(f, -0) ? '-0' : `${f}`)).join(' '))
})

t.test('a range, and measurements that share a table', async (t) => {
  const db = new TestDatabase()
  t.teardown(() => db.close())
  const points = (value: number): TestPoint[] =>
    Array.from({ length: 100 }, (_, n) => ({ tags: { k: `${value}-${n % 4}` }, time: BASE + BigInt(n), fields: { value: value + n } }))
  const first = db.measurement('first', { value: 'float64' }, { shared: 7 })
  const second = db.measurement('second', { value: 'float64' }, { shared: 7 })
  db.write(first, points(1000))
  db.write(second, points(2000))
  await db.flush()
  db.write(first, [{ time: BASE + 50n, fields: { value: -1 } }])
  t.match(await exported(db, 'first', { start: BASE + 10n, end: BASE + 60n }), { rows: 51, truncated: false })
  t.same(await sql(db, 'SELECT min(value) AS lo, max(value) AS hi, count(k)::INT AS tagged FROM $file'), [{ lo: -1, hi: 1059, tagged: 50 }])
  t.match(await exported(db, 'first', { start: BASE + 500n }), { rows: 0, truncated: false })
  t.same(await sql(db, 'SELECT * FROM $file'), [], 'a file without rows is whole')
  t.same(
    (await sql(db, 'SELECT column_name AS n FROM (DESCRIBE SELECT * FROM $file)')).map(({ n }) => n),
    ['_time', 'k', 'value'],
  )
  await t.rejects(exported(db, 'third'), { code: 'NOT_FOUND' })
})

const WIDE = Array.from({ length: 20 }, (_, i) => `f${i}`)

/** 64 MB limit; each field of a row depends on host and step. */
async function large(hosts: number, steps: number, text: number): Promise<TestDatabase> {
  const db = new TestDatabase()
  db.config.memoryLimitBytes = 64e6
  db.config.rowGroupRows = 2048
  const m = db.measurement('wide', { ...Object.fromEntries(WIDE.map((name) => [name, 'float64' as const])), s: 'string' })
  const row = (host: number, step: number, version: number): TestPoint => ({
    tags: { host: `host-${host}` },
    time: BASE + BigInt(step) * 1_000_000_000n,
    fields: { ...Object.fromEntries(WIDE.map((name, i) => [name, host + step * i + version])), s: `${host}-${step}-${version}`.padEnd(text, '.') },
  })
  const PARTS = 4
  for (let part = 0; part < PARTS; part++) {
    for (let step = (steps * part) / PARTS; step < (steps * (part + 1)) / PARTS; step += 10) {
      db.write(
        m,
        Array.from({ length: hosts * 10 }, (_, i) => row(i % hosts, step + Math.floor(i / hosts), 0)),
      )
    }
    await db.flush()
  }
  // Half of it once more, in a segment of its own: it has to be merged.
  for (let step = steps / 2; step < steps; step += 10)
    db.write(
      m,
      Array.from({ length: hosts * 10 }, (_, i) => row(i % hosts, step + Math.floor(i / hosts), 1)),
    )
  await db.flush()
  return db
}

const TEXT = 1000
for (const [name, hosts, steps] of [
  ['of many series', 100, 880],
  ['of one series', 1, 88_000],
] as const) {
  t.test(`more data than memory, ${name}, half of it to be merged`, async (t) => {
    const db = await large(hosts, steps, TEXT)
    t.teardown(() => db.close())
    const decoded = hosts * steps * (WIDE.length * 8 + TEXT)
    t.ok(decoded > 1.5 * db.config.memoryLimitBytes)
    let spilled = 0
    const watch = setInterval(() => {
      for (const name of readdirSync(db.config.tempDir))
        spilled = Math.max(spilled, statSync(join(db.config.tempDir, name), { throwIfNoEntry: false })?.size ?? 0)
    }, 5)
    const result = await exported(db, 'wide')
    clearInterval(watch)
    t.match(result, { rows: hosts * steps, truncated: false })
    t.ok(spilled < db.config.memoryLimitBytes, `scratch files stay small, ${spilled} bytes`)
    const version = `CASE WHEN (epoch_ns(_time) - ${BASE}) / 1000000000 >= ${steps / 2} THEN 1 ELSE 0 END`
    const step = `((epoch_ns(_time) - ${BASE}) // 1000000000)`
    const host = `split_part(host, '-', 2)::INT`
    const [check] = await sql(
      db,
      `SELECT count(*)::INT AS n, count(DISTINCT (${host})::BIGINT * 1000000 + ${step})::INT AS distinct_rows,
         bool_and(f0 = ${host} + ${version} AND f19 = ${host} + ${step} * 19 + ${version}
           AND starts_with(s, ${host} || '-' || ${step} || '-' || (${version}) || '.') AND strlen(s) = ${TEXT}) AS ok FROM $file`,
    )
    t.same(check, { n: hosts * steps, distinct_rows: hosts * steps, ok: true })
    const [{ groups }] = await sql(db, 'SELECT num_row_groups::INT AS groups FROM parquet_file_metadata($file)')
    t.ok((groups as number) > 10)
    if (hosts === 1) t.same(await sql(db, 'SELECT count(*)::INT AS n FROM (SELECT _time < lag(_time) OVER () AS back FROM $file) WHERE back'), [{ n: 0 }])
  })
}

t.test('a size budget ends the file after a row group', async (t) => {
  const db = await large(50, 400, 1000)
  t.teardown(() => db.close())
  const whole = await exported(db, 'wide')
  const keys = `SELECT host || ' ' || epoch_ns(_time) AS k, f3 FROM $file`
  const rows = await sql(db, keys)
  const maxBytes = Math.floor(whole.bytes / 3)
  const cut = await exported(db, 'wide', { maxBytes })
  t.ok(cut.truncated)
  t.ok(cut.rows > 0 && cut.rows < whole.rows)
  t.equal(cut.bytes, statSync(output(db)).size)
  t.ok(cut.bytes >= maxBytes, 'the budget is used')
  t.strictSame(await sql(db, keys), rows.slice(0, cut.rows), 'what is there is the beginning of the whole')
  t.match(await exported(db, 'wide', { maxBytes: whole.bytes }), { rows: whole.rows, truncated: false }, 'a budget that suffices cuts nothing')
  t.match(await exported(db, 'wide', { maxBytes: 1 }), { rows: 0, truncated: true })
  t.same(await sql(db, 'SELECT * FROM $file'), [])
})

t.test('a failure leaves nothing behind, and an older file as it was', async (t) => {
  const db = await large(50, 400, 1000)
  t.teardown(() => db.close())
  mkdirSync(dirname(output(db)), { recursive: true })
  writeFileSync(output(db), 'older')
  const abort = new AbortController()
  const cancelled = exported(db, 'wide', { signal: abort.signal })
  setTimeout(() => abort.abort(new Error('enough')), 30)
  await t.rejects(cancelled, { message: 'enough' })
  t.same(leftovers(db), ['out.parquet'])
  t.equal(statSync(output(db)).size, 5)
  await t.rejects(exported(db, 'wide', { encrypted: ['f7'] }), { code: 'INVALID_REQUEST', message: /"wide".*"f7" is encrypted/ })
  writeFileSync(join(db.config.tempDir, 'file'), '')
  await t.rejects(exported(db, 'wide', { path: join(db.config.tempDir, 'file', 'out.parquet') }), { code: /ENOTDIR|EEXIST/ })
  t.same(leftovers(db), ['out.parquet'])
  t.match(await exported(db, 'wide'), { rows: 20_000 })
})

t.test('stretches of time end where few sources go on', (t) => {
  const source = (minTime: bigint, maxTime: bigint, rows: number) => ({ minTime, maxTime, segment: { rows } }) as never
  const all: [bigint, bigint] = [-100n, 1000n]
  t.same(timeWindows([], all, 10), [all])
  const chain = Array.from({ length: 6 }, (_, i) => source(BigInt(i * 10), BigInt(i * 10 + 10), 10))
  t.same(timeWindows(chain, all, 20), [
    [-100n, 19n],
    [20n, 39n],
    [40n, 1000n],
  ])
  t.same(timeWindows(chain, all, 1000), [all])
  t.same(timeWindows([source(0n, 100n, 10), source(50n, 60n, 10), source(70n, 80n, 10)], all, 1), [all], 'never through the middle of a large one')
  t.end()
})
