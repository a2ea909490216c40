/** Two tenants on one node: what one uses up is not what the other lives on, and a namespace that is made anew knows nothing of the one before. */
import { existsSync, readdirSync } from 'node:fs'
import { type IncomingMessage, request } from 'node:http'
import { join } from 'node:path'
import { boot, type TestNode } from 'svcdb/testkit'
import t, { type Test } from 'tap'
import { command, descriptor, type FlightClient, field, infoOf, message, one } from '../../plugins/flight_sql/testing.ts'
import type { TestClient } from '../../plugins/grpc/testing.ts'
import { clientsOf } from '../support/clients.ts'
import { otlp } from './requests.ts'
import { NAMESPACE } from './secrets.ts'
import keys from './tenant-keys.ts'

t.setTimeout(120_000)

const PLUGINS = ['namespaces', 'line_protocol', 'native', 'sql', 'promql', 'remote_write', 'otlp', 'grpc', 'flight_sql', 'export']
const alice = { authorization: 'Bearer alice' }
const bob = { authorization: 'Bearer bob' }
const root = { authorization: 'Bearer root' }
const text = { 'content-type': 'text/plain' }
/** Of what each is given here: few, so that one tenant soon has taken all. */
const FEW = 8

interface Listeners {
  node: TestNode
  grpc: TestClient
  flight: FlightClient
}

async function started(t: Test, database: object = {}): Promise<Listeners> {
  const config = {
    server: { multi_tenancy: true, sql_max_rows: 1_000_000, sql_query_timeout_secs: 3600 },
    database: { max_concurrent_queries: FEW, ...database },
    grpc: { addr: '127.0.0.1:0' },
    flight_sql: { addr: '127.0.0.1:0', max_sessions: FEW, max_prepared_statements: FEW },
    remote_write: { max_metadata_metrics: FEW },
  }
  const node = await boot({ plugins: [keys, ...PLUGINS], storage: 'embedded', config })
  const listeners = { node, ...clientsOf(t, node) }
  for (const headers of [alice, bob]) t.equal((await write(node, headers, 'cpu,host=a value=1')).statusCode, 204)
  return listeners
}

const basic = (password: string) => `Basic ${Buffer.from(`user:${password}`).toString('base64')}`
const write = (node: TestNode, headers: Record<string, string>, payload: string) =>
  node.inject({ method: 'POST', url: '/write', payload, headers: { ...text, ...headers } })
const exported = (node: TestNode, headers: Record<string, string>, name = 'mine') =>
  node.inject({ method: 'POST', url: '/api/v1/export/parquet', payload: { measurement: 'cpu', output_path: name }, headers })

async function streamed(grpc: TestClient, metadata: Record<string, string>): Promise<unknown> {
  const { stream, answer } = grpc.streamWrite({ metadata })
  stream.write({ points: [{ measurement: 'cpu', fields: [{ key: 'value', value: { float64: 2 } }] }], dedup_key: 'again' })
  stream.end()
  return answer
}

async function prepared(flight: FlightClient, who: Record<string, string>): Promise<Uint8Array> {
  const [answer] = await flight.action('CreatePreparedStatement', command('ActionCreatePreparedStatementRequest', { 1: 'SELECT * FROM cpu' }), who)
  return field(field(answer, 2) as Uint8Array, 1) as Uint8Array
}

async function run(flight: FlightClient, handle: Uint8Array, who: Record<string, string>): Promise<string | undefined> {
  const info = await flight.call('GetFlightInfo', descriptor(command('CommandPreparedStatementQuery', { 1: handle })), who)
  if (info.error !== undefined) return info.error.details
  return (await flight.call('DoGet', message({ 1: infoOf(one(info)).tickets[0] }), who)).error?.details
}

