/** Encrypted fields in a whole engine: through the log, flushes, merges and restarts; keys that are missing; what is refused. */
import { readdirSync, readFileSync, renameSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { testContext } from '../../conformance/index.ts'
import { EmbeddedEngine } from '../engine.ts'
import { closeAndRemove, crashCopy, NOW, NOW_MS, openEngine, rowsOf, tempDir, writeFloat } from '../testing/harness.ts'

process.env.SVC_TEST_K1 = Buffer.alloc(32, 1).toString('base64')
process.env.SVC_TEST_K2 = Buffer.alloc(32, 2).toString('base64')
const KEYS = { k1: 'SVC_TEST_K1', k2: 'SVC_TEST_K2' }
const encrypting = (columns: Record<string, string>, keys: Record<string, string> = KEYS) => ({ compression: 'none', field_encryption: { columns, keys } })
const EMAIL = encrypting({ email: 'k1', rate: 'k1' })

/** One point with a text, a float that is encrypted, and one that is not. */
async function write(engine: EmbeddedEngine, i: number, email = `user-${i}@secret.example`): Promise<void> {
  const batch = engine.batch('')
  const ref = engine.resolver.measurement('', 'm')
  const time = NOW + BigInt(i)
  const table = batch.table(ref)
  const row = table.addRow(engine.resolver.series(ref, ['host', `h${i % 3}`]), Number(BigInt.asIntN(32, time)), Number(time >> 32n), 0)
  const bytes = Buffer.from(email)
  const at = batch.heap.reserve(bytes.length)
  batch.heap.bytes.set(bytes, at)
  table.column('email', 'string').setPair(row, at, bytes.length)
  table.column('rate', 'float64').setF64(row, 1.25 + i)
  table.column('open', 'float64').setF64(row, i)
  await engine.write(batch)
}

const row = (i: number, email = `user-${i}@secret.example`): string => `h${i % 3} ${NOW + BigInt(i)} email=${email} rate=${1.25 + i} open=${i}`

/** A start that is expected to fail; what it holds is given back. */
async function start(dir: string, config: Record<string, unknown>): Promise<void> {
  const engine = new EmbeddedEngine(testContext({ ...config, data_dir: dir }, () => NOW_MS))
  try {
    await engine.open()
  } finally {
    await engine.close()
  }
}

async function sql(engine: EmbeddedEngine, query: string): Promise<unknown[][]> {
  const rows: unknown[][] = []
  const job = engine.run<void>(new URL('../testing/sql-rows-job.ts', import.meta.url), query)
  for await (const bytes of job.output) rows.push(JSON.parse(Buffer.from(bytes).toString()) as unknown[])
  await job.result
  return rows
}

/** Texts that stand in the clear in some file of the directory. */
function inTheClear(dir: string, texts: readonly (string | Buffer)[]): (string | Buffer)[] {
  const files = readdirSync(dir, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile())
  const all = files.map((entry) => readFileSync(join(entry.parentPath, entry.name)))
  return texts.filter((text) => all.some((bytes) => bytes.includes(text)))
}

function double(value: number): Buffer {
  const bytes = Buffer.alloc(8)
  bytes.writeDoubleLE(value)
  return bytes
}

t.test('values come back from the log, segments and merges, and none is in the clear on disk', async (t) => {
  const dir = tempDir()
  let engine = await openEngine(dir, { ...EMAIL, compaction_fan_in: 2 })
  const expected: string[] = []
  const secrets = ['@secret.example', 'renamed']
  let wrote = 0
  const more = async (n: number): Promise<void> => {
    for (const end = wrote + n; wrote < end; wrote++) {
      await write(engine, wrote)
      expected.push(row(wrote))
    }
  }
  await more(30)
  t.same(inTheClear(join(dir, 'wal'), secrets), [], 'the log')
  t.ok(inTheClear(join(dir, 'wal'), ['host']).length === 1, 'which has been written')
  const crashed = crashCopy(dir)
  const replayed = await openEngine(crashed, EMAIL)
  t.same(await rowsOf(replayed, 'm'), expected.toSorted(), 'after a crash')
  await closeAndRemove(replayed, crashed)

  for (let round = 0; round < 4; round++) {
    await engine.flush()
    await more(10)
  }
  await write(engine, 3, 'renamed')
  expected[3] = row(3, 'renamed')
  await engine.flush()
  t.same(await rowsOf(engine, 'm'), expected.toSorted(), 'segments')
  t.same(await sql(engine, `SELECT email, open FROM m WHERE email LIKE 'user-1_@%' ORDER BY open LIMIT 2`), [
    ['user-10@secret.example', 10],
    ['user-11@secret.example', 11],
  ])
  t.same(await sql(engine, `SELECT count(*)::INTEGER, sum(rate) FROM m WHERE rate > 60`), [
    [11, Array.from({ length: 11 }, (_, i) => 60.25 + i).reduce((a, b) => a + b)],
  ])
  await engine.close()
  t.same(inTheClear(dir, [...secrets, double(17.25)]), [], 'after the stop')

  engine = await openEngine(dir, { ...EMAIL, compaction_fan_in: 2 })
  t.same(await rowsOf(engine, 'm'), expected.toSorted(), 'after a restart')
  const files = (): string[] => readdirSync(join(dir, 'segments'), { recursive: true, encoding: 'utf8' }).filter((name) => name.includes('.'))
  for (let waited = 0; files().length > 4 && waited < 2400; waited++) await new Promise((resolve) => setTimeout(resolve, 25))
  const names = files()
  t.ok(names.length <= 4, `merged: ${names}`)
  t.same(
    names
      .filter((name) => name.endsWith('.enc'))
      .map((name) => name.replace('.enc', '.parquet'))
      .sort(),
    names.filter((name) => name.endsWith('.parquet')).sort(),
  )
  t.same(await rowsOf(engine, 'm'), expected.toSorted(), 'after the merge')
  await closeAndRemove(engine, dir)
})

t.test('a key that is not there stops the start when the log needs it, and not before', async (t) => {
  const dir = tempDir()
  const engine = await openEngine(dir, EMAIL)
  await write(engine, 1)
  const crashed = crashCopy(dir)
  await t.rejects(start(crashed, {}), { code: 'ENCRYPTION_KEY_UNAVAILABLE', message: /write-ahead log.*key "k1"/ })
  await t.rejects(start(crashed, encrypting({ email: 'k1' }, { k1: 'SVC_TEST_NONE' })), {
    code: 'ENCRYPTION_KEY_UNAVAILABLE',
    message: /key "k1" of column "email": the environment variable SVC_TEST_NONE is not set/,
  })
  await t.rejects(start(crashed, encrypting({ email: 'k9' })), { code: 'CONFIG_ERROR', message: /column "email".*no key "k9"/ })
  const again = await openEngine(crashed, EMAIL)
  t.same(await rowsOf(again, 'm'), [row(1)])
  await closeAndRemove(again, crashed)
  await closeAndRemove(engine, dir)
})

t.test('segments whose key is gone: their columns answer an error, the rest works, merges leave them alone', async (t) => {
  const dir = tempDir()
  let engine = await openEngine(dir, EMAIL)
  await write(engine, 0)
  await engine.close()
  const warnings: unknown[] = []
  const log = { debug() {}, info() {}, error() {}, warn: (detail: object) => warnings.push(detail) }
  const config = { ...encrypting({ email: 'k2' }, { k2: KEYS.k2 }), compaction_fan_in: 2, compaction_max_backlog: 4, data_dir: dir }
  engine = new EmbeddedEngine({ ...testContext(config, () => NOW_MS), log })
  await engine.open()
  t.same(warnings, [{ segmentsByKey: { k1: 1 } }])
  const gone = { code: 'ENCRYPTION_KEY_UNAVAILABLE', message: /key "k1"/ }
  await t.rejects(rowsOf(engine, 'm'), gone)
  await t.rejects(sql(engine, 'SELECT email FROM m'), gone)
  t.same(await sql(engine, 'SELECT open, host FROM m'), [[0, 'h0']])
  // More than a merge's worth of segments, and more than the backlog at which writes would be refused.
  for (let i = 1; i < 6; i++) {
    await write(engine, i)
    await engine.flush()
  }
  t.same(await sql(engine, 'SELECT count(open)::INTEGER, sum(open) FROM m'), [[6, 15]])
  await engine.close()
  engine = await openEngine(dir, EMAIL)
  t.same(await rowsOf(engine, 'm'), [0, 1, 2, 3, 4, 5].map((i) => row(i)).sort(), 'with all keys back')
  await closeAndRemove(engine, dir)
})

t.test('encryption switched on and off again', async (t) => {
  const dir = tempDir()
  const rows: string[] = []
  for (const [i, config] of [{ compression: 'none' }, EMAIL, encrypting({ email: 'k2' }), encrypting({})].entries()) {
    const engine = await openEngine(dir, config)
    await write(engine, i)
    rows.push(row(i))
    t.same(await rowsOf(engine, 'm'), rows.toSorted(), `round ${i}`)
    await engine.close()
  }
  t.same(inTheClear(dir, ['user-0@', 'user-1@', 'user-2@', 'user-3@']), ['user-0@', 'user-3@'])
  const engine = await openEngine(dir, encrypting({}))
  await closeAndRemove(engine, dir)
})

t.test('a tag cannot be encrypted', async (t) => {
  const dir = tempDir()
  let engine = await openEngine(dir, encrypting({ host: 'k1' }))
  t.throws(() => writeFloat(engine, 'm', 'a', NOW, { value: 1 }), { code: 'INVALID_POINT', message: /"host" is a tag/ })
  const ref = engine.resolver.measurement('', 'm')
  const line = Buffer.from('host=a,hose=b')
  t.equal(engine.resolver.seriesAscii?.(ref, line, Int32Array.of(0, 4, 5, 6), 1), -1)
  t.ok((engine.resolver.seriesAscii?.(ref, line, Int32Array.of(7, 11, 12, 13), 1) ?? -1) >= 0, 'a tag of another name')
  await engine.close()
  engine = await openEngine(dir)
  await writeFloat(engine, 'm', 'a', NOW, { value: 1 })
  await engine.close()
  await t.rejects(start(dir, encrypting({ host: 'k1' })), { code: 'CONFIG_ERROR', message: /measurement "m": "host" is a tag/ })
  engine = await openEngine(dir)
  await closeAndRemove(engine, dir)
})

t.test('a field says that it is encrypted, and exports of its measurement are refused', async (t) => {
  const dir = tempDir()
  let engine = await openEngine(dir, EMAIL)
  await write(engine, 0)
  await writeFloat(engine, 'other', 'a', NOW, { value: 1 })
  const marked = async (): Promise<string[]> =>
    (await engine.measurements('')).flatMap(({ fields }) => fields.flatMap(({ name, encrypted }) => (encrypted ? [name] : [])))
  t.same(await marked(), ['email', 'rate'])
  const refusal = { code: 'INVALID_REQUEST', message: /"m".*"email" is encrypted/ }
  await t.rejects(engine.export({ namespace: '', measurement: 'm', path: 'm.parquet', maxBytes: 0 }), refusal)
  t.match(await engine.export({ namespace: '', measurement: 'other', path: 'other.parquet', maxBytes: 0 }), { rows: 1 })
  await engine.close()
  engine = await openEngine(dir, encrypting({}))
  t.same(await marked(), [])
  await t.rejects(engine.export({ namespace: '', measurement: 'm', path: 'm.parquet', maxBytes: 0 }), refusal, 'as long as a segment holds it encrypted')
  await closeAndRemove(engine, dir)
})

t.test('a sidecar that is missing or short stops the start and is named', async (t) => {
  const dir = tempDir()
  const engine = await openEngine(dir, EMAIL)
  await write(engine, 0)
  await engine.close()
  const [name] = readdirSync(join(dir, 'segments'), { recursive: true, encoding: 'utf8' }).filter((file) => file.endsWith('.enc'))
  const path = join(dir, 'segments', name)
  renameSync(path, `${dir}/aside`)
  await t.rejects(start(dir, EMAIL), { code: 'DATABASE_ERROR', message: /\.enc" is missing/ })
  renameSync(`${dir}/aside`, path)
  const again = await openEngine(dir, EMAIL)
  t.same(await rowsOf(again, 'm'), [row(0)])
  await closeAndRemove(again, dir)
})
