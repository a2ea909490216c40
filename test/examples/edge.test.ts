/** The edge of the example loads no database, takes points while the node that it sends to is away, and brings them there. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { freePort } from '../support/free-port.ts'
import { type RunningServer, runServer } from '../support/server.ts'
import { read } from '../support/tree.ts'

const linux = process.platform === 'linux'
/** No broker: that is test/interop/edge.test.ts. */
const edgeText = (port: number): string =>
  read('examples/edge/edge.toml')
    .replace('"mqtt", ', '')
    .replace(/\[mqtt\][^[]*\["site.*\n[^[]*\[[^\n]*\n/, '')
    .replace('127.0.0.1:4243', `127.0.0.1:${port}`)

async function count({ url }: RunningServer): Promise<number> {
  const answer = await fetch(`${url}/api/v1/svc/sql`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ query: 'SELECT count(*) FROM cpu' }),
  })
  return answer.ok ? Number(((await answer.json()) as { rows: number[][] }).rows[0][0]) : 0
}

async function write({ url }: RunningServer, from: number): Promise<number> {
  const now = BigInt(Date.now()) * 1_000_000n
  const lines = Array.from({ length: 1000 }, (_, i) => `cpu,host=h${i % 10} usage=${from + i} ${now + BigInt(from + i)}`)
  return (await fetch(`${url}/write`, { method: 'POST', body: lines.join('\n') })).status
}

t.test('examples/edge', { skip: linux ? false : 'it looks into /proc' }, async (t: Test) => {
  const folder = mkdtempSync(join(tmpdir(), 'svc-edge-'))
  t.teardown(() => rmSync(folder, { recursive: true }))
  const port = await freePort()
  const config = join(folder, 'edge.toml')
  writeFileSync(config, edgeText(port))
  t.notMatch(readFileSync(config, 'utf8'), /mqtt/)
  const edge = await runServer(config)
  t.teardown(() => edge.stop())
  t.equal(await write(edge, 0), 204, 'the other node is away')
  const mapped = readFileSync(`/proc/${edge.pid}/maps`, 'utf8')
  for (const library of [/lmdb/, /duckdb/]) t.notMatch(mapped, library)
  const resident = Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${edge.pid}/status`, 'utf8'))?.[1]) / 1024
  t.comment(`ready after ${Math.round(edge.readyMs)} ms, ${Math.round(resident)} MiB`)
  t.match(await (await fetch(`${edge.url}/metrics`)).text(), /svc_forward_queue_points\{upstream="upstream"\} 1000/)

  const central = await runServer('examples/edge/upstream.toml', { env: { SVC_GRPC_BIND: `127.0.0.1:${port}` } })
  t.teardown(() => central.stop())
  t.equal(await write(edge, 1000), 204)
  for (let i = 0; i < 1200 && (await count(central)) < 2000; i++) await sleep(50)
  t.equal(await count(central), 2000)
  t.equal(await edge.stop(), 0)
})
