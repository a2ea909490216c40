import { compressSync } from 'snappy'
import type { Matcher, SeriesExemplar } from 'svcdb'
import { atOnce } from 'svcdb/lib/event-loop'
import { seeded } from 'svcdb/lib/random'
import { boot, type TestNode } from 'svcdb/testkit'
import t, { type Test } from 'tap'
import { type WireExemplar, type WireMetric, writeMetrics } from '../otlp/testing-wire.ts'
import { requestJson } from '../otlp/testing-wire-json.ts'
import { type WireSeries, writeRequest, writeRequestV2 } from '../remote_write/testing-wire.ts'
import { ExemplarStore, type StoreOptions } from './store.ts'

const V1 = { 'content-type': 'application/x-protobuf', 'content-encoding': 'snappy', 'x-prometheus-remote-write-version': '0.1.0' }
const V2 = { ...V1, 'content-type': 'application/x-protobuf;proto=io.prometheus.write.v2.Request', 'x-prometheus-remote-write-version': '2.0.0' }
const NOW = 1_700_000_000_000
const HOUR = 3_600_000

function storeOf(options: Partial<StoreOptions> = {}) {
  const dropped: Record<string, number> = {}
  const store = new ExemplarStore({
    maxExemplars: 100,
    maxBytes: 1e6,
    maxAgeMs: HOUR,
    maxFutureMs: 60_000,
    dropped: (why) => {
      dropped[why] = (dropped[why] ?? 0) + 1
    },
    ...options,
  })
  const select = (selector: Matcher[], start = -Infinity, end = Infinity, namespace = '', now = NOW) =>
    atOnce(store.select(namespace, [selector], start, end, now))
  const texts = (...args: Parameters<typeof select>) => select(...args).flatMap(({ exemplars }) => exemplars.map(({ labels }) => labels[1]))
  return { store, dropped, select, texts }
}

const of = (series: string[], id: string, time = NOW, value = 1): SeriesExemplar => ({ series: ['__name__', ...series], labels: ['trace_id', id], value, time })
const name = (value: string): Matcher => ({ tag: '__name__', op: '=', value })

t.test('of a series they are in order: one again is known, an older one is refused', async (t) => {
  const { store, dropped, texts } = storeOf()
  t.ok(store.add('', of(['m'], 'a'), NOW))
  t.ok(store.add('', of(['m'], 'a'), NOW), 'the same again')
  t.equal(store.count, 1)
  t.notOk(store.add('', of(['m'], 'b', NOW - 1), NOW))
  t.notOk(store.add('', of(['m'], 'b', NOW, 0.5), NOW))
  t.ok(store.add('', of(['m'], 'b', NOW, 2), NOW))
  t.ok(store.add('', of(['m', 'x', '1'], 'c', NOW - 1), NOW), 'another series has an order of its own')
  t.ok(store.add('', of(['m', 'empty', ''], 'd', NOW + 1), NOW), 'an empty label is none')
  t.same(texts([name('m')]), ['a', 'b', 'd', 'c'])
  t.same(dropped, { out_of_order: 2 })
})

t.test('one from the future is refused: it would keep out what its series has next, and what came before it from expiring', async (t) => {
  const { store, dropped, texts } = storeOf()
  t.notOk(store.add('', of(['m'], 'future', NOW + 60_001), NOW))
  t.notOk(store.add('', of(['m'], 'never', Number.POSITIVE_INFINITY), NOW))
  t.notOk(store.add('', of(['m'], 'not a time', Number.NaN), NOW))
  t.equal(store.count, 0)
  t.ok(store.add('', of(['m'], 'a', NOW), NOW), 'the series takes what comes')
  t.ok(store.add('', of(['m'], 'ahead', NOW + 60_000), NOW), 'a clock that is a little ahead')
  t.same(texts([name('m')]), ['a', 'ahead'])
  atOnce(store.expire(NOW + 2 * HOUR))
  t.equal(store.count, 0)
  t.same(dropped, { too_new: 2, too_old: 1, expired: 2 })
})

