import { collect } from 'svcdb/lib/heap'
import type { NativeHistogram } from 'svcdb/lib/histogram'
import { FakeResolver, Message } from 'svcdb/testkit'
import t from 'tap'
import { fuzz } from './decoder.fuzz.ts'
import { messageOfJson } from './json-request.ts'
import { AsciiResolver, decoding, one } from './testing-decoding.ts'
import { keyValue, metricOf, type WireAttributes, type WireExponential, type WireMetric, type WireNumber, writeMetrics, writeRequest } from './testing-wire.ts'

const time = 1_700_000_000_000_000_000n
const point = { time, attributes: { k: 'v' } }
const values = (decoder: ReturnType<typeof decoding>) => decoder.points().map(({ fields }) => fields)
const histograms = (decoder: ReturnType<typeof decoding>) => decoder.points().map(({ fields }) => fields.value as NativeHistogram)
const reasons = ({ failures }: { failures: { message: string }[] }) => failures.map(({ message }) => message)

t.test('one scope in two resources is two origins', async (t) => {
  const decoder = decoding({ scopeTags: true })
  const scopes = (value: number) => [{ name: 'lib', version: '1', metrics: [{ name: 'g', gauge: [{ time, value }] }] }]
  decoder.decode(writeRequest(['x', 'y'].map((host, i) => ({ attributes: { host }, scopes: scopes(i) }))))
  t.same(
    decoder.points().map(({ tags }) => tags.host),
    ['x', 'y'],
  )
})

t.test('one name of two kinds is two streams', async (t) => {
  const decoder = decoding({ names: 'prometheus' })
  const stored = (metric: Partial<WireMetric>) => {
    decoder.decode(writeMetrics([{ name: 'reqs', ...metric }]))
    return decoder.points().map(({ measurement }) => measurement)
  }
  t.same(stored({ gauge: [{ time, value: 1 }] }), ['reqs'])
  t.same(stored({ sum: [{ time, value: 1 }], monotonic: true, temporality: 2 }), ['reqs_total'])
})

t.test('a series is taken apart once, also when others come between', async (t) => {
  const decoder = decoding()
  const metrics = (i: number): WireMetric[] =>
    ['a', 'b'].map((name) => ({ name, sum: [0, 1, 2].map((n) => ({ time: time + BigInt(i), value: n, attributes: { n: String(n) } })) }))
  const resources = [{ host: 'x' }, { host: 'y' }].map((attributes) => ({ attributes, scopes: [{ metrics: metrics(0) }] }))
  t.equal(decoder.decode(writeRequest(resources)).points, 12)
  t.equal(decoder.resolver.calls, 12)
  decoder.decode(writeRequest(resources.toReversed()))
  decoder.decode(writeMetrics(metrics(1).toReversed(), { host: 'x' }))
  t.equal(decoder.resolver.calls, 12)
  t.same(
    decoder.points().map(({ measurement, tags }) => [measurement, tags.host, tags.n]),
    ['b', 'a'].flatMap((name) => ['0', '1', '2'].map((n) => [name, 'x', n])),
  )
  decoder.resolver.epoch++
  decoder.decode(writeMetrics(metrics(1), { host: 'x' }))
  t.equal(decoder.resolver.calls, 18, 'numbers that have become invalid are asked for again')
})

t.test('numbers that become invalid while a request is read are asked for once more, not at each turn', async (t) => {
  const decoder = decoding()
  const gauge = Array.from({ length: 2000 }, (_, i) => ({ time, value: i, attributes: { n: String(i % 3) } }))
  const turns = decoder.turns(writeMetrics([{ name: 'g', gauge }]), (turn) => {
    if (turn === 2) decoder.resolver.epoch++
  })
  t.ok(turns > 10, `${turns} turns`)
  t.equal(decoder.resolver.calls, 6)
})