t.test('a namespace made anew knows nothing of the one before', async (t) => {
  const { node, grpc, flight } = await started(t)
  const key = { ...alice, 'idempotency-key': 'once' }
  const quota = await node.inject({ method: 'PUT', url: '/api/v1/namespaces/acme/quota', payload: { max_series_count: 7 }, headers: root })
  t.equal(quota.statusCode, 200)
  t.equal((await write(node, key, 'cpu value=3')).statusCode, 204)
  t.match(await streamed(grpc, alice), { total_written: '1' })
  t.equal((await write(node, key, 'cpu value=3')).statusCode, 409)
  t.match(await streamed(grpc, alice), { total_written: '0' })
  t.equal((await exported(node, alice)).statusCode, 200)
  t.equal((await exported(node, bob)).statusCode, 200)
  t.equal((await exported(node, alice)).statusCode, 409)
  await node.inject({ method: 'POST', url: '/v1/metrics', payload: otlp('cpu', 'of the first'), headers: alice })
  const [own, other] = [await prepared(flight, alice), await prepared(flight, bob)]
  t.equal(await run(flight, own, alice), undefined)

  t.equal((await node.inject({ method: 'DELETE', url: '/api/v1/namespaces/acme', headers: root })).statusCode, 200)
  t.notOk(existsSync(join(node.dataDir, 'exports/acme')), 'its exports are gone')
  t.same(readdirSync(join(node.dataDir, 'exports', NAMESPACE)), ['mine.parquet'], 'those of others are not')

  t.equal((await write(node, key, 'cpu,host=new value=3')).statusCode, 204, 'a key of before')
  t.match(await streamed(grpc, alice), { total_written: '1' }, 'a key of before')
  t.equal((await exported(node, alice)).statusCode, 200, 'a name of before')
  t.match(await run(flight, own, alice), /cannot find prepared statement/)
  t.equal(await run(flight, other, bob), undefined)
  t.same((await node.inject({ url: '/api/v1/metadata', headers: alice })).json().data, {})
  t.same((await node.inject({ url: '/api/v1/label/host/values', headers: alice })).json().data, ['new'])
  const { quota: anew, usage } = (await node.inject({ url: '/api/v1/namespaces/acme/usage', headers: root })).json()
  t.match([anew.max_series_count, usage.series_count, usage.measurements], [1_000_000, 2, 1])
})

t.test('logins and prepared statements of one tenant do not push out those of another', async (t) => {
  const { flight } = await started(t)
  const login = async (name: string) => (await flight.call('Handshake', new Uint8Array(0), { authorization: basic(name) })).header.get('authorization')[0]
  const session = { authorization: String(await login('bob')) }
  const handle = await prepared(flight, session)
  for (let i = 0; i < 2 * FEW; i++) {
    const own = { authorization: String(await login('alice')) }
    t.equal(await run(flight, await prepared(flight, own), own), undefined, 'the newest works')
  }
  t.equal(await run(flight, handle, session), undefined)
})

t.test('metadata of one tenant leaves room for that of another', async (t) => {
  const { node } = await started(t)
  const send = (name: string, headers: Record<string, string>) =>
    node.inject({ method: 'POST', url: '/v1/metrics', payload: otlp(name, `what ${name} is`), headers })
  const known = async (headers: Record<string, string>) => Object.keys((await node.inject({ url: '/api/v1/metadata', headers })).json().data).length
  for (let i = 0; i < 2 * FEW; i++) await send(`metric_${i}`, alice)
  t.equal(await known(alice), FEW, 'alone it may have all of it')
  for (let i = 0; i < 2 * FEW; i++) await send(`metric_${i}`, bob)
  t.equal(await known(bob), FEW / 2)
  t.equal(await known(alice), FEW / 2)
  await send('one_more', alice)
  t.equal(await known(bob), FEW / 2, 'each keeps its half')
})