t.test('texts are bounded as OpenMetrics has it, in characters', async (t) => {
  const { store, dropped } = storeOf()
  const long = (text: string) => ({ ...of(['m'], text), labels: ['k', text] })
  t.ok(store.add('', long('x'.repeat(127)), NOW))
  t.ok(store.add('', { ...long('😀'.repeat(127)), time: NOW + 1 }, NOW))
  t.notOk(store.add('', { ...long('x'.repeat(128)), time: NOW + 2 }, NOW))
  t.notOk(store.add('', { ...long('x'.repeat(10_000)), time: NOW + 2 }, NOW))
  t.notOk(store.add('', of(['m', 'l', 'y'.repeat(65_536)], 'a', NOW + 2), NOW))
  t.same(dropped, { too_long: 3 })
})

t.test('a namespace that is deleted takes nothing more of what was handed in before', async (t) => {
  const { store } = storeOf()
  const work = store.addAll(
    'a',
    ['1', '2'].map((id) => of(['m', 'i', id], id)),
    NOW,
  )
  t.notOk(work.next().done)
  t.equal(store.count, 1)
  store.forget('a')
  t.equal(atOnce(work), 0)
  t.same([store.count, store.bytes, store.seriesCount], [0, 0, 0])
})

t.test('a namespace that is deleted between two turns of the sweep is not counted twice, nor is the next one of its name swept with it', async (t) => {
  const { store, dropped, texts } = storeOf()
  for (const [id, time] of [
    ['a', NOW],
    ['b', NOW + 1],
    ['c', NOW + 2],
  ] as const)
    store.add('t', of(['m'], id, time), NOW)
  const later = NOW + 2 * HOUR
  const sweep = store.expire(later)
  sweep.next()
  t.equal(store.count, 2)
  store.forget('t')
  store.add('t', of(['m'], 'next', later), later)
  const { bytes } = store
  for (const _ of sweep);
  t.equal(store.count, 1)
  t.equal(store.bytes, bytes)
  t.same(texts([name('m')], -Infinity, Infinity, 't', later), ['next'])
  t.same(dropped, { expired: 1 })
})

t.test('matchers as PromQL has them: a label that is not there is empty', async (t) => {
  const { store, texts } = storeOf()
  for (const [i, host] of ['a', 'b', ''].entries()) store.add('', of(['m', 'host', host], `${i}`), NOW)
  const host = (op: Matcher['op'], value: string): Matcher => ({ tag: 'host', op, value })
  t.same(texts([host('=', 'a')]), ['0'])
  t.same(texts([host('!=', 'a')]), ['2', '1'])
  t.same(texts([host('=', '')]), ['2'])
  t.same(texts([host('=~', 'a|b')]), ['0', '1'])
  t.same(texts([host('!~', 'a.*'), name('m')]), ['2', '1'])
  t.same(texts([name('other')]), [])
  t.throws(() => texts([host('=~', '(')]), /regular expression|pattern/)
})

t.test('a histogram answers to its classic names', async (t) => {
  const { store, texts } = storeOf()
  store.add('', { ...of(['h', 'host', 'a'], 'x'), histogram: true }, NOW)
  store.add('', of(['n', 'host', 'a'], 'y'), NOW)
  for (const ending of ['', '_bucket', '_count', '_sum']) t.same(texts([name(`h${ending}`), { tag: 'host', op: '=', value: 'a' }]), ['x'], ending)
  t.same(texts([name('h_bucket'), { tag: 'le', op: '=', value: '0.5' }]), ['x'])
  t.same(texts([name('h'), { tag: 'le', op: '=', value: '0.5' }]), [])
  t.same(texts([name('n_bucket')]), [])
})

t.test('times: a range, an age, and what has expired', async (t) => {
  const { store, dropped, texts } = storeOf()
  for (let i = 0; i < 10; i++) store.add('', of(['m'], `${i}`, NOW + i), NOW)
  t.same(texts([name('m')], NOW + 3, NOW + 5), ['3', '4', '5'])
  t.same(texts([name('m')], NOW + 20), [])
  t.notOk(store.add('', of(['old'], 'x', NOW - HOUR), NOW))
  t.notOk(store.add('', of(['old'], 'x', Number.NaN), NOW))
  t.same(texts([name('m')], -Infinity, Infinity, '', NOW + HOUR + 7), ['8', '9'], 'too old, and not swept yet')
  atOnce(store.expire(NOW + HOUR + 7))
  t.equal(store.count, 2)
  atOnce(store.expire(NOW + 3 * HOUR))
  t.same([store.count, store.bytes, store.seriesCount], [0, 0, 0])
  t.same(dropped, { too_old: 2, expired: 10 })
})

