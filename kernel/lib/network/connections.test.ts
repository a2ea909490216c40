/**
 * Connections of every listener are bounded: with requests under way on all of them, further ones are closed at once and counted; those that ask for nothing make room, and
 * so keep nobody out.
 */
import { once } from 'node:events'
import { connect as connectHttp2 } from 'node:http2'
import { connect, type Socket } from 'node:net'
import { connect as connectTls } from 'node:tls'
import { type BootOptions, boot, type TestNode } from 'svcdb/testkit'
import t, { type Test } from 'tap'
import { eventually } from '../../../test/support/until.ts'
import { frame, PREFACE, request, SETTINGS } from '../grpc/testing-frames.ts'

const fixture = (name: string) => new URL(`../../../test/support/certificates/${name}`, import.meta.url).pathname
const TLS = { cert: fixture('first.pem'), key: fixture('first.key') }
const WRITE = 'POST /write HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 10\r\nexpect: 100-continue\r\n\r\n'
const HALF_A_HANDSHAKE = Buffer.from('1603010200010001fc0303', 'hex')

interface Listener {
  name: string
  /** Of a call that goes on until it is told more; HTTP's is a write. */
  path?: string
}
const LISTENERS: Listener[] = [
  { name: 'http' },
  { name: 'grpc', path: '/svc.Service/StreamWrite' },
  { name: 'flight_sql', path: '/arrow.flight.protocol.FlightService/DoPut' },
]

async function started(t: Test, max: number, secure: boolean, log?: BootOptions['log']): Promise<TestNode> {
  const addr = '127.0.0.1:0'
  const server = { max_connections: max, keep_alive_timeout_secs: 600 }
  const config = { server, grpc: { addr }, flight_sql: { addr }, ...(secure && { tls: TLS }) }
  const node = await boot({ plugins: ['line_protocol', 'grpc', 'flight_sql'], config, ...(log && { log }) })
  t.teardown(() => node.stop())
  return node
}

const portOf = (node: TestNode, { name }: Listener): number => (name === 'http' ? Number(new URL(node.url).port) : node.port(name))

async function open(port: number, secure = false): Promise<Socket> {
  const socket = secure ? connectTls({ port, host: '127.0.0.1', rejectUnauthorized: false, ALPNProtocols: ['h2', 'http/1.1'] }) : connect(port, '127.0.0.1')
  socket.on('error', () => {})
  await once(socket, secure ? 'secureConnect' : 'connect')
  return socket
}

/** What comes next. @throws Error when the connection ends before. */
const answerOf = (socket: Socket): Promise<string> =>
  new Promise((resolve, reject) => {
    socket.once('data', (bytes) => resolve(String(bytes)))
    socket.once('close', () => reject(new Error('the connection was closed')))
  })

const running = async (node: TestNode, { name }: Listener): Promise<number> =>
  Number(new RegExp(`^svc_${name}_calls_running (\\d+)$`, 'm').exec((await node.inject('/metrics')).body)?.[1])

/** A connection with a request under way. */
async function busy(t: Test, node: TestNode, listener: Listener): Promise<Socket> {
  const socket = await open(portOf(node, listener))
  t.teardown(() => socket.destroy())
  if (listener.path === undefined) {
    socket.write(WRITE)
    await answerOf(socket)
    return socket
  }
  const before = await running(node, listener)
  const call = request(listener.path)
  // Its headers alone.
  socket.write(Buffer.concat([PREFACE, frame(SETTINGS), call.subarray(0, 9 + call.readUIntBE(0, 3))]))
  await eventually(async () => (await running(node, listener)) > before)
  return socket.resume()
}

/** Whether somebody who comes now is served. */
async function served(port: number, { name }: Listener, secure: boolean): Promise<boolean> {
  if (name === 'http') {
    const socket = await open(port, secure)
    socket.write('GET /health HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n')
    return (await answerOf(socket)).startsWith('HTTP/1.1 200 ')
  }
  const session = connectHttp2(`${secure ? 'https' : 'http'}://127.0.0.1:${port}`, { rejectUnauthorized: false })
  await new Promise((resolve, reject) => {
    session.once('error', reject)
    session.once('close', () => reject(new Error('the connection was closed')))
    session.once('connect', () => session.ping(resolve))
  })
  return true
}

const count = async (node: TestNode, name: string): Promise<number> =>
  Number(new RegExp(`^svc_${name} (\\d+)$`, 'm').exec((await node.inject('/metrics')).body)?.[1])

for (const listener of LISTENERS) {
  t.test(`${listener.name}: with requests under way`, async (t) => {
    const lines: string[] = []
    const node = await started(t, 4, false, (line) => void lines.push(line))
    const taken: Socket[] = []
    for (let i = 0; i < 4; i++) taken.push(await busy(t, node, listener))
    const refused = await Promise.all(Array.from({ length: 10 }, () => open(portOf(node, listener))))
    await eventually(() => refused.every(({ destroyed }) => destroyed))
    t.ok(taken.every(({ destroyed }) => !destroyed))
    t.equal(await count(node, `${listener.name}_connections_refused_total`), 10)
    t.equal(await count(node, `${listener.name}_idle_connections_closed_total`), 0)
    t.equal(lines.filter((line) => line.includes('server.max_connections')).length, 1, 'said once')
    for (const socket of taken) socket.destroy()
    await eventually(() => served(portOf(node, listener), listener, false).catch(() => false))
  })

  for (const secure of [false, true])
    t.test(`${listener.name}: that ask for nothing${secure ? ', with TLS' : ''}`, async (t) => {
      const node = await started(t, 8, secure)
      const port = portOf(node, listener)
      const ways = secure ? ['a handshake', 'silent', 'asked once'] : ['silent', 'asked once']
      for (const way of ways) {
        for (let i = 0; i < 20; i++) {
          if (way === 'asked once') t.ok(await served(port, listener, secure), way)
          else {
            const socket = await open(port, secure && way === 'silent')
            socket.resume()
            if (way === 'a handshake') socket.write(HALF_A_HANDSHAKE)
          }
        }
        t.ok(await served(port, listener, secure), `behind 20 connections: ${way}`)
      }
      t.ok((await count(node, `${listener.name}_idle_connections_closed_total`)) > 0)
      t.equal(await count(node, `${listener.name}_connections_refused_total`), 0)
    })
}

t.test('a request that is under way is not cut for others', async (t) => {
  const [http] = LISTENERS
  const node = await started(t, 8, false)
  const sockets = [await busy(t, node, http), await busy(t, node, http)]
  for (let i = 0; i < 30; i++) await open(portOf(node, http))
  for (const socket of sockets) {
    socket.write('m value=1\n')
    t.match(await answerOf(socket), /^HTTP\/1\.1 204 /)
  }
})

t.test('while places are left, a connection that has just come is left in peace', async (t) => {
  const [http] = LISTENERS
  const node = await started(t, 8, false)
  for (let i = 0; i < 5; i++) await busy(t, node, http)
  const fresh = [await open(portOf(node, http)), await open(portOf(node, http))]
  for (const socket of fresh) {
    socket.write('GET /health HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n')
    t.match(await answerOf(socket), /^HTTP\/1\.1 200 /)
  }
  t.equal(await count(node, 'http_idle_connections_closed_total'), 0)
})
