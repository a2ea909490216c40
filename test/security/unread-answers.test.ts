/** Answers that their clients do not read, through a real server: by its own figures. */
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { boot, type TestNode } from 'svcdb/testkit'
import t, { type Test } from 'tap'
import line from '../../plugins/line_protocol/index.ts'
import native from '../../plugins/native/index.ts'
import promql from '../../plugins/promql/index.ts'
import rollups from '../../plugins/rollups/index.ts'
import sql from '../../plugins/sql/index.ts'
import { until } from '../support/until.ts'

const MIB = 1_048_576
const MS = 1_000_000n
const SECOND = 1000n * MS
const ROWS = 10_000
const CLIENTS = 8
/** Sent ahead by each: none is begun before the answer to the one before is taken. */
const AHEAD = 5
/** Of an array of rows, sent in chunks. */
const END = ']\r\n0\r\n\r\n'

t.test('clients that read nothing do not take all memory, and others are answered', async (t) => {
  const node = await boot({ plugins: [sql, line], storage: 'embedded', config: { server: { max_answer_memory: 16 * MIB } } })
  t.teardown(() => node.stop())
  await write(node)
  const body = JSON.stringify({ query: 'SELECT _time, host, v, note FROM cpu' })
  const clients = await unread(t, node, request('/api/v1/svc/sql', body).repeat(AHEAD))
  await until('a connection is closed', async () => (await metric(node, 'http_answers_cut_total')) > 0)
  await until('what was held is given back', async () => (await metric(node, 'http_answer_bytes')) <= 16 * MIB)
  t.ok((await metric(node, 'http_answers_cut_total')) < CLIENTS, 'not all')
  for (const client of clients) client.destroy()

  const answer = await node.inject({ method: 'POST', url: '/api/v1/svc/sql', payload: body, headers: { 'content-type': 'application/json' } })
  t.equal(answer.json().row_count, ROWS)
})

t.test('rows that native queries hold for clients who read nothing are bounded, and others are answered', async (t) => {
  const config = {
    server: { query_timeout_secs: 600, max_held_memory: 64 * MIB },
    database: { query_threads: 1 },
    native: { max_query_memory_bytes: 64 * MIB },
  }
  const node = await boot({ plugins: [native, line], storage: 'embedded', config })
  t.teardown(() => node.stop())
  await write(node)
  const body = JSON.stringify({ measurement: 'cpu' })
  const clients = await unread(t, node, request('/api/v1/svc/query', body, 'connection: close\r\n'))
  await until('an answer waits for its client', async () => (await metric(node, 'http_answer_bytes')) > MIB)
  // It comes behind all of them.
  const answer = await node.inject({ method: 'POST', url: '/api/v1/svc/query', payload: body, headers: { 'content-type': 'application/json' } })
  t.equal(answer.json().length, ROWS)
  const whole = (await Promise.all(clients.map((client) => isWhole(client)))).filter(Boolean).length
  t.ok(whole > 0, `${whole} have their answers`)
  t.ok(whole < CLIENTS, `${CLIENTS - whole} are cut`)
})

t.test('views of rollups are rows that are held, too', async (t) => {
  const config = { server: { max_held_memory: 8 * MIB }, database: { query_threads: 1 }, rollups: { job_timeout_secs: 600 } }
  const node = await boot({ plugins: [rollups, line], storage: 'embedded', config })
  t.teardown(() => node.stop())
  await write(node)
  const rollup = { name: 'all', source_measurement: 'cpu', target_measurement: 'cpu_1s', every: '1s', aggregations: ['last', 'first'] }
  const made = await node.inject({ method: 'POST', url: '/api/v1/rollups', payload: rollup })
  t.equal(made.statusCode, 201, made.body)
  const end = BigInt(Date.now() - 20_000) * MS
  const path = `/api/v1/rollups/all/query?start=${end - BigInt(ROWS) * SECOND}&end=${end}`
  const clients = await unread(t, node, `GET ${path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n`)
  await until('an answer waits for its client', async () => (await metric(node, 'http_answer_bytes')) > MIB)
  const answer = await node.inject(path)
  t.equal(answer.statusCode, 200, answer.body.slice(0, 200))
  t.ok(answer.json().row_count > ROWS - 100)
  // On a busy machine all of them: those behind the first have waited for as long as a query may take.
  const whole = (await Promise.all(clients.map((client) => isWhole(client, '}\r\n0\r\n\r\n')))).filter(Boolean).length
  t.ok(whole < CLIENTS, `${CLIENTS - whole} are cut or refused`)
})

