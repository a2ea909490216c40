/** What stands in the place of an upstream and speaks another protocol, or HTTP/2 as nobody should: the points wait, nothing grows, and they get there once it is an upstream. */
import { createServer, type Socket } from 'node:net'
import { temporaryFolder } from 'svcdb/testkit'
import t from 'tap'
import { f64, NOW, type TestPoint, write } from '../conformance/points.ts'
import { realEnvironment } from './engine.ts'
import { edgeOf, upstream } from './testing.ts'

const MIB = 1024 * 1024

const points: TestPoint[] = Array.from({ length: 10 }, (_, n) => ({
  measurement: 'cpu',
  tags: { host: `h${n}` },
  time: NOW + BigInt(n),
  fields: { v: f64(n) },
}))

/** A frame of HTTP/2 (RFC 9113, 4.1). */
function frame(type: number, flags: number, stream: number, payload: Buffer = Buffer.alloc(0)): Buffer {
  const head = Buffer.alloc(9)
  head.writeUIntBE(payload.length, 0, 3)
  head[3] = type
  head[4] = flags
  head.writeUInt32BE(stream, 5)
  return Buffer.concat([head, payload])
}
const SETTINGS = frame(4, 0, 0)
const ACK = frame(4, 1, 0)
/** `:status: 200` of the static table, and `content-type: application/grpc`. */
const OK = Buffer.concat([Buffer.from([0x88, 0x0f, 0x10, 16]), Buffer.from('application/grpc')])
const HEADERS = frame(1, 4, 1, OK)
/** A header with a name and a value as they are. */
const header = (name: string, value: string): Buffer =>
  Buffer.concat([Buffer.from([0, name.length]), Buffer.from(name), Buffer.from([value.length]), Buffer.from(value)])

/** Writes the same again and again, as fast as it is taken. */
function endless(socket: Socket, bytes: Buffer): void {
  const more = (error?: Error | null): void => {
    if (error == null && !socket.destroyed) socket.write(bytes, more)
  }
  more()
}

const KINDS: Record<string, (socket: Socket) => void> = {
  'HTTP/1.1': (socket) => socket.end('HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n'),
  'a TLS alert': (socket) => socket.end(Buffer.from([0x15, 3, 3, 0, 2, 2, 70])),
  nothing: (socket) => socket.end(),
  zeros: (socket) => socket.end(Buffer.alloc(10_000)),
  'a frame of 16 MiB': (socket) => endless(socket, Buffer.concat([SETTINGS, Buffer.from([0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 1]), Buffer.alloc(MIB)])),
  'settings without end': (socket) => endless(socket, Buffer.alloc(9 * 1000, SETTINGS)),
  'pings without end': (socket) => {
    socket.write(SETTINGS)
    endless(socket, Buffer.alloc(17 * 1000, frame(6, 0, 0, Buffer.alloc(8))))
  },
  'headers without end': (socket) => {
    socket.write(Buffer.concat([SETTINGS, ACK, frame(1, 0, 1, OK)]))
    endless(socket, Buffer.alloc(1000 * 25, frame(9, 0, 1, header('x-name', 'value--'))))
  },
  'an answer without end': (socket) => {
    socket.write(Buffer.concat([SETTINGS, ACK, HEADERS]))
    // Of both windows as much as there is.
    endless(socket, Buffer.concat([frame(8, 0, 0, Buffer.from([0, 0, 0x40, 0])), frame(0, 0, 1, Buffer.alloc(16_384))]))
  },
  'an answer without end, a byte at a time': (socket) => {
    socket.write(Buffer.concat([SETTINGS, ACK, HEADERS]))
    endless(socket, Buffer.concat([frame(8, 0, 0, Buffer.from([0, 0, 0x20, 0])), Buffer.alloc(10 * 8192, frame(0, 0, 1, Buffer.alloc(1)))]))
  },
  'an answer to nobody': (socket) => socket.write(Buffer.concat([SETTINGS, ACK, frame(1, 5, 77, OK), frame(0, 1, 99, Buffer.alloc(5))])),
  'a promise': (socket) => socket.write(Buffer.concat([SETTINGS, ACK, frame(5, 4, 1, Buffer.concat([Buffer.from([0, 0, 0, 2]), OK]))])),
  'no streams': (socket) => socket.end(Buffer.concat([frame(4, 0, 0, Buffer.from([0, 3, 0, 0, 0, 0])), ACK])),
  GOAWAY: (socket) => socket.end(Buffer.concat([SETTINGS, ACK, frame(7, 0, 0, Buffer.alloc(8))])),
  'a reset': (socket) => socket.write(Buffer.concat([SETTINGS, ACK, frame(3, 0, 1, Buffer.from([0, 0, 0, 11]))])),
  'a header that cannot be decompressed': (socket) => socket.write(Buffer.concat([SETTINGS, ACK, frame(1, 4, 1, Buffer.alloc(20, 0xff))])),
  'a status of no kind': (socket) =>
    socket.write(
      Buffer.concat([
        SETTINGS,
        ACK,
        frame(1, 5, 1, Buffer.concat([OK, header('grpc-status', 'NaN'), header('retry-after', '1e9'), header('grpc-message', '%ff%')])),
      ]),
    ),
}

for (const [what, hostile] of Object.entries(KINDS)) {
  t.test(what, { timeout: 60_000 }, async (t) => {
    const real = await upstream(t)
    const to = Number(new URL(real.url).port)
    let connections = 0
    const sockets = new Set<Socket>()
    const server = createServer((socket) => {
      sockets.add(socket)
      socket.on('error', () => {})
      if (++connections <= 3) {
        socket.once('data', () => setTimeout(() => hostile(socket), 20))
        socket.resume()
        return
      }
      // From now on it is the upstream.
      const { connect } = process.getBuiltinModule('node:net')
      const behind = connect(to, '127.0.0.1')
      behind.on('error', () => {})
      socket.pipe(behind).pipe(socket)
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    t.teardown(() => {
      for (const socket of sockets) socket.destroy()
      server.close()
    })
    const url = `http://127.0.0.1:${(server.address() as { port: number }).port}`
    const warned: string[] = []
    const warn = (o: object, m?: string): void => void warned.push(`${m} ${JSON.stringify(o)}`)
    const environment = { ...realEnvironment, pause: (_: number, signal: AbortSignal) => realEnvironment.pause(1, signal) }
    const edge = edgeOf(
      { data_dir: temporaryFolder(t), forward: { timeout_secs: 1, upstream: [{ name: 'one', url }] } },
      { environment, log: { debug() {}, info() {}, warn, error: warn } },
    )
    await edge.open()
    t.teardown(() => edge.close())
    const { rss } = process.memoryUsage()
    let most = 0
    const look = setInterval(() => (most = Math.max(most, process.memoryUsage().rss - rss)), 20)
    await write(edge, points, { namespace: '' })
    await edge.drained()
    clearInterval(look)
    t.ok(most < 200 * MIB, `${Math.round(most / MIB)} MiB`)
    t.equal((await real.node.storage.measurements('')).length, 1, 'the points have got there')
    t.match(edge.connectors()[0].status(), { up: true, points: 10, deadLettered: 0 })
    t.match(warned.join('\n'), /the upstream takes no points; they wait/)
    if (what === 'an answer without end') t.match(warned.join('\n'), /it has more than 1048576 bytes/)
  })
}
