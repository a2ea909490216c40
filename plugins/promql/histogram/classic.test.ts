import t from 'tap'
import { bucketFraction, bucketQuantile, Repair } from './classic.ts'

const { POSITIVE_INFINITY: INF, NEGATIVE_INFINITY: MINUS_INF } = Number

function quantile(q: number, buckets: [number, number][], repair = new Repair()): number {
  return bucketQuantile(
    q,
    Float64Array.from(buckets, ([bound]) => bound),
    Float64Array.from(buckets, ([, count]) => count),
    buckets.length,
    repair,
  )
}
const fraction = (from: number, to: number, buckets: [number, number][]): number =>
  bucketFraction(
    from,
    to,
    Float64Array.from(buckets, ([bound]) => bound),
    Float64Array.from(buckets, ([, count]) => count),
    buckets.length,
  )

const latency: [number, number][] = [
  [1, 10],
  [2, 30],
  [5, 40],
  [INF, 50],
]

t.test('quantiles are interpolated within their bucket', async (t) => {
  t.same(
    [0.1, 0.2, 0.4, 0.7, 0.8, 0.95].map((q) => quantile(q, latency)),
    [0.5, 1, 1.5, 3.5, 5, 5],
  )
  t.same(
    [-1, 2, Number.NaN].map((q) => quantile(q, latency)),
    [MINUS_INF, INF, Number.NaN],
  )
  t.equal(
    quantile(0.1, [
      [-1, 10],
      [1, 20],
      [INF, 20],
    ]),
    -1,
    'nothing is known below a first bound that is negative',
  )
})

t.test('the order does not matter, and equal bounds count together', async (t) => {
  t.equal(quantile(0.4, [latency[3], latency[1], latency[2], [1, 4], [1, 6]]), 1.5)
  t.equal(fraction(1, 2, [latency[3], latency[1], latency[2], [1, 4], [1, 6]]), 0.4)
})

t.test('without +Inf, without observations, with one bucket alone', async (t) => {
  const empty: [number, number][] = [
    [1, 0],
    [INF, 0],
  ]
  for (const buckets of [latency.slice(0, 3), [], [[INF, 10]] as [number, number][], empty]) t.same(quantile(0.5, buckets), Number.NaN)
  for (const buckets of [latency.slice(0, 3), [], empty]) t.same(fraction(0, 1, buckets), Number.NaN)
})

t.test('counts that fall are raised, and it is said which', async (t) => {
  const repair = new Repair()
  t.equal(
    quantile(
      0.5,
      [
        [1, 10],
        [2, 7],
        [5, 9],
        [10, 20],
        [INF, 20],
      ],
      repair,
    ),
    1,
  )
  t.match(repair, { forcedMonotonic: true, fixedPrecision: false, minBucket: 2, maxBucket: 5, maxDiff: 3 })
  t.equal(
    quantile(
      0.5,
      [
        [1, 1e13],
        [2, 1e13 + 1],
        [INF, 1e13 - 1],
      ],
      repair,
    ),
    0.5,
  )
  t.match(repair, { forcedMonotonic: false, fixedPrecision: true, maxDiff: 0 }, 'rounding is repaired in silence')
})

t.test('fractions', async (t) => {
  t.equal(fraction(MINUS_INF, 2, latency), 0.6)
  t.equal(fraction(0.5, 1.5, latency), 0.3)
  t.equal(fraction(5, INF, latency), 0.2)
  t.equal(fraction(7, INF, latency), 0.2, 'all above the last bound is above')
  t.same([fraction(2, 2, latency), fraction(Number.NaN, 2, latency)], [0, Number.NaN])
  t.equal(
    fraction(MINUS_INF, -2, [
      [-1, 10],
      [INF, 20],
    ]),
    0.5,
  )
})
