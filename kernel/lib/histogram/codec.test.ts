import t from 'tap'
import { ByteHeap } from '../columns/index.ts'
import { decodeHistogram, encodeHistogram, encodeHistogramInto, isStaleHistogram, staleHistogram } from './codec.ts'
import { emptyHistogram, type NativeHistogram } from './native-histogram.ts'

const histogram = (parts: Partial<NativeHistogram> = {}): NativeHistogram => ({ ...emptyHistogram(), ...parts })

const cases: Record<string, NativeHistogram> = {
  'nothing observed': histogram(),
  'integers on both sides': histogram({
    schema: 3,
    counterReset: 'not_reset',
    count: 1234,
    sum: -18.4,
    zeroThreshold: 2 ** -128,
    zeroCount: 2,
    positiveSpans: [
      { offset: -4, length: 2 },
      { offset: 300, length: 1 },
    ],
    positiveCounts: Float64Array.of(1, 700, 3),
    negativeSpans: [{ offset: 0, length: 3 }],
    negativeCounts: Float64Array.of(0, 2 ** 52, 0),
  }),
  fractions: histogram({
    schema: -4,
    counterReset: 'gauge',
    count: 0.1,
    sum: Number.NaN,
    zeroThreshold: 0.001,
    zeroCount: 1e300,
    positiveSpans: [{ offset: 1, length: 2 }],
    positiveCounts: Float64Array.of(1 / 3, Number.POSITIVE_INFINITY),
    integer: false,
  }),
  'counts too large to pack, and a negative zero': histogram({
    count: 2 ** 53,
    sum: -0,
    zeroThreshold: 1e-320,
    positiveSpans: [{ offset: 1, length: 2 }],
    positiveCounts: Float64Array.of(-0, 2 ** 53),
    integer: false,
  }),
  'custom buckets': histogram({
    schema: -53,
    counterReset: 'reset',
    count: 5,
    sum: 1.5,
    positiveSpans: [{ offset: 1, length: 2 }],
    positiveCounts: Float64Array.of(2, 3),
    customBounds: Float64Array.of(-1, 0.1, 5),
  }),
  'an empty span': histogram({ positiveSpans: [{ offset: 1, length: 0 }] }),
}

for (const [name, h] of Object.entries(cases)) {
  t.test(`what is encoded is decoded: ${name}`, async (t) => {
    const bytes = encodeHistogram(h)
    t.strictSame(decodeHistogram(bytes), h)
    t.equal(isStaleHistogram(bytes), false)
    const heap = new ByteHeap()
    heap.reserve(1020)
    const at = encodeHistogramInto(heap, h)
    t.equal(at, 1020, 'appended to a heap that grows')
    t.strictSame(heap.bytes.slice(at, heap.length), bytes)
    t.strictSame(decodeHistogram(heap.bytes, at, heap.length), h)
  })
  t.test(`no part of it, and nothing behind it, is taken for a histogram: ${name}`, async (t) => {
    const bytes = encodeHistogram(h)
    for (let end = 0; end < bytes.length; end++) t.throws(() => decodeHistogram(bytes, 0, end), RangeError, `${end} bytes`)
    const longer = new Uint8Array(bytes.length + 1)
    longer.set(bytes)
    t.throws(() => decodeHistogram(longer), { message: 'cannot decode a histogram: 1 bytes are left at its end' })
  })
}

t.test('integers are small', async (t) => {
  t.equal(encodeHistogram(cases['nothing observed']).length, 16)
  const counts = Float64Array.from({ length: 160 }, (_, i) => 1_000_000 + i * 5)
  const h = histogram({ count: counts.reduce((a, b) => a + b), positiveSpans: [{ offset: -80, length: 160 }], positiveCounts: counts })
  t.ok(encodeHistogram(h).length < 200, 'a byte a bucket where adjacent ones are alike')
})

t.test('a staleness marker', async (t) => {
  t.ok(isStaleHistogram(staleHistogram()))
  const bytes = Uint8Array.of(9, ...staleHistogram())
  t.ok(isStaleHistogram(bytes, 1, 3))
  t.match(decodeHistogram(bytes, 1, 3), { count: 0, sum: Number.NaN, positiveSpans: [], negativeSpans: [] })
})

t.test('what is no histogram is refused', async (t) => {
  t.throws(() => decodeHistogram(Uint8Array.of(2, 0)), { message: 'cannot decode a histogram: it is of version 2, this server knows 1' })
  t.throws(() => decodeHistogram(Uint8Array.of(1, 64)), { message: 'cannot decode a histogram: its flags 64 are unknown' })
  const head = [1, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
  t.throws(
    () => decodeHistogram(Uint8Array.of(...head, 1, 2, 255, 255, 255, 255, 3, 0)),
    { message: /ends early|out of reach/ },
    'a billion buckets in a few bytes',
  )
  t.throws(() => decodeHistogram(Uint8Array.of(...head, 1, 255, 255, 255, 255, 255, 1, 0, 0)), { message: /out of reach/ })
  t.throws(() => decodeHistogram(Uint8Array.of(...head, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1)), { message: /too long/ })
})

t.test('random bytes never do more than throw a RangeError', async (t) => {
  let seed = 7
  const random = (): number => (seed = (seed * 48271) % 2147483647)
  const sources = Object.values(cases).map(encodeHistogram)
  for (let round = 0; round < 5000; round++) {
    const bytes = sources[random() % sources.length].slice()
    for (let n = 1 + (random() % 3); n > 0; n--) bytes[random() % bytes.length] = random() % 256
    try {
      const h = decodeHistogram(bytes)
      if (h.positiveCounts.length + h.negativeCounts.length > bytes.length) t.fail('more buckets than bytes')
    } catch (error) {
      if (!(error instanceof RangeError)) throw error
    }
  }
  t.pass('5,000 rounds')
})
