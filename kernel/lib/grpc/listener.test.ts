import { once } from 'node:events'
import { connect } from 'node:http2'
import { connect as connectTcp } from 'node:net'
import { Client, credentials, Metadata, type ServiceError } from '@grpc/grpc-js'
import t from 'tap'
import { until } from '../../../test/support/until.ts'
import type { Identity } from '../../auth/auth.ts'
import type { CallContext } from '../../index.ts'
import { definePlugin } from '../../plugin.ts'
import { boot } from '../../testkit/index.ts'
import { SvcError } from '../errors/index.ts'
import type { GrpcMethod } from './method.ts'
import { echo, type Held, identity, pluginOf, start, unary } from './testing.ts'

t.test('a unary call, small, empty and of many frames', async (t) => {
  const { client } = await start(t, [echo])
  for (const size of [0, 1, 5, 70_000, 20_000_000]) {
    const { message, error } = await unary(client, '/t.S/Echo', Buffer.alloc(size, 7))
    t.equal(error, undefined)
    t.equal(message?.length, size)
    t.ok(message?.every((byte) => byte === 7) ?? false)
  }
})

t.test('an answer in parts is one message', async (t) => {
  const parts: GrpcMethod<CallContext> = {
    path: '/t.S/Parts',
    action: 'read',
    kind: 'unary',
    handle: ([many, size]) => Array.from({ length: many }, (_, i) => Buffer.alloc(size * 1000, i)),
  }
  const { client, node } = await start(t, [parts], { section: { max_send_bytes: 2_000_000 } })
  for (const [many, size] of [
    [0, 0],
    [1, 0],
    [3, 1],
    [10, 200],
  ]) {
    const { message, error } = await unary(client, '/t.S/Parts', Buffer.from([many, size]))
    t.equal(error, undefined)
    t.ok(message?.equals(Buffer.concat(Array.from({ length: many }, (_, i) => Buffer.alloc(size * 1000, i)))))
  }
  t.match((await unary(client, '/t.S/Parts', Buffer.from([11, 200]))).error, { code: 8, details: /has 2200000 bytes and echo\.max_send_bytes is 2000000/ })
  t.match((await node.inject('/metrics')).body, /^svc_echo_buffered_bytes 0$/m)
})

t.test('many calls at once over one connection', async (t) => {
  const { client } = await start(t, [echo], { section: { max_concurrent_streams: 16 } })
  const answers = await Promise.all(Array.from({ length: 500 }, (_, i) => unary(client, '/t.S/Echo', Buffer.from(String(i)))))
  t.same(
    answers.map(({ message }) => String(message)),
    answers.map((_, i) => String(i)),
  )
})

t.test('clients are told how many calls a connection may have, and how much of each it may send', async (t) => {
  const { port, listener } = await start(t, [echo], { section: { max_concurrent_streams: 16, stream_window_bytes: 131_072 } })
  const session = connect(`http://127.0.0.1:${port}`)
  t.teardown(() => session.destroy())
  const [settings] = await once(session, 'remoteSettings')
  t.match(settings, { maxConcurrentStreams: 16, initialWindowSize: 131_072 })
  t.throws(() => listener.add(echo), /cannot add method "\/t\.S\/Echo" to echo: it answers it already/)
})

