import { seeded } from 'svcdb/lib/random'
import t from 'tap'
import type { SegmentMeta } from '../threads/segment-entry.ts'
import { RangeIndex, segmentsInRange } from './segments-in-range.ts'

const entry = (id: number, minTime: bigint, maxTime: bigint): SegmentMeta =>
  ({ id, minTime: String(minTime), maxTime: String(maxTime), dirty: null }) as unknown as SegmentMeta

t.test('the segments of a range are those that a look at each one finds, in the order of the list', async (t) => {
  const seed = Number(process.env.SVC_SEED ?? Date.now() % 1e9)
  const random = seeded(seed)
  const below = (n: number): bigint => BigInt(Math.floor(random() * n))
  for (let round = 0; round < 300; round++) {
    const list = Array.from({ length: Number(below(30)) }, (_, id) => {
      const start = below(100) - 50n
      return entry(id, start, start + below(random() < 0.1 ? 100 : 8))
    })
    for (let i = 0; i < 20; i++) {
      const lo = random() < 0.1 ? -(2n ** 63n) : below(120) - 60n
      const hi = random() < 0.1 ? 2n ** 63n - 1n : lo + below(20)
      const expected = list.filter(({ minTime, maxTime }) => BigInt(maxTime) >= lo && BigInt(minTime) <= hi)
      const found = segmentsInRange(list, [lo, hi])
      if (found.length !== expected.length || found.some((segment, j) => segment !== expected[j])) return t.fail(`SVC_SEED=${seed}: ${lo} to ${hi}`)
    }
  }
  t.pass('300 lists')
})

t.test('a range visits what it meets, however many segments lie outside it', async (t) => {
  const visited = (segments: number): number => {
    const index = new RangeIndex(Array.from({ length: segments }, (_, hour) => entry(hour, BigInt(hour) * 3600n, BigInt(hour) * 3600n + 3599n)))
    const last = BigInt(segments) * 3600n
    t.equal(index.find([last - 7200n, last]).length, 2)
    const [from, to] = index.candidates([last - 7200n, last])
    return to - from
  }
  t.same([visited(10), visited(1000), visited(10_000)], [2, 2, 2])
})
