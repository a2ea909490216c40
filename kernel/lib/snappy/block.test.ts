import { compressSync } from 'snappy'
import t from 'tap'
import { seeded } from '../random/index.ts'
import { SnappyBlockDecoder } from './block.ts'

t.test('what the library encodes comes back, again and again in the same memory', async (t) => {
  const random = seeded(5)
  const decoder = new SnappyBlockDecoder()
  for (let round = 0; round < 300; round++) {
    // Runs of a few words: copies near and far, long and short, overlapping ones too.
    const words = Array.from({ length: 1 + Math.floor(random() * 20) }, () => Buffer.from(Array.from({ length: 1 + random() * 90 }, () => random() * 256)))
    const parts = Array.from({ length: Math.floor(random() * (round % 50 === 0 ? 20_000 : 200)) }, () => words[Math.floor(random() * words.length)])
    const bytes = Buffer.concat(parts)
    if (!bytes.equals(decoder.decode(compressSync(bytes)))) t.fail(`round ${round}, ${bytes.length} bytes`)
  }
  const large = Buffer.alloc(9_000_000, 'large blocks get memory of their own')
  t.ok(large.equals(decoder.decode(compressSync(large))))
  t.equal(Buffer.from(decoder.decode(compressSync('small'))).toString(), 'small')
})

t.test('elements that the library does not write', async (t) => {
  const decoder = new SnappyBlockDecoder()
  const text = (...bytes: number[]) => Buffer.from(decoder.decode(Uint8Array.from(bytes))).toString()
  t.equal(text(0), '')
  t.equal(text(5, 60 << 2, 4, 104, 101, 108, 108, 111), 'hello', 'a literal whose length takes a byte more than needed')
  t.equal(text(6, 1 << 2, 97, 98, (3 << 2) | 3, 2, 0, 0, 0), 'ababab', 'a copy with an offset of four bytes')
  t.equal(text(5, 0, 97, 1, 1), 'aaaaa', 'a copy of what it writes itself')
})

t.test("corruption is the sender's fault, and named with its place", async (t) => {
  const decoder = new SnappyBlockDecoder()
  const cases: [number[], RegExp][] = [
    [[], /does not begin with a length/],
    [[0x80], /does not begin with a length/],
    [[0xff, 0xff, 0xff, 0xff, 0x0f, 0], /names a length of 4294967295 bytes, which 6 cannot hold, at byte 0/],
    [[5, 4 << 2, 104], /a literal is longer than what is left, at byte 2/],
    [[1, 4 << 2, 1, 2, 3, 4, 5], /a literal is longer than what is left/],
    [[5, 61 << 2, 1], /ends in the middle of a length/],
    [[5, 0x01], /ends in the middle of a copy/],
    [[5, 0x02, 1], /ends in the middle of a copy/],
    [[5, 0x03, 1, 0, 0], /ends in the middle of a copy/],
    [[5, 0x01, 1], /a copy reaches out of what there is/],
    [[5, 0, 97, 0x01, 0], /a copy reaches out of what there is/],
    [[5, 0, 97, 0x01, 2], /a copy reaches out of what there is/],
    [[3, 0, 97, 0x01, 1], /a copy reaches out of what there is/],
    [[2, 0, 97], /it has 1 bytes, not the 2 it names/],
  ]
  for (const [bytes, text] of cases) t.throws(() => decoder.decode(Uint8Array.from(bytes)), { code: 'BAD_REQUEST', message: text }, bytes.join(' '))
  const random = seeded(9)
  const block = compressSync(Buffer.from('some text, some text, and some more text'.repeat(20)))
  for (let round = 0; round < 3000; round++) {
    const broken = Buffer.from(block)
    for (let i = 0; i < 3; i++) broken[Math.floor(random() * broken.length)] = Math.floor(random() * 256)
    try {
      decoder.decode(broken)
    } catch (error) {
      if ((error as { code?: string }).code !== 'BAD_REQUEST') t.error(error)
    }
  }
})
