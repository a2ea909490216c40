/** Who had a namespace before somebody else: what his calls have begun, and go on with when its name is another's, does not reach what that one has. */
import { connect } from 'node:net'
import { setTimeout } from 'node:timers/promises'
import { boot, type TestNode } from 'svcdb/testkit'
import t, { type Test } from 'tap'
import { keyText } from '../../plugins/api_keys/testing.ts'
import { EventClient } from '../../plugins/cdc/testing.ts'
import { TestClient } from '../../plugins/grpc/testing.ts'
import { until } from '../support/until.ts'
import { type LateRequest, lateGrpc, lateHttp } from './late-requests.ts'
import { message } from './loop-body.ts'

t.setTimeout(120_000)

const PLUGINS = ['api_keys', 'namespaces', 'line_protocol', 'native', 'sql', 'promql', 'grpc', 'cdc', 'triggers']
const root = keyText()
const asRoot = { authorization: `Bearer ${root}`, 'x-namespace': 'acme' }

interface World {
  node: TestNode
  grpc: TestClient
  /** Of the one who has the namespace first. */
  former: { authorization: string }
  /** The namespace goes, with its keys, and somebody else has its name and writes. */
  change(): Promise<void>
}

async function begun(t: Test, database = {}): Promise<World> {
  const node = await boot({
    storage: 'embedded',
    plugins: PLUGINS,
    config: {
      server: { multi_tenancy: true },
      auth: { api_keys: [{ name: 'root', key: root, admin: true, namespaces: ['*'] }] },
      grpc: { addr: '127.0.0.1:0' },
      triggers: {},
      database,
    },
  })
  const grpc = new TestClient(node.port('grpc'))
  t.teardown(async () => {
    grpc.close()
    await node.stop()
  })
  const made = await node.inject({ method: 'POST', url: '/api/v1/admin/auth/keys', payload: { name: 'own', namespaces: ['acme'] }, headers: asRoot })
  const former = { authorization: `Bearer ${made.json().key}` }
  t.equal(await write(node, former, '_alerts,host=a value=1'), 204)
  const change = async () => {
    t.equal((await node.inject({ method: 'DELETE', url: '/api/v1/namespaces/acme', headers: asRoot })).statusCode, 200)
    t.equal(await write(node, asRoot, '_alerts,host=secret value=42'), 204)
  }
  return { node, grpc, former, change }
}

async function write(node: TestNode, headers: Record<string, string>, payload: string): Promise<number> {
  return (await node.inject({ method: 'POST', url: '/write', payload, headers: { 'content-type': 'text/plain', ...headers } })).statusCode
}

t.test('streams of changes', async (t) => {
  const { node, grpc, former, change } = await begun(t)
  const subscription = await grpc.subscribe({}, { metadata: former }).begun()
  const events = await EventClient.open(`${node.url}/api/v1/cdc/stream`, former)
  const annotations = await fetch(`${node.url}/api/v1/annotations/stream`, { headers: former })
  const annotated = annotations.text()
  // Each has begun when it has told of a write.
  t.equal(await write(node, former, '_alerts,host=a value=2'), 204)
  await Promise.all([subscription.until((changes) => changes.length > 0), events.until(1)])
  await change()

  t.match(await subscription.ended, { details: /the credential was revoked/ })
  t.same(
    subscription.messages.filter(({ kind }) => kind === 'ROWS_WRITTEN').map(({ rows }) => rows),
    [1],
  )
  await events.ended
  t.match(
    events.events.map(({ event, data }) => (event === 'end' ? data.reason : data.PointWritten.tags.host)),
    ['a', 'credential'],
  )
  const texts = await annotated
  t.match(texts, /the credential was revoked/)
  t.equal(texts.split('\ndata: {"text"').length - 1, 1, texts)
})

const text = (value: string): Uint8Array => message((out) => out.string(1, value))

