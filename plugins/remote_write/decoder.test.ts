import { WriteBatch } from 'svcdb/lib/columns'
import { FakeResolver, Message, pointsOf } from 'svcdb/testkit'
import t from 'tap'
import { NOTHING_WRITTEN, tallyOf } from './answer.ts'
import { fuzz } from './decoder.fuzz.ts'
import { RequestDecoder } from './decoder.ts'
import { decoding, encode } from './testing-decoding.ts'
import { labelOf, STALE, sampleOf, type WireSeries, writeRequest, writeRequestV2 } from './testing-wire.ts'

const MS = 1_700_000_000_000
const NS = BigInt(MS) * 1_000_000n

for (const version of [1, 2] as const) {
  t.test(`version ${version}: samples of many series`, async (t) => {
    const b = decoding()
    const series: WireSeries[] = [
      {
        labels: [
          ['__name__', 'up'],
          ['job', 'node'],
        ],
        samples: [
          { ms: MS, value: 1 },
          { ms: MS + 1, value: 0 },
        ],
      },
      {
        labels: [
          ['job', 'é'],
          ['__name__', 'load'],
          ['empty', ''],
        ],
        samples: [{ ms: -1, value: -0.5 }],
        exemplars: 2,
      },
    ]
    const expected = [
      ['up', { job: 'node' }, NS, 1],
      ['up', { job: 'node' }, NS + 1_000_000n, 0],
      ['load', { job: 'é' }, -1_000_000n, -0.5],
    ]
    for (let round = 0; round < 3; round++) {
      const outcome = b.message(version, encode(version, series))
      t.same(b.points(), expected)
      t.match(outcome, { floatRows: 3, histogramRows: 0, refusedSamples: 0, exemplars: 2, nonFinite: 0, failures: [] })
    }
    t.equal(b.resolver.calls, 2, 'known series are not taken apart again')
  })

  t.test(`version ${version}: known series in another order, with longer and shorter label lists`, async (t) => {
    const b = decoding()
    const one = (...labels: [string, string][]): WireSeries => ({ labels: [['__name__', 'm'], ...labels], samples: [{ ms: MS, value: 1 }] })
    const list = [one(), one(['a', '1']), one(['a', '1'], ['b', '2']), one(['a', '12']), one(['b', '2'])]
    for (const order of [
      [0, 1, 2, 3, 4],
      [4, 3, 2, 1, 0],
      [0, 2, 1, 4, 3],
      [2, 0, 0, 1, 2],
    ]) {
      b.message(
        version,
        encode(
          version,
          order.map((i) => list[i]),
        ),
      )
      t.same(
        b.points().map(([, tags]) => tags),
        order.map((i) => Object.fromEntries(list[i].labels.slice(1))),
      )
    }
    t.equal(b.resolver.calls, 5)
  })

  t.test(`version ${version}: bits of values that are no numbers`, async (t) => {
    const b = decoding()
    const values = [1, STALE, 0x7ff8000000000001n, 0xfff8000000000000n, 0x7ff0000000000001n, 0x7ff0000000000000n, 0xfff0000000000000n]
    const outcome = b.message(version, encode(version, [{ labels: [['__name__', 'm']], samples: values.map((value, i) => ({ ms: MS + i, value })) }]))
    const [one, ...rest] = Array.from({ length: 7 }, (_, i) => b.bits().slice(i * 2, i * 2 + 2))
    t.same(one, [0, 0x3ff00000])
    t.same(rest, [[2, 0x7ff00000], ...Array(3).fill([1, 0x7ff80000]), [0, 0x7ff00000], [0, 0xfff00000]])
    t.match(outcome, { floatRows: 7, nonFinite: 6 })
  })

  t.test(`version ${version}: what is not finite is left out where the config says so`, async (t) => {
    const b = decoding()
    const labels: WireSeries['labels'] = [['__name__', 'm']]
    const values = [STALE, 0x3ff0000000000000n, 0x7ff0000000000000n, 0x7ff8000000000001n]
    const floats: WireSeries = { labels, samples: values.map((value, i) => ({ ms: MS + i, value })) }
    const histograms: WireSeries = { labels: [['__name__', 'h']], histograms: [{ ms: MS, sumBits: STALE }] }
    const outcome = b.message(version, encode(version, [floats, histograms]), 1e9, true)
    t.match(outcome, { floatRows: 1, histogramRows: 0, nonFinite: 4, skippedSamples: 3, skippedHistograms: 1, failures: [] })
    t.match(tallyOf(outcome, { written: 1, rejected: 0, rejections: [] }, NOTHING_WRITTEN), { samples: 4, histograms: 1, rejected: 0 }, 'they were taken')
    t.same(
      b.points().map(([, , , value]) => value),
      [1],
    )
  })

  t.test(`version ${version}: a staleness marker before any sample of its metric does not settle its type`, async (t) => {
    const b = decoding()
    const labels: WireSeries['labels'] = [['__name__', 'm']]
    const marker: WireSeries = { labels, samples: [{ ms: MS, value: STALE }] }
    const fields = () => pointsOf(b.floats, b.resolver).map(({ fields }) => Object.keys(fields))
    t.match(b.message(version, encode(version, [marker])), { floatRows: 1, nonFinite: 1 })
    t.same(fields(), [['value:float']])
    const sample: WireSeries = { labels, samples: [{ ms: MS, value: 1 }] }
    t.match(b.message(version, encode(version, [marker, sample, marker])), { floatRows: 3, nonFinite: 2 })
    t.same(fields(), [['value:float'], ['value'], ['value']])
    t.match(b.message(version, encode(version, [marker, { labels, histograms: [{ ms: MS, countInt: 0 }] }])), { floatRows: 1, histogramRows: 1, failures: [] })
    t.match(b.message(version, encode(version, [{ labels, histograms: [{ ms: MS, sumBits: STALE }] }])), { floatRows: 0, histogramRows: 1, failures: [] })
    t.same(b.stored(), ['stale'])
  })

  t.test(`version ${version}: series with bad labels are refused, the others are not`, async (t) => {
    const bad: [WireSeries['labels'], RegExp][] = [
      [[['a', 'b']], /it has no label "__name__"/],
      [[['__name__', '']], /it has no label "__name__"/],
      [
        [
          ['__name__', 'm'],
          ['a', '1'],
          ['a', '2'],
        ],
        /the label "a" occurs twice/,
      ],
      [
        [
          ['__name__', 'm'],
          ['a', ''],
          ['a', '2'],
        ],
        /the label "a" occurs twice/,
      ],
      [
        [
          ['__name__', 'm'],
          ['__name__', 'n'],
        ],
        /"__name__" occurs twice/,
      ],
      [
        [
          ['__name__', 'm'],
          ['', '1'],
        ],
        /a label has an empty name/,
      ],
      [
        [
          ['__name__', 'm'],
          ['a', Uint8Array.of(0xff)],
        ],
        /the value of label "a" is not UTF-8/,
      ],
      [
        [
          ['__name__', 'm'],
          [Uint8Array.of(0xff), 'a'],
        ],
        /a label name is not UTF-8/,
      ],
      [[['__name__', Uint8Array.of(0xff)]], /the name of the metric is not UTF-8/],
      [[['__name__', 'm'], ...Array.from({ length: 1025 }, (_, i): [string, string] => [`l${i}`, 'v'])], /more than 1024 labels/],
    ]
    for (const [labels, text] of bad) {
      const b = decoding()
      const good: WireSeries = { labels: [['__name__', 'good']], samples: [{ ms: MS, value: 1 }] }
      const outcome = b.message(
        version,
        encode(version, [
          good,
          {
            labels,
            samples: [
              { ms: MS, value: 1 },
              { ms: MS + 1, value: 2 },
            ],
            histograms: [{}],
          },
          good,
        ]),
      )
      t.match(outcome, { floatRows: 2, refusedSamples: 2, refusedHistograms: 1 })
      t.equal(outcome.failures[0].position, 1)
      t.match(outcome.failures[0].message, text)
    }
  })

  t.test(`version ${version}: what the storage refuses is counted, and kept reasons are bounded`, async (t) => {
    const b = decoding({ maxSeries: 1 })
    const list = Array.from(
      { length: 6 },
      (_, i): WireSeries => ({
        labels: [
          ['__name__', 'm'],
          ['i', String(i)],
        ],
        samples: [{ ms: MS, value: i }],
      }),
    )
    const outcome = b.message(version, encode(version, list))
    t.match(outcome, { floatRows: 1, refusedSamples: 5 })
    t.same(
      outcome.failures.map(({ position, code }) => [position, code]),
      [1, 2, 3].map((position) => [position, 'CARDINALITY_EXCEEDED']),
    )
  })

  t.test(`version ${version}: times that nanoseconds cannot say`, async (t) => {
    const b = decoding()
    const times = [9223372036854n, 9223372036855n, -9223372036854n, -9223372036855n, 2n ** 63n - 1n, -(2n ** 63n), 0n]
    const outcome = b.message(version, encode(version, [{ labels: [['__name__', 'm']], samples: times.map((ms) => ({ ms, value: 1 })) }]))
    t.same(
      b.points().map(([, , time]) => time),
      [9223372036854000000n, -9223372036854000000n, 0n],
    )
    t.equal(outcome.refusedSamples, 4)
    t.match(outcome.failures[0].message, /its time of 9223372036855 ms is outside the range/)
  })

  t.test(`version ${version}: series without samples begin nothing`, async (t) => {
    const b = decoding()
    const outcome = b.message(version, encode(version, [{ labels: [['__name__', 'm']], exemplars: 3 }]))
    t.match(outcome, { floatRows: 0, exemplars: 3, refusedSamples: 0 })
    t.equal(b.resolver.tagSets.length, 0)
  })

  t.test(`version ${version}: of exemplars nothing long is made, however often it is said`, async (t) => {
    const long = 'x'.repeat(50_000)
    const exemplar = { labels: [['trace_id', 'a']] as [string, string][], value: 1, ms: MS }
    const many = Array.from({ length: 100 }, (_, i): [string, string] => [`l${i}`, long])
    const found = (list: WireSeries[]) => decoding({ exemplars: true }).message(version, encode(version, list)).found
    t.same(found([{ labels: [['__name__', 'm']], exemplars: [exemplar] }]), [{ series: ['__name__', 'm'], labels: ['trace_id', 'a'], value: 1, time: MS }])
    t.same(found([{ labels: [['__name__', 'm'], ...many], exemplars: [exemplar] }]), [], 'labels of a series')
    t.same(found([{ labels: [['__name__', 'm']], exemplars: [{ ...exemplar, labels: many }] }]), [], 'labels of an exemplar')
    const series = Array.from(
      { length: 1000 },
      (_, i): WireSeries => ({
        labels: [
          ['__name__', `m${i}`],
          ['l', long],
        ],
        exemplars: [exemplar],
      }),
    )
    const characters = found(series).reduce((sum, { series }) => sum + series[3].length, 0)
    t.ok(characters > 0 && characters < 2 ** 24 + 2 * long.length, `${characters} characters`)
  })

  t.test(`version ${version}: more samples than allowed`, async (t) => {
    const b = decoding()
    const list: WireSeries[] = [{ labels: [['__name__', 'm']], samples: [1, 2, 3].map((i) => ({ ms: MS + i, value: i })) }]
    t.equal(b.message(version, encode(version, list), 3).floatRows, 3)
    t.throws(() => b.message(version, encode(version, list), 2), {
      code: 'BAD_REQUEST',
      message: /more than 2 samples at once: remote_write.max_samples_per_write is 2/,
    })
    const two = ['a', 'b'].map((name, i): WireSeries => ({ labels: [['__name__', name]], samples: [1, 2].map((n) => ({ ms: MS + 10 * i + n, value: n })) }))
    t.equal(b.message(version, encode(version, two), 4).floatRows, 4)
    t.throws(() => b.message(version, encode(version, two), 3), { code: 'BAD_REQUEST' }, 'the limit is on the whole request')
  })

  t.test(`version ${version}: a cache that is too small costs time and nothing else`, async (t) => {
    const b = decoding({ maxCacheBytes: 100 })
    const list = Array.from(
      { length: 20 },
      (_, i): WireSeries => ({
        labels: [
          ['__name__', `m${i}`],
          ['l', 'x'.repeat(i * 10)],
        ],
        samples: [{ ms: MS, value: i }],
      }),
    )
    for (let round = 0; round < 3; round++) {
      b.message(version, encode(version, list))
      t.same(
        b.points().map(([name, , , value]) => [name, value]),
        list.map((_, i) => [`m${i}`, i]),
      )
    }
    t.equal(b.resolver.tagSets.length, 20)
  })

  t.test(`version ${version}: a metric that has other fields keeps its rows to itself`, async (t) => {
    const b = decoding()
    b.resolver.measurement('', 'cpu').fields.set('usage', { name: 'usage', type: 'float64' })
    b.message(
      version,
      encode(
        version,
        ['cpu', 'up'].map((name): WireSeries => ({ labels: [['__name__', name]], samples: [{ ms: MS, value: 1 }] })),
      ),
    )
    t.same(
      b.floats.tables.map(({ measurement, rows }) => [measurement?.name, rows]),
      [
        ['cpu', 1],
        [undefined, 1],
      ],
    )
  })
}

