/** Calls that end early, late or never, and what they hold until then. */

import { once } from 'node:events'
import { connect } from 'node:http2'
import { connect as connectTcp } from 'node:net'
import { Client, credentials, type ServiceError } from '@grpc/grpc-js'
import t from 'tap'
import { Type } from 'typebox'
import type { CallContext } from '../../index.ts'
import { definePlugin } from '../../plugin.ts'
import { boot } from '../../testkit/index.ts'
import { SvcError } from '../errors/index.ts'
import { grpcListenerKeys } from './config.ts'
import { GrpcListener } from './listener.ts'
import type { GrpcMethod } from './method.ts'
import { echo, identity, start, unary } from './testing.ts'
import { frame, PREFACE, request, SETTINGS } from './testing-frames.ts'

t.test('listeners of a node stop together, and calls that are cut are told why', async (t) => {
  const never = (path: string): GrpcMethod<CallContext> => ({
    path,
    action: 'read',
    kind: 'server_stream',
    handle: async (_request, { signal }, send) => {
      await send(Buffer.from('first'))
      await new Promise((resolve) => signal.addEventListener('abort', resolve))
    },
  })
  const listeners: GrpcListener<CallContext>[] = []
  const plugin = (id: string) =>
    definePlugin({
      id,
      summary: 'Answers',
      stability: 'stable',
      config: Type.Object(grpcListenerKeys(0)),
      setup(svc, config) {
        const listener = new GrpcListener(svc, config, [never('/t.S/Never')])
        listeners.push(listener)
        svc.ready(() => listener.start())
        svc.drain(() => listener.drain())
        svc.stop(() => listener.stop())
      },
    })
  const config = { server: { shutdown_timeout_secs: 6 }, one: { addr: '127.0.0.1:0' }, two: { addr: '127.0.0.1:0' } }
  const node = await boot({ plugins: [plugin('one'), plugin('two')], config })
  const ends = await Promise.all(
    listeners.map(async ({ port }) => {
      const client = new Client(`127.0.0.1:${port}`, credentials.createInsecure())
      t.teardown(() => client.close())
      const call = client.makeServerStreamRequest('/t.S/Never', identity, (bytes) => bytes, Buffer.alloc(0))
      const end = once(call, 'end').catch((error: ServiceError) => error)
      await once(call, 'data')
      call.resume()
      return { end }
    }),
  )
  const stopped = node.stop()
  for (const { end } of ends) t.match(await end, { code: 14, details: /the server is stopping/ })
  t.same(await stopped, [])
})

t.test('a call on an open connection that is sent as the node begins to stop is answered', async (t) => {
  const { port, node } = await start(t, [echo])
  const clients = Array.from({ length: 4 }, () => new Client(`127.0.0.1:${port}`, credentials.createInsecure(), { 'grpc.use_local_subchannel_pool': 1 }))
  t.teardown(() => clients.map((client) => client.close()))
  const ask = (text: string) => Promise.all(clients.map((client) => unary(client, '/t.S/Echo', Buffer.from(text))))
  await ask('first')
  const answers = ask('last')
  t.same(await node.stop(), [])
  for (const { message, error } of await answers) t.match({ error, text: message?.toString() }, { error: undefined, text: 'last' })
})

t.test('a call that ends before its request does leaves nothing behind', async (t) => {
  const method = (name: string, handle: (requests: AsyncIterable<Uint8Array>) => Promise<Uint8Array>): GrpcMethod<CallContext> => ({
    path: `/t.S/${name}`,
    action: name === 'Write' ? 'write' : 'read',
    kind: 'client_stream',
    handle,
  })
  /** By then all of the request is there. */
  const all = () => new Promise((resolve) => setTimeout(resolve, 30))
  const throws = async (requests: AsyncIterable<Uint8Array>): Promise<Uint8Array> => {
    for await (const _ of requests) {
      await all()
      throw new SvcError('BAD_REQUEST', 'cannot do it')
    }
    return Buffer.alloc(0)
  }
  const early = async (): Promise<Uint8Array> => {
    await all()
    return Buffer.from('early')
  }
  const methods = [method('Throws', throws), method('Early', early), method('Write', early)]
  const forbidWrites = async ({ action }: { action: string }) => {
    await all()
    return action === 'write' ? new SvcError('FORBIDDEN', 'cannot write') : undefined
  }
  const authorizer = definePlugin({
    id: 'no_writes',
    summary: 'Refuses',
    stability: 'stable',
    setup(svc) {
      svc.auth.authenticator(() => ({ principal: 'anybody', method: 'none', claims: {}, namespaces: [], admin: false }))
      svc.auth.authorizer(forbidWrites)
    },
  })
  const { port, node } = await start(t, methods, { plugins: [authorizer], config: { server: { shutdown_timeout_secs: 300 } } })
  const session = connect(`http://127.0.0.1:${port}`)
  session.on('error', () => {})
  t.teardown(() => session.destroy())
  const message = Buffer.alloc(5 + 1000)
  message.writeUInt32BE(1000, 1)
  for (const [path, type] of [
    ['/t.S/Throws', 'application/grpc'],
    ['/t.S/Early', 'application/grpc'],
    ['/t.S/Write', 'application/grpc'],
    ['/t.S/Unknown', 'application/grpc'],
    ['/t.S/Early', 'text/plain'],
  ]) {
    for (const ends of [true, false]) {
      const stream = session.request({ ':method': 'POST', ':path': path, 'content-type': type, te: 'trailers' })
      stream.on('error', () => {})
      stream.resume()
      for (let i = 0; i < 3; i++) stream.write(message)
      if (ends) stream.end()
      await once(stream, 'close')
    }
  }
  t.same(await node.stop(), [], 'nothing is waited for')
})

