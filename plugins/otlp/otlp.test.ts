import { deflateSync, gzipSync, zstdCompressSync } from 'node:zlib'
import { definePlugin } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import { boot, Message, type TestNode } from 'svcdb/testkit'
import t from 'tap'
import { type WireMetric, type WireResource, writeMetrics, writeRequest } from './testing-wire.ts'
import { requestJson } from './testing-wire-json.ts'

const PROTOBUF = { 'content-type': 'application/x-protobuf' }
const JSON_TYPE = { 'content-type': 'application/json' }
const now = BigInt(Date.now()) * 1_000_000n + 123n

async function send(node: TestNode, payload: Uint8Array | string, headers: Record<string, string> = PROTOBUF, url = '/v1/metrics') {
  const answer = await node.inject({ method: 'POST', url, headers, payload: typeof payload === 'string' ? payload : Buffer.from(payload) })
  return { status: answer.statusCode, type: answer.headers['content-type'], retryAfter: answer.headers['retry-after'], body: answer.rawPayload }
}

const asJson = (resources: readonly WireResource[]): string => JSON.stringify(requestJson(resources))
const one = (metrics: WireMetric[], attributes = {}): WireResource[] => [{ attributes, scopes: [{ metrics }] }]
const gauge = (name: string, value: number | bigint, time = now, attributes = {}): WireMetric => ({ name, gauge: [{ time, value, attributes }] })

async function sql(node: TestNode, query: string): Promise<unknown[][]> {
  const answer = await node.inject({ method: 'POST', url: '/api/v1/svc/sql', payload: { query } })
  return answer.json().rows
}

async function promql(node: TestNode, query: string): Promise<{ metric: Record<string, string>; value?: [number, string]; histogram?: unknown[] }[]> {
  const time = Number(now / 1_000_000n) / 1000 + 1
  return (await node.inject(`/api/v1/query?query=${encodeURIComponent(query)}&time=${time}`)).json().data.result
}

async function metric(node: TestNode, name: string): Promise<number> {
  const line = (await node.inject('/metrics')).body.split('\n').find((each) => each.startsWith(`svc_${name} `))
  return Number(line?.split(' ')[1])
}

/** What can be read in it, whichever the encoding. */
function texts(bytes: Buffer): string {
  return bytes.toString('utf8')
}

/** One metric of each kind. */
const everything = (prefix = ''): WireMetric[] => [
  {
    name: `${prefix}g`,
    unit: 'By',
    description: 'A gauge',
    gauge: [{ time: now, value: 1.5, attributes: { a: 'x', n: 7n, b: true, d: 0.5, l: ['y', 1n], e: '' } }],
  },
  { name: `${prefix}i`, gauge: [{ time: now, value: -5n }] },
  { name: `${prefix}s`, sum: [{ time: now, start: now - 1000n, value: 3, attributes: { host: 'point' }, exemplars: 2 }], temporality: 2, monotonic: true },
  { name: `${prefix}h`, histogram: [{ time: now, count: 6n, sum: 9.5, counts: [1n, 2n, 3n], bounds: [1, 2] }], temporality: 2 },
  {
    name: `${prefix}e`,
    exponential: [
      { time: now, count: 9n, sum: -1, scale: 0, zeroCount: 2n, positive: { offset: 1, counts: [3n, 0n, 1n] }, negative: { offset: 0, counts: [3n] } },
    ],
    temporality: 2,
  },
  {
    name: `${prefix}q`,
    summary: [
      {
        time: now,
        count: 5n,
        sum: 10,
        quantiles: [
          [0.5, 2],
          [0.99, Number.NaN],
        ],
      },
    ],
  },
]
const RESOURCE = { 'host.name': 'web-1', host: 'resource' }