t.test('errors are those of the table, with their details', async (t) => {
  const fail = (error: unknown): GrpcMethod<CallContext> => ({
    path: '/t.S/Fail',
    action: 'write',
    kind: 'unary',
    handle: () => {
      throw error
    },
  })
  const failing = async (error: unknown) => {
    const { client, node } = await start(t, [fail(error)])
    const answer = await unary(client, '/t.S/Fail', Buffer.from('x'))
    t.match((await node.inject('/metrics')).body, /svc_echo_calls_total\{method="\/t\.S\/Fail",status="[A-Z_]+"\} 1/)
    return answer.error as ServiceError
  }
  const pushed = await failing(new SvcError('BACKPRESSURE', 'the memtable is "full" – 100%', { detail: { written: 3 } }))
  t.equal(pushed.code, 14)
  t.equal(pushed.details, 'the memtable is "full" – 100%')
  t.same(pushed.metadata.get('svc-code'), ['BACKPRESSURE'])
  const details = String(pushed.metadata.get('grpc-status-details-bin')[0])
  for (const part of ['google.rpc.ErrorInfo', 'BACKPRESSURE', 'written', 'google.rpc.RetryInfo']) t.match(details, part)
  const fault = await failing(new TypeError('a secret'))
  t.equal(fault.code, 13)
  t.equal(fault.details, 'INTERNAL_ERROR: an internal error occurred')
  t.notMatch(String(fault.metadata.get('grpc-status-details-bin')[0]), 'secret')
  const long = await failing(new SvcError('BAD_REQUEST', `cannot ${'\u{1f600}\ud800'.repeat(5000)}`))
  t.equal(long.code, 3)
  t.ok(Buffer.byteLength(long.details) < 1600)
})

t.test('what the server does not have, and what is no gRPC', async (t) => {
  const { client, port } = await start(t, [echo])
  const unknown = await unary(client, '/t.S/Other', Buffer.from(''))
  t.equal(unknown.error?.code, 12)
  const session = connect(`http://127.0.0.1:${port}`)
  t.teardown(() => session.destroy())
  const statusOf = async (headers: Record<string, string | string[]>, body = ''): Promise<Record<string, unknown>> => {
    const stream = session.request({ ':method': 'POST', ':path': '/t.S/Echo', 'content-type': 'application/grpc', ...headers })
    if (headers[':method'] === undefined) stream.end(Buffer.from(body, 'latin1'))
    const [answer] = await once(stream, 'response')
    stream.resume()
    return answer
  }
  t.equal((await statusOf({ 'content-type': 'application/json' }))[':status'], 415)
  t.equal((await statusOf({ 'content-type': 'application/grpc-web' }))[':status'], 415)
  t.equal((await statusOf({ ':method': 'GET' }))[':status'], 405)
  t.equal((await statusOf({ 'x-namespace': 'caf\u00e9' }))['grpc-status'], '3', 'a namespace is never taken for absent')
  for (const name of ['x-namespace', 'x-api-key'])
    t.match(await statusOf({ [name]: ['a', 'b'] }, '\0\0\0\0\0'), { 'grpc-status': '3', 'grpc-message': new RegExp(`"${name}".*more than once`) })
  for (const other of [{ origin: 'https://evil.example' }, { host: 'evil.example' }, { ':authority': 'evil.example' }])
    t.match(await statusOf(other as unknown as Record<string, string>, '\0\0\0\0\0'), { 'grpc-status': '7', 'grpc-message': /evil\.example/ })
  t.equal((await statusOf({ 'grpc-timeout': '1x' }))['grpc-status'], '3')
  t.equal((await statusOf({ 'grpc-encoding': 'snappy' }))['grpc-status'], '12')
  t.equal((await statusOf({}))['grpc-status'], '3', 'no message')
  t.equal((await statusOf({}, '\0\0\0\0\x05abc'))['grpc-status'], '3', 'half a message')
  t.equal((await statusOf({}, '\0\0\0\0\x00\0\0\0\0\x00'))['grpc-status'], '3', 'two messages')
  t.equal((await statusOf({}, '\x01\0\0\0\x01a'))['grpc-status'], '3', 'compressed with nothing')
  t.equal((await statusOf({ 'grpc-encoding': 'gzip' }, '\x01\0\0\0\x01a'))['grpc-status'], '3', 'not gzip')
  const plain = connectTcp(port, '127.0.0.1')
  plain.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n')
  plain.resume()
  await once(plain, 'close')
  t.equal(String((await unary(client, '/t.S/Echo', Buffer.from('still there'))).message), 'still there')
})