t.test('tags of new series: as bytes where they are plain, else as strings', async (t) => {
  const resolver = new AsciiResolver()
  const decoder = decoding({}, undefined, resolver)
  const tags = (attributes: WireAttributes, resource: WireAttributes = { host: 'h' }) => {
    const before = resolver.asciiCalls
    decoder.decode(writeMetrics([{ name: 'm', sum: [{ time, value: 1, attributes }] }], resource))
    return [decoder.points()[0].tags, resolver.asciiCalls > before]
  }
  t.same(tags({ a: 'x', b: 'y z' }), [{ host: 'h', a: 'x', b: 'y z' }, true])
  t.same(tags({}), [{ host: 'h' }, true])
  t.same(tags({ a: 'x' }, {}), [{ a: 'x' }, true])
  t.same(tags({ a: 'x' }, { k: 'v', host: 'other' }), [{ k: 'v', host: 'other', a: 'x' }, true])
  t.same(tags({ host: 'point' }), [{ host: 'point' }, false], 'said twice')
  t.same(tags({ hos: 'x', hots: 'y' }), [{ host: 'h', hos: 'x', hots: 'y' }, true])
  t.same(tags({ a: 'é' }), [{ host: 'h', a: 'é' }, false])
  t.same(tags({ a: '' }), [{ host: 'h' }, false])
  t.same(tags({ a: 1n }), [{ host: 'h', a: '1' }, false])
  t.same(tags({ a: 'x'.repeat(200) }), [{ host: 'h', a: 'x'.repeat(200) }, false])
  t.same(tags({ a: 'x' }, { host: 'é' }), [{ host: 'é', a: 'x' }, false])
  const many = Object.fromEntries(Array.from({ length: 70 }, (_, i) => [`k${i}`, 'v']))
  t.same(tags(many), [{ host: 'h', ...many }, false])
  t.same(tags({ a: 'z' }, many), [{ a: 'z', ...many }, false])
})

t.test('exponential histograms: scales, offsets, zero threshold', async (t) => {
  const base: WireExponential = { ...point, count: 4n, sum: 1, positive: { offset: -2, counts: [1n, 1n, 1n, 1n] } }
  const decoder = decoding()
  const decode = (more: Partial<WireExponential>) => decoder.decode(writeMetrics([{ name: 'e', exponential: [{ ...base, ...more }], temporality: 2 }]))
  t.equal(decode({ scale: 8 }).refused, 0)
  t.match(histograms(decoder), [{ schema: 8, positiveSpans: [{ offset: -1, length: 4 }], zeroThreshold: 1e-128, counterReset: 'unknown' }])
  decode({ scale: 9 })
  const [nine] = histograms(decoder)
  t.match(nine, { schema: 8, positiveSpans: [{ offset: 0, length: 2 }] }, '-2 and -1 are one bucket, 0 and 1 the next')
  t.same([...nine.positiveCounts], [2, 2])
  decode({ scale: 20 })
  t.match(histograms(decoder), [{ schema: 8, positiveSpans: [{ offset: 0, length: 2 }] }])
  decode({ scale: -4, zeroThreshold: 0.5, zeroCount: 3n, count: 7n })
  t.match(histograms(decoder), [{ schema: -4, zeroThreshold: 0.5, zeroCount: 3 }])
  t.match(reasons(decode({ scale: -5 })), [/cannot write histogram of metric "e": histogram has an invalid schema, which must be between -4 and 8/])
  t.match(reasons(decode({ scale: -10 })), [/histogram has an unknown schema/])
  t.match(reasons(decode({ zeroThreshold: -1 })), [/its zero_threshold is -1/])
  t.match(reasons(decode({ count: 5n })), [/4 observations found in buckets, but the Count field is 5/])
  t.match(reasons(decode({ positive: { offset: 0, counts: Array.from({ length: 101 }, () => 1n) } })), [
    /has 101 buckets or boundaries, otlp.max_buckets_per_histogram is 100/,
  ])
})