const ENCODINGS: [string, (resources: WireResource[]) => Uint8Array | string, Record<string, string>][] = [
  ['protobuf', writeRequest, PROTOBUF],
  ['protobuf, gzip', (r) => gzipSync(writeRequest(r)), { ...PROTOBUF, 'content-encoding': 'gzip' }],
  ['protobuf, zstd', (r) => zstdCompressSync(writeRequest(r)), { ...PROTOBUF, 'content-encoding': 'zstd' }],
  ['protobuf, deflate', (r) => deflateSync(writeRequest(r)), { ...PROTOBUF, 'content-encoding': 'deflate' }],
  ['protobuf, identity', writeRequest, { 'content-type': 'application/protobuf', 'content-encoding': 'identity' }],
  ['JSON', asJson, JSON_TYPE],
  ['JSON, gzip', (r) => gzipSync(asJson(r)), { 'content-type': 'application/json; charset=utf-8', 'content-encoding': 'gzip' }],
  ['JSON, zstd', (r) => zstdCompressSync(asJson(r)), { ...JSON_TYPE, 'content-encoding': 'zstd' }],
]

t.test('all kinds in all encodings: read back by SQL and by PromQL', async (t) => {
  const node = await boot({ plugins: ['otlp', 'sql', 'promql'], storage: 'embedded' })
  t.teardown(() => node.stop())
  for (const [i, [name, write, headers]] of ENCODINGS.entries()) {
    const p = `p${i}_`
    t.match(await send(node, write(one(everything(p), RESOURCE)), headers), { status: 204, body: Buffer.alloc(0) })
    const nanos = Number(now)
    const gauges = await sql(node, `SELECT _time, "host.name", host, a, n, b, d, l, gauge FROM ${p}g`)
    t.same(gauges, [[nanos, 'web-1', 'resource', 'x', '7', 'true', '0.5', '["y",1]', 1.5]], name)
    t.same(await sql(node, `SELECT gauge FROM ${p}i`), [[-5]], name)
    t.same(await sql(node, `SELECT host, value FROM ${p}s`), [['point', 3]], 'the attribute of the point goes before that of the resource')
    const [[h]] = await sql(node, `SELECT value FROM ${p}h`)
    const explicit = { count: 6, sum: 9.5, schema: -53, buckets: [[null, 1, 1], [1, 2, 2], [2, null, 3]] } // biome-ignore format: a table
    t.same(JSON.parse(h as string), explicit, name)
    const [[e]] = await sql(node, `SELECT value FROM ${p}e`)
    const exponential = { count: 9, sum: -1, schema: 0, buckets: [[-2, -1, 3], [-1e-128, 1e-128, 2], [2, 4, 3], [8, 16, 1]] } // biome-ignore format: a table
    t.same(JSON.parse(e as string), exponential, name)
    t.same(await sql(node, `SELECT count, sum, "quantile_0.5" FROM ${p}q`), [[5, 10, 2]], name)

    t.match(await promql(node, `${p}g_gauge`), [{ metric: { __name__: `${p}g_gauge`, a: 'x', 'host.name': 'web-1' }, value: { 1: '1.5' } }], name)
    t.match(await promql(node, `${p}s`), [{ metric: { __name__: `${p}s`, host: 'point' }, value: { 1: '3' } }], name)
    t.match(await promql(node, `histogram_count(${p}h)`), [{ value: { 1: '6' } }], name)
    t.match(await promql(node, `histogram_sum(${p}e)`), [{ value: { 1: '-1' } }], name)
    t.match(await promql(node, `{__name__="${p}q_quantile_0.5"}`), [{ value: { 1: '2' } }], name)
    t.match(await promql(node, `${p}q_count`), [{ value: { 1: '5' } }], name)
  }
  const requests = ENCODINGS.length
  t.equal(await metric(node, 'otlp_points_written_total'), 6 * requests)
  t.equal(await metric(node, 'otlp_exemplars_dropped_total'), 2 * requests)
  t.equal(await metric(node, 'wire_non_finite_samples_skipped_total'), requests, 'a quantile that is NaN is left out')
})