t.test('bounds hold at any time, and no namespace takes the room of others', async (t) => {
  for (const bounds of [{ maxExemplars: 50 }, { maxBytes: 30_000 }]) {
    const { store, texts } = storeOf({ maxExemplars: 1e9, maxBytes: 1e9, ...bounds })
    for (let i = 0; i < 10; i++) store.add('small', of(['m', 'i', `${i}`], `s${i}`), NOW)
    for (let i = 0; i < 1000; i++) {
      store.add('large', of(['m', 'i', `${i % 100}`], `l${i}`, NOW + i), NOW)
      if (store.count > (bounds.maxExemplars ?? 1e9) || store.bytes > (bounds.maxBytes ?? 1e9)) t.fail(`over its bound with exemplar ${i}`)
    }
    t.equal(texts([name('m')], -Infinity, Infinity, 'small').length, 10)
    const kept = texts([name('m')], -Infinity, Infinity, 'large')
    t.ok(kept.includes('l999') && !kept.includes('l0'))
    store.forget('large')
    store.forget('small')
    t.same([store.count, store.bytes, store.seriesCount], [0, 0, 0])
  }
})

t.test('bytes are shared by bytes: long labels take no room from a namespace that has less', async (t) => {
  const { store, texts } = storeOf({ maxExemplars: 1e9, maxBytes: 1e6 })
  for (let i = 0; i < 400; i++) store.add('small', of(['m', 'i', `${i}`], `s${i}`), NOW)
  const small = store.bytes
  t.ok(small < 5e5, 'less than its half')
  for (let i = 0; i < 100; i++) store.add('large', of(['m', 'i', `${i}`, 'long', 'x'.repeat(10_000)], `l${i}`), NOW)
  t.equal(texts([name('m')], -Infinity, Infinity, 'small').length, 400)
  const kept = texts([name('m')], -Infinity, Infinity, 'large')
  t.ok(kept.includes('l99') && !kept.includes('l0'))
  t.ok(store.bytes <= 1e6 && store.bytes > 9e5)
  store.forget('large')
  t.equal(store.bytes, small)
})

t.test('an answer of many series is put in order in chunks', async (t) => {
  const { store } = storeOf({ maxExemplars: 5000, maxBytes: 1e9 })
  let reads = 0
  // Labels that are in order are kept as they are: who looks at them is seen.
  const get = (labels: string[], key: string | symbol, own: unknown): unknown => {
    reads++
    return Reflect.get(labels, key, own)
  }
  const counted = (labels: string[]) => new Proxy(labels, { get })
  const random = seeded(1)
  const ids = Array.from({ length: 5000 }, (_, i) => String(i).padStart(4, '0')).sort(() => random() - 0.5)
  for (const id of ids) store.add('', { series: counted(['__name__', 'm', 'id', id]), labels: ['trace_id', id], value: 1, time: NOW }, NOW)
  const work = store.select('', [[name('m')]], -Infinity, Infinity, NOW)
  let most = 0
  for (;;) {
    reads = 0
    const { done, value } = work.next()
    most = Math.max(most, reads)
    if (done !== true) continue
    t.same(
      value.map(({ exemplars }) => exemplars[0].labels[1]),
      ids.toSorted(),
    )
    break
  }
  t.ok(most < 150_000, `${most} looks at labels between two places where others have their turn`)
})

t.test('random ones, beside a plain list', async (t) => {
  const seed = Number(process.env.SEED ?? Math.floor(Math.random() * 2 ** 31))
  t.comment(`SEED=${seed}`)
  const random = seeded(seed)
  const { store } = storeOf({ maxExemplars: 30, maxBytes: 1e9 })
  let model: { series: string; id: string; time: number }[] = []
  for (let i = 0; i < 3000; i++) {
    const series = `${Math.floor(random() * 5)}`
    const time = NOW + Math.floor(random() * 50)
    const before = model.filter((each) => each.series === series).at(-1)
    const kept = store.add('', of(['m', 's', series], `${i}`, time), NOW)
    if (kept !== (before === undefined || time >= before.time)) t.fail(`exemplar ${i} is ${kept ? '' : 'not '}kept`)
    if (kept) model.push({ series, id: `${i}`, time })
    model = model.slice(-30)
    if (i % 100 === 0) {
      const found = atOnce(store.select('', [[name('m')]], -Infinity, Infinity, NOW)).flatMap(({ exemplars }) => exemplars.map(({ labels }) => labels[1]))
      t.same(found.sort(), model.map(({ id }) => id).sort())
    }
  }
})

