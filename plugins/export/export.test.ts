import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DuckDBInstance } from '@duckdb/node-api'
import { definePlugin, NAMESPACES } from 'svcdb'
import { boot, type TestNode, temporaryFolder } from 'svcdb/testkit'
import t from 'tap'
import { until } from '../../test/support/until.ts'
import line from '../line_protocol/index.ts'
import sql from '../sql/index.ts'
import plugin from './index.ts'

const ROWS = 3000
const BASE = BigInt(Math.floor(Date.now() / 3_600_000) * 3_600_000 - 7_200_000) * 1_000_000n

async function started(config: Record<string, unknown> = {}): Promise<TestNode> {
  const node = await boot({ plugins: [plugin, sql, line], storage: 'embedded', config: { server: { sql_max_rows: 100_000 }, ...config } })
  const lines = Array.from(
    { length: ROWS },
    (_, i) =>
      `cpu,host=h${i % 7}${i % 3 === 0 ? ',zone=z' : ''} usage=${i / 8},big=${9007199254740993n + BigInt(i)}u,n=-${i}i,ok=${i % 2 === 0},note="n ${i}",price=1.25d ${BASE + BigInt(i) * 1_000_000n}`,
  )
  await write(node, lines.slice(0, 2000))
  await node.storage.flush()
  // Some again, with one field of another value: merged out of a segment and the memtable.
  await write(node, [...lines.slice(2000), ...lines.slice(0, 50).map((text) => text.replace(/usage=[^,]*,.* /, 'usage=-1 '))])
  return node
}

async function write(node: TestNode, lines: string[]): Promise<void> {
  const written = await node.inject({ method: 'POST', url: '/write', payload: lines.join('\n'), headers: { 'content-type': 'text/plain' } })
  if (written.statusCode !== 204) throw new Error(written.body)
}

const post = (node: TestNode, url: string, body: unknown) =>
  node.inject({ method: 'POST', url, payload: typeof body === 'string' ? body : JSON.stringify(body), headers: { 'content-type': 'application/json' } })
const exported = (node: TestNode, body: unknown) => post(node, '/api/v1/export/parquet', body)
const metric = async (node: TestNode, name: string): Promise<number> =>
  Number(
    (await node.inject('/metrics')).body
      .split('\n')
      .find((text) => text.startsWith(`${name} `))
      ?.split(' ')[1] ?? Number.NaN,
  )

/** Rows as text, so that no digits are lost. */
async function readBack(path: string, query: string): Promise<unknown[][]> {
  const instance = await DuckDBInstance.create(':memory:')
  const connection = await instance.connect()
  try {
    return (await connection.runAndReadAll(query.replaceAll('$file', `'${path.replaceAll("'", "''")}'`))).getRows() as unknown[][]
  } finally {
    connection.disconnectSync()
    instance.closeSync()
  }
}

const COLUMNS = ['host', 'zone', 'usage', 'big', 'n', 'ok', 'note', 'price']
const TEXTS = ['epoch_ns(_time)', ...COLUMNS].map((name) => `${name}::VARCHAR`).join(', ')

t.test('no export lies where a start removes what is not of the database', async (t) => {
  const folder = temporaryFolder(t)
  const data_dir = join(folder, 'data')
  mkdirSync(join(data_dir, 'segments'), { recursive: true })
  symlinkSync(join(data_dir, 'segments'), join(folder, 'link'))
  const start = (directory: string) => boot({ plugins: [plugin, line], storage: 'embedded', dataDir: data_dir, config: { export: { directory } } })
  for (const directory of [join(data_dir, 'segments'), join(data_dir, 'tmp', 'deep'), join(folder, 'link')]) {
    const node = await start(directory)
    await write(node, [`cpu v=1 ${BASE}`])
    const answer = await exported(node, { measurement: 'cpu', output_path: 'a.parquet' })
    t.match(answer.json(), {
      code: 'INVALID_REQUEST',
      error: /^cannot export to "a.parquet": it would lie in ".*", where .*; set export.directory to a folder of its own$/,
    })
    await node.stop()
  }
  const node = await start(join(data_dir, 'mine'))
  t.equal((await exported(node, { measurement: 'cpu', output_path: 'a.parquet' })).statusCode, 200)
  await node.stop()
})