t.test('numbers that are not finite are skipped and counted, the rest is taken', async (t) => {
  const node = await boot({ plugins: ['otlp', 'sql', 'promql'], storage: 'embedded' })
  t.teardown(() => node.stop())
  const points = [Number.NaN, 1, Number.POSITIVE_INFINITY, 2, Number.NEGATIVE_INFINITY].map((value, i) => ({ time: now + BigInt(i), value }))
  for (const [payload, headers] of [
    [writeMetrics([{ name: 'g', gauge: points }]), PROTOBUF],
    [asJson(one([{ name: 's', sum: points }])), JSON_TYPE],
  ] as const)
    t.equal((await send(node, payload, headers)).status, 204)
  t.same(await sql(node, 'SELECT gauge FROM g ORDER BY _time'), [[1], [2]])
  t.same(await sql(node, 'SELECT value FROM s ORDER BY _time'), [[1], [2]])
  t.equal(await metric(node, 'wire_non_finite_samples_skipped_total'), 6)
  t.equal(await metric(node, 'otlp_points_skipped_total'), 6)
  t.equal(await metric(node, 'otlp_points_written_total'), 4)

  const nothing = writeMetrics([{ name: 'never', gauge: [{ time: now, value: Number.NaN }] }])
  t.equal((await send(node, nothing)).status, 204)
  const sums = [undefined, Number.NaN, Number.POSITIVE_INFINITY].map((sum, i) => ({
    time: now + BigInt(i),
    count: 1n,
    counts: [1n],
    bounds: [],
    ...(sum === undefined ? {} : { sum }),
  }))
  t.equal((await send(node, writeMetrics([{ name: 'h', histogram: sums }]))).status, 204)
  for (const [value] of await sql(node, 'SELECT value FROM h'))
    t.same(JSON.parse(value as string), { count: 1, sum: null, schema: -53, buckets: [[null, null, 1]] }, 'a sum that is unset or not finite is absent')
  t.match(await promql(node, 'histogram_sum(h)'), [{ value: { 1: 'NaN' } }])
  t.match(await promql(node, 'histogram_count(h)'), [{ value: { 1: '1' } }])
})

t.test('no recorded value ends the series for PromQL, and is none for SQL', async (t) => {
  const node = await boot({ plugins: ['otlp', 'sql', 'promql'], storage: 'embedded' })
  t.teardown(() => node.stop())
  t.equal((await send(node, writeRequest(one(everything())))).status, 204)
  const end = { time: now + 10n ** 6n, flags: 1 }
  const ends: WireMetric[] = [
    { name: 'i', gauge: [end] },
    { name: 's', sum: [{ ...end, attributes: { host: 'point' } }] },
    { name: 'h', histogram: [end] },
    { name: 'e', exponential: [end] },
    { name: 'q', summary: [end] },
  ]
  for (const query of ['i_gauge', 's', 'h', 'e', 'q_sum', 'q_count', '{__name__="q_quantile_0.5"}']) t.equal((await promql(node, query)).length, 1, query)
  t.equal((await send(node, writeRequest(one(ends)))).status, 204)
  for (const query of ['i_gauge', 's', 'h', 'e', 'q_sum', 'q_count', '{__name__="q_quantile_0.5"}']) t.same(await promql(node, query), [], query)
  t.same(await sql(node, 'SELECT count(value), sum(value) FROM s'), [[1, 3]])
})

t.test('a summary ends with the quantiles that it had earlier in the same request', async (t) => {
  const node = await boot({ plugins: ['otlp', 'promql'] })
  t.teardown(() => node.stop())
  const summary = [
    { time: now, count: 3n, sum: 1, quantiles: [[0.5, 1] as [number, number]] },
    { time: now + 10n ** 6n, flags: 1 },
  ]
  t.equal((await send(node, writeMetrics([{ name: 'q', summary }]))).status, 204)
  for (const query of ['q_count', 'q_sum', '{__name__="q_quantile_0.5"}']) t.same(await promql(node, query), [], query)
})