t.test('messages over the limits', async (t) => {
  const big: GrpcMethod<CallContext> = { path: '/t.S/Big', action: 'read', kind: 'unary', handle: () => new Uint8Array(2001) }
  const { client, port } = await start(t, [echo, big], { section: { max_receive_bytes: 5000, max_send_bytes: 2000 } })
  const received = await unary(client, '/t.S/Echo', Buffer.alloc(5001))
  t.equal(received.error?.code, 8)
  t.match(received.error?.details, 'raise echo.max_receive_bytes')
  t.equal((await unary(client, '/t.S/Echo', Buffer.alloc(2000))).message?.length, 2000)
  t.match((await unary(client, '/t.S/Big', Buffer.alloc(1))).error, { code: 8, details: /echo\.max_send_bytes/ })
  const zipped = new Client(`127.0.0.1:${port}`, credentials.createInsecure(), { 'grpc.default_compression_algorithm': 2 })
  t.teardown(() => zipped.close())
  t.equal((await unary(zipped, '/t.S/Echo', Buffer.alloc(1500))).message?.length, 1500)
  t.match((await unary(zipped, '/t.S/Echo', Buffer.alloc(50_000))).error, { code: 8 })
})

t.test('deadlines and cancellation end the call and abort its signal', async (t) => {
  const seen: string[] = []
  const wait = (action: 'read' | 'write'): GrpcMethod<CallContext> => ({
    path: `/t.S/${action}`,
    action,
    kind: 'unary',
    handle: (_request, call) =>
      new Promise((_resolve, reject) => {
        call.signal.addEventListener('abort', () => {
          seen.push(`${action} ${call.signal.reason.message}`)
          reject(call.signal.reason)
        })
      }),
  })
  const { client, node, port } = await start(t, [wait('read'), wait('write')])
  // A plain stream: a client of a library has a timer of its own, and would go away first.
  const session = connect(`http://127.0.0.1:${port}`)
  t.teardown(() => session.destroy())
  for (const [path, text] of [
    ['read', 'ask for less at once'],
    ['write', 'may still be applied'],
  ]) {
    const stream = session.request({ ':method': 'POST', ':path': `/t.S/${path}`, 'content-type': 'application/grpc', 'grpc-timeout': '50m' })
    stream.end(Buffer.alloc(5))
    const [answer] = await once(stream, 'response')
    t.equal(answer['grpc-status'], '4')
    t.match(decodeURIComponent(answer['grpc-message']), text)
    t.equal(answer['svc-code'], path === 'read' ? 'QUERY_TIMEOUT' : 'WRITE_TIMEOUT')
  }
  t.equal((await unary(client, '/t.S/read', Buffer.alloc(1), new Metadata(), { deadline: Date.now() + 50 })).error?.code, 4)
  const running = async () => /svc_echo_calls_running (\d+)/.exec((await node.inject('/metrics')).body)?.[1]
  while ((await running()) !== '0') await new Promise((resolve) => setTimeout(resolve, 5))
  const call = client.makeUnaryRequest('/t.S/read', identity, identity, Buffer.alloc(1), () => {})
  while ((await running()) !== '1') await new Promise((resolve) => setTimeout(resolve, 5))
  call.cancel()
  while ((await running()) !== '0') await new Promise((resolve) => setTimeout(resolve, 5))
  t.match(seen.at(-1), 'the client has gone away')
})

t.test('a deadline further away than any timer is none', async (t) => {
  const { port } = await start(t, [echo])
  const session = connect(`http://127.0.0.1:${port}`)
  t.teardown(() => session.destroy())
  const stream = session.request({ ':method': 'POST', ':path': '/t.S/Echo', 'content-type': 'application/grpc+proto', 'grpc-timeout': '99999999H' })
  stream.end(Buffer.from([0, 0, 0, 0, 1, 9]))
  stream.resume()
  const [trailers] = await once(stream, 'trailers')
  t.equal(trailers['grpc-status'], '0')
})

