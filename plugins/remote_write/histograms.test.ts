import t from 'tap'
import { decoding, encode } from './testing-decoding.ts'
import { STALE, type WireSeries } from './testing-wire.ts'

const MS = 1_700_000_000_000

for (const version of [1, 2] as const) {
  t.test(`version ${version}: native histograms, integers, floats and boundaries of their own`, async (t) => {
    const b = decoding()
    const spans: [number, number][] = [
      [-2, 2],
      [3, 1],
    ]
    const series: WireSeries[] = [
      {
        labels: [['__name__', 'h']],
        histograms: [
          {
            ms: MS,
            countInt: 12,
            sum: 4.5,
            schema: 3,
            zeroThreshold: 0.001,
            zeroInt: 1,
            positiveSpans: spans,
            positiveDeltas: [2, 1, -2],
            negativeSpans: [[0, 1]],
            negativeDeltas: [5],
            reset: 2,
          },
          { ms: MS + 1, countFloat: 2.5, sum: -1, schema: 0, zeroFloat: 0.5, positiveSpans: [[0, 2]], positiveCounts: [1.5, 0.5], reset: 3 },
          { ms: MS + 2, countInt: 3, sum: 9, schema: -53, positiveSpans: [[0, 2]], positiveDeltas: [1, 1], bounds: [0.5] },
          { ms: MS + 3, sumBits: STALE },
        ],
      },
    ]
    const outcome = b.message(version, encode(version, series))
    t.match(outcome, { floatRows: 0, histogramRows: 4, refusedHistograms: 0, nonFinite: 0 })
    const [integer, float, custom, stale] = b.stored()
    t.match(integer, { schema: 3, counterReset: 'not_reset', count: 12, sum: 4.5, zeroThreshold: 0.001, zeroCount: 1, integer: true })
    t.match(integer, {
      positiveSpans: [
        { offset: -2, length: 2 },
        { offset: 3, length: 1 },
      ],
      positiveCounts: Float64Array.of(2, 3, 1),
      negativeCounts: Float64Array.of(5),
    })
    t.match(float, { schema: 0, counterReset: 'gauge', count: 2.5, sum: -1, zeroCount: 0.5, positiveCounts: Float64Array.of(1.5, 0.5), integer: false })
    t.match(custom, { schema: -53, counterReset: 'unknown', customBounds: Float64Array.of(0.5), positiveCounts: Float64Array.of(1, 2) })
    t.equal(stale, 'stale')
  })

  t.test(`version ${version}: histograms that are none`, async (t) => {
    const bad: [NonNullable<WireSeries['histograms']>[number], RegExp][] = [
      [{ ms: MS, countInt: 1, schema: 99 }, /unknown schema/],
      [{ ms: MS, countInt: 5, schema: 0, positiveSpans: [[0, 2]], positiveDeltas: [1] }, /spans specify different number of buckets/],
      [{ ms: MS, countInt: 9, schema: 0, positiveSpans: [[0, 1]], positiveDeltas: [1] }, /observation count/],
      [
        { ms: MS, countInt: 101, schema: 0, positiveSpans: [[0, 101]], positiveDeltas: [1, ...Array(100).fill(0)] },
        /101 buckets.*max_buckets_per_histogram is 100/,
      ],
      [{ ms: 1e15, countInt: 0 }, /outside the range/],
    ]
    for (const [histogram, text] of bad) {
      const b = decoding()
      const outcome = b.message(version, encode(version, [{ labels: [['__name__', 'h']], histograms: [histogram, { ms: MS, countInt: 0 }] }]))
      t.match(outcome, { histogramRows: 1, refusedHistograms: 1 })
      t.match(outcome.failures[0].message, text)
    }
  })

  t.test(`version ${version}: a metric holds floats or histograms, and markers end either`, async (t) => {
    const b = decoding()
    const labels: WireSeries['labels'] = [['__name__', 'h']]
    const histogram = { ms: MS, countInt: 0 }
    const mixed = b.message(
      version,
      encode(version, [
        { labels, histograms: [histogram] },
        {
          labels,
          samples: [
            { ms: MS, value: 1 },
            { ms: MS, value: STALE },
          ],
        },
      ]),
    )
    t.match(mixed, { histogramRows: 2, floatRows: 0, refusedSamples: 1, samplesAsHistograms: 1 })
    t.match(mixed.failures[0], {
      position: 1,
      code: 'SCHEMA_ERROR',
      message: /field "value" of measurement "h": it is of type histogram, the point has float64/,
    })
    t.equal(b.stored()[1], 'stale')
    const other = decoding()
    const turned = other.message(
      version,
      encode(version, [
        { labels, samples: [{ ms: MS, value: 1 }] },
        { labels, histograms: [histogram, { ms: MS + 1, sumBits: STALE }] },
      ]),
    )
    t.match(turned, { floatRows: 2, histogramRows: 0, refusedHistograms: 1, histogramsAsSamples: 1 })
    t.same(other.bits().slice(2), [2, 0x7ff00000])
    other.resolver.measurement('', 'int').fields.set('value', { name: 'value', type: 'int64' })
    const int = other.message(version, encode(version, [{ labels: [['__name__', 'int']], samples: [{ ms: MS, value: 1 }] }]))
    t.match(int.failures[0].message, /it is of type int64/)
  })
}
