import t from 'tap'
import { decodeSnappy, encodeSnappy, snappyLength } from './snappy.ts'

const text = (bytes: Uint8Array): string => Buffer.from(bytes).toString()

t.test('what was encoded is decoded, small and large', async (t) => {
  for (const length of [0, 1, 70, 100_000, 3_000_000]) {
    const bytes = Buffer.alloc(length, 'abcdefg 0123')
    const block = await encodeSnappy(bytes)
    t.equal(snappyLength(block), length)
    t.ok(bytes.equals(Buffer.from(await decodeSnappy(block, length))), `${length} bytes`)
  }
})

t.test('blocks of other encoders: literals only', async (t) => {
  t.equal(text(await decodeSnappy(Uint8Array.of(5, 4 << 2, 104, 101, 108, 108, 111), 5)), 'hello')
})

t.test('a length above the limit is refused before it is believed', async (t) => {
  const bomb = Uint8Array.of(0xff, 0xff, 0xff, 0xff, 0x0f, 0)
  t.equal(snappyLength(bomb), 2 ** 32 - 1)
  await t.rejects(decodeSnappy(bomb, 1000), { code: 'PAYLOAD_TOO_LARGE', message: /larger than 1000 bytes/ })
})

t.test("corruption is the sender's fault", async (t) => {
  for (const bytes of [[], [0x80], [0xff, 0xff, 0xff, 0xff, 0xff, 0x01], [5, 4 << 2, 104], [200, 1, 0], [5, 0x01, 0x09]]) {
    await t.rejects(decodeSnappy(Uint8Array.from(bytes), 1000), { code: 'BAD_REQUEST', message: /cannot decompress the body as snappy/ }, bytes.join(' '))
  }
})