const traceId = '5b8efff798038103d269b633813fc60c'
const spanId = 'eee19b7ec3c1b174'

async function start(t: Test, config: object = {}, plugins: string[] = ['exemplars', 'remote_write', 'otlp', 'promql']): Promise<TestNode> {
  const node = await boot({ plugins, config: { ...config } })
  t.teardown(() => node.stop())
  return node
}

async function write(node: TestNode, body: Buffer, headers: Record<string, string>, more: Record<string, string> = {}) {
  return node.inject({ method: 'POST', url: '/api/v1/prom/write', headers: { ...headers, ...more }, payload: Buffer.from(compressSync(body)) })
}

async function ask(node: TestNode, query: string, more: Record<string, string> = {}, headers: Record<string, string> = {}): Promise<string> {
  return (await node.inject({ url: `/api/v1/query_exemplars?${new URLSearchParams({ query, ...more })}`, headers })).body
}

const success = (data: string): string => `{"status":"success","data":[${data}]}`

t.test('remote write: with samples, without, and answered as Prometheus does, byte for byte', async (t) => {
  const now = Date.now()
  const labels: WireSeries['labels'] = [
    ['__name__', 'requests_total'],
    ['path', '/é"'],
  ]
  const exemplar = {
    labels: [
      ['trace_id', 'abc'],
      ['span_id', 'd'],
    ] as [string, string][],
    value: 0.25,
    ms: now,
  }
  for (const version of [1, 2] as const) {
    const node = await start(t)
    const body = (series: WireSeries[]) => (version === 1 ? writeRequest(series) : writeRequestV2(series))
    const headers = version === 1 ? V1 : V2
    const first = await write(node, body([{ labels, samples: [{ ms: now, value: 1 }], exemplars: [exemplar] }]), headers)
    t.equal(first.statusCode, 204)
    // As Prometheus sends them: each in a series of its own, without samples. The third is older.
    const more = [{ ...exemplar, value: 1e-7, ms: now + 1 }, { ...exemplar, value: Number.POSITIVE_INFINITY, ms: now + 1 }, exemplar]
    const second = await write(node, body(more.map((each) => ({ labels, exemplars: [each] }))), headers)
    t.equal(second.statusCode, 204)
    if (version === 2) {
      t.equal(first.headers['x-prometheus-remote-write-exemplars-written'], '1')
      t.equal(second.headers['x-prometheus-remote-write-exemplars-written'], '2')
    }
    const seconds = (ms: number) => `${Math.floor(ms / 1000)}${ms % 1000 === 0 ? '' : `.${String(ms % 1000).padStart(3, '0')}`}`
    const shown = (value: string, ms: number) => `{"labels":{"span_id":"d","trace_id":"abc"},"value":"${value}","timestamp":${seconds(ms)}}`
    const of = (...each: string[]) => success(`{"seriesLabels":{"__name__":"requests_total","path":"/é\\""},"exemplars":[${each.join(',')}]}`)
    const all = of(shown('0.25', now), shown('1e-07', now + 1), shown('+Inf', now + 1))
    t.equal(await ask(node, 'requests_total'), all)
    t.equal(
      await ask(node, 'sum(rate(requests_total{path=~"/.*"}[5m])) / ignoring(x) count(up)', { start: String(now / 1000 - 60), end: String(now / 1000 + 60) }),
      all,
    )
    t.equal(await ask(node, 'requests_total', { end: String(now / 1000) }), of(shown('0.25', now)))
    t.equal(await ask(node, 'requests_total{path="x"}'), success(''))
    t.equal(await ask(node, '1 + 1'), success(''))
    const posted = await node.inject({
      method: 'POST',
      url: '/api/v1/prom/query_exemplars',
      headers: { 'content-type': 'application/x-www-form-urlencoded' },
      payload: 'query=requests_total',
    })
    t.equal(posted.body, all)
    t.match(JSON.parse(await ask(node, 'requests_total{')), { status: 'error', errorType: 'bad_data' })
    t.match(JSON.parse(await ask(node, 'up', { start: '2', end: '1' })), { errorType: 'bad_data', error: 'end timestamp must not be before start timestamp' })
    const metrics = (await node.inject('/metrics')).body
    t.match(metrics, /^svc_exemplars_stored_total 3$/m)
    t.match(metrics, /^svc_exemplars_dropped_total\{reason="out_of_order"\} 1$/m)
    t.match(metrics, /^svc_remote_write_exemplars_dropped_total 1$/m)
  }
})