t.test('series of one tenant leave room for those of another', async (t) => {
  const { node } = await started(t, { max_series_cardinality: 2 * FEW })
  const hosts = (from: number, to: number) => Array.from({ length: to - from }, (_, i) => `cpu,host=h${from + i} value=1`).join('\n')
  // Each has one already.
  const most = (2 * FEW * 3) / 4 - 1
  t.equal((await write(node, alice, hosts(0, most))).statusCode, 204)
  const refused = await write(node, alice, hosts(most, most + 1))
  t.equal(refused.statusCode, 400)
  t.match(refused.body, /one namespace has at most three quarters, 12, of \[database\] max_series_cardinality = 16; .*raise/)
  t.equal((await write(node, alice, hosts(0, most))).statusCode, 204, 'what there is goes on')
  const left = 2 * FEW - most - 2
  t.equal((await write(node, bob, hosts(0, left))).statusCode, 204)
  t.match((await write(node, bob, hosts(left, left + 1))).body, /the max_series_cardinality of 16 is reached/)
})

t.test('fields of one tenant leave room for those of another', async (t) => {
  const { node } = await started(t, { max_fields: 2 * FEW })
  const fields = (from: number, to: number) => `cpu,host=h0 ${Array.from({ length: to - from }, (_, i) => `f${from + i}=1`).join(',')}`
  // Each has one already.
  const most = (2 * FEW * 3) / 4 - 1
  t.equal((await write(node, alice, fields(0, most))).statusCode, 204)
  const refused = await write(node, alice, `${fields(most, most + 1)}\ncpu,host=h0 value=2`)
  t.equal(refused.statusCode, 400)
  t.match(refused.body, /namespace \\"\w+\\" has 12 fields, and one namespace at most three quarters, 12, of \[database\] max_fields = 16; .*raised/)
  t.equal((await write(node, alice, fields(0, most))).statusCode, 204, 'what there is goes on')
  const left = 2 * FEW - most - 2
  t.equal((await write(node, bob, fields(0, left))).statusCode, 204)
  t.match((await write(node, bob, fields(left, left + 1))).body, /all measurements together have 16 fields of at most \[database\] max_fields = 16;/)
})

t.test('points of few of very many fields take memory for what they hold, and leave room for writes of another tenant', async (t) => {
  const { node } = await started(t, { max_memtable_memory: 64 << 20, memtable_flush_threshold: 32 << 20 })
  const [fields, points] = [900, 15_000]
  const now = Date.now()
  const lines = (values: (i: number) => string, from: number): string =>
    Array.from({ length: points }, (_, i) => `wide,id=${i % 50} ${values(i)} ${now - from - i}000000`).join('\n')
  const all = Array.from({ length: fields }, (_, f) => `f${f}=${f}.5`).join(',')
  t.equal((await write(node, alice, `wide,id=0 ${all}`)).statusCode, 204)
  const bodies = [(i: number) => `f0=${i}.5`, (i: number) => `f${(i * 7) % fields}=${i}.5`, (i: number) => (i === 9 ? all : `f1=${i}.5`)]
  for (const [n, values] of bodies.entries()) {
    t.equal((await write(node, alice, lines(values, n * points))).statusCode, 204)
    t.equal((await write(node, bob, 'cpu,host=a value=2')).statusCode, 204)
  }
  const bytes = Number(/^svc_memory_bytes\{consumer="memtable"\} (\d+)/m.exec((await node.inject({ url: '/metrics', headers: root })).body)?.[1])
  t.ok(bytes > 0 && bytes <= 32 << 20, `${bytes} bytes`)
  const query = 'SELECT count(*) AS n, count(f0) AS f0, count(f1) AS f1, max(f1) AS most FROM wide'
  const { rows } = (await node.inject({ method: 'POST', url: '/api/v1/svc/sql', payload: { query }, headers: alice })).json()
  const others = (field: number): number => Array.from({ length: points }, (_, i) => i).filter((i) => (i * 7) % fields === field).length
  t.same(rows, [[1 + 3 * points, 1 + points + others(0) + 1, 1 + others(1) + points, points - 0.5]])
})