t.test('delta: stored as it is, histograms as gauges; or refused', async (t) => {
  const metrics: WireMetric[] = [
    { name: 's', sum: [{ ...point, value: 5 }], temporality: 1, monotonic: true },
    { name: 'h', histogram: [{ ...point, count: 1n, sum: 1, counts: [1n], bounds: [] }], temporality: 1 },
    { name: 'e', exponential: [{ ...point, count: 0n, sum: 0 }], temporality: 1 },
    { name: 'g', gauge: [{ ...point, value: 1 }] },
  ]
  const storing = decoding()
  t.equal(storing.decode(writeMetrics(metrics)).refused, 0)
  t.match(values(storing), [{ value: 5 }, { value: { counterReset: 'gauge' } }, { value: { counterReset: 'gauge' } }, { gauge: 1 }])
  t.same(
    storing.said.map(({ type }) => type),
    ['gauge', 'gaugehistogram', 'gaugehistogram', 'gauge'],
  )
  const refusing = decoding({ refuseDelta: true })
  const outcome = refusing.decode(writeMetrics(metrics))
  t.equal(outcome.refused, 3)
  t.match(reasons(outcome)[0], /cannot write points of metric "s": they are of delta temporality, and otlp.delta is "refuse"/)
  t.same(values(refusing), [{ gauge: 1 }])
  const named = messageOfJson(
    Buffer.from(
      JSON.stringify({
        resource_metrics: [
          {
            scope_metrics: [
              {
                metrics: [
                  { name: 's', sum: { data_points: [{ time_unix_nano: String(time), as_int: 5 }], aggregation_temporality: 'AGGREGATION_TEMPORALITY_DELTA' } },
                ],
              },
            ],
          },
        ],
      }),
    ),
  )
  t.equal(refusing.decode(named).refused, 1, 'also by its name in JSON')
})

t.test('scopes, attributes that are dropped, and names of Prometheus', async (t) => {
  const metrics: WireMetric[] = [{ name: 'm', sum: [{ time, value: 1, attributes: { 'process.pid': 7n, k: 'v' } }] }]
  const tags = (options: Parameters<typeof decoding>[0], attributes = {}) => {
    const decoder = decoding(options)
    decoder.decode(writeRequest(one(metrics, attributes)))
    return decoder.points()[0].tags
  }
  t.same(tags({}), { k: 'v', 'process.pid': '7' })
  t.same(tags({ dropped: new Set(['process.pid', 'os']) }, { os: 'linux', host: 'h' }), { k: 'v', host: 'h' })
  t.same(tags({ scopeTags: true }, { k: 'resource' }), { k: 'v', 'process.pid': '7', 'otel.scope.name': 'lib', 'otel.scope.version': '2' })
  t.same(tags({ scopeTags: true, names: 'prometheus' }), { k: 'v', process_pid: '7', otel_scope_name: 'lib', otel_scope_version: '2' })
  t.same(tags({ names: 'prometheus' }, { 'service.name': 'api' }), { k: 'v', process_pid: '7', job: 'api' })
  t.same(tags({ names: 'prometheus' }, { 'service.namespace': 'shop' }), { k: 'v', process_pid: '7', service_namespace: 'shop' })
  const scoped = decoding({ scopeTags: true })
  scoped.decode(
    writeRequest([
      {
        scopes: [
          { name: 'a', metrics },
          { name: 'b', metrics },
        ],
      },
    ]),
  )
  t.same(
    scoped.points().map((each) => each.tags['otel.scope.name']),
    ['a', 'b'],
  )
})

t.test('ends of a summary for which there is no room are refused before its fields are looked for', async (t) => {
  const resolver = Object.assign(new FakeResolver(), { writeLimits: { fields: 100, cells: 100 } })
  const decoder = decoding({}, undefined, resolver)
  const { fields } = resolver.measurement('', 's')
  let looks = 0
  const iterate = () => {
    looks++
    return fields.entries()
  }
  Object.defineProperty(fields, Symbol.iterator, { value: iterate })
  const rows = Array.from({ length: 16 }, () => ({ time, quantiles: Array.from({ length: 10 }, (_, i): [number, number] => [i / 10, 1]) }))
  const ends = (count: number) => Array.from({ length: count }, () => ({ time, flags: 1 }))
  const outcome = decoder.decode(writeMetrics([{ name: 's', summary: [...rows.slice(1), ...ends(50)] }]))
  t.match(reasons(outcome), [/cannot hold 12 fields of measurement "s" for 32 points/])
  t.same([outcome.refused, looks], [49, 1])
  t.same(
    values(decoder).at(-1),
    Object.fromEntries(['count', 'sum', ...rows[0].quantiles.map(([quantile]) => `quantile_${quantile}`)].map((name) => [name, 'stale'])),
  )
})