t.test('remote write: of a request that is refused for want of room nothing is kept, since it comes again', async (t) => {
  const node = await start(t, { remote_write: { max_samples_per_write: 1 } })
  const exemplars = [{ labels: [['trace_id', 'a']] as [string, string][], value: 1, ms: Date.now() }]
  const samples = [1, 2].map((i) => ({ ms: Date.now() + i, value: i }))
  t.equal((await write(node, writeRequestV2([{ labels: [['__name__', 'm']], exemplars, samples }]), V2)).statusCode, 400)
  t.equal(await ask(node, 'm'), success(''))
  t.equal(
    (
      await write(
        node,
        writeRequestV2([
          { labels: [['a', 'b']], exemplars },
          { labels: [['__name__', 'm']], exemplars },
        ]),
        V2,
      )
    ).statusCode,
    204,
  )
  t.match(await ask(node, '{__name__!=""}'), /"__name__":"m"/)
})

t.test('OTLP: of sums, gauges and histograms, in protobuf and JSON', async (t) => {
  const now = Date.now()
  const time = BigInt(now) * 1_000_000n
  const exemplars: WireExemplar[] = [
    { time: time - 2_000_000n, value: 3n, traceId, spanId, attributes: { user: 'u' } },
    { time: time - 1_000_000n, value: 0.5, traceId, attributes: { long: 'x'.repeat(100) } },
    { time, value: 1.5, traceId: '0'.repeat(32) },
  ]
  const point = { time, attributes: { host: 'a' }, exemplars }
  const metrics: WireMetric[] = [
    { name: 'hits', sum: [{ ...point, value: 1 }], temporality: 2, monotonic: true },
    { name: 'heat', gauge: [{ ...point, value: 1 }] },
    { name: 'took', histogram: [{ ...point, count: 1n, sum: 1, counts: [1n, 0n], bounds: [1] }], temporality: 2 },
    { name: 'size', exponential: [{ ...point, count: 1n, sum: 1, scale: 0, positive: { offset: 0, counts: [1n] } }], temporality: 2 },
  ]
  for (const encoding of ['protobuf', 'json'] as const) {
    const node = await start(t, { otlp: {} })
    const payload = encoding === 'json' ? JSON.stringify(requestJson([{ attributes: {}, scopes: [{ metrics }] }])) : writeMetrics(metrics)
    const answer = await node.inject({
      method: 'POST',
      url: '/v1/metrics',
      headers: { 'content-type': `application/${encoding === 'json' ? 'json' : 'x-protobuf'}` },
      payload,
    })
    t.ok(answer.statusCode < 300, answer.body)
    const seconds = (ms: number) => ms / 1000
    const expected = [
      { labels: { span_id: spanId, trace_id: traceId, user: 'u' }, value: '3', timestamp: seconds(now - 2) },
      { labels: { trace_id: traceId }, value: '0.5', timestamp: seconds(now - 1) },
      { labels: {}, value: '1.5', timestamp: seconds(now) },
    ]
    for (const [query, series] of [
      ['hits', 'hits'],
      ['heat_gauge', 'heat_gauge'],
      ['took', 'took'],
      ['histogram_quantile(0.9, sum by (le) (rate(took_bucket{host="a"}[5m])))', 'took'],
      ['size', 'size'],
    ]) {
      const { data } = JSON.parse(await ask(node, query))
      t.same(data, [{ seriesLabels: { __name__: series, host: 'a' }, exemplars: expected }], `${encoding}: ${query}`)
    }
    t.same(JSON.parse(await ask(node, '{host="a"}')).data.length, 4)
    const names = JSON.parse((await node.inject('/api/v1/label/__name__/values')).body).data as string[]
    for (const shown of ['hits', 'heat_gauge', 'took', 'size']) t.ok(names.includes(shown), `PromQL has the name ${shown}`)
  }
})

