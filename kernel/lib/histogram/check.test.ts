import t from 'tap'
import { checkHistogram, reduceToKept, schemaProblem } from './check.ts'
import type { NativeHistogram } from './native-histogram.ts'

const NONE = new Float64Array(0)

function histogram(parts: Partial<NativeHistogram> = {}): NativeHistogram {
  return {
    schema: 1,
    counterReset: 'unknown',
    count: 7,
    sum: 10,
    zeroThreshold: 0.001,
    zeroCount: 1,
    positiveSpans: [
      { offset: -2, length: 1 },
      { offset: 3, length: 1 },
    ],
    positiveCounts: Float64Array.of(1, 2),
    negativeSpans: [{ offset: 0, length: 1 }],
    negativeCounts: Float64Array.of(3),
    customBounds: NONE,
    integer: true,
    ...parts,
  }
}

const custom: Partial<NativeHistogram> = {
  schema: -53,
  count: 3,
  zeroThreshold: 0,
  zeroCount: 0,
  positiveSpans: [{ offset: 0, length: 2 }],
  positiveCounts: Float64Array.of(1, 2),
  negativeSpans: [],
  negativeCounts: NONE,
  customBounds: Float64Array.of(1, 2.5),
}

t.test('sound ones', async (t) => {
  t.equal(checkHistogram(histogram()), undefined)
  t.equal(checkHistogram(histogram(custom)), undefined)
  t.equal(checkHistogram(histogram({ sum: Number.NaN, count: 9 })), undefined, 'observations of NaN are in no bucket')
  t.equal(checkHistogram(histogram({ integer: false, count: 6.5 })), undefined, 'doubles need not add up')
  t.equal(checkHistogram(histogram({ ...custom, customBounds: Float64Array.of(1) })), undefined, 'one bucket more than bounds: up to +Inf')
})

const refusals: [string, Partial<NativeHistogram>, string][] = [
  ['schema', { schema: 9 }, 'histogram has an invalid schema, which must be between -4 and 8 for exponential buckets, or -53 for custom buckets, got schema 9'],
  [
    'total',
    { count: 8 },
    "7 observations found in buckets, but the Count field is 8: histogram's observation count should equal the number of observations found in the buckets (in absence of NaN)",
  ],
  [
    'total with NaN',
    { count: 6, sum: Number.NaN },
    "7 observations found in buckets, but the Count field is 6: histogram's observation count should be at least the number of observations found in the buckets",
  ],
  ['negative count', { integer: false, count: -1.5 }, "observation count is  -1.5: histogram's observation count is negative"],
  [
    'negative bucket',
    { positiveCounts: Float64Array.of(1, -2) },
    'positive side: bucket number 2 has observation count of -2: histogram has a bucket whose observation count is negative',
  ],
  [
    'negative bucket of the negative side',
    { integer: false, negativeCounts: Float64Array.of(-1e6) },
    'negative side: bucket number 1 has observation count of -1e+06: histogram has a bucket whose observation count is negative',
  ],
  ['negative zero bucket', { zeroCount: -1 }, 'zero bucket has observation count of -1: histogram has a bucket whose observation count is negative'],
  [
    'spans and buckets',
    { positiveSpans: [{ offset: 0, length: 3 }] },
    'positive side: spans need 3 buckets, have 2 buckets: histogram spans specify different number of buckets than provided',
  ],
  [
    'offset',
    {
      negativeSpans: [
        { offset: 0, length: 1 },
        { offset: -1, length: 0 },
      ],
    },
    'negative side: span number 2 with offset -1: histogram has a span whose offset is negative',
  ],
  ['far away', { positiveSpans: [{ offset: 2 ** 31 - 1, length: 2 }] }, 'positive side: span number 1 with offset 2147483647: it is beyond all numbers'],
  ['bounds of exponential buckets', { customBounds: Float64Array.of(1) }, 'histogram with exponential schema must not have custom bounds'],
  [
    'bounds that do not ascend',
    { ...custom, customBounds: Float64Array.of(1, 1) },
    'custom buckets: previous bound is 1.000000 and current is 1.000000: histogram custom bounds must be in strictly increasing order',
  ],
  ['a bound of NaN', { ...custom, customBounds: Float64Array.of(1, Number.NaN) }, 'custom buckets: histogram custom bounds must not be NaN'],
  [
    'a bound of +Inf',
    { ...custom, customBounds: Float64Array.of(1, Number.POSITIVE_INFINITY) },
    'custom buckets: last +Inf bound must not be explicitly defined: histogram custom bounds must be finite',
  ],
  [
    'too few bounds',
    { ...custom, customBounds: NONE },
    'custom buckets: only 0 custom bounds defined which is insufficient to cover total span length of 2: histogram custom bounds are too few',
  ],
  [
    'a first offset below zero',
    { ...custom, positiveSpans: [{ offset: -1, length: 2 }] },
    'custom buckets: span number 1 with offset -1: histogram has a span whose offset is negative',
  ],
  ['zero count', { ...custom, zeroCount: 1 }, 'custom buckets: must have zero count of 0'],
  ['zero threshold', { ...custom, zeroThreshold: 1 }, 'custom buckets: must have zero threshold of 0'],
  ['negative spans', { ...custom, negativeSpans: [{ offset: 0, length: 0 }] }, 'custom buckets: must not have negative spans'],
  ['negative buckets', { ...custom, negativeCounts: Float64Array.of(1) }, 'custom buckets: must not have negative buckets'],
]
for (const [name, parts, text] of refusals) t.test(`refused: ${name}`, async (t) => t.equal(checkHistogram(histogram(parts)), text))

t.test('finer than kept is reduced', async (t) => {
  t.equal(schemaProblem(52), undefined)
  t.equal(schemaProblem(-53), undefined)
  t.match(schemaProblem(53), /unknown schema, which must be between -9 and 52 .* got schema 53$/)
  const h = histogram({
    schema: 10,
    positiveSpans: [
      { offset: -1, length: 4 },
      { offset: 6, length: 1 },
    ],
    positiveCounts: Float64Array.of(1, 2, 4, 8, 16),
    negativeSpans: [],
    negativeCounts: NONE,
  })
  t.strictSame(reduceToKept(h), {
    ...h,
    schema: 8,
    // Buckets -1 and 0 end up in 0, 1 and 2 in 1, 9 in 3.
    positiveSpans: [
      { offset: 0, length: 2 },
      { offset: 1, length: 1 },
    ],
    positiveCounts: Float64Array.of(3, 12, 16),
  })
  const kept = histogram()
  t.equal(reduceToKept(kept), kept)
})