t.test('version 1: labels and samples in any order', async (t) => {
  const b = decoding()
  const labels = [labelOf(['job', 'x']), labelOf(['__name__', 'm'])]
  const body = new Message()
    .put(1, labels[0])
    .put(2, sampleOf({ ms: MS, value: 1 }))
    .put(1, labels[1])
    .int(77, 1)
    .done()
  b.message(1, new Message().put(1, body).done())
  t.same(b.points(), [['m', { job: 'x' }, NS, 1]])
})

t.test('version 1: a series that ends within a label is refused, also where what follows goes on as a known one does', async (t) => {
  const b = decoding()
  // What is cut off is a field of the request, which is passed over.
  const labels = new Message().put(1, labelOf(['__name__', `m${new Message().int(15, 1).done()}`])).done()
  const sample = new Message().put(2, sampleOf({ ms: MS, value: 1 })).done()
  const known = new Message().put(1, Buffer.concat([labels, sample])).done()
  b.message(1, Buffer.concat([known, known]))
  t.equal(b.resolver.calls, 1)
  const cut = new Message().put(1, labels.subarray(0, -2)).done()
  t.throws(() => b.message(1, Buffer.concat([known, cut, labels.subarray(-2), sample])), { code: 'BAD_REQUEST' })
})

t.test('version 1: a field numbered as the labels are that is none is refused, wherever it stands', async (t) => {
  const b = decoding()
  const known = new Message()
    .put(1, labelOf(['__name__', 'm']))
    .put(2, sampleOf({ ms: MS, value: 1 }))
    .done()
  const [varint, group] = [new Message().int(1, 5).done(), Buffer.of(0x0b, 0x13, 0x14, 0x0c)]
  for (const field of [varint, group, Buffer.of(0x0b, 0x1c)]) {
    b.message(1, new Message().put(1, known).done())
    for (const at of [0, known.length - 18, known.length]) {
      const body = Buffer.concat([known.subarray(0, at), field, known.subarray(at)])
      t.throws(() => b.message(1, new Message().put(1, body).done()), { code: 'BAD_REQUEST' }, `${field.toString('hex')} at ${at}`)
    }
  }
})