t.test('rows of one tenant that fill the memory leave room for writes of another', async (t) => {
  const { node } = await started(t, { max_memtable_memory: 32 << 20, memtable_flush_threshold: 8 << 20 })
  const now = Date.now()
  const texts = (n: number): string =>
    Array.from({ length: 24 }, (_, i) => `log,host=h${i} text="${`${n} ${i} `.repeat(5000).slice(0, 60_000)}" ${now - n}000000`).join('\n')
  const codes = new Map<number, number>()
  let n = 0
  let isOver = false
  const send = async (): Promise<void> => {
    while (n < 200) {
      const { statusCode, body } = await write(node, alice, texts(n++))
      codes.set(statusCode, (codes.get(statusCode) ?? 0) + 1)
      if (statusCode !== 204) t.match(body, /rows of namespace \\"acme\\" take \d+ of \d+ bytes in memory, and the rest is left to others/)
    }
  }
  const all = Promise.all(Array.from({ length: 12 }, send)).finally(() => (isOver = true))
  let written = 0
  while (!isOver) {
    const { statusCode, body } = await write(node, bob, `cpu,host=a value=${++written} ${now - written}000000`)
    t.equal(statusCode, 204, body)
  }
  await all
  t.ok((codes.get(503) ?? 0) > 0 && (codes.get(204) ?? 0) > 0 && codes.size === 2, JSON.stringify([...codes]))
  const { rows } = (await node.inject({ method: 'POST', url: '/api/v1/svc/sql', payload: { query: 'SELECT count(*) AS n FROM cpu' }, headers: bob })).json()
  t.same(rows, [[1 + written]])
})

t.test('exports of one tenant leave one for others', async (t) => {
  const { node } = await started(t)
  const all = await Promise.all([...Array.from({ length: 4 }, (_, i) => exported(node, alice, `a${i}`)), exported(node, bob, 'b')])
  const codes = all.map(({ statusCode }) => statusCode)
  t.equal(codes[4], 200)
  t.ok(codes.slice(0, 4).includes(429))
})

t.test('statements of one tenant in DuckDB hold up neither statements nor writes of another', async (t) => {
  const { node } = await started(t, { max_concurrent_queries: 64, query_threads: 1 })
  const now = Date.now()
  const rows = Array.from({ length: 40_000 }, (_, i) => `cpu,host=h${i % 9} value=${i} ${now - i}000000`)
  t.equal((await write(node, alice, rows.join('\n'))).statusCode, 204)
  const ask = (query: string, headers: Record<string, string>) => node.inject({ method: 'POST', url: '/api/v1/svc/sql', payload: { query }, headers })
  let answered = 0
  const many = Array.from({ length: 24 }, async (_, i) => {
    const answer = await ask(`SELECT host, count(DISTINCT value) AS n FROM cpu WHERE value <> ${i} GROUP BY host`, alice)
    answered++
    return answer.statusCode
  })
  const few = [ask('SELECT count(DISTINCT host) FROM cpu', bob), write(node, bob, 'cpu,host=b value=2')]
  t.match(await Promise.all(few), [{ statusCode: 200 }, { statusCode: 204 }])
  t.ok(answered < many.length / 2, `${answered} of ${many.length} were answered before`)
  t.same(new Set(await Promise.all(many)), new Set([200]))
})

