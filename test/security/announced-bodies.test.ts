/** Bodies that are announced and do not come. */
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { boot } from 'svcdb/testkit'
import t from 'tap'
import line from '../../plugins/line_protocol/index.ts'

const MIB = 1_048_576
const CLIENTS = 200
const ANNOUNCED = 9_000_000

t.test('a body takes memory as it arrives, and not as it is announced', async (t) => {
  const node = await boot({ plugins: [line], config: { server: { max_body_size: ANNOUNCED } } })
  t.teardown(() => node.stop())
  const before = process.memoryUsage().arrayBuffers
  const port = Number(new URL(node.url).port)
  const sockets: Socket[] = []
  t.teardown(() => {
    for (const socket of sockets) socket.destroy()
  })
  for (let i = 0; i < CLIENTS; i++) {
    const socket = connect(port, '127.0.0.1')
    socket.on('error', () => {})
    sockets.push(socket)
    await once(socket, 'connect')
    socket.write(`POST /write HTTP/1.1\r\nhost: localhost\r\ncontent-type: text/plain\r\ncontent-length: ${ANNOUNCED}\r\n\r\ncpu v=1\n`)
  }
  // One that comes behind all of them, and whose answer says that they are being read.
  const last = await node.inject({ method: 'POST', url: '/write', payload: 'cpu v=2', headers: { 'content-type': 'text/plain' } })
  t.equal(last.statusCode, 204)
  const whole = await fetch(`${node.url}/write`, { method: 'POST', body: 'cpu v=3\n'.repeat(100_000), headers: { 'content-type': 'text/plain' } })
  t.equal(whole.status, 204, 'large ones are read')
  const taken = process.memoryUsage().arrayBuffers - before
  t.ok(taken < 64 * MIB, `${Math.round(taken / MIB)} MiB for ${CLIENTS} bodies`)
})