t.test('values of PromQL queries are held as rows are, and small queries wait for none of them', async (t) => {
  const config = { server: { max_held_memory: 16 * MIB }, database: { query_threads: 1 } }
  const node = await boot({ plugins: [promql, line], storage: 'embedded', config })
  t.teardown(() => node.stop())
  await write(node)
  const samples = 400_000
  const begin = Date.now() - 3_600_000
  for (let at = 0; at < samples; at += 100_000) {
    await post(
      node,
      Array.from({ length: 100_000 }, (_, i) => `many v=${Math.sin(at + i)} ${BigInt(begin + at + i) * MS}`),
    )
  }
  const ask = (query: string, i = 0) => `/api/v1/query?${new URLSearchParams({ query, time: String((begin + samples + i) / 1000) })}`
  const clients = Array.from({ length: CLIENTS }, () => connect(Number(new URL(node.url).port), '127.0.0.1').on('error', () => {}))
  for (const [i, client] of clients.entries()) {
    client.pause()
    client.write(`GET ${ask('many_v[1h]', i)} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n`)
  }
  t.teardown(() => clients.forEach((client) => void client.destroy()))
  const small = await node.inject(ask('count(cpu_v)'))
  t.equal(small.statusCode, 200, small.body)
  const answer = await node.inject(ask('many_v[1h]', CLIENTS))
  t.equal(answer.statusCode, 200, answer.body.slice(0, 300))
  const whole = (await Promise.all(clients.map((client) => isWhole(client, '}\r\n0\r\n\r\n')))).filter(Boolean).length
  t.ok(whole > 0, `${whole} have their answers`)
  t.ok(whole < CLIENTS, `${CLIENTS - whole} are cut or refused`)
})

/** Takes what there is for a client. @returns whether that is a whole answer. */
async function isWhole(client: Socket, last = END): Promise<boolean> {
  let end = ''
  client.on('data', (bytes) => {
    end = (end + bytes.toString('latin1')).slice(-last.length)
    if (end === last) client.destroy()
  })
  client.resume()
  await once(client, 'close')
  return end === last
}

async function metric(node: TestNode, name: string): Promise<number> {
  return Number(new RegExp(`^svc_${name} (\\S+)$`, 'm').exec((await node.inject('/metrics')).body)?.[1])
}

/** A row each second before now: more than what waits between a query and a client that reads nothing, in buffers of both. */
async function write(node: TestNode): Promise<void> {
  const now = BigInt(Date.now()) * MS
  const lines = Array.from({ length: ROWS }, (_, i) => `cpu,host=h${i % 3} v=${i},note="${String(i).padStart(3000, 'x')}" ${now - BigInt(i) * SECOND}`)
  for (let at = 0; at < ROWS; at += 2500) await post(node, lines.slice(at, at + 2500))
}

async function post(node: TestNode, lines: readonly string[]): Promise<void> {
  const written = await node.inject({ method: 'POST', url: '/write', payload: lines.join('\n'), headers: { 'content-type': 'text/plain' } })
  if (written.statusCode !== 204) throw new Error(written.body)
}

const request = (path: string, body: string, more = ''): string =>
  `POST ${path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n${more}\r\n${body}`

async function unread(t: Test, node: TestNode, text: string): Promise<Socket[]> {
  const clients = Array.from({ length: CLIENTS }, () => connect(Number(new URL(node.url).port), '127.0.0.1').on('error', () => {}))
  t.teardown(() => {
    for (const client of clients) client.destroy()
  })
  for (const client of clients) {
    await once(client, 'connect')
    client.pause()
    client.write(text)
  }
  return clients
}