t.test('points that are refused, each with its reason', async (t) => {
  const decode = (metric: WireMetric | Buffer, options = {}) => {
    const metrics = Buffer.isBuffer(metric) ? metric : metricOf(metric)
    return reasons(
      decoding(options, undefined, new FakeResolver(1)).decode(new Message().put(1, new Message().put(2, new Message().put(2, metrics).done()).done()).done()),
    )
  }
  const bad = Uint8Array.of(0x66, 0xff)
  const badPoint = new Message()
    .fixed(3, time)
    .double(4, 1)
    .put(7, new Message().put(1, 'k').put(2, new Message().put(1, bad).done()).done())
    .done()
  t.match(decode({ name: 'g', gauge: [{ time: 0n, value: 1 }] }), [/metric "g": its time_unix_nano is missing/])
  t.match(decode({ name: 'g', gauge: [{ time: 2n ** 63n, value: 1 }] }), [/metric "g": its time is beyond the range/])
  t.match(decode({ name: 'g', gauge: [{ time }] }), [/metric "g": it has no value; send as_double or as_int/])
  t.match(decode(new Message().put(1, 'g').put(5, new Message().put(1, badPoint).done()).done()), [/metric "g": an attribute cannot be a tag: it is not UTF-8/])
  t.match(decode(new Message().put(1, bad).put(5, new Message().put(1, badPoint).done()).done()), [/its name is not UTF-8/])
  t.match(decode({ name: 'q', summary: [{ time, quantiles: [[1.5, 1]] }] }), [/metric "q": it has a quantile of 1.5/])
  t.match(
    decode(
      {
        name: 'q',
        summary: [
          {
            time,
            quantiles: [
              [0, 1],
              [1, 1],
            ],
          },
        ],
      },
      { maxQuantiles: 1 },
    ),
    [/metric "q": it has more than 1 quantiles, otlp.max_quantiles_per_summary/],
  )
  t.match(decode({ name: 'h', histogram: [{ time, count: 2n, counts: [1n, 1n], bounds: [Number.POSITIVE_INFINITY] }] }), [
    /last \+Inf bound must not be explicitly defined/,
  ])
  t.match(decode({ name: 'g', gauge: [1, 2].map((n) => ({ time, value: n, attributes: { n: String(n) } })) }), [/the budget is spent/])
  const many = Object.fromEntries(Array.from({ length: 1025 }, (_, i) => [`k${i}`, 'v']))
  t.match(decode({ name: 'g', gauge: [{ time, value: 1, attributes: many }] }), [/metric "g": an attribute cannot be a tag: there are more than 1024/])
  let deep = keyValue('k', 'v')
  for (let i = 0; i < 40; i++)
    deep = new Message()
      .put(1, 'k')
      .put(2, new Message().put(6, new Message().put(1, deep).done()).done())
      .done()
  const deepPoint = new Message().fixed(3, time).double(4, 1).put(7, deep).done()
  t.match(decode(new Message().put(1, 'g').put(5, new Message().put(1, deepPoint).done()).done()), [/nested more than 32 deep/])
  // Each takes two bytes: of all attributes together they are counted.
  const list = Array.from({ length: 16_384 }, () => null)
  t.match(decode({ name: 'g', gauge: [{ time, value: 1, attributes: { a: list, b: [...list, null] } }] }), [
    /metric "g": an attribute cannot be a tag: its lists and objects have more than 32768 entries/,
  ])
})

t.test('an attribute of a resource that cannot be a tag refuses its points, and no others', async (t) => {
  const bad = new Message()
    .put(
      1,
      new Message()
        .put(1, 'k')
        .put(2, new Message().put(1, Uint8Array.of(0xff)).done())
        .done(),
    )
    .done()
  const scope = new Message().put(2, metricOf({ name: 'g', gauge: [{ time, value: 1 }] })).done()
  const resources = [new Message().put(1, bad).put(2, scope).done(), new Message().put(2, scope).done()]
  const message = Buffer.concat(resources.map((resource) => new Message().put(1, resource).done()))
  const decoder = decoding()
  t.match(reasons(decoder.decode(message)), [/metric "g": an attribute of the resource cannot be a tag: it is not UTF-8/])
  t.equal(decoder.points().length, 1)
})