t.test('statements for newest rows of very many series with very many values do not hold up another tenant', async (t) => {
  const { node } = await started(t, { query_threads: 1 })
  const ask = (query: string, headers: Record<string, string>) => node.inject({ method: 'POST', url: '/api/v1/svc/sql', payload: { query }, headers })
  const list = (count: number, one: (i: number) => string): string => Array.from({ length: count }, (_, i) => one(i)).join(', ')
  const fields = list(300, (i) => `f${i}=${i}`).replaceAll(' ', '')
  const rows = Array.from({ length: 20_000 }, (_, i) => `many,host=h${i} value=${i % 999}`)
  t.equal((await write(node, alice, [`many,host=h0 ${fields}`, ...rows].join('\n'))).statusCode, 204)
  const statements = {
    order: `SELECT host, last(value, _time) AS v, max(_time) AS t FROM many GROUP BY host ORDER BY ${list(3000, (i) => (i % 2 ? 'v DESC' : 't'))} LIMIT 5`,
    counts: `SELECT ${list(3000, (i) => `count(DISTINCT host) AS n${i}`)} FROM many`,
    values: `SELECT host, ${list(2000, (i) => `last(value, _time) AS v${i}`)} FROM many GROUP BY host LIMIT 100000`,
    fields: `SELECT host, ${list(300, (i) => `last(f${i}, _time) AS v${i}`)} FROM many GROUP BY host LIMIT 5`,
  }
  for (const [name, statement] of Object.entries(statements)) {
    let longest = 0
    let isOver = false
    const asked = ask(statement, alice).finally(() => (isOver = true))
    while (!isOver) {
      const began = performance.now()
      t.equal((await node.inject({ url: '/api/v1/query?query=sum(cpu_value)', headers: bob })).statusCode, 200)
      longest = Math.max(longest, performance.now() - began)
    }
    t.equal((await asked).statusCode, 200, name)
    t.ok(longest < 3000, `${name}: ${longest} ms`)
  }
})

t.test('selectors of very many metrics of very many series do not hold up another tenant', async (t) => {
  const { node } = await started(t, { query_threads: 1 })
  const fields = Array.from({ length: 900 }, (_, i) => `f${i}=${i}`).join(',')
  const rows = Array.from({ length: 30_000 }, (_, i) => `many,host=h${i} value=1`)
  for (let i = 0; i < rows.length; i += 15_000) t.equal((await write(node, alice, rows.slice(i, i + 15_000).join('\n'))).statusCode, 204)
  t.equal((await write(node, alice, `many,host=h0 ${fields}`)).statusCode, 204)
  // Samples of hardly any of the series, and those in memory: nothing is waited for that lets others go on.
  const selector = encodeURIComponent('{__name__=~"many_f.+"}')
  const now = Date.now() / 1000
  for (const url of [`/federate?match[]=${selector}`, `/api/v1/query?query=count(${selector})`]) {
    let answers = 0
    let isOver = false
    const asked = node.inject({ url: `${url}&time=${now}`, headers: alice }).finally(() => (isOver = true))
    while (!isOver) {
      t.equal((await node.inject({ url: '/api/v1/query?query=sum(cpu_value)', headers: bob })).statusCode, 200)
      answers++
    }
    const { statusCode, body } = await asked
    t.equal(statusCode, 200, body.slice(0, 1000))
    // A count, not a time: it says the same on a busy machine.
    t.ok(answers > 20, `${url}: ${answers} answers meanwhile`)
  }
})

/** A query whose answer nobody reads. */
function unread(url: string, query: string): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    const sent = request(`${url}/api/v1/svc/sql`, { method: 'POST', headers: { ...alice, 'content-type': 'application/json' } }, (answer) => {
      answer.pause()
      resolve(answer)
    })
    sent.on('error', reject)
    sent.end(JSON.stringify({ query }))
  })
}

t.test('queries of one tenant that nobody reads do not keep another from asking', async (t) => {
  const { node } = await started(t)
  const begun = Array.from({ length: 2 * FEW }, () => unread(node.url, "SELECT repeat('x', 1000) FROM range(1000000)").catch(() => undefined))
  // Not all run at once, and those that wait for a process run in any order.
  await Promise.race(begun)
  const answer = await node.inject({ method: 'POST', url: '/api/v1/svc/sql', payload: { query: 'SELECT count(*) FROM cpu' }, headers: bob })
  t.equal(answer.statusCode, 200, answer.body)
  t.equal((await node.inject({ url: '/api/v1/query?query=cpu', headers: bob })).statusCode, 200)
  node.app.server.closeAllConnections()
  for (const each of await Promise.all(begun)) each?.destroy()
})