t.test('the file says what SQL says', async (t) => {
  const node = await started()
  t.teardown(() => node.stop())
  const asked = async (where = '') => JSON.parse((await post(node, '/api/v1/svc/sql', { query: `SELECT ${TEXTS} FROM cpu ${where} ORDER BY ALL` })).body).rows
  const answer = await exported(node, { measurement: 'cpu' })
  t.equal(answer.statusCode, 200, answer.body)
  const { path, ...counts } = answer.json()
  t.same(counts, { rows_written: ROWS, bytes_written: statSync(path).size, truncated: false })
  t.match(path.slice(node.dataDir.length), /^\/exports\/cpu-\d{8}T\d{9}Z\.parquet$/)
  t.same(await readBack(path, `SELECT ${TEXTS} FROM $file ORDER BY ALL`), await asked())
  const encodings = await readBack(
    path,
    `SELECT DISTINCT path_in_schema, encodings FROM parquet_metadata($file) WHERE path_in_schema IN ('host', 'zone') ORDER BY 1`,
  )
  t.same(encodings, [
    ['host', 'RLE_DICTIONARY'],
    ['zone', 'RLE_DICTIONARY'],
  ])

  const start = BASE + 10n * 1_000_000n
  const end = BASE + 20n * 1_000_000n
  const part = await exported(node, `{"measurement":"cpu","range":{"start":${start},"end":"${end}"},"output_path":"/tmp/../part.parquet"}`)
  t.match(part.json(), { rows_written: 10, path: join(node.dataDir, 'exports', 'part.parquet') }, part.body)
  t.same(
    await readBack(part.json().path, `SELECT ${TEXTS} FROM $file ORDER BY ALL`),
    await asked(`WHERE epoch_ns(_time) >= ${start} AND epoch_ns(_time) < ${end}`),
  )
  t.equal(await metric(node, 'svc_exports_total{result="done"}'), 2)
  t.equal(await metric(node, 'svc_export_rows_total'), ROWS + 10)
  t.equal(await metric(node, 'svc_export_bytes_total'), counts.bytes_written + part.json().bytes_written)
  t.equal(await metric(node, 'svc_exports_running'), 0)
})

