/** An ingest-only node loads no query code: checked on the running process. */
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { runServer } from '../support/server.ts'

/** Bodies stay far below the memtable's limit, so that no flush starts an engine thread. */
const ROWS = 20_000

/** What the slimmest node may load; a package that is imported at a start for what few nodes need is seen here. */
const MOST_MODULES = 650

const linux = process.platform === 'linux'

function mapped(pid: number): string {
  return readFileSync(`/proc/${pid}/maps`, 'utf8')
}

function threads(pid: number): string[] {
  return readdirSync(`/proc/${pid}/task`).map((id) => readFileSync(`/proc/${pid}/task/${id}/comm`, 'utf8').trim())
}

async function write(url: string): Promise<number> {
  const lines = Array.from({ length: ROWS }, (_, i) => `cpu,host=h${i % 100} usage=${i} ${1_700_000_000_000_000_000n + BigInt(i)}`)
  return (await fetch(`${url}/write`, { method: 'POST', body: lines.join('\n') })).status
}

t.test('examples/ingest-only: no DuckDB and no engine thread, also after writes', { skip: linux ? false : 'it looks into /proc' }, async (t) => {
  const server = await runServer('examples/ingest-only/svc.toml')
  t.equal(await write(server.url), 204)
  t.match(mapped(server.pid), /lmdb/, 'native modules are seen this way')
  t.notMatch(mapped(server.pid), /duckdb/)
  t.same(
    threads(server.pid).filter((name) => name.startsWith('svc-')),
    [],
  )
  const rss = Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${server.pid}/status`, 'utf8'))?.[1]) / 1024
  t.comment(`ready after ${Math.round(server.readyMs)} ms, ${Math.round(rss)} MiB after ${ROWS} rows`)
  t.ok(rss < 300, `${rss} MiB`)
  t.equal((await fetch(`${server.url}/api/v1/svc/sql`, { method: 'POST' })).status, 404)
  t.equal(await server.stop(), 0)
})

t.test('the same look finds both in a full node that has answered a query', { skip: linux ? false : 'it looks into /proc' }, async (t) => {
  const server = await runServer('examples/full/svc.toml')
  t.equal(await write(server.url), 204)
  const body = '{"query":"SELECT count(*) FROM cpu"}'
  const answer = await fetch(`${server.url}/api/v1/svc/sql`, { method: 'POST', headers: { 'content-type': 'application/json' }, body })
  t.match(await answer.json(), { rows: [[ROWS]] })
  t.match(mapped(server.pid), /duckdb/)
  t.ok(threads(server.pid).some((name) => name.startsWith('svc-')))
  t.equal(await server.stop(), 0)
})

/** Modules of the repository that a node loads from start to a clean stop, by what V8 counts. */
async function modules(t: Test, config: string, use: (url: string) => Promise<unknown>): Promise<string[]> {
  const folder = mkdtempSync(join(tmpdir(), 'svc-modules-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  const server = await runServer(config, { env: { NODE_V8_COVERAGE: folder } })
  await use(server.url)
  t.equal(await server.stop(), 0)
  const scripts = readdirSync(folder).flatMap((file) => JSON.parse(readFileSync(join(folder, file), 'utf8')).result as { url: string }[])
  return scripts.map(({ url }) => url)
}

t.test('it loads no module of another plugin, of SQL or of the engine threads', async (t) => {
  const query = /\/plugins\/(?!line_protocol\/)|\/storage\/embedded\/(sql|read|duckdb)\/|\/kernel\/lib\/(grpc|arrow)\/|@duckdb|apache-arrow|@grpc/
  const ingest = await modules(t, 'examples/ingest-only/svc.toml', (url) => fetch(`${url}/ping`))
  t.ok(ingest.some((url) => url.includes('/plugins/line_protocol/index.ts')))
  t.same(
    ingest.filter((url) => query.test(url)),
    [],
  )
  // Each costs a start tens of milliseconds, and memory for as long as the node runs.
  const heavy = /node_modules\/(typebox|ajv|fast-json-stringify\/index|@fastify\/swagger|yaml|@peculiar|@cedar-policy|jose|argon2)\b/
  t.same(
    ingest.filter((url) => heavy.test(url)),
    [],
  )
  const loaded = new Set(ingest.filter((url) => url.startsWith('file:'))).size
  t.ok(loaded < MOST_MODULES, `${loaded} modules`)
  t.match(import.meta.resolve('svcdb/lib/arrow'), query, 'what a full node loads for the first client of Arrow')
  const body = '{"query":"SELECT 1 AS one"}'
  const headers = { 'content-type': 'application/json' }
  const full = await modules(t, 'examples/full/svc.toml', (url) => fetch(`${url}/api/v1/svc/sql`, { method: 'POST', headers, body }))
  for (const part of ['/kernel/lib/grpc/', '/plugins/sql/', '/storage/embedded/sql/', '/storage/embedded/read/', '/storage/embedded/duckdb/', '@duckdb']) {
    t.ok(
      full.some((url) => url.includes(part)),
      `the same look finds ${part} in a full node`,
    )
  }
})
