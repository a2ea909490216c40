/** Calls that nobody has been admitted for: what they and their metadata take counts as memory, so that no number of them takes all of it. */
import { once } from 'node:events'
import { type ClientHttp2Session, type ClientHttp2Stream, connect } from 'node:http2'
import t, { type Test } from 'tap'
import type { Identity } from '../../auth/auth.ts'
import type { CallContext } from '../../index.ts'
import { definePlugin } from '../../plugin.ts'
import { Health } from './health.ts'
import type { GrpcMethod } from './method.ts'
import { echo, start, unary } from './testing.ts'

const identity: Identity = { principal: 'ann', method: 'test', claims: {}, namespaces: [], admin: false }
const WATCH = '/grpc.health.v1.Health/Watch'
const CHECK = '/grpc.health.v1.Health/Check'
const LIMIT = 1_000_000
const section = { max_buffered_bytes: LIMIT }

function sessionOf(t: Test, port: number): ClientHttp2Session {
  const session = connect(`http://127.0.0.1:${port}`)
  session.on('error', () => {})
  t.teardown(() => session.destroy())
  return session
}

/** A call with so many bytes of metadata. */
function open(session: ClientHttp2Session, path: string, bytes: number, more: Record<string, string> = {}): ClientHttp2Stream {
  const own = Object.fromEntries(Array.from({ length: Math.ceil(bytes / 4000) }, (_, i) => [`x-${i}`, 'x'.repeat(4000)]))
  const stream = session.request({ ':method': 'POST', ':path': path, 'content-type': 'application/grpc', te: 'trailers', ...own, ...more })
  stream.on('error', () => {})
  return stream
}

const statuses = (streams: ClientHttp2Stream[]): Promise<unknown>[] =>
  streams.map(
    (stream) =>
      new Promise((resolve) => {
        const told = (headers: Record<string, unknown>) => headers['svc-code'] !== undefined && resolve(headers['svc-code'])
        stream.on('response', told)
        stream.on('trailers', told)
      }),
  )

for (const [path, request] of [
  [CHECK, undefined],
  [WATCH, Buffer.alloc(5)],
] as const)
  t.test(`${path}: the one that is idle for longest gives way, and callers with credentials are served`, async (t) => {
    const health = new Health(['t.S'], () => undefined)
    const { client, port, node } = await start(t, [echo, ...(health.methods as GrpcMethod<CallContext>[])], { section })
    t.teardown(() => health.stop())
    const session = sessionOf(t, port)
    const streams = Array.from({ length: 40 }, () => open(session, path, 40_000))
    for (const stream of streams) if (request !== undefined) stream.end(request)
    const ended = await Promise.race(statuses(streams))
    t.equal(ended, 'BACKPRESSURE')
    const { message, error } = await unary(client, '/t.S/Echo', Buffer.alloc(400_000))
    t.equal(error, undefined)
    t.equal(message?.length, 400_000)
    const held = Number(/svc_echo_buffered_bytes (\d+)\n/.exec((await node.inject({ url: '/metrics' })).body)?.[1])
    t.ok(held > 0 && held <= LIMIT, `${held}`)
  })

t.test('calls whose credentials are being looked at count', async (t) => {
  const gate = Promise.withResolvers<void>()
  const slow = definePlugin({
    id: 'slow',
    summary: 's',
    stability: 'stable',
    setup: (svc) => svc.auth.authenticator(({ header }) => (header('x-slow') === undefined ? identity : gate.promise.then(() => identity))),
  })
  const { client, port } = await start(t, [echo], { section, plugins: [slow] })
  const streams = Array.from({ length: 40 }, () => open(sessionOf(t, port), '/t.S/Echo', 40_000, { 'x-slow': '1' }))
  t.equal(await Promise.race(statuses(streams)), 'BACKPRESSURE')
  gate.resolve()
  for (const stream of streams) stream.destroy()
  t.equal((await unary(client, '/t.S/Echo', Buffer.alloc(10))).error, undefined)
})

/** A method whose calls wait for messages, and how many have begun. */
function waiting(): { method: GrpcMethod<CallContext>; idle: () => number } {
  let idle = 0
  const method: GrpcMethod<CallContext> = {
    path: '/t.S/Wait',
    action: 'write',
    kind: 'client_stream',
    handle: async (requests) => {
      idle++
      let messages = 0
      for await (const _ of requests) messages++
      return Buffer.of(messages)
    },
  }
  return { method, idle: () => idle }
}

t.test('streams of callers with credentials stay open, however many are idle', async (t) => {
  const { method, idle } = waiting()
  const { port } = await start(t, [method], { section: { max_buffered_bytes: 65_536 } })
  const session = sessionOf(t, port)
  const streams = Array.from({ length: 100 }, () => open(session, '/t.S/Wait', 0))
  while (idle() < streams.length) await new Promise(setImmediate)
  const answers = streams.map((stream) => once(stream, 'trailers'))
  for (const stream of streams) stream.resume().end(Buffer.alloc(5))
  for (const [trailers] of await Promise.all(answers)) t.equal(trailers['grpc-status'], '0')
})

t.test('beyond max_calls a connection with its share is refused more, and others have theirs', async (t) => {
  const { method, idle } = waiting()
  const { client, port } = await start(t, [echo, method], { section: { max_calls: 50 } })
  const greedy = sessionOf(t, port)
  const streams = Array.from({ length: 50 }, () => open(greedy, '/t.S/Wait', 0))
  while (idle() < streams.length) await new Promise(setImmediate)
  const more = open(greedy, '/t.S/Wait', 0)
  const [headers] = await once(more, 'response')
  t.match(headers, { 'grpc-status': '14', 'svc-code': 'BACKPRESSURE', 'grpc-message': /echo.max_calls is 50/ })
  t.equal((await unary(client, '/t.S/Echo', Buffer.alloc(10))).error, undefined, 'of another connection')
  // A call that has ended gives its place back.
  for (const stream of streams.slice(0, 30)) stream.resume().end()
  await Promise.all(streams.slice(0, 30).map((stream) => once(stream, 'trailers')))
  open(greedy, '/t.S/Wait', 0)
  while (idle() < 51) await new Promise(setImmediate)
})