t.test('version 2: references one by one, symbols behind the series', async (t) => {
  const b = decoding()
  const body = new Message()
    .put(2, sampleOf({ ms: MS, value: 1 }))
    .int(1, 1)
    .int(1, 2)
    .done()
  b.message(2, new Message().put(5, body).put(4, '').put(4, '__name__').put(4, 'm').done())
  t.same(b.points(), [['m', {}, NS, 1]])
})

t.test('version 2: references that lead nowhere', async (t) => {
  const series = (...refs: number[]) => {
    const packed = new Message()
    for (const ref of refs) packed.varint(ref)
    return new Message()
      .put(4, '')
      .put(4, '__name__')
      .put(4, 'm')
      .put(
        5,
        new Message()
          .put(1, packed.done())
          .put(2, sampleOf({ ms: MS, value: 1 }))
          .done(),
      )
      .done()
  }
  for (const [refs, text] of [
    [[1, 3], /it refers to symbol 3 of 3/],
    [[1, 2 ** 32 - 1], /symbol 4294967295 of 3/],
    [[1, 2, 1], /3 label references/],
  ] as [number[], RegExp][]) {
    const outcome = decoding().message(2, series(...refs))
    t.equal(outcome.refusedSamples, 1)
    t.match(outcome.failures[0].message, text)
  }
  t.throws(() => decoding().message(2, new Message().put(4, 'x').done()), { code: 'BAD_REQUEST', message: /the first symbol is not the empty string/ })
})