t.test('streams either way are held back by who is slow', async (t) => {
  let sent = 0
  let taken = 0
  const flood: GrpcMethod<CallContext> = {
    path: '/t.S/Flood',
    action: 'read',
    kind: 'server_stream',
    async handle(_request, _call, send) {
      for (; sent < 400; sent++) await send(new Uint8Array(100_000))
    },
  }
  const slow: GrpcMethod<CallContext> = {
    path: '/t.S/Slow',
    action: 'write',
    kind: 'client_stream',
    async handle(requests) {
      for await (const request of requests) {
        taken += request.length
        await new Promise((resolve) => setTimeout(resolve, 1))
      }
      return Buffer.from(String(taken))
    },
  }
  const section = { send_buffer_bytes: 200_000, stream_window_bytes: 65_535, connection_window_bytes: 65_535 }
  const { client, port } = await start(t, [flood, slow], { section })
  const session = connect(`http://127.0.0.1:${port}`)
  t.teardown(() => session.destroy())
  const stream = session.request({ ':method': 'POST', ':path': '/t.S/Flood', 'content-type': 'application/grpc' })
  stream.end(Buffer.alloc(5))
  await once(stream, 'response')
  await new Promise((resolve) => setTimeout(resolve, 100))
  t.ok(sent < 40, `held back after ${sent}`)
  let received = 0
  stream.on('data', (chunk: Buffer) => {
    received += chunk.length
  })
  const [trailers] = await once(stream, 'trailers')
  t.equal(trailers['grpc-status'], '0')
  t.equal(received, 400 * 100_005)

  const answer = await new Promise<Buffer | undefined>((resolve, reject) => {
    const call = client.makeClientStreamRequest(
      '/t.S/Slow',
      identity,
      (bytes) => bytes,
      (error, value) => (error ? reject(error) : resolve(value)),
    )
    for (let i = 0; i < 200; i++) call.write(Buffer.alloc(10_000))
    call.end()
  })
  t.equal(String(answer), '2000000')
})

t.test('both ways at once, and an answer before the request is complete', async (t) => {
  const both: GrpcMethod<CallContext> = {
    path: '/t.S/Both',
    action: 'write',
    kind: 'bidi_stream',
    async handle(requests, call, send) {
      call.header('x-first', 'early')
      for await (const request of requests) {
        if (String(request) === 'enough') return
        await send(Buffer.from(`${request}!`))
      }
    },
  }
  const { client } = await start(t, [both])
  const call = client.makeBidiStreamRequest('/t.S/Both', identity, (bytes) => bytes)
  const answers: string[] = []
  call.on('data', (answer) => answers.push(String(answer)))
  call.on('metadata', (metadata) => answers.push(String(metadata.get('x-first'))))
  for (const word of ['a', 'b', 'enough']) call.write(Buffer.from(word))
  const [status] = await once(call, 'status')
  t.same(answers, ['early', 'a!', 'b!'])
  t.equal(status.code, 0)
})