t.test('requests that arrive slowly', async (t) => {
  const { node, former, change } = await begun(t)
  const json = 'application/json'
  const calls: [string, LateRequest, refused: string][] = [
    ['a write', await lateHttp(node, former, '/write', 'text/plain', 'evil value=1\n'), '401'],
    ['SQL', await lateHttp(node, former, '/api/v1/svc/sql', json, '{"query": "SELECT * FROM _alerts"}'), '401'],
    ['a delete', await lateHttp(node, former, '/api/v1/delete', json, '{"measurement": "_alerts"}'), '401'],
    ['SQL over gRPC', await lateGrpc(node, former, '/svc.Service/ExecuteSql', text('SELECT * FROM _alerts')), '16'],
    ['a drop over gRPC', await lateGrpc(node, former, '/svc.Service/DropMeasurement', text('_alerts')), '16'],
  ]
  // All of them are admitted.
  await setTimeout(500)
  await change()
  for (const [what, late, refused] of calls) t.equal(await late.finish(), refused, what)
  const rows = await node.inject({ method: 'POST', url: '/api/v1/svc/sql', payload: { query: 'SELECT host FROM _alerts' }, headers: asRoot })
  t.same(rows.json().rows, [['secret']])
  const { items } = (await node.inject({ url: '/api/v1/measurements', headers: asRoot })).json()
  t.same(
    items.map(({ name }: { name: string }) => name),
    ['_alerts'],
  )
})

t.test('an answer that its client takes slowly', async (t) => {
  const { node, former, change } = await begun(t)
  const query = "CREATE TRIGGER hot ON hot WHEN value > 0 COOLDOWN INTERVAL '0s'"
  const signals = async (headers: Record<string, string>, count: number, tag: string) => {
    t.equal((await node.inject({ method: 'POST', url: '/api/v1/triggers', payload: { query }, headers })).statusCode, 200)
    const now = Date.now()
    const lines = Array.from({ length: count }, (_, i) => `hot,host=${tag} value=${i + 1} ${BigInt(now + i) * 1_000_000n}`)
    t.equal(await write(node, headers, lines.join('\n')), 204)
    const told = async () => (await node.inject({ url: `/api/v1/signals?offset=${count - 1}&limit=1`, headers })).json().length === 1
    await until(`${count} signals`, told)
  }
  await signals(former, 2500, 'a'.repeat(4000))
  const socket = connect(Number(new URL(node.url).port), '127.0.0.1')
  socket.pause()
  socket.write(`GET /api/v1/signals HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: ${former.authorization}\r\n\r\n`)
  await setTimeout(1000)
  t.equal((await node.inject({ method: 'DELETE', url: '/api/v1/triggers/hot', headers: former })).statusCode, 200)
  await change()
  await signals(asRoot, 2500, 'secret')
  let text = ''
  socket.on('data', (chunk) => {
    text += chunk
  })
  socket.resume()
  await new Promise((resolve) => socket.once('close', resolve))
  t.ok(text.startsWith('HTTP/1.1 200 '))
  t.ok(text.includes('"aaaa'), 'it had begun')
  t.notOk(text.includes('secret'), 'nothing of the next one')
  t.notOk(text.endsWith('0\r\n\r\n'), 'it is cut')
})

/** Keeps the only place among running queries until it is cancelled. */
const WAITS = new URL('../../storage/embedded/testing/worker-job.ts', import.meta.url)

t.test('reads that wait for a place among running queries', async (t) => {
  const { node, former, change } = await begun(t, { max_concurrent_queries: 1 })
  const first = node.storage.run(WAITS, { kind: 'wait', chunks: 1, bytes: 1 })
  const asked: [string, Promise<string>][] = [
    ['SQL', node.inject({ method: 'POST', url: '/api/v1/svc/sql', payload: { query: 'SELECT host, value FROM _alerts' }, headers: former })],
    ['PromQL', node.inject({ url: '/api/v1/query?query=_alerts_value', headers: former })],
    ['a native query', node.inject({ method: 'POST', url: '/api/v1/svc/query', payload: { measurement: '_alerts' }, headers: former })],
    ['annotations', node.inject({ url: '/api/v1/annotations?from=0', headers: former })],
  ].map(([what, answer]) => [what as string, (answer as Promise<{ statusCode: number; body: string }>).then(({ statusCode, body }) => `${statusCode} ${body}`)])
  const waiting = async () => Number(/^svc_queries_waiting (\d+)$/m.exec((await node.inject({ url: '/metrics', headers: asRoot })).body)?.[1])
  await until('all of them wait', async () => (await waiting()) === asked.length)
  await change()
  first.cancel()
  for (const [what, answer] of asked) {
    const text = await answer
    t.notMatch(text, /secret|42/, what)
    t.match(text, /^4/, what)
  }
})
