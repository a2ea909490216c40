import { seeded } from 'svcdb/lib/random'
import t from 'tap'
import { PacketLimit } from './packet-limit.ts'
import { publish, publishHead } from './testing-raw-broker.ts'

const MAX = 1000
const MOST = MAX + 65_539

/** The packets of a stream: type and length, and the bytes behind it. */
function packets(bytes: Buffer): { type: number; body: Buffer }[] {
  const found: { type: number; body: Buffer }[] = []
  for (let at = 0; at < bytes.length; ) {
    let length = 0
    let end = at + 1
    do length += (bytes[end] & 127) * 128 ** (end - at - 1)
    while (bytes[end++] > 127)
    found.push({ type: bytes[at] >> 4, body: bytes.subarray(end, end + length) })
    at = end + length
  }
  return found
}

t.test('however they are cut into chunks, packets that are not too large are the same, and others are cut', async (t) => {
  const seed = Math.floor(Math.random() * 2 ** 31)
  t.comment(`seed ${seed}`)
  const random = seeded(seed)
  for (let round = 0; round < 30; round++) {
    const sent: Buffer[] = []
    const expected: { length: number; payload: number }[] = []
    for (let i = 0; i < 12; i++) {
      const payload = random() < 0.2 ? MOST + Math.floor(random() * 100_000) : Math.floor(random() * 300)
      const qos = Math.floor(random() * 3)
      const head = publishHead(`t/${i}`, payload, { id: i + 1, qos })
      sent.push(Buffer.concat([head, Buffer.alloc(payload, i)]))
      expected.push({ payload, length: 2 + `t/${i}`.length + (qos > 0 ? 2 : 0) + payload })
    }
    const stream = Buffer.concat(sent)
    const limit = new PacketLimit(MAX)
    const parts: Buffer[] = []
    const step = random() < 0.3 ? 3 : 70_000
    for (let at = 0; at < stream.length; ) {
      const end = Math.min(stream.length, at + 1 + Math.floor(random() * step))
      parts.push(limit.filter(stream.subarray(at, end)))
      at = end
    }
    const found = packets(Buffer.concat(parts))
    t.equal(found.length, sent.length)
    for (const [i, { type, body }] of found.entries()) {
      const { length, payload } = expected[i]
      if (type !== 3 || body.length !== Math.min(length, MOST + 1) || body[body.length - 1] !== (payload === 0 ? body[body.length - 1] : i))
        t.fail(`packet ${i} is damaged`)
      const head = length - payload
      if (limit.payloadOf(body.length, body.length - head) !== payload) t.fail(`packet ${i} had ${payload} bytes`)
    }
  }
})

t.test('of a message of version 5 that is cut, properties that do not fit come as its payload', async (t) => {
  const seed = Math.floor(Math.random() * 2 ** 31)
  t.comment(`seed ${seed}`)
  const random = seeded(seed)
  const under = (most: number): number => Math.floor(random() * most)
  for (let round = 0; round < 60; round++) {
    const sent: { packet: Buffer; head: number; properties: Buffer; payload: Buffer }[] = []
    for (let i = 0; i < 6; i++) {
      const topic = 't'.repeat(random() < 0.2 ? 65_535 - under(3) : under(300))
      const qos = under(3)
      const head = 2 + topic.length + (qos > 0 ? 2 : 0)
      // Some end within a few bytes of where a message is cut.
      const size = random() < 0.5 ? under(300) : random() < 0.5 ? under(200_000) : Math.max(0, MOST - head - 6 + under(8))
      const properties = Buffer.alloc(size, 'p')
      const payload = Buffer.alloc(under(random() < 0.5 ? 200_000 : 300), 'd')
      sent.push({ packet: Buffer.concat([publishHead(topic, payload.length, { id: i + 1, qos, five: true, properties }), payload]), head, properties, payload })
    }
    const stream = Buffer.concat(sent.map(({ packet }) => packet))
    const limit = new PacketLimit(MAX, true)
    const parts: Buffer[] = []
    const step = random() < 0.1 ? 3 : 70_000
    for (let at = 0; at < stream.length; ) {
      const end = Math.min(stream.length, at + 1 + under(step))
      parts.push(limit.filter(stream.subarray(at, end)))
      at = end
    }
    const found = packets(Buffer.concat(parts))
    t.equal(found.length, sent.length)
    for (const [i, { body }] of found.entries()) {
      const { packet, head, properties, payload } = sent[i]
      const [{ body: whole }] = packets(packet)
      const behind = whole.length - payload.length
      const fits = whole.length <= MOST || behind <= MOST + 1
      const expected = fits ? whole : Buffer.concat([whole.subarray(0, head), Buffer.alloc(1), whole.subarray(head)])
      if (!body.equals(expected.subarray(0, MOST + 1))) t.fail(`packet ${i} with ${properties.length} bytes of properties is damaged`)
      const said = limit.payloadOf(body.length, body.length - (fits ? behind : head + 1))
      if (fits && said !== payload.length && !(said === MAX + 1 && whole.length > MOST)) t.fail(`packet ${i} had ${payload.length} bytes, not ${said}`)
      if (!fits && said !== whole.length - head - 1) t.fail(`packet ${i} has ${said} bytes`)
    }
  }
})

t.test('bytes that need no change are handed on as they are', async (t) => {
  const bytes = Buffer.concat([publish('t', 'a'), publish('t', 'b')])
  t.equal(new PacketLimit(MAX).filter(bytes), bytes)
})

t.test('what is no message and too large, or says its length in too many bytes, is refused', async (t) => {
  t.throws(
    () => new PacketLimit(MAX).filter(Buffer.from([0x90, 0xff, 0xff, 0xff, 0x7f])),
    /a packet of 268435455 bytes from the broker: by mqtt\.max_message_bytes/,
  )
  t.throws(() => new PacketLimit(MAX).filter(Buffer.from([0x30, 0xff, 0xff, 0xff, 0xff, 0x7f])), /length in more than four bytes/)
})
