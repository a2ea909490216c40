import t from 'tap'
import { seeded } from '../random/index.ts'
import { BoundedBytes } from './bounded-bytes.ts'

t.test('parts of any size come whole, up to the limit', async (t) => {
  const seed = Date.now() % 1e9
  t.comment(`seed ${seed}`)
  const random = seeded(seed)
  for (let round = 0; round < 200; round++) {
    const all = Buffer.from(Array.from({ length: Math.floor(random() * 5000) }, (_, i) => i % 251))
    const gathered = new BoundedBytes(all.length)
    for (let at = 0; at < all.length; ) {
      const end = Math.min(all.length, at + Math.floor(random() * (random() < 0.5 ? 4 : 2000)))
      if (!gathered.add(all.subarray(at, end))) t.fail('it is within the limit')
      at = end
    }
    if (!gathered.bytes.equals(all)) t.fail(`${all.length} bytes`)
    if (gathered.add(Buffer.alloc(1)) || gathered.add(Buffer.alloc(1))) t.fail('it is beyond the limit')
    if (gathered.bytes.length !== 0) t.fail('it is let go')
  }
  t.pass()
})

t.test('many small parts take no more than twice their bytes', async (t) => {
  const gathered = new BoundedBytes(1 << 20)
  for (let i = 0; i < 100_000; i++) gathered.add(Buffer.of(i))
  t.equal(gathered.length, 100_000)
  t.ok(gathered.bytes.buffer.byteLength <= 200_000)
})