t.test('what is refused is told in a partial success, and the rest is stored', async (t) => {
  const node = await boot({ plugins: ['otlp', 'sql'], storage: 'embedded' })
  t.teardown(() => node.stop())
  await send(node, writeMetrics([gauge('g', 1)]))
  const old = gauge('g', 2, now - 10n ** 15n)
  const bad: WireMetric[] = [gauge('g', 3, now + 1n), old, { name: 'h', histogram: [{ time: now, count: 1n, counts: [1n, 0n], bounds: [] }] }]
  const inJson = await send(node, asJson(one(bad, { a: 'json' })), JSON_TYPE)
  t.match(inJson, { status: 200, type: /^application\/json/ })
  const { partialSuccess } = JSON.parse(texts(inJson.body))
  t.equal(partialSuccess.rejectedDataPoints, '2')
  t.match(
    partialSuccess.errorMessage,
    /^partial write: 1 data point written, 2 rejected; first: data point 1, of metric "g": cannot write point at .*older than the window/,
  )

  const inProtobuf = await send(node, writeRequest(one(bad, { a: 'protobuf' })))
  t.match(inProtobuf, { status: 200, type: 'application/x-protobuf' })
  const errorMessage = texts(inProtobuf.body).slice(texts(inProtobuf.body).indexOf('partial write'))
  t.match(errorMessage, /^partial write: 1 data point written, 2 rejected; first: data point 1, of metric "g": cannot write/)
  t.same(inProtobuf.body, new Message().put(1, new Message().int(1, 2).put(2, errorMessage).done()).done())
  t.same(await sql(node, 'SELECT a, gauge FROM g WHERE gauge = 3 ORDER BY a'), [
    ['json', 3],
    ['protobuf', 3],
  ])
  t.equal((await send(node, writeRequest(one([old])), PROTOBUF, '/v1/metrics?backfill=true')).status, 204)
  t.equal(await metric(node, 'otlp_points_rejected_total'), 4)

  const nothing = await send(node, asJson(one([bad[2]])), JSON_TYPE)
  t.match(nothing, { status: 400, retryAfter: undefined })
  t.match(JSON.parse(texts(nothing.body)), {
    code: 3,
    message: /^INVALID_POINT: data point 0, of metric "h": cannot write histogram of metric "h": it has 2 bucket counts and 0 bounds/,
    details: [{ '@type': 'type.googleapis.com/google.rpc.ErrorInfo', reason: 'INVALID_POINT', domain: 'svc' }],
  })
})

t.test('a metric of two types, and of what its field is not', async (t) => {
  const node = await boot({ plugins: ['otlp', 'sql', 'line_protocol'], storage: 'embedded' })
  t.teardown(() => node.stop())
  t.equal((await node.inject({ method: 'POST', url: '/write?backfill=true', payload: 'text gauge="x" 1\nwide value=1,other=2 1' })).statusCode, 204)
  const conflict = await send(node, asJson(one([gauge('text', 1)])), JSON_TYPE)
  t.match(JSON.parse(texts(conflict.body)), {
    code: 3,
    message: /^SCHEMA_ERROR: data point 0, of metric "text": cannot write field "gauge" of measurement "text": it is of type string/,
  })
  t.equal(conflict.status, 400)
  const both: WireMetric[] = [
    { name: 'm', sum: [{ time: now, value: 1 }] },
    { name: 'm', histogram: [{ time: now + 1n, count: 0n, counts: [0n], bounds: [] }] },
  ]
  t.equal((await send(node, writeRequest(one(both)))).status, 200)
  t.equal((await send(node, writeRequest(one([{ name: 'wide', sum: [{ time: now, value: 5n }] }, gauge('wide', 6, now + 1n)])))).status, 204)
  t.same(await sql(node, `SELECT value, gauge FROM wide WHERE _time >= ${now} ORDER BY _time`), [
    [5, null],
    [null, 6],
  ])
})

