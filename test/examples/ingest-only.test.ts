/** An ingest-only node loads no query code: checked on the running process. */
import { readdirSync, readFileSync } from 'node:fs'
import t from 'tap'
import { runServer } from '../support/server.ts'

/** Bodies stay far below the memtable's limit, so that no flush starts an engine thread. */
const ROWS = 20_000

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