t.test('credentials, namespace, request id and trace', async (t) => {
  let seen: unknown
  const who: GrpcMethod<CallContext> = {
    path: '/t.S/Who',
    action: 'read',
    kind: 'unary',
    handle(request, call) {
      seen = [call.context.principal, call.context.namespace, call.context.dataNamespace, call.metadata('x-data-bin')]
      return request
    },
  }
  const open: GrpcMethod<CallContext> = { ...who, path: '/t.S/Open', action: 'public' } as GrpcMethod<CallContext>
  const admin: GrpcMethod<CallContext> = { ...who, path: '/t.S/Admin', action: 'admin' } as GrpcMethod<CallContext>
  const resources: string[] = []
  const guard = definePlugin({
    id: 'guard',
    summary: 'Knows one token',
    stability: 'stable',
    setup(svc) {
      svc.auth.authenticator(async ({ protocol, header, address }): Promise<Identity | undefined> => {
        if (protocol !== 'grpc' || address !== '127.0.0.1' || header('authorization') !== 'Bearer right') return undefined
        return { principal: 'ann', method: 'token', claims: {}, namespaces: ['plant'], admin: false }
      })
      svc.auth.authorizer(({ resource, action }) => {
        resources.push(`${action} ${resource}`)
        return undefined
      })
    },
  })
  const { client } = await start(t, [who, open, admin], { plugins: [guard], config: { server: { multi_tenancy: true } } })
  const trace = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'
  const metadata = new Metadata()
  t.equal((await unary(client, '/t.S/Who', Buffer.alloc(1), metadata)).error?.code, 16)
  metadata.set('authorization', 'Bearer right')
  metadata.set('x-namespace', 'office')
  t.equal((await unary(client, '/t.S/Who', Buffer.alloc(1), metadata)).error?.code, 7, 'the namespace is not its own')
  metadata.remove('x-namespace')
  t.equal((await unary(client, '/t.S/Who', Buffer.alloc(1), metadata)).error, undefined)
  t.same(seen, ['ann', 'plant', 'plant', undefined], 'without one it is the only one of the credential')
  metadata.set('x-namespace', 'plant')
  metadata.set('x-request-id', 'mine-1')
  metadata.set('traceparent', trace)
  metadata.set('tracestate', 'a=b')
  metadata.set('x-data-bin', Buffer.from([1, 2]))
  const { header, error } = await unary(client, '/t.S/Who', Buffer.alloc(1), metadata)
  t.equal(error, undefined)
  t.same(seen, ['ann', 'plant', 'plant', 'AQI='])
  t.same([header?.get('x-request-id'), header?.get('traceparent'), header?.get('tracestate')], [['mine-1'], [trace], ['a=b']])
  t.equal((await unary(client, '/t.S/Admin', Buffer.alloc(1), metadata)).error?.code, 7)
  t.equal((await unary(client, '/t.S/Open', Buffer.alloc(1))).error, undefined)
  t.same(resources, ['read /t.S/Who', 'read /t.S/Who'])
})

t.test('a port in use stops the start and names the key', async (t) => {
  const { port } = await start(t, [echo])
  const held: Partial<Held> = {}
  const plugins = [pluginOf(() => [echo], held)]
  await t.rejects(boot({ plugins, config: { echo: { addr: `127.0.0.1:${port}` } } }), {
    message: /cannot listen on echo\.addr "127\.0\.0\.1:\d+": .*EADDRINUSE/,
  })
})

t.test('a node that stops ends the calls under way, then cuts what is left', async (t) => {
  const began: number[] = []
  const gate = Promise.withResolvers<void>()
  const slow: GrpcMethod<CallContext> = {
    path: '/t.S/Slow',
    action: 'read',
    kind: 'unary',
    handle: async (request) => {
      began.push(request.length)
      await (request.length === 2 ? gate.promise : new Promise(() => {}))
      return request
    },
  }
  const { client, node } = await start(t, [slow], { config: { server: { shutdown_timeout_secs: 6 } } })
  const soon = unary(client, '/t.S/Slow', Buffer.alloc(2))
  const late = unary(client, '/t.S/Slow', Buffer.alloc(100))
  await until('both are being answered', () => began.length === 2)
  const stopped = node.stop()
  const refused = await unary(client, '/t.S/Slow', Buffer.alloc(1), new Metadata(), { deadline: Date.now() + 200 })
  t.ok([4, 14].includes(refused.error?.code as number), 'no new calls')
  gate.resolve()
  t.equal((await soon).message?.length, 2)
  t.match((await late).error, { code: 14, details: /the server is stopping/ })
  t.same(await stopped, [])
})
