import t from 'tap'
import { seeded } from '../random/index.ts'
import { SnappyParts } from './parts.ts'
import { decodeSnappy, snappyLength } from './snappy.ts'

const seed = Math.floor(Math.random() * 2 ** 31)

t.test('parts are a block, whatever came between them', async (t) => {
  t.comment(`seed ${seed}`)
  const random = seeded(seed)
  for (let round = 0; round < 50; round++) {
    const parts = new SnappyParts()
    const expected: Buffer[] = []
    for (let i = Math.floor(random() * 6); i >= 0; i--) {
      const inner = new SnappyParts()
      const bytes = Buffer.alloc(Math.floor(random() ** 3 * 300_000), `${round} of ${i}, again and again`)
      const head = Buffer.alloc(1 + Math.floor(random() * 60), 'head')
      await inner.add(bytes)
      bytes.fill(0)
      bytes.fill(`${round} of ${i}, again and again`)
      parts.literal(head)
      parts.append(inner)
      expected.push(head, bytes)
    }
    const whole = Buffer.concat(expected)
    t.equal(parts.length, whole.length)
    const { bytes } = parts
    const [length, ...rest] = [...parts.take()]
    t.equal(bytes, Buffer.concat(rest).length)
    const block = Buffer.concat([length, ...rest])
    t.equal(snappyLength(block), whole.length)
    t.ok(whole.equals(Buffer.from(await decodeSnappy(block, whole.length))), `${whole.length} bytes`)
  }
})

t.test('nothing at all, and literals that are too long', async (t) => {
  const parts = new SnappyParts()
  await parts.add(new Uint8Array(0))
  t.same([...parts.take()], [Uint8Array.of(0)])
  for (const length of [0, 61]) t.throws(() => parts.literal(new Uint8Array(length)), RangeError)
})
