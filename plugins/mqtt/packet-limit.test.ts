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