t.test('JSON: integers of 64 bits as numbers and strings, nulls, unknown members', async (t) => {
  const decoder = decoding()
  const decode = (points: string, rest = '') =>
    decoder.decode(messageOfJson(Buffer.from(`{"resourceMetrics":[{"scopeMetrics":[{"metrics":[{"name":"g","gauge":{"dataPoints":[${points}]}}]}]}]${rest}}`)))
  decode('{"timeUnixNano":1700000000123456789,"asInt":9007199254740993,"attributes":null,"unknown":{"a":[1]}}', ',"other":1')
  t.same(
    decoder.points(),
    [{ position: 0, measurement: 'g', tags: {}, time: 1700000000123456789n, fields: { gauge: 9007199254740993n } }],
    'every digit counts',
  )
  decode('{"timeUnixNano":"1700000000123456789","asInt":"9007199254740993"}')
  t.same(values(decoder), [{ gauge: 9007199254740993n }])
  decode('{"timeUnixNano":"1700000000123456789","asDouble":"1.5"},{"timeUnixNano":"1700000000123456790","asInt":"-7"},{"timeUnixNano":"5","asDouble":2}')
  t.same(values(decoder), [{ gauge: 1.5 }, { gauge: -7 }, { gauge: 2 }])
  for (const [text, reason] of [
    [
      '{"timeUnixNano":"-1","asDouble":1}',
      /resourceMetrics\[0\].scopeMetrics\[0\].metrics\[0\].gauge.dataPoints\[0\].timeUnixNano is not a 64-bit integer that is not negative/,
    ],
    ['{"timeUnixNano":1.5,"asDouble":1}', /timeUnixNano is not a 64-bit integer/],
    ['{"timeUnixNano":"1","asDouble":"x"}', /asDouble is not a number/],
    ['{"timeUnixNano":"1","asInt":"9223372036854775808"}', /asInt is not a 64-bit integer/],
    ['{"timeUnixNano":"1","asDouble":1,"attributes":[{"key":1}]}', /attributes\[0\].key is not a string/],
    ['{"timeUnixNano":"1","asDouble":1,"attributes":{}}', /attributes is not a list/],
    ['5', /dataPoints\[0\] is not an object/],
  ] as const)
    t.throws(() => decode(text), { code: 'BAD_REQUEST', message: reason }, text)
  const nested = `${'{"arrayValue":{"values":['.repeat(60)}{"stringValue":"x"}${']}}'.repeat(60)}`
  t.throws(() => decode(`{"timeUnixNano":"1","asDouble":1,"attributes":[{"key":"k","value":${nested}}]}`), {
    code: 'BAD_REQUEST',
    message: /is nested too deep/,
  })
})

t.test('integers: exact where the field has integers, or begins beyond 2^53; else the nearest double', async (t) => {
  const first = decoding()
  const write = (decoder: typeof first, ...points: WireNumber[]) =>
    decoder.decode(writeMetrics([{ name: 'm', sum: points.map((each, i) => ({ ...each, time: time + BigInt(i) })) }]))
  for (const big of [2n ** 53n + 1n, -(2n ** 53n) - 1n, 2n ** 63n - 1n, -(2n ** 63n)]) {
    write(first, { ...point, value: big }, { ...point, value: 5n })
    t.same(values(first), [{ value: big }, { value: 5n }])
  }
  for (const small of [2n ** 53n, -(2n ** 53n), 0n, -1n]) {
    write(first, { ...point, value: small }, { ...point, value: 2n ** 53n + 1n })
    t.same(values(first), [{ value: Number(small) }, { value: 2 ** 53 }])
  }
  const declared = decoding()
  const fields = declared.resolver.measurement('', 'm').fields
  fields.set('value', { name: 'value', type: 'int64' })
  const mixed = write(declared, { ...point, value: 1.5 }, { ...point, value: 7n }, { ...point, flags: 1 })
  t.same(values(declared), [{ value: 7n }])
  t.equal(mixed.skipped, 1, 'integers have no staleness marker')
  t.match(reasons(mixed), [/cannot write field "value" of measurement "m": it is of type int64, the point has float64/])
  fields.set('value', { name: 'value', type: 'uint64' })
  const unsigned = write(declared, { ...point, value: 2n ** 63n - 1n }, { ...point, value: -1n })
  t.same(values(declared), [{ value: 2n ** 63n - 1n }])
  t.match(reasons(unsigned), [/it is of type uint64, the point has int64/])
})

