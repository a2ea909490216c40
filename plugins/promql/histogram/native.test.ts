import { encodeHistogram, staleHistogram } from 'svcdb/lib/histogram'
import t from 'tap'
import { HistogramDecoder, toNative } from './native.ts'
import { histogram } from './testing.ts'

const cases = [
  histogram({ schema: 3, hint: 'reset', count: 99, sum: 1.5, zeroThreshold: 0.01, zeroCount: 4, positive: { '-7': 1, '-6': 2, 3: 0.5 }, negative: { 2: 1 } }),
  histogram({ bounds: [1, 2, 3], positive: { 0: 1, 3: 2 } }),
  histogram({}),
]

t.test('buckets are written in spans', async (t) => {
  t.same(toNative(cases[0]).positiveSpans, [
    { offset: -7, length: 2 },
    { offset: 8, length: 1 },
  ])
})

t.test('there and back, by way of bytes', async (t) => {
  const decoder = new HistogramDecoder()
  const all = cases.map((h) => encodeHistogram(toNative(h)))
  const heap = Buffer.concat(all)
  let at = 0
  for (const [i, bytes] of all.entries()) {
    const h = decoder.decode(heap, at, (at += bytes.length))
    t.ok(h?.equals(cases[i]))
    t.equal(h?.counterReset, cases[i].counterReset)
  }
  const [first, second] = [0, 0].map((place) => decoder.decode(all[place], 0, all[place].length))
  t.equal(first?.positive.index, second?.positive.index, 'adjacent ones with the same buckets share their numbers')
  first?.mul(2)
  t.ok(second?.equals(cases[0]))
  t.equal(decoder.decode(staleHistogram(), 0, 2), undefined, 'a staleness marker')
  t.throws(() => decoder.decode(Uint8Array.of(1), 0, 1), RangeError)
})
