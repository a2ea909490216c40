/** Brokers and publishers whose packets are none, or far too many. What comes by other ways is stored all the same, and what comes afterwards is taken. */
import { readFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { seeded } from 'svcdb/lib/random'
import type { TestNode } from 'svcdb/testkit'
import t, { type Test } from 'tap'
import { eventually } from '../../test/support/until.ts'
import { listed, rowsOf, running, start } from './testing.ts'
import { publish, rawBroker } from './testing-raw-broker.ts'

const MIB = 1024 * 1024
const TOPIC_BYTES = 60_000

setFlagsFromString('--expose-gc')
const collect = runInNewContext('gc') as () => void

async function writes(t: Test, node: TestNode): Promise<void> {
  const { statusCode } = await node.inject({ method: 'POST', url: '/write', payload: 'own v=1', headers: { 'content-type': 'text/plain' } })
  t.equal(statusCode, 204, 'other inputs go on')
}

t.test('messages of QoS 2 with long topics that are never released', { timeout: 120_000 }, async (t) => {
  const COUNT = 2500
  const broker = await rawBroker(t, ({ socket }) => {
    for (let i = 1; i <= COUNT; i++) socket.write(publish(`${i}`.padEnd(TOPIC_BYTES, 'x'), `cpu,n=${i} v=1`, { id: i, qos: 2 }))
  })
  collect()
  const before = process.memoryUsage().heapUsed
  const node = await start(t, { broker: '127.0.0.1', port: broker.port, topics: ['#'], format: 'line_protocol', qos: 2 })
  await eventually(() => broker.connections[0]?.acked.length === COUNT)
  collect()
  const held = process.memoryUsage().heapUsed - before
  t.ok(held < 60 * MIB, `${Math.round(held / MIB)} MiB are held for ${Math.round((COUNT * TOPIC_BYTES) / MIB)} MiB of topics`)
  t.equal((await rowsOf(node)).length, COUNT)
})

const connecting = (port: number, version: string) => ({
  broker: '127.0.0.1',
  port,
  topics: ['#'],
  format: 'line_protocol',
  protocol_version: version,
  reconnect_ms: 100,
})

const frame = (first: number, ...body: number[]): Buffer => Buffer.from([first, body.length, ...body])
const utf8 = (...bytes: number[]): number[] => [bytes.length >> 8, bytes.length & 255, ...bytes]

for (const [what, bytes, version] of [
  ['a second CONNACK', frame(0x20, 0, 0), '3.1.1'],
  ['ten thousand CONNACKs', Buffer.alloc(40_000, frame(0x20, 0, 0)), '3.1.1'],
  ['answers to what nobody asked', Buffer.concat([0x40, 0x50, 0x62, 0x70, 0xb0].map((first) => frame(first, 0x77, 0x77))), '3.1.1'],
  ['a CONNECT', frame(0x10, ...utf8(77, 81, 84, 84), 4, 2, 0, 60, ...utf8(120)), '3.1.1'],
  ['a packet of no type', frame(0x00), '3.1.1'],
  ['a PUBLISH of QoS 3', frame(0x36, ...utf8(116), 0, 1, 120), '3.1.1'],
  ['a PUBLISH without a topic', frame(0x32, ...utf8(), 0, 1, 120), '3.1.1'],
  ['a topic that is longer than its packet', frame(0x32, 0xff, 0xff, 120), '3.1.1'],
  ['a PUBLISH that ends within its identifier', frame(0x32, ...utf8(116), 0), '3.1.1'],
  ['identifier 0', frame(0x32, ...utf8(116), 0, 0, 120), '3.1.1'],
  ['a topic that is not UTF-8', frame(0x32, ...utf8(0xff, 0xc0, 0x80), 0, 1, 120), '3.1.1'],
  ['a topic with NUL and wildcards', frame(0x32, ...utf8(0, 35, 43), 0, 1, 120), '3.1.1'],
  ['a SUBACK of nothing', frame(0x90, 0, 1), '3.1.1'],
  ['an AUTH', frame(0xf0, 0x18, 0), '5'],
  ['properties that are longer than their packet', frame(0x32, ...utf8(116), 0, 1, 0xff, 0xff, 0x7f, 1), '5'],
  ['a property that there is not', frame(0x32, ...utf8(116), 0, 1, 2, 0x7f, 1, 120), '5'],
  ['an alias that nobody allowed', frame(0x32, ...utf8(116), 0, 1, 3, 0x23, 0, 1, 120), '5'],
  ['an alias that nobody has said', frame(0x32, ...utf8(), 0, 1, 3, 0x23, 0, 9, 120), '5'],
  ['alias 0', frame(0x32, ...utf8(116), 0, 1, 3, 0x23, 0, 0, 120), '5'],
  ['one alias for ten thousand topics', Buffer.concat(Array.from({ length: 10_000 }, () => frame(0x30, ...utf8(116), 3, 0x23, 0, 1, 120))), '5'],
  ['a DISCONNECT with a reason of no kind', frame(0xe0, 0xfe, 0), '5'],
  ['a DISCONNECT with a reason that is not UTF-8', frame(0xe0, 0x8b, 5, 0x1f, 0, 2, 0xff, 0xfe), '5'],
] as const) {
  t.test(`${what}: version ${version}`, { timeout: 60_000 }, async (t) => {
    const five = version === '5'
    const broker = await rawBroker(t, ({ socket }, index) => {
      if (index === 0) socket.write(bytes)
      socket.write(publish('t', `cpu,n=${index} v=1`, { id: 7, five }))
      if (index === 0) socket.end()
    })
    const node = await start(t, connecting(broker.port, version))
    await eventually(() => broker.connections[1]?.acked.includes(7) ?? false)
    t.ok((await rowsOf(node)).some(({ tags }) => tags.n === '1'))
    await running(node)
    await writes(t, node)
  })
}

for (const [what, bytes, version] of [
  ['a PUBLISH of QoS 3', frame(0x36, ...utf8(116), 0, 1, 120), '3.1.1'],
  ['a topic that is longer than its packet', frame(0x32, 0xff, 0xff, 120), '3.1.1'],
  ['a property that there is not', frame(0x32, ...utf8(116), 0, 1, 2, 0x7f, 1, 120), '5'],
] as const) {
  t.test(`${what}, by a broker that goes on: version ${version}`, { timeout: 60_000 }, async (t) => {
    const broker = await rawBroker(t, ({ socket }, index) => {
      const good = publish('t', `cpu,n=${index} v=1`, { id: 7, five: version === '5' })
      socket.write(index === 0 ? Buffer.concat([bytes, good]) : good)
    })
    const node = await start(t, connecting(broker.port, version))
    await eventually(() => broker.connections[1]?.acked.includes(7) ?? false)
    t.equal(broker.connections.length, 2)
    await running(node)
  })
}

for (const qos of [0, 1, 2]) {
  t.test(`properties that are too large: QoS ${qos}`, { timeout: 60_000 }, async (t) => {
    const user = Object.fromEntries(Array.from({ length: 500 }, (_, i) => [`k${i}`, 'x'.repeat(200)]))
    const broker = await rawBroker(t, ({ socket }) => {
      socket.write(Buffer.concat([publish('large', 'cpu v=1', { id: 6, qos, five: true, user }), publish('t', 'cpu v=2', { id: 7, five: true })]))
    })
    const node = await start(
      t,
      { broker: '127.0.0.1', port: broker.port, topics: ['#'], format: 'line_protocol', protocol_version: '5', max_message_bytes: 1024, qos: 2 },
      { storage: 'embedded' },
    )
    await eventually(() => broker.connections.some(({ acked }) => acked.includes(7)))
    t.equal((await rowsOf(node)).length, 1)
    t.same(broker.connections[0].acked, qos > 0 ? [6, 7] : [7])
    t.equal(broker.connections.length, 1, 'the connection held')
    const letters = (await readFile(join(node.dataDir, 'dead-letters', 'mqtt-default.jsonl'), 'utf8')).trim().split('\n')
    t.match(
      letters.map((letter) => JSON.parse(letter)),
      [{ topic: 'large', code: 'PAYLOAD_TOO_LARGE' }],
    )
  })
}

t.test('what is sent before the connection stands', { timeout: 60_000 }, async (t) => {
  const garbage = [
    Buffer.from('HTTP/1.1 400 Bad Request\r\n\r\n'),
    Buffer.from([0x15, 3, 3, 0, 2, 2, 40]),
    Buffer.alloc(1000, 0xff),
    Buffer.alloc(1000),
    frame(0x20),
    frame(0x20, 0, 99),
    frame(0x20, 0, 0, 7, 0x22, 0xff),
    frame(0x32, ...utf8(116), 0, 1, 120),
    frame(0xd0),
  ]
  let served = 0
  const server = createServer((socket) => {
    socket.on('error', () => {})
    socket.on('data', () => void socket.end(garbage[served++ % garbage.length]))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => server.close())
  const port = (server.address() as { port: number }).port
  for (const protocol_version of ['3.1.1', '5']) {
    served = 0
    const node = await start(t, connecting(port, protocol_version))
    await eventually(() => served > garbage.length)
    t.match(JSON.stringify((await listed(node))[0].status), /Reconnecting|failed/)
    await writes(t, node)
  }
})

t.test('packets with bytes that are turned, cut or doubled', { timeout: 120_000 }, async (t) => {
  const seed = Number(process.env.SVC_SEED ?? Date.now() % 1_000_000)
  t.comment(`SVC_SEED=${seed}`)
  const random = seeded(seed)
  const pick = (below: number): number => Math.floor(random() * below)
  const BAD = 60
  const broker = await rawBroker(t, ({ socket }, index) => {
    const good = publish('t', `cpu,n=${index} v=1`, { id: 7, five: true, user: { a: 'b' } })
    if (index < BAD) {
      let bytes: Buffer = Buffer.concat([good, publish('a/b', 'cpu v=2', { id: 8, qos: 2, five: true }), frame(0x62, 0, 8), frame(0xd0), good])
      for (let i = 1 + pick(4); i > 0; i--) {
        const at = pick(bytes.length)
        const kind = pick(3)
        if (kind === 0) bytes[at] = pick(256)
        else
          bytes = Buffer.concat([
            bytes.subarray(0, at),
            ...(kind === 1 ? [bytes.subarray(at, at + pick(9))] : []),
            bytes.subarray(Math.min(bytes.length, at + pick(9))),
          ])
      }
      socket.write(bytes)
      socket.end()
    } else socket.write(good)
  })
  const node = await start(t, connecting(broker.port, '5'))
  await eventually(() => broker.connections[BAD]?.acked.includes(7) ?? false)
  t.ok((await rowsOf(node)).some(({ tags }) => tags.n === String(BAD)))
  await writes(t, node)
})