t.test('fields in an order that no encoder writes, in parts, many of them', async (t) => {
  const attribute = (i: number) => new Message().put(7, keyValue(`k${i % 3}`, String(i))).done()
  const scattered = Array.from({ length: 1000 }, (_, i) => Buffer.concat([attribute(i), new Message().fixed(3, time).done()]))
  const points = new Message().put(1, Buffer.concat([...scattered, new Message().fixed(6, 7n).done()])).done()
  const halves = [new Message().put(5, points).done(), new Message().put(5, points).done()]
  const metric = Buffer.concat([halves[0], new Message().put(1, 'old').done(), halves[1], new Message().put(1, 'g').done()])
  const resource = Array.from({ length: 50_000 }, (_, i) => new Message().put(1, new Message().put(1, keyValue(`r${i % 2}`, 'x')).done()).done())
  const scope = new Message().put(2, new Message().put(2, metric).done()).done()
  const decoder = decoding()
  const { points: count, refused } = decoder.decode(new Message().put(1, Buffer.concat([scope, ...resource.slice(0, 500)])).done())
  t.same([count, refused], [2, 0])
  const tags = { k0: '999', k1: '997', k2: '998', r0: 'x', r1: 'x' }
  for (const each of decoder.points()) t.match(each, { measurement: 'g', tags, time, fields: { gauge: 7 } })
  t.equal(decoder.decode(new Message().put(1, Buffer.concat([scope, ...resource])).done()).refused, 2, 'also when there are very many parts')
})

t.test('an exemplar of a point that is skipped refuses nothing, whatever the attributes of the point are', async (t) => {
  // A list whose first value is no message.
  const broken = new Message()
    .put(1, 'k')
    .put(2, new Message().put(5, new Message().put(1, Buffer.from([0xff, 0x7f])).done()).done())
    .done()
  const skipped = new Message()
    .fixed(3, time)
    .double(4, Number.NEGATIVE_INFINITY)
    .put(5, new Message().fixed(2, time).double(3, 1).done())
    .put(7, broken)
    .done()
  const metric = new Message().put(1, 'm').put(7, new Message().put(1, skipped).int(2, 2).done()).done()
  const message = new Message().put(1, new Message().put(2, new Message().put(2, metric).done()).done()).done()
  for (const exemplars of [false, true])
    t.match(decoding({}, { maxPoints: 1e9, maxFailures: 10, exemplars }).decode(message), { skipped: 1, refused: 0, exemplars: 1 }, `exemplars: ${exemplars}`)
})

t.test('attributes of a resource that very many new series would have are refused, those of known ones are not', async (t) => {
  const resource = Object.fromEntries(Array.from({ length: 250 }, (_, i) => [`r${i}`, 'x'.repeat(4000)]))
  const metrics = (count: number, from = 0): WireMetric[] => [
    { name: 'm', sum: Array.from({ length: count }, (_, i) => ({ time, value: 1, attributes: { i: String(from + i) } })), temporality: 2 },
  ]
  const decoder = decoding({ maxCacheBytes: 4 << 20 })
  for (const from of [0, 150]) t.match(decoder.decode(writeMetrics(metrics(150, from), resource)), { points: 150, refused: 0 })
  t.match(decoder.decode(writeMetrics(metrics(300), resource)), { points: 300, refused: 0 })
  t.throws(() => decoding().decode(writeMetrics(metrics(300), resource)), {
    code: 'BAD_REQUEST',
    message: /series that are not known take more than 268435456 bytes of attributes/,
  })
})

/** Keeps no series. */
class ForgetfulResolver extends FakeResolver {
  override series(): number {
    return 0
  }
}

/** Bytes of the heap that `work` has left behind, with what it gives. */
function held(work: () => unknown): number {
  collect()
  const before = process.memoryUsage().heapUsed
  const result = work()
  collect()
  const bytes = process.memoryUsage().heapUsed - before
  if (result === undefined) throw new Error('nothing was held')
  return bytes
}

const wide = (count: number, more: WireAttributes = {}): WireAttributes => ({
  ...more,
  ...Object.fromEntries(Array.from({ length: count }, (_, i) => [`r${i}`, ''])),
})