t.test('space around a value is no part of it, and does not hide it', async (t) => {
  const method: GrpcMethod<CallContext> = {
    path: '/t.S/Where',
    action: 'read',
    kind: 'unary',
    handle: (_request, { context }) => Buffer.from(context.namespace),
  }
  const { port } = await start(t, [method], { config: { server: { multi_tenancy: true } } })
  const where = (namespace: string): Promise<string> =>
    new Promise((resolve, reject) => {
      // Clients with a library refuse to send it.
      const socket = connectTcp(port, '127.0.0.1')
      socket.on('error', reject)
      socket.write(Buffer.concat([PREFACE, frame(SETTINGS), request(method.path, { 'x-namespace': namespace })]))
      let received = ''
      socket.on('data', (chunk) => {
        received += chunk.toString('latin1')
        const found = /(red|default)/.exec(received)?.[1]
        if (found === undefined) return
        socket.destroy()
        resolve(found)
      })
    })
  t.equal(await where('red'), 'red')
  t.equal(await where('red '), 'red')
  t.equal(await where(' red'), 'red')
})

/** A call whose message of `announced` bytes stays without its end; below 0 nothing comes of it. */
async function begun(port: number, path: string, announced: number, parts: readonly Buffer[]) {
  const session = connect(`http://127.0.0.1:${port}`)
  session.on('error', () => {})
  const stream = session.request({ ':method': 'POST', ':path': path, 'content-type': 'application/grpc', te: 'trailers' })
  stream.on('error', () => {})
  const head = Buffer.alloc(5)
  if (announced >= 0) {
    head.writeUInt32BE(announced, 1)
    stream.write(head)
  }
  for (const part of parts) await new Promise((resolve) => stream.write(part, resolve))
  const answered = once(stream, 'response').then(([headers]) => headers as Record<string, string>)
  const body = async (): Promise<Buffer> => Buffer.concat(await stream.toArray())
  return { answered, body, end: (last: Buffer) => stream.end(last), close: () => session.destroy() }
}

t.test('messages that never end give way to those that do', async (t) => {
  const { client, port, node } = await start(t, [echo], { section: { max_buffered_bytes: 1_000_000 } })
  const idle = await begun(port, '/t.S/Echo', 900_000, [Buffer.alloc(700_000)])
  const { message, error } = await unary(client, '/t.S/Echo', Buffer.alloc(400_000, 1))
  t.equal(error, undefined)
  t.equal(message?.length, 400_000)
  const headers = await idle.answered
  t.equal(headers['grpc-status'], '14')
  t.equal(headers['svc-code'], 'BACKPRESSURE')
  t.match(decodeURIComponent(headers['grpc-message']), /echo\.max_buffered_bytes/)
  idle.close()
  t.match((await node.inject({ url: '/metrics' })).body, /svc_echo_buffered_bytes 0\n/)
})

t.test('a message whose call does not end gives way', async (t) => {
  const { client, port, node } = await start(t, [echo], { section: { max_buffered_bytes: 1_000_000 } })
  const idle = await begun(port, '/t.S/Echo', 700_000, [Buffer.alloc(700_000)])
  while (!/svc_echo_buffered_bytes 700000\n/.test((await node.inject({ url: '/metrics' })).body)) await new Promise(setImmediate)
  const { message, error } = await unary(client, '/t.S/Echo', Buffer.alloc(400_000, 1))
  t.equal(error, undefined)
  t.equal(message?.length, 400_000)
  t.equal((await idle.answered)['svc-code'], 'BACKPRESSURE')
  idle.close()
})