t.test('metadata is passed on: of version 1 as it is, of version 2 once for each metric, by its family', async (t) => {
  const b = decoding()
  b.message(
    1,
    writeRequest(
      [],
      [
        { type: 1, metric: 'up', help: 'Is it?', unit: 's' },
        { type: 99, metric: 'x', help: '', unit: '' },
      ],
    ),
  )
  t.same(b.said, [
    { metric: 'up', type: 'counter', help: 'Is it?', unit: 's' },
    { metric: 'x', type: 'unknown', help: '', unit: '' },
  ])
  b.said.length = 0
  const series = (name: string, le: string, type: number, help = 'h'): WireSeries => ({
    labels: [
      ['__name__', name],
      ['le', le],
    ],
    samples: [{ ms: MS, value: 1 }],
    metadata: { type, help, unit: 'seconds' },
  })
  const list = [series('d_bucket', '1', 3), series('d_bucket', '2', 3), series('d_sum', '', 3), series('s_total', '', 1), series('_sum', '', 5)]
  for (let round = 0; round < 3; round++) b.message(2, writeRequestV2(list))
  t.same(
    b.said.map(({ metric, type }) => `${metric} ${type}`),
    ['d histogram', 'd histogram', 's_total counter', '_sum summary'],
  )
  b.message(2, writeRequestV2([series('s_total', '', 1, 'other words')]))
  t.equal(b.said.at(-1)?.help, 'other words')
  const long = Array.from({ length: 10 }, (_, i) => series(`long${i}`, '', 2, 'é'.repeat(1e6)))
  b.message(2, writeRequestV2(long))
  for (const { help } of b.said.slice(-10)) t.ok(help.startsWith('é'.repeat(32_768)) && help.length < 40_000, 'a long text is cut, and not made whole for each')
})