t.test('bodies that are refused, in the shape and the encoding of the request', async (t) => {
  const node = await boot({ plugins: ['otlp'], config: { otlp: { max_decompressed_bytes: 4096, max_points_per_write: 3 }, server: { max_body_size: 8192 } } })
  t.teardown(() => node.stop())
  const message = writeMetrics([gauge('g', 1)])
  const many = writeMetrics([{ name: 'g', gauge: Array.from({ length: 4 }, (_, i) => ({ time: now + BigInt(i), value: 1 })) }])
  const gzip = { ...PROTOBUF, 'content-encoding': 'gzip' }
  const bad: [string, Uint8Array | string, Record<string, string>, number, RegExp][] = [
    ['no protobuf', Buffer.from('what is this'), PROTOBUF, 400, /BAD_REQUEST: cannot decode the protobuf message: .*at byte \d+ of 12/],
    ['no JSON', '{"resourceMetrics": [', JSON_TYPE, 400, /BAD_REQUEST: cannot read the body as JSON: Unexpected end of JSON input/],
    ['a secret in no JSON', '{"resourceMetrics": hunter2}', JSON_TYPE, 400, /cannot read the body as JSON: Unexpected token 'h'(?!,)/],
    ['another JSON', '{"resourceMetrics": 5}', JSON_TYPE, 400, /BAD_REQUEST: cannot read the JSON message: resourceMetrics is not a list/],
    ['JSON that is no object', '[1]', JSON_TYPE, 400, /cannot read the JSON message: it is not an object/],
    ['cut gzip', gzipSync(message).subarray(0, 20), gzip, 400, /BAD_REQUEST: cannot decompress the body as gzip: it ends early; send it whole/],
    ['much in little', gzipSync(Buffer.alloc(5000)), gzip, 413, /PAYLOAD_TOO_LARGE: .*otlp.max_decompressed_bytes/],
    ['much', Buffer.alloc(9000), PROTOBUF, 413, /PAYLOAD_TOO_LARGE/],
    ['many', many, PROTOBUF, 400, /BAD_REQUEST: cannot write more than 3 data points at once: otlp.max_points_per_write is 3/],
    ['brotli', message, { ...PROTOBUF, 'content-encoding': 'br' }, 415, /UNSUPPORTED_MEDIA_TYPE: cannot read a body of Content-Encoding "br"/],
    [
      'text',
      message,
      { 'content-type': 'text/plain' },
      415,
      /cannot read a body of Content-Type \\"text\/plain\\": OTLP metrics come as application\/x-protobuf or application\/json/,
    ],
    ['an empty type', message, { 'content-type': '' }, 415, /cannot read a body of Content-Type \\"\\"/],
    ['no media type', message, { 'content-type': 'protobuf' }, 415, /Content-Type \\"protobuf\\".*application\/x-protobuf or application\/json/],
    ['no type', message, {}, 415, /cannot read a body of Content-Type \\"\\"/],
  ]
  for (const url of ['/v1/metrics', '/api/v1/otlp/metrics']) {
    for (const [name, payload, headers, status, text] of bad) {
      const answer = await send(node, payload, headers, url)
      t.equal(answer.status, status, name)
      t.match(texts(answer.body), text, name)
      t.match(answer.type, headers['content-type'] === PROTOBUF['content-type'] ? 'application/x-protobuf' : /^application\/json/, name)
      t.equal(answer.retryAfter, undefined, name)
    }
    t.equal((await send(node, message, PROTOBUF, url)).status, 204)
    t.equal((await send(node, '', PROTOBUF, url)).status, 204, 'an empty request is one')
    t.equal((await send(node, '', JSON_TYPE, url)).status, 400, 'but no JSON')
    t.equal((await send(node, '{}', JSON_TYPE, url)).status, 204)
  }
  const wrongly = await node.inject({ method: 'GET', url: '/v1/metrics' })
  t.equal(wrongly.statusCode, 405)
})

t.test('requests at once do not mix, nor do namespaces', async (t) => {
  const node = await boot({ plugins: ['otlp', 'sql'], storage: 'embedded', config: { server: { multi_tenancy: true } } })
  t.teardown(() => node.stop())
  const requests = Array.from({ length: 24 }, (_, i) => {
    const points = Array.from({ length: 50 }, (_, j) => ({ time: now + BigInt(j), value: i, attributes: { i: String(i) } }))
    const message: WireMetric[] = [{ name: 'm', sum: points }]
    const namespace = { 'x-namespace': i % 2 === 0 ? 'even' : 'odd' }
    if (i % 3 === 0) return send(node, gzipSync(writeMetrics(message)), { ...PROTOBUF, 'content-encoding': 'gzip', ...namespace })
    return i % 3 === 1 ? send(node, writeMetrics(message), { ...PROTOBUF, ...namespace }) : send(node, asJson(one(message)), { ...JSON_TYPE, ...namespace })
  })
  for (const { status } of await Promise.all(requests)) t.equal(status, 204)
  const query = 'SELECT count(*), sum(CASE WHEN value = CAST(i AS DOUBLE) THEN 1 ELSE 0 END), sum(value) FROM m'
  for (const [namespace, sum] of [
    ['even', 132 * 50],
    ['odd', 144 * 50],
  ] as const) {
    const answer = await node.inject({ method: 'POST', url: '/api/v1/svc/sql', headers: { 'x-namespace': namespace }, payload: { query } })
    t.same(answer.json().rows, [[600, 600, sum]], namespace)
  }
})

