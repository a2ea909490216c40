/** Brokers that do what they should not. */
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { definePlugin, type PointFormat, type PointReader, pointFormat } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import { boot } from 'svcdb/testkit'
import t from 'tap'
import { eventually } from '../../test/support/until.ts'
import { listed, rowsOf, running, start } from './testing.ts'
import { publish, publishHead, rawBroker } from './testing-raw-broker.ts'

const MIB = 1024 * 1024
const GIANT = 200 * MIB

for (const [version, qos] of [
  ['3.1.1', 0],
  ['3.1.1', 1],
  ['3.1.1', 2],
  ['5', 1],
] as const) {
  t.test(`a message that is far too large costs no memory, and the next one comes: version ${version}, QoS ${qos}`, async (t) => {
    const five = version === '5'
    const broker = await rawBroker(t, async ({ socket, takes }) => {
      const send = (bytes: Buffer): Promise<void> => new Promise((resolve) => void socket.write(bytes, () => resolve()))
      await send(publish('t', 'before v=1', { id: 1, qos, five }))
      const megabyte = Buffer.alloc(MIB, 'x')
      if (takes > GIANT) {
        await send(publishHead('t', GIANT, { id: 2, qos, five }))
        for (let i = 0; i < GIANT / MIB; i++) await send(megabyte)
      }
      await send(publish('t', 'after v=1', { id: 3, qos, five }))
    })
    const node = await start(
      t,
      { broker: '127.0.0.1', port: broker.port, topics: ['#'], format: 'line_protocol', protocol_version: version, max_message_bytes: 1024, qos },
      { storage: 'embedded' },
    )
    await running(node)
    let most = 0
    const before = process.memoryUsage()
    await eventually(async () => {
      const { external, arrayBuffers } = process.memoryUsage()
      most = Math.max(most, external - before.external, arrayBuffers - before.arrayBuffers)
      return (await rowsOf(node)).length === 2
    })
    t.same(
      (await rowsOf(node)).map(({ measurement }) => measurement),
      ['after', 'before'],
    )
    t.ok(most < 128 * MIB, `${Math.round(most / MIB)} MiB were held`)
    t.equal(broker.connections.length, 1, 'the connection held')
    const [letter] = (await readFile(join(node.dataDir, 'dead-letters', 'mqtt-default.jsonl'), 'utf8')).trim().split('\n')
    const { topic, code, error, bytes, body } = JSON.parse(letter)
    t.match({ topic, code, bytes }, { topic: 't', code: 'PAYLOAD_TOO_LARGE', bytes: GIANT })
    t.match(error, new RegExp(`a message of ${GIANT} bytes: mqtt.max_message_bytes is 1024`))
    t.match(Buffer.from(body, 'base64').toString(), /^x+$/, 'its beginning is kept')
    if (qos > 0) await eventually(() => broker.connections[0].acked.length === 3)
    t.same(broker.connections[0].acked, qos > 0 ? [1, 2, 3] : [])
  })
}

t.test('what is read of a connection that is gone is acknowledged on no other', async (t) => {
  const broker = await rawBroker(t, ({ socket }, index) => {
    if (index === 0) socket.write(Buffer.concat(Array.from({ length: 40 }, (_, i) => publish('t', `cpu,n=${i} v=1`, { id: i + 1 }))))
    else socket.write(publish('t', 'cpu,n=last v=1', { id: 100 }))
  })
  let full = true
  const node = await start(t, { broker: '127.0.0.1', port: broker.port, topics: ['#'], format: 'line_protocol', max_in_flight: 8, reconnect_ms: 100 })
  const { storage } = node
  const write = storage.write.bind(storage)
  storage.write = async (batch, how) => {
    if (full) throw new SvcError('STORAGE_FULL', 'full')
    return write(batch, how)
  }
  await eventually(async () => (await listed(node))[0]?.metrics.messages_total !== 0)
  broker.connections[0].socket.destroy()
  await eventually(() => broker.connections.length > 1)
  full = false
  await eventually(async () => (await rowsOf(node)).some(({ tags }) => tags.n === 'last'))
  const later = () => broker.connections.slice(1).flatMap(({ acked }) => acked)
  await eventually(() => later().includes(100))
  t.same([...new Set(later())], [100])
})