t.test('scopes of a resource have its tags in common: as many as a request has', async (t) => {
  const scopes = Array.from({ length: 2000 }, (_, i) => ({ name: `s${i}`, metrics: [{ name: 'm', gauge: [{ time, value: i }] }] }))
  const message = writeRequest([{ attributes: wide(1000), scopes }])
  const decoder = decoding({ scopeTags: true }, undefined, new ForgetfulResolver())
  const bytes = held(() => {
    t.match(decoder.decode(message), { points: 2000, refused: 0 })
    return decoder
  })
  t.ok(bytes < 32 << 20, `${bytes} bytes`)
})

t.test('a tag of the scope stands for that of its resource', async (t) => {
  const decoder = decoding({ scopeTags: true }, undefined, new AsciiResolver())
  const scopes = [{ name: 'lib', version: '1', metrics: [{ name: 'm', gauge: [{ time, value: 1, attributes: { k: 'v' } }] }] }]
  decoder.decode(writeRequest([{ attributes: { host: 'h', 'otel.scope.name': 'other' }, scopes }]))
  t.same(decoder.points()[0].tags, { host: 'h', 'otel.scope.name': 'lib', 'otel.scope.version': '1', k: 'v' })
})

t.test('resources are kept within the bytes of the cache, not as many as their names are short', async (t) => {
  const decoder = decoding({ maxCacheBytes: 4 << 20 })
  const bytes = held(() => {
    for (let n = 0; n < 6; n++)
      decoder.decode(writeRequest(Array.from({ length: 60 }, (_, i) => ({ attributes: wide(1000, { id: `${n}-${i}` }), scopes: [] }))))
    return decoder
  })
  t.ok(bytes < 12 << 20, `${bytes} bytes`)
})

t.test('resources and metrics that take long to read are read in turns', async (t) => {
  const text = 'x'.repeat(600_000)
  const resources = Array.from({ length: 10 }, (_, i) => ({ attributes: { [`a${i}`]: text }, scopes: [] }))
  t.ok(decoding().turns(writeRequest(resources)) >= 5)
  const metrics = Array.from({ length: 10 }, (_, i) => ({ name: `m${i}`, description: text, gauge: [{ time, value: 1 }] }))
  t.ok(decoding().turns(writeMetrics(metrics)) >= 5)
})

t.test('of exemplars nothing long is made, however often it is said', async (t) => {
  const options = { maxPoints: 1e9, maxFailures: 10, exemplars: true }
  const ids = { traceId: 'ab'.repeat(16), spanId: 'cd'.repeat(8) }
  const found = (attributes: Record<string, string>) =>
    decoding({}, options).decode(writeMetrics([{ name: 'm', sum: [{ ...point, value: 1, exemplars: [{ time, value: 1, ...ids, attributes }] }] }])).found[0]
      .labels
  const named = ['span_id', ids.spanId, 'trace_id', ids.traceId]
  t.same(found({ user: 'u' }), [...named, 'user', 'u'])
  t.same(found({ user: 'u', long: 'x'.repeat(1e6) }), named)
  t.same(found(Object.fromEntries(Array.from({ length: 1000 }, (_, i) => [`a${i}`, '']))), named)
  const sum = Array.from({ length: 2000 }, (_, i) => ({ ...point, time: time + BigInt(i), value: 1, exemplars: 1 }))
  const resource = Object.fromEntries(Array.from({ length: 1000 }, (_, i) => [`r${i}`, 'x']))
  const outcome = decoding({}, options).decode(writeMetrics([{ name: 'm', sum }], resource))
  t.match(outcome, { refused: 0, exemplars: 2000 })
  t.ok(outcome.found.length > 0 && outcome.found.length < 1000, `${outcome.found.length} exemplars`)
})

t.test('corrupted requests are refused whole, and everything else as the reference does', async (t) => {
  const message = writeMetrics([{ name: 'm', sum: [{ ...point, value: 1 }] }])
  for (let length = 1; length < message.length; length++)
    t.throws(() => decoding().decode(message.subarray(0, length)), { code: 'BAD_REQUEST' }, `${length} bytes`)
  t.ok(fuzz(7, (requests) => requests < 200) >= 200)
})