t.test('remote write: an exemplar that cannot be read costs nothing but itself', async (t) => {
  const node = await start(t)
  const now = Date.now()
  const exemplar = { labels: [['trace_id', 'good']] as [string, string][], value: 1, ms: now }
  const series: WireSeries = { labels: [['__name__', 'm']], samples: [{ ms: now, value: 1 }], exemplars: [exemplar] }
  for (const [encode, headers, field] of [
    [writeRequest, V1, 3],
    [writeRequestV2, V2, 4],
  ] as const) {
    const message = Buffer.from(encode([series]))
    // A second exemplar, whose value is cut short; it makes the series longer.
    const bad = Buffer.from([(field << 3) | 2, 2, 0x11, 0])
    const at = headers === V1 ? 0 : message.indexOf(Buffer.from([(5 << 3) | 2]), message.indexOf('good'))
    const longer = Buffer.concat([message, bad])
    longer[at + 1] += bad.length
    const answer = await write(node, longer, headers)
    t.equal(answer.statusCode, 204, answer.body)
    if (headers === V2) t.equal(answer.headers['x-prometheus-remote-write-exemplars-written'], '1')
    t.equal((await ask(node, 'm')).split('good').length, 2)
  }
})

t.test('OTLP/JSON: an exemplar that cannot be read costs nothing but itself', async (t) => {
  const node = await start(t)
  const time = String(BigInt(Date.now()) * 1_000_000n)
  const exemplars = [7, { asDouble: 'x' }, { timeUnixNano: time, asDouble: 1, traceId: 'no id' }, { timeUnixNano: time }]
  const metrics = [{ name: 'm', sum: { aggregationTemporality: 2, isMonotonic: true, dataPoints: [{ timeUnixNano: time, asDouble: 1, exemplars }] } }]
  const payload = { resourceMetrics: [{ scopeMetrics: [{ metrics }] }] }
  const answer = await node.inject({ method: 'POST', url: '/v1/metrics', payload })
  t.ok(answer.statusCode < 300, answer.body)
  t.match(JSON.parse(await ask(node, 'm')).data, [{ exemplars: [{ labels: {}, value: '1' }] }])
  t.match((await node.inject('/metrics')).body, /^svc_otlp_exemplars_dropped_total 3$/m)
})

t.test('a tenant sees its own only, and nothing is left of one that is deleted', async (t) => {
  const keys = { a: `svc_${'a'.repeat(43)}`, b: `svc_${'b'.repeat(43)}`, root: `svc_${'r'.repeat(43)}` }
  const api_keys = [
    { name: 'a', key: keys.a, namespaces: ['a'] },
    { name: 'b', key: keys.b, namespaces: ['b'] },
    { name: 'root', key: keys.root, admin: true, namespaces: ['*'] },
  ]
  const node = await start(t, { server: { multi_tenancy: true }, auth: { api_keys } }, ['exemplars', 'remote_write', 'promql', 'namespaces', 'api_keys'])
  const as = (name: keyof typeof keys) => ({ authorization: `Bearer ${keys[name]}` })
  for (const name of ['a', 'b']) {
    const made = await node.inject({ method: 'POST', url: '/api/v1/namespaces', headers: as('root'), payload: { name } })
    t.ok(made.statusCode < 300, made.body)
  }
  const series = (id: string): WireSeries => ({
    labels: [['__name__', 'm']],
    samples: [{ ms: Date.now(), value: 1 }],
    exemplars: [{ labels: [['trace_id', id]], value: 1, ms: Date.now() }],
  })
  t.equal((await write(node, writeRequestV2([series('of a')]), V2, as('a'))).statusCode, 204)
  t.match(await ask(node, 'm', {}, as('a')), /of a/)
  t.equal(await ask(node, 'm', {}, as('b')), success(''))
  t.equal(await ask(node, '{__name__=~".+"}', {}, as('b')), success(''))
  t.match(JSON.parse(await ask(node, 'm')), { status: 'error' }, 'without a key')
  const deleted = await node.inject({ method: 'DELETE', url: '/api/v1/namespaces/a?force=true', headers: as('root') })
  t.ok(deleted.statusCode < 300, deleted.body)
  t.match((await node.inject({ url: '/metrics', headers: as('root') })).body, /^svc_exemplars 0$/m)
})

t.test('without the plugin nothing is kept, and the answer is empty', async (t) => {
  const node = await start(t, {}, ['remote_write', 'promql'])
  const exemplars = [{ labels: [['trace_id', 'a']] as [string, string][], value: 1, ms: Date.now() }]
  const answer = await write(node, writeRequestV2([{ labels: [['__name__', 'm']], samples: [{ ms: Date.now(), value: 1 }], exemplars }]), V2)
  t.equal(answer.headers['x-prometheus-remote-write-exemplars-written'], '0')
  t.equal(await ask(node, 'm'), success(''))
})