t.test('a retry with its Idempotency-Key', async (t) => {
  const node = await boot({ plugins: ['otlp'] })
  t.teardown(() => node.stop())
  const headers = { ...PROTOBUF, 'idempotency-key': 'k' }
  t.equal((await send(node, writeMetrics([gauge('g', 1)]), headers)).status, 204)
  const again = await send(node, writeMetrics([gauge('g', 1)]), headers)
  t.equal(again.status, 409)
  t.match(texts(again.body), /CONFLICT: /)
})

t.test('a measurement that is dropped while a request is read: exporters send it again', async (t) => {
  let drop: (() => Promise<void>) | undefined
  const dropper = definePlugin({
    id: 'dropper',
    summary: 'Drops a measurement between reading and storing',
    stability: 'stable',
    setup: (svc) => svc.ingest.admit(() => drop?.()),
  })
  const node = await boot({ plugins: ['otlp', dropper], storage: 'embedded' })
  t.teardown(() => node.stop())
  t.equal((await send(node, writeMetrics([gauge('g', 1)]))).status, 204)
  const body = writeMetrics([gauge('g', 2), gauge('h', 2)])
  drop = () => node.storage.drop('', 'g')
  t.match(await send(node, body), { status: 503, retryAfter: '1' })
  drop = undefined
  t.equal((await send(node, body)).status, 204)
})

t.test('what the storage does not take is to come again, and is not said to be written', async (t) => {
  const node = await boot({ plugins: ['otlp'] })
  t.teardown(() => node.stop())
  const write = node.storage.write.bind(node.storage)
  for (const code of ['BACKPRESSURE', 'STORAGE_FULL'] as const) {
    node.storage.write = async (batch) => {
      node.storage.recycle(batch)
      throw new SvcError(code, 'later')
    }
    for (const [message, headers] of [
      [writeRequest(one([gauge('g', 1)])), PROTOBUF],
      [asJson(one([gauge('g', 1)])), JSON_TYPE],
    ] as const) {
      const { status, retryAfter, body } = await send(node, message, headers)
      t.match([status, retryAfter], [503, /^\d+$/], code)
      t.match(texts(body), code)
    }
    t.equal(await metric(node, 'otlp_points_written_total'), 0)
  }
  node.storage.write = write
  t.equal((await send(node, writeRequest(one([gauge('g', 1)])))).status, 204)
})

t.test('traces and logs, which exporters send to the same address by themselves, are told that only metrics are kept', async (t) => {
  const node = await boot({ plugins: ['otlp'] })
  t.teardown(() => node.stop())
  for (const [url, hint] of [
    ['/v1/traces', /; only metrics are kept, by POST \/v1\/metrics; .*OTEL_EXPORTER_OTLP_METRICS_ENDPOINT/],
    ['/v1/logs', /; only metrics are kept/],
  ] as const) {
    const answer = await node.inject({ method: 'POST', url })
    t.equal(answer.statusCode, 404)
    t.match(answer.json(), { code: 'NOT_FOUND', error: hint })
  }
})

t.test('paths of Mimir, Prometheus and VictoriaMetrics that take OTLP are told where it goes', async (t) => {
  const node = await boot({ plugins: ['otlp'] })
  t.teardown(() => node.stop())
  for (const url of ['/otlp/v1/metrics', '/api/v1/otlp/v1/metrics', '/opentelemetry/v1/metrics', '/opentelemetry/api/v1/push']) {
    const answer = await node.inject({ method: 'POST', url })
    t.equal(answer.statusCode, 404, url)
    t.match(answer.json(), { code: 'NOT_FOUND', error: /; OTLP is taken at \/v1\/metrics, so the endpoint of an exporter is this server without a path$/ }, url)
  }
})
