import t from 'tap'
import { encodeHistogram, staleHistogram } from './codec.ts'
import { storedHistogramJson } from './json.ts'
import type { NativeHistogram } from './native-histogram.ts'

const NONE = new Float64Array(0)
const h: NativeHistogram = {
  schema: 0,
  counterReset: 'unknown',
  count: 9,
  sum: 12.5,
  zeroThreshold: 0.25,
  zeroCount: 2,
  positiveSpans: [{ offset: 1, length: 3 }],
  positiveCounts: Float64Array.of(3, 0, 1),
  negativeSpans: [{ offset: 0, length: 1 }],
  negativeCounts: Float64Array.of(3),
  customBounds: NONE,
  integer: true,
}

t.test('what is stored, as JSON', async (t) => {
  t.same(JSON.parse(storedHistogramJson(encodeHistogram(h))), {
    count: 9,
    sum: 12.5,
    schema: 0,
    buckets: [
      [-1, -0.5, 3],
      [-0.25, 0.25, 2],
      [1, 2, 3],
      [4, 8, 1],
    ],
  })
  const custom: NativeHistogram = {
    ...h,
    schema: -53,
    sum: Number.NaN,
    positiveSpans: [{ offset: 0, length: 2 }],
    positiveCounts: Float64Array.of(4, 5),
    zeroCount: 0,
    zeroThreshold: 0,
    negativeSpans: [],
    negativeCounts: NONE,
    customBounds: Float64Array.of(0.5),
  }
  t.equal(storedHistogramJson(encodeHistogram(custom)), '{"count":9,"sum":null,"schema":-53,"buckets":[[null,0.5,4],[0.5,null,5]]}')
  t.equal(storedHistogramJson(staleHistogram()), 'null')
  t.throws(() => storedHistogramJson(Uint8Array.of(1, 2)), RangeError)
})