t.test('version 2: of a label that series refer to again and again no more is made than is said to be taken', async (t) => {
  const labels = (value: string, count: number, i = 0): WireSeries['labels'] => [
    ['__name__', `m${i}`],
    ...Array.from({ length: count }, (_, place): [string, string] => [`l${place}`, value]),
  ]
  const samples = [{ ms: MS, value: 1 }]
  const long = 'x'.repeat(100_000)
  const outcome = decoding().message(
    2,
    writeRequestV2([
      { labels: labels(long, 11), samples },
      { labels: labels('x', 11), samples },
    ]),
  )
  t.match(outcome, { floatRows: 1, refusedSamples: 1, failures: [{ position: 0, message: /its labels have more than 1048576 bytes/ }] })
  const many = Array.from({ length: 300 }, (_, i): WireSeries => ({ labels: labels(long, 10, i), samples }))
  const known = decoding()
  for (let from = 0; from < 300; from += 100) t.equal(known.message(2, writeRequestV2(many.slice(from, from + 100))).floatRows, 100)
  const whole = writeRequestV2(many)
  t.equal(known.message(2, whole).floatRows, 300, 'what is known is not taken apart')
  const message = /series that are not known have more than 268435456 bytes of labels/
  for (const maxSeries of [1e9, 0]) t.throws(() => decoding({ maxSeries }).message(2, whole), { code: 'BAD_REQUEST', message })
})

t.test('what is no message is refused as a whole, with its place', async (t) => {
  const good = writeRequest([{ labels: [['__name__', 'm']], samples: [{ ms: MS, value: 1 }] }])
  for (const bytes of [Buffer.from('not protobuf'), good.subarray(0, good.length - 1), Buffer.concat([good, Buffer.of(0x0a, 0x7f)])]) {
    t.throws(() => decoding().message(1, bytes), { code: 'BAD_REQUEST', message: /cannot decode the protobuf message: .*, at byte \d+ of \d+/ })
  }
  const b = decoding()
  t.throws(() => b.message(1, good.subarray(0, 9)))
  t.equal(b.message(1, good).floatRows, 1, 'the next request does not suffer')
})

t.test('decoding equals a plain decoder', async (t) => {
  t.ok(fuzz(7, (requests) => requests < 200) >= 200)
})

for (const version of [1, 2] as const) {
  t.test(`version ${version}: numbers that are given back between two turns of a request are asked for again`, (t) => {
    const resolver = new FakeResolver()
    const decoder = new RequestDecoder(resolver, '', { maxCacheBytes: 1 << 20, maxBuckets: 100, memory: () => undefined, seed: 3 })
    const batch = new WriteBatch(resolver)
    const labels: [string, string][] = [['__name__', 'm']]
    const message = encode(
      version,
      Array.from({ length: 200 }, (_, ms) => ({ labels, samples: [{ ms, value: 1 }] })),
    )
    const options = { maxSamples: 1000, maxFailures: 1, keepBoth: false, skipNonFinite: false, exemplars: false }
    const work = decoder.decode(
      version,
      message,
      batch,
      () => batch,
      () => {},
      options,
    )
    t.notOk(work.next().done)
    t.equal(resolver.calls, 1)
    resolver.epoch++
    while (work.next().done !== true);
    t.equal(resolver.calls, 2)
    t.equal(batch.rows, 200)
    t.end()
  })
}