t.test('a request of one message that does not come whole in time ends, and one whose answer takes longer does not', async (t) => {
  const refused = Promise.withResolvers<void>()
  const later: GrpcMethod<CallContext> = {
    path: '/t.S/Later',
    action: 'read',
    kind: 'server_stream',
    handle: async (_request, _call, send) => {
      await refused.promise
      await send(Buffer.from('later'))
    },
  }
  const stream: GrpcMethod<CallContext> = {
    path: '/t.S/Stream',
    action: 'read',
    kind: 'bidi_stream',
    handle: async (requests, _call, send) => {
      for await (const request of requests) await send(request)
    },
  }
  const { port, node } = await start(t, [echo, later, stream], { config: { server: { request_timeout_secs: 0.5 } } })
  const slow = await begun(port, '/t.S/Later', 0, [])
  slow.end(Buffer.alloc(0))
  const open = await begun(port, '/t.S/Stream', -1, [])
  await Promise.all(
    (
      [
        ['/t.S/Echo', -1],
        ['/t.S/Echo', 100],
        // The message is there, and not the end of the request.
        ['/t.S/Echo', 0],
        ['/t.S/Later', 100],
      ] as const
    ).map(async ([path, announced]) => {
      const call = await begun(port, path, announced, [])
      const headers = await call.answered
      t.match(headers, { 'grpc-status': '3', 'svc-code': 'BAD_REQUEST' }, `${path}, ${announced} bytes`)
      t.match(decodeURIComponent(headers['grpc-message']), /did not arrive in time.*server\.request_timeout_secs/)
      call.close()
    }),
  )
  refused.resolve()
  open.end(Buffer.from([0, 0, 0, 0, 5, ...Buffer.from('later')]))
  for (const call of [slow, open]) {
    t.equal((await call.answered)['grpc-status'], undefined)
    t.equal((await call.body()).subarray(5).toString(), 'later')
    call.close()
  }
  t.match((await node.inject({ url: '/metrics' })).body, /svc_echo_buffered_bytes 0\n/)
})

t.test('answers that nobody takes give way', async (t) => {
  const large: GrpcMethod<CallContext> = { path: '/t.S/Large', action: 'read', kind: 'unary', handle: () => new Uint8Array(700_000) }
  const { client, port } = await start(t, [echo, large], { section: { max_buffered_bytes: 1_000_000 } })
  const session = connect(`http://127.0.0.1:${port}`, { settings: { initialWindowSize: 0 } })
  session.on('error', () => {})
  t.teardown(() => session.destroy())
  const stream = session.request({ ':method': 'POST', ':path': '/t.S/Large', 'content-type': 'application/grpc', te: 'trailers' })
  stream.on('error', () => {})
  stream.end(Buffer.alloc(5))
  await once(stream, 'response')
  const closed = once(stream, 'close')
  const { message } = await unary(client, '/t.S/Echo', Buffer.alloc(400_000, 1))
  t.equal(message?.length, 400_000)
  await closed
  t.equal(stream.rstCode, 8)
})

t.test('a message in frames of a byte, and larger ones between them, comes whole', async (t) => {
  let received = Buffer.alloc(0)
  const keep = (request: Uint8Array): Uint8Array => (received = Buffer.from(request))
  const { port } = await start(t, [{ path: '/t.S/Keep', action: 'read', kind: 'unary', handle: keep }])
  const parts = Array.from({ length: 30_000 }, (_, i) => (i % 1000 === 0 ? Buffer.alloc(5000, i / 1000) : Buffer.of(i & 255)))
  const whole = Buffer.concat([...parts, Buffer.of(1)])
  const call = await begun(port, '/t.S/Keep', whole.length, parts)
  call.end(Buffer.of(1))
  await call.answered
  t.ok(received.equals(whole))
  call.close()
})

t.test('a method without credentials takes no more than it needs', async (t) => {
  const { port } = await start(t, [{ ...echo, action: 'public', maxRequestBytes: 100 }])
  const call = await begun(port, '/t.S/Echo', 101, [])
  const headers = await call.answered
  t.equal(headers['svc-code'], 'PAYLOAD_TOO_LARGE')
  t.match(decodeURIComponent(headers['grpc-message']), /larger than 100 bytes; no request of this method is/)
  call.close()
})

t.test('a stream of tiny messages leaves turns to others', async (t) => {
  let messages = 0
  const count: GrpcMethod<CallContext> = {
    path: '/t.S/Count',
    action: 'read',
    kind: 'client_stream',
    handle: async (requests) => {
      let turns = 0
      const timer = setInterval(() => turns++)
      for await (const _ of requests) messages++
      clearInterval(timer)
      return Buffer.from(String(turns))
    },
  }
  const { port } = await start(t, [count])
  const call = await begun(port, '/t.S/Count', 0, [Buffer.alloc(5 * 400_000)])
  const body = call.body()
  call.end(Buffer.alloc(0))
  const turns = Number((await body).subarray(5).toString())
  t.equal(messages, 400_001)
  t.ok(turns > 20, `${turns} turns`)
})
