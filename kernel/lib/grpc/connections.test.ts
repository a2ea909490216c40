/** Connections whose clients do not read, do not leave or ask nothing: they end all the same. */
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { type ConnectionOptions, connect as connectTls } from 'node:tls'
import type { Client } from '@grpc/grpc-js'
import t, { type Test } from 'tap'
import { until } from '../../../test/support/until.ts'
import type { CallContext } from '../../index.ts'
import type { TestNode } from '../../testkit/index.ts'
import type { GrpcMethod } from './method.ts'
import { echo, start, unary } from './testing.ts'
import { DATA, frame, GOAWAY, HEADERS, PING, PREFACE, request, SETTINGS, WINDOW_UPDATE } from './testing-frames.ts'

const MOST = 2 ** 31 - 1

function hello(): Buffer {
  const window = Buffer.alloc(6)
  window.writeUInt16BE(4, 0)
  window.writeUInt32BE(MOST, 2)
  const more = Buffer.alloc(4)
  more.writeUInt32BE(MOST - 65_535, 0)
  return Buffer.concat([PREFACE, frame(SETTINGS, 0, 0, window), frame(SETTINGS, 1), frame(WINDOW_UPDATE, 0, 0, more)])
}

/** Keeps its side of the connection open. */
async function open(t: Test, port: number): Promise<Socket> {
  const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true })
  socket.on('error', () => {})
  t.teardown(() => socket.destroy())
  await once(socket, 'connect')
  socket.write(hello())
  return socket
}

/** Of the frames that come, with answers to pings. */
function types(socket: Socket): number[] {
  const seen: number[] = []
  let rest = Buffer.alloc(0)
  socket.on('data', (bytes) => {
    rest = Buffer.concat([rest, bytes])
    while (rest.length >= 9 && rest.length >= 9 + rest.readUIntBE(0, 3)) {
      const end = 9 + rest.readUIntBE(0, 3)
      seen.push(rest[3])
      if (rest[3] === PING && (rest[4] & 1) === 0) socket.write(frame(PING, 1, 0, rest.subarray(9, end)))
      rest = rest.subarray(end)
    }
  })
  return seen
}

const MIB = 1_048_576
const certificate = (name: string) => new URL(`../../../test/support/certificates/${name}`, import.meta.url).pathname
const much: GrpcMethod<CallContext> = {
  path: '/t.S/Much',
  action: 'read',
  kind: 'server_stream',
  handle: async (_request, _call, send) => {
    for (let i = 0; i < 32; i++) await send(Buffer.alloc(MIB))
  },
}