t.test('what is refused', async (t) => {
  const directory = mkdtempSync(join(tmpdir(), 'svc-export-'))
  writeFileSync(join(directory, 'old.parquet.3.unfinished'), 'cut off by a crash')
  const node = await started({ export: { directory } })
  t.teardown(async () => {
    await node.stop()
    rmSync(directory, { recursive: true, force: true })
  })
  const cases: [unknown, number, string][] = [
    [{ measurement: 'unheard' }, 404, 'NOT_FOUND'],
    [{ measurement: 'cpu', compression: 'zstd' }, 400, 'INVALID_REQUEST'],
    [{ measurement: 'cpu', output_path: '..' }, 400, 'INVALID_REQUEST'],
    [{}, 422, 'INVALID_BODY'],
    ['{', 400, 'INVALID_REQUEST'],
  ]
  for (const [body, status, code] of cases) {
    const answer = await exported(node, body)
    t.equal(answer.statusCode, status, answer.body)
    t.equal(answer.json().code, code)
  }
  t.equal((await node.inject({ method: 'POST', url: '/api/v1/export/parquet', payload: '{}', headers: { 'content-type': 'text/plain' } })).statusCode, 415)
  t.same(readdirSync(directory), [], 'nothing of them is left, nor of a crash')

  writeFileSync(join(directory, 'taken.parquet'), 'kept')
  const taken = await exported(node, { measurement: 'cpu', output_path: 'taken' })
  t.match([taken.statusCode, taken.json().code, taken.json().error], [409, 'CONFLICT', /taken\.parquet" *: the file exists/])
  t.equal(statSync(join(directory, 'taken.parquet')).size, 4)
  const fresh = await exported(node, { measurement: 'cpu', output_path: 'fresh' })
  t.equal(fresh.json().path, join(directory, 'fresh.parquet'), fresh.body)
  t.same(readdirSync(directory).sort(), ['fresh.parquet', 'taken.parquet'])
  t.equal(await metric(node, 'svc_exports_total{result="failed"}'), 2)
})

t.test('no more at one time than allowed, each name once', async (t) => {
  const node = await started({ export: { max_concurrent: 2 } })
  t.teardown(() => node.stop())
  const statuses = async (...names: string[]) => {
    const answers = await Promise.all(names.map((name) => exported(node, { measurement: 'cpu', output_path: name })))
    return answers.map(({ statusCode, headers }) => `${statusCode} ${headers['retry-after'] ?? ''}`.trim())
  }
  t.same(await statuses('a', 'b', 'c'), ['200', '200', '429 1'])
  t.same(await statuses('c', 'c'), ['200', '409'], 'afterwards there is room')
})

t.test('a budget cuts the file, and says so', async (t) => {
  const node = await started({ export: { max_bytes: 1 } })
  t.teardown(() => node.stop())
  const answer = (await exported(node, { measurement: 'cpu' })).json()
  t.match(answer, { rows_written: 0, truncated: true })
  t.same(await readBack(answer.path, 'SELECT * FROM $file'), [])
  t.equal(await metric(node, 'svc_exports_truncated_total'), 1)
})

t.test('a caller who leaves ends the export', async (t) => {
  const node = await started()
  t.teardown(() => node.stop())
  const body = '{"measurement":"cpu","output_path":"gone"}'
  const socket = connect(Number(new URL(node.url).port), '127.0.0.1')
  socket.write(`POST /api/v1/export/parquet HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`)
  while ((await metric(node, 'svc_exports_running')) === 0) await new Promise((resolve) => setImmediate(resolve))
  socket.destroy()
  while ((await metric(node, 'svc_exports_running')) !== 0) await new Promise((resolve) => setTimeout(resolve, 5))
  t.equal(await metric(node, 'svc_exports_total{result="cancelled"}'), 1)
  const left = (): string[] => (existsSync(join(node.dataDir, 'exports')) ? readdirSync(join(node.dataDir, 'exports')) : [])
  await until('its file is gone', () => left().length === 0)
})

t.test('what is deleted is not in the file, whether its segment has it or not', async (t) => {
  const node = await started()
  t.teardown(() => node.stop())
  const matchers = [{ tag: 'host', op: '=' as const, value: 'h1' }]
  await node.storage.delete({ namespace: '', measurement: 'cpu', matchers, start: BASE, end: BASE + 2500n * 1_000_000n })
  const answer = (await exported(node, { measurement: 'cpu' })).json()
  const [[n, first]] = await readBack(answer.path, `SELECT count(*), min(epoch_ns(_time)) FROM $file WHERE host = 'h1'`)
  const kept = Array.from({ length: ROWS }, (_, i) => i).filter((i) => i % 7 === 1 && i >= 2500)
  t.same([n, first], [BigInt(kept.length), BASE + BigInt(kept[0]) * 1_000_000n])
  t.equal(answer.rows_written, ROWS - Array.from({ length: 2500 }, (_, i) => i).filter((i) => i % 7 === 1).length)
})

t.test('a measurement with an encrypted field is refused', async (t) => {
  process.env.SVC_TEST_EXPORT_KEY = Buffer.alloc(32, 7).toString('base64')
  const node = await started({ database: { field_encryption: { columns: { note: 'k' }, keys: { k: 'SVC_TEST_EXPORT_KEY' } } } })
  t.teardown(() => node.stop())
  const answer = await exported(node, { measurement: 'cpu' })
  t.match([answer.statusCode, answer.json()], [400, { code: 'INVALID_REQUEST', error: /"cpu": its field "note" is encrypted/ }])
  t.notOk(existsSync(join(node.dataDir, 'exports')))
  await write(node, [`plain f=1 ${BASE}`])
  t.equal((await exported(node, { measurement: 'plain' })).json().rows_written, 1, 'others are exported')
})

/** Everybody is of a namespace with a quota. */
async function withQuota(max_storage_bytes: number): Promise<TestNode> {
  const acme = definePlugin({
    id: 'acme',
    summary: 'Everybody is of a namespace with a quota',
    stability: 'experimental',
    provides: [NAMESPACES],
    setup(svc) {
      svc.auth.authenticator(() => ({ principal: 'acme', method: 'test', claims: {}, namespaces: ['acme'], admin: false }))
      svc.provide(NAMESPACES, { onDelete: () => () => {}, get: () => ({ quota: { max_storage_bytes } }) } as never)
    },
  })
  const config = { server: { multi_tenancy: true }, export: { max_concurrent: 5 } }
  const node = await boot({ plugins: [plugin, line, acme], storage: 'embedded', config })
  await write(node, [`cpu v=1 ${BASE}`])
  return node
}

t.test('exports at one time share what the quota of their namespace leaves', async (t) => {
  const node = await withQuota(100_000)
  t.teardown(() => node.stop())
  const answers = await Promise.all(['a', 'b', 'c'].map((name) => exported(node, { measurement: 'cpu', output_path: name })))
  t.same(answers.map(({ statusCode }) => statusCode).sort(), [200, 429, 429], 'the first may take all of it')
  t.match(answers.find(({ statusCode }) => statusCode === 429)?.json(), { code: 'RATE_LIMITED', error: /under way.*max_storage_bytes/ })
  t.equal((await exported(node, { measurement: 'cpu', output_path: 'b' })).statusCode, 200, 'afterwards there is room')
})

t.test('what a crash has left takes nothing of a quota, and goes', async (t) => {
  const node = await withQuota(100_000)
  t.teardown(() => node.stop())
  const folder = join(node.dataDir, 'exports', 'acme')
  mkdirSync(folder, { recursive: true })
  for (const name of ['cpu.parquet.0.unfinished', 'a.PARQUET.3.unfinished']) writeFileSync(join(folder, name), Buffer.alloc(100_000))
  const answer = await exported(node, { measurement: 'cpu', output_path: 'a' })
  t.match([answer.statusCode, answer.json()], [200, { rows_written: 1, truncated: false }])
  t.same(readdirSync(folder), ['a.parquet'])
})