for (const qos of [0, 1, 2] as const) {
  t.test(`a new connection while as much is in flight as may be is held until there is room: QoS ${qos}`, async (t) => {
    const LAST = 5
    const broker = await rawBroker(t, ({ socket }, index) => {
      const count = index === 0 ? 40 : 4
      socket.write(Buffer.concat(Array.from({ length: count }, (_, i) => publish('t', `cpu,n=${index}-${i} v=1`, { ...(qos > 0 && { id: i + 1 }), qos }))))
    })
    let full = true
    const node = await start(t, { broker: '127.0.0.1', port: broker.port, topics: ['#'], format: 'line_protocol', qos, max_in_flight: 8, reconnect_ms: 100 })
    const { storage } = node
    const write = storage.write.bind(storage)
    storage.write = async (batch, how) => {
      if (full) throw new SvcError('STORAGE_FULL', 'full')
      return write(batch, how)
    }
    // The first message of each connection is read: the backlog is full after some of them.
    for (let i = 0; i < LAST; i++) {
      await eventually(() => broker.connections.length === i + 1)
      await sleep(50)
      broker.connections[i].socket.destroy()
    }
    await eventually(() => broker.connections.length === LAST + 1)
    await sleep(300)
    full = false
    await eventually(async () => (await rowsOf(node)).filter(({ tags }) => String(tags.n).startsWith(`${LAST}-`)).length === 4)
    if (qos > 0) await eventually(() => broker.connections[LAST].acked.length === 4)
    t.equal(broker.connections.length, LAST + 1, 'no connection was given up')
  })
}

for (const slow of [false, true]) {
  t.test(
    `a format that remembers is told of a new connection behind all messages of the one before${slow ? ', also where it takes long to look at them' : ''}`,
    async (t) => {
      const calls: string[] = []
      let under = 0
      let most = 0
      const spy = definePlugin({
        id: 'spy',
        summary: 'A format that remembers',
        stability: 'experimental',
        provides: [pointFormat('spy')],
        setup(svc) {
          const reader: PointReader = {
            read: () => undefined,
            arrived: ({ body }) => {
              const text = Buffer.from(body).toString()
              if (!slow) return calls.push(text)
              under++
              most = Math.max(most, under)
              return sleep(1).then(() => {
                under--
                calls.push(text)
              })
            },
            interrupted: () => void calls.push('interrupted'),
          }
          svc.provide(pointFormat('spy'), { defaults: true, nonFinite: false, ordered: true, reader: () => reader } satisfies PointFormat)
        },
      })
      const broker = await rawBroker(t, ({ socket }, index) => {
        if (index > 0) return void socket.write(publish('t', 'second', { qos: 0 }))
        socket.end(Buffer.concat(Array.from({ length: 500 }, () => publish('t', 'first', { qos: 0 }))))
      })
      const node = await boot({
        plugins: ['mqtt', spy],
        config: { mqtt: { broker: '127.0.0.1', port: broker.port, topics: ['#'], format: 'spy', max_in_flight: 4, reconnect_ms: 100 } },
      })
      t.teardown(() => node.stop())
      await eventually(() => calls.includes('second'))
      const second = calls.indexOf('second')
      const last = calls.lastIndexOf('first', second)
      t.ok(last > 0)
      t.ok(calls.slice(last, second).includes('interrupted'), calls.slice(last).join(' '))
      t.equal(most, slow ? 1 : 0, 'one at a time')
    },
  )
}

t.test('user properties count as what is in flight, and are not kept', async (t) => {
  const COUNT = 60
  // A property, its two lengths, and a name that is another's nowhere; 700 kB of them.
  const properties = Buffer.concat(
    Array.from({ length: 60_000 }, (_, i) => Buffer.concat([Buffer.from([0x26, 0, 7]), Buffer.from(String(1_000_000 + i)), Buffer.alloc(2)])),
  )
  const broker = await rawBroker(t, ({ socket }) => {
    for (let i = 1; i <= COUNT; i++) socket.write(publish('t', `cpu,n=${i} v=1`, { id: i, five: true, properties }))
  })
  let full = true
  const node = await start(t, {
    ...{ broker: '127.0.0.1', port: broker.port, topics: ['#'], format: 'line_protocol', protocol_version: '5', max_in_flight_bytes: 4 * MIB },
  })
  const { storage } = node
  const write = storage.write.bind(storage)
  storage.write = async (batch, how) => {
    if (full) throw new SvcError('STORAGE_FULL', 'full')
    return write(batch, how)
  }
  const received = async () => Number((await listed(node))[0].metrics.messages_total)
  await eventually(async () => (await received()) > 0)
  for (let before = -1; before !== (await received()); await sleep(500)) before = await received()
  t.ok((await received()) <= 8, `${await received()} messages of 700 kB are in flight, of 4 MiB`)
  full = false
  await eventually(() => broker.connections[0].acked.length === COUNT)
  t.equal((await rowsOf(node)).length, COUNT)
})