/** The call has ended, and its connection is another's: there is room for one. */
async function givenOn(node: TestNode, client: Client): Promise<void> {
  await until('the end of the call', async () => /svc_echo_calls_total\{method="\/t\.S\/Much"/.test((await node.inject('/metrics')).body))
  await until('another connection', async () => (await unary(client, '/t.S/Echo', Buffer.from('x'))).error === undefined)
}

t.test('the connection of a client that reads nothing, and so answers no ping, is given to another', async (t) => {
  const section = { keepalive_secs: 0.2, keepalive_timeout_secs: 2, send_buffer_bytes: 64 * MIB }
  const { port, client, node } = await start(t, [echo, much], { section, config: { server: { max_connections: 1 } } })
  const socket = await open(t, port)
  socket.pause()
  socket.write(request('/t.S/Much'))
  await givenOn(node, client)
  t.same(await node.stop(), [])
})

t.test('what was sent to a client that reads nothing is let go when its memory is needed', async (t) => {
  const section = { keepalive_secs: 0, send_buffer_bytes: 64 * MIB, max_buffered_bytes: 24 * MIB }
  const { port, client, node } = await start(t, [echo, much], { section, config: { server: { max_connections: 1 } } })
  const socket = await open(t, port)
  socket.pause()
  socket.write(request('/t.S/Much'))
  await givenOn(node, client)
})

t.test('a client that does not leave does not hold up the stop', async (t) => {
  const { port, node } = await start(t, [echo])
  const socket = await open(t, port)
  const seen = types(socket)
  socket.write(request('/t.S/Echo'))
  await until('an answer', () => seen.filter((type) => type === HEADERS).length === 2)
  t.same(await node.stop(), [])
  t.ok(seen.includes(GOAWAY))
})

t.test('an answer that is on its way when the node stops comes whole', async (t) => {
  const { port, node } = await start(t, [echo, much], { section: { keepalive_secs: 0, send_buffer_bytes: 64 * MIB } })
  const socket = await open(t, port)
  const seen = types(socket)
  socket.pause()
  socket.write(request('/t.S/Much'))
  await until('the end of the call', async () => /svc_echo_calls_total\{method="\/t\.S\/Much"/.test((await node.inject('/metrics')).body))
  const stopped = node.stop()
  // All that is done at once when a stop begins is done.
  await new Promise((resolve) => setTimeout(resolve, 100))
  const before = socket.bytesRead
  socket.resume()
  const answered = () => seen.filter((type) => type === HEADERS).length === 2
  await until('the end of the answer', () => answered() || socket.readableEnded || socket.destroyed)
  t.ok(answered())
  t.ok(before < MIB && socket.bytesRead > 32 * MIB, `${socket.bytesRead} bytes, ${before} before the stop`)
  // It may come behind the answer.
  await until('the goodbye', () => seen.includes(GOAWAY) || socket.readableEnded || socket.destroyed)
  t.ok(seen.includes(GOAWAY))
  t.same(await stopped, [])
})

t.test('a connection without a call is closed after idle_timeout_secs, one with an open stream is not', async (t) => {
  let tick = () => {}
  const stream: GrpcMethod<CallContext> = {
    path: '/t.S/Stream',
    action: 'read',
    kind: 'server_stream',
    handle: async (_request, { signal }, send) => {
      const ended = once(signal, 'abort')
      while (!signal.aborted) {
        await Promise.race([ended, new Promise<void>((resolve) => (tick = resolve))])
        await send(Buffer.from('tick'))
      }
    },
  }
  const { port, client } = await start(t, [echo, stream], { section: { idle_timeout_secs: 0.5 } })
  const living = await open(t, port)
  const streamed = types(living)
  living.write(request('/t.S/Stream'))
  const asked = await open(t, port)
  const seen = types(asked)
  asked.write(request('/t.S/Echo'))
  const silent = connect(port, '127.0.0.1').on('error', () => {})
  silent.resume()
  t.teardown(() => silent.destroy())
  // The client keeps its side open: that its connection has gone is seen when it goes on.
  await Promise.all([once(asked, 'end'), once(silent, 'close')])
  t.equal(seen.filter((type) => type === HEADERS).length, 2, 'it was answered before')
  t.ok(seen.includes(GOAWAY), 'and told')
  await until('the end of a connection that its client keeps', () => {
    asked.write(Buffer.alloc(1))
    return asked.destroyed
  })
  tick()
  await until('a message of the stream', () => streamed.includes(DATA))
  t.notOk(streamed.includes(GOAWAY))
  t.equal((await unary(client, '/t.S/Echo', Buffer.from('x'))).error, undefined)
})

t.test('handshakes of TLS that cross: the connection that is cut is that of who reads nothing', async (t) => {
  const tls = { cert: certificate('first.pem'), key: certificate('first.key') }
  const section = { keepalive_secs: 0.2, keepalive_timeout_secs: 1, send_buffer_bytes: 64 * MIB }
  const { port } = await start(t, [echo, much], { section, config: { tls } })
  const raw = async (): Promise<Socket> => {
    const socket = connect({ port, host: '127.0.0.1' }).on('error', () => {})
    t.teardown(() => socket.destroy())
    await once(socket, 'connect')
    return socket
  }
  const secured = async (raw: Socket): Promise<Socket> => {
    const socket = connectTls({ socket: raw, ALPNProtocols: ['h2'], rejectUnauthorized: false })
    socket.on('error', () => {})
    await new Promise((resolve) => socket.once('secureConnect', resolve).once('close', resolve))
    socket.write(hello())
    return socket
  }
  const [first, second] = [await raw(), await raw()]
  const deaf = await secured(first)
  deaf.pause()
  deaf.write(request('/t.S/Much'))
  await until(
    'its end',
    () => {
      deaf.write(frame(PING, 0, 0, Buffer.alloc(8)))
      return first.destroyed
    },
    20_000,
  )
  const other = await secured(second)
  const seen = types(other)
  other.write(request('/t.S/Echo'))
  const answered = () => seen.filter((type) => type === HEADERS).length === 2
  await until('an answer', () => answered() || other.destroyed)
  t.ok(answered())
})

t.test('a handshake of TLS that does not go on ends with server.request_timeout_secs', async (t) => {
  const tls = { cert: certificate('first.pem'), key: certificate('first.key') }
  const { port } = await start(t, [echo], { config: { tls, server: { request_timeout_secs: 0.5 } } })
  const socket = connect({ port, host: '127.0.0.1' }).on('error', () => {})
  t.teardown(() => socket.destroy())
  await once(socket.resume(), 'connect')
  await until('its end', () => socket.destroyed, 20_000)
})

t.test('over TLS as well: who reads nothing is cut off, and who asks nothing is told to leave', async (t) => {
  const tls = { cert: certificate('first.pem'), key: certificate('first.key') }
  const section = { keepalive_secs: 0.2, keepalive_timeout_secs: 2, idle_timeout_secs: 0.5, send_buffer_bytes: 64 * MIB }
  const { port, node } = await start(t, [echo, much], { section, config: { tls, server: { max_connections: 1 } } })
  const secured = async (): Promise<Socket> => {
    const socket = connectTls({ port, host: '127.0.0.1', ALPNProtocols: ['h2'], rejectUnauthorized: false, allowHalfOpen: true } as ConnectionOptions)
    socket.on('error', () => {})
    t.teardown(() => socket.destroy())
    // It is refused as long as another has the only place.
    await new Promise((resolve) => socket.once('secureConnect', resolve).once('close', resolve))
    socket.write(hello())
    return socket
  }
  const deaf = await secured()
  deaf.pause()
  deaf.write(request('/t.S/Much'))
  await until('the end of the call', async () => /svc_echo_calls_total\{method="\/t\.S\/Much"/.test((await node.inject('/metrics')).body))
  await until('another connection, and its end', async () => {
    const socket = await secured()
    const seen = types(socket)
    socket.write(request('/t.S/Echo'))
    if (!socket.destroyed) await new Promise((resolve) => socket.once('end', resolve).once('close', resolve))
    return seen.filter((type) => type === HEADERS).length === 2 && seen.includes(GOAWAY)
  })
  t.same(await node.stop(), [])
})
