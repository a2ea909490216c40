import { gzipSync, zstdCompressSync } from 'node:zlib'
import { compressSync } from 'snappy'
import { definePlugin, type MetricMetadata } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import { boot, type TestNode, temporaryFolder } from 'svcdb/testkit'
import t from 'tap'
import { Payloads } from './payload.ts'
import { STALE, type WireSeries, writeRequest, writeRequestV2 } from './testing-wire.ts'

const URL = '/api/v1/prom/write'
const V1 = { 'content-type': 'application/x-protobuf', 'content-encoding': 'snappy', 'x-prometheus-remote-write-version': '0.1.0' }
const V2 = { ...V1, 'content-type': 'application/x-protobuf;proto=io.prometheus.write.v2.Request', 'x-prometheus-remote-write-version': '2.0.0' }
const now = Date.now()
const up = (value: number | bigint, ms = now): WireSeries => ({
  labels: [
    ['__name__', 'up'],
    ['job', 'node'],
  ],
  samples: [{ ms, value }],
})

async function send(node: TestNode, payload: Uint8Array, headers: Record<string, string> = V1, url = URL) {
  const answer = await node.inject({ method: 'POST', url, headers, payload: Buffer.from(payload) })
  const written = ['samples', 'histograms', 'exemplars'].map((kind) => answer.headers[`x-prometheus-remote-write-${kind}-written`])
  return {
    status: answer.statusCode,
    body: answer.body === '' ? '' : answer.headers['content-type']?.toString().includes('json') ? answer.json() : answer.body,
    written,
  }
}

async function sql(node: TestNode, query: string): Promise<unknown[][]> {
  const answer = await node.inject({ method: 'POST', url: '/api/v1/svc/sql', payload: { query } })
  return answer.json().rows
}

async function metric(node: TestNode, name: string): Promise<number> {
  const line = (await node.inject('/metrics')).body.split('\n').find((each) => each.startsWith(`svc_${name} `))
  return Number(line?.split(' ')[1])
}

t.test('version 1: written, read back by SQL, answered without counts', async (t) => {
  const node = await boot({ plugins: ['remote_write', 'sql', 'native'], storage: 'embedded' })
  t.teardown(() => node.stop())
  const list = [up(1), up(0.5, now + 1), up(STALE, now + 2), up(0x7ff0000000000000n, now + 3)]
  t.same(await send(node, compressSync(writeRequest(list))), { status: 204, body: '', written: [undefined, undefined, undefined] })
  const nanos = (ms: number) => Number(BigInt(ms) * 1_000_000n)
  t.same(await sql(node, 'SELECT _time, job, value FROM up ORDER BY _time'), [
    [nanos(now), 'node', 1],
    [nanos(now + 1), 'node', 0.5],
    [nanos(now + 2), 'node', null],
    [nanos(now + 3), 'node', null],
  ])
  t.same(await sql(node, 'SELECT count(value), avg(value) FROM up'), [[2, 0.75]])
  const plan = { measurement: 'up', tags: { job: 'node' }, limit: 1 }
  const rows = (await node.inject({ method: 'POST', url: '/api/v1/svc/query', payload: plan })).json()
  t.match(rows, [{ tags: { job: 'node' }, fields: { value: 1 } }])
  t.equal(await metric(node, 'wire_non_finite_samples_skipped_total'), 2)
  t.equal(await metric(node, 'remote_write_points_written_total'), 4)
})

t.test('version 2: counts of what was written, staleness markers and histograms among it', async (t) => {
  const node = await boot({ plugins: ['remote_write'] })
  t.teardown(() => node.stop())
  const histogram: WireSeries = {
    labels: [['__name__', 'h']],
    histograms: [{ ms: now, countInt: 2, sum: 1, positiveSpans: [[0, 1]], positiveDeltas: [2] }],
    exemplars: 1,
  }
  t.match(await send(node, compressSync(writeRequestV2([up(1), up(2, now + 1), histogram])), V2), { status: 204, written: ['2', '1', '0'] })
  t.match(await send(node, compressSync(writeRequestV2([up(STALE, now + 2)])), V2), { status: 204, written: ['1', '0', '0'] })
  const ends: WireSeries = { ...histogram, histograms: [{ ms: now + 1, sumBits: STALE }], samples: [{ ms: now + 2, value: STALE }] }
  t.match(await send(node, compressSync(writeRequestV2([ends])), V2), { status: 204, written: ['1', '1', '0'] })
  const unknown: WireSeries = { labels: [['__name__', 'never_seen']], samples: [{ ms: now, value: STALE }] }
  t.match(await send(node, compressSync(writeRequestV2([unknown])), V2), { status: 204, written: ['1', '0', '0'] })
  t.match(await send(node, compressSync(writeRequestV2([])), V2), { status: 204, written: ['0', '0', '0'] })
  t.equal(await metric(node, 'remote_write_exemplars_dropped_total'), 2)
})

t.test('what is refused is told with counts, and the rest is stored', async (t) => {
  const node = await boot({ plugins: ['remote_write', 'sql'], storage: 'embedded', config: { database: { max_series_cardinality: 2 } } })
  t.teardown(() => node.stop())
  await send(node, compressSync(writeRequest([up(1)])))
  const old = up(1, now - 1e9)
  const nameless: WireSeries = { labels: [['job', 'x']], samples: [{ ms: now, value: 1 }] }
  const histogram: WireSeries = {
    labels: [['__name__', 'h']],
    histograms: [
      { ms: now, countInt: 0 },
      { ms: now - 1e9, countInt: 0 },
    ],
  }
  const partial = await send(node, compressSync(writeRequestV2([old, up(2, now + 1), nameless, histogram])), V2)
  t.match(partial, { status: 400, written: ['1', '1', '0'], body: { code: 'PARTIAL_WRITE', written: 2, rejected: 3 } })
  t.match(partial.body.error, /^partial write: 2 samples written, 3 rejected; first: timeseries\[0\]: cannot write point at .*older than the window/)
  t.match(partial.body.reasons[1], /^timeseries\[2\]: cannot write series: it has no label "__name__"/)
  t.same(await sql(node, 'SELECT value FROM up ORDER BY _time'), [[1], [2]])

  const many = await send(node, compressSync(writeRequestV2([{ ...up(1), labels: [['__name__', 'third']] }])), V2)
  t.match(many, { status: 400, written: ['0', '0', '0'], body: { code: 'CARDINALITY_EXCEEDED', written: 0, rejected: 1 } })
  const conflict = await send(node, compressSync(writeRequest([{ ...histogram, labels: up(1).labels as never }])))
  t.match(conflict, { status: 400, body: { code: 'SCHEMA_ERROR', written: 0, rejected: 2 } })
  t.match(await send(node, compressSync(writeRequest([up(1, now + 1e9)]))), { status: 400, body: { code: 'FUTURE_TIMESTAMP' } })
  t.equal((await send(node, compressSync(writeRequest([old])), V1, `${URL}?backfill=true`)).status, 204)
  t.equal(await metric(node, 'remote_write_points_rejected_total'), 7)
})

t.test('a float and a histogram of one new metric in one request', async (t) => {
  const node = await boot({ plugins: ['remote_write'] })
  t.teardown(() => node.stop())
  const both: WireSeries = { labels: [['__name__', 'm']], samples: [{ ms: now, value: 1 }], histograms: [{ ms: now, countInt: 0 }] }
  t.match(await send(node, compressSync(writeRequestV2([both])), V2), { status: 400, written: ['1', '0', '0'], body: { code: 'PARTIAL_WRITE' } })
})

t.test('floats and histograms of one metric, both kept: PromQL sees one series', async (t) => {
  const node = await boot({ plugins: ['remote_write', 'promql'], storage: 'embedded', config: { remote_write: { float_and_histogram: 'keep_both' } } })
  t.teardown(() => node.stop())
  const part = (name: string, more: Partial<WireSeries>): WireSeries => ({ labels: [['__name__', name]], ...more })
  const ask = async (query: string) => (await node.inject(`/api/v1/query?query=${encodeURIComponent(query)}&time=${(now + 10) / 1000}`)).json().data.result
  for (const first of ['floats', 'histograms']) {
    const steps = [
      part(first, { samples: [{ ms: now, value: 1 }] }),
      part(first, { histograms: [{ ms: now + 1, countInt: 0 }] }),
      part(first, { samples: [{ ms: now + 2, value: 3 }] }),
    ]
    if (first === 'histograms') steps.unshift(part(first, { histograms: [{ ms: now - 1, countInt: 0 }] }))
    for (const step of steps) t.match(await send(node, compressSync(writeRequestV2([step])), V2), { status: 204 })
    const counted = await ask(`count_over_time(${first}[1m])`)
    t.match(counted, [{ value: { 1: String(steps.length) } }])
    t.equal(counted.length, 1)
    t.match(await ask(first), [{ metric: { __name__: first }, value: { 1: '3' } }])
    t.same(await send(node, compressSync(writeRequestV2([part(first, { samples: [{ ms: now + 3, value: STALE }] })])), V2), {
      status: 204,
      body: '',
      written: ['1', '0', '0'],
    })
    t.same(await ask(first), [], 'the series has ended')
  }
})

t.test('questions about histograms whose zero bucket has no width that is a number end', async (t) => {
  const node = await boot({ plugins: ['remote_write', 'promql'], storage: 'embedded' })
  t.teardown(() => node.stop())
  const buckets = { sum: 4.5, zeroInt: 1, positiveSpans: [[-2, 1]] as [number, number][], negativeSpans: [[0, 1]] as [number, number][], negativeDeltas: [1] }
  const series = [Number.NaN, Number.POSITIVE_INFINITY, -1, 0.5].map(
    (zeroThreshold, i): WireSeries => ({
      labels: [
        ['__name__', 'h'],
        ['i', String(i)],
      ],
      histograms: [0, 1].map((n) => ({ ...buckets, ms: now + n, countInt: 3 + n, positiveDeltas: [1 + n], zeroThreshold })),
    }),
  )
  t.match(await send(node, compressSync(writeRequest(series))), { status: 204 })
  for (const query of [
    'rate(h[1m])',
    'sum(h)',
    'sum(rate(h[1m]))',
    'sum_over_time(h[1m])',
    'resets(h[1m])',
    'histogram_quantile(0.5, h)',
    'h - on() group_left h{i="0"}',
  ])
    t.match((await node.inject(`/api/v1/query?query=${encodeURIComponent(query)}&time=${(now + 10) / 1000}`)).json(), { status: 'success' }, query)
})

t.test('a staleness marker that comes before any sample of its metric ends what is older, as in Prometheus', async (t) => {
  const node = await boot({ plugins: ['remote_write', 'promql'], storage: 'embedded' })
  t.teardown(() => node.stop())
  const write = async (...series: WireSeries[]) => t.match(await send(node, compressSync(writeRequest(series))), { status: 204 })
  const get = async (path: string) => (await node.inject(`/api/v1/${path}`)).json().data
  const ask = async (query: string) => (await get(`query?query=${encodeURIComponent(query)}&time=${(now + 10) / 1000}`)).result
  const late = (instance: string, ...samples: WireSeries['samples'] & object): WireSeries => ({
    labels: [
      ['__name__', 'late'],
      ['instance', instance],
    ],
    samples,
  })
  await write(late('a', { ms: now, value: STALE }))
  t.same(await ask('late'), [])
  t.same(await get(`series?match[]=late&start=${now / 1000 - 60}&end=${now / 1000 + 60}`), [{ __name__: 'late', instance: 'a' }], 'the series exists')
  await write(late('a', { ms: now - 5, value: 1 }), late('b', { ms: now - 5, value: 2 }))
  t.match(await ask('late'), [{ metric: { instance: 'b' }, value: { 1: '2' } }], 'what is older than the marker has ended')
  t.match(await ask('count_over_time(late[1m])'), { length: 2 })
  await write(late('a', { ms: now + 5, value: 3 }))
  t.match(await ask('sum(late)'), [{ value: { 1: '5' } }], 'a newer sample begins it again')
  await write({ labels: [['__name__', 'late_histogram']], samples: [{ ms: now, value: STALE }] })
  await write({ labels: [['__name__', 'late_histogram']], histograms: [{ ms: now + 1, countInt: 3, positiveSpans: [[0, 1]], positiveDeltas: [3] }] })
  t.match(await ask('histogram_count(late_histogram)'), [{ value: { 1: '3' } }], 'it does not make the metric one of floats')
})

t.test('exemplars are not stored: said to be written only on request, of what was taken whole', async (t) => {
  const node = await boot({ plugins: ['remote_write'], config: { remote_write: { exemplars_written: 'accepted' } } })
  t.teardown(() => node.stop())
  const taken = { ...up(1), exemplars: 2 }
  t.match(await send(node, compressSync(writeRequestV2([taken])), V2), { status: 204, written: ['1', '0', '2'] })
  const nameless: WireSeries = { labels: [['a', 'b']], samples: [{ ms: now, value: 1 }] }
  t.match(await send(node, compressSync(writeRequestV2([taken, nameless])), V2), { status: 400, written: ['1', '0', '0'] })
})

t.test('bodies: empty ones, snappy and zstd under either name, gzip under its own and snappy, and what is none of them', async (t) => {
  const node = await boot({ plugins: ['remote_write'], config: { remote_write: { max_decompressed_bytes: 4096 } } })
  t.teardown(() => node.stop())
  const message = writeRequest([up(1)])
  // A block of 31 bytes has gzip's first byte.
  const short = writeRequest([{ labels: [['__name__', 'm'.repeat(15)]] }])
  t.equal(compressSync(short)[0], gzipSync(short)[0])
  const { 'content-encoding': _, ...bare } = V1
  const zstd = { ...V1, 'content-encoding': 'zstd' }
  const gzip = { ...V1, 'content-encoding': 'gzip' }
  const good: [string, Uint8Array, Record<string, string>][] = [
    ['snappy without a header', compressSync(message), bare],
    ['zstd', zstdCompressSync(message), zstd],
    ['zstd called snappy', zstdCompressSync(message), V1],
    ['snappy called zstd', compressSync(message), zstd],
    ['gzip', gzipSync(message), gzip],
    ['gzip called snappy', gzipSync(message), V1],
    ['nothing called gzip', new Uint8Array(0), gzip],
    ['snappy that begins as gzip does', compressSync(short), V1],
    ['nothing', new Uint8Array(0), V1],
    ['an empty block', compressSync(Buffer.alloc(0)), V1],
    ['an empty zstd frame', zstdCompressSync(Buffer.alloc(0)), zstd],
    ['no Content-Type', compressSync(message), { 'content-encoding': 'snappy' }],
  ]
  for (const [name, body, headers] of good) t.match(await send(node, body, headers), { status: 204, body: '' }, name)
  const bad: [string, Uint8Array, Record<string, string>, number, RegExp][] = [
    ['not compressed', message, V1, 400, /cannot decompress the body as snappy|cannot decode the protobuf/],
    ['cut snappy', compressSync(message).subarray(0, 20), V1, 400, /cannot decompress the body as snappy \(block format\): .*, at byte/],
    ['cut zstd', zstdCompressSync(message).subarray(0, 20), zstd, 400, /cannot decompress the body as zstd: it ends early; send it whole/],
    ['no protobuf', compressSync('what is this'), V1, 400, /cannot decode the protobuf message: .*, at byte \d+ of 12/],
    ['much in little', compressSync(Buffer.alloc(5000)), V1, 413, /more than 4096 bytes after decompression.*remote_write.max_decompressed_bytes/],
    ['much in little zstd', zstdCompressSync(Buffer.alloc(5000)), zstd, 413, /remote_write.max_decompressed_bytes/],
    ['snappy called gzip', compressSync(message), gzip, 415, /Content-Encoding "gzip": it does not begin as gzip does/],
    ['zstd called gzip', zstdCompressSync(message), gzip, 415, /Content-Encoding "gzip"/],
    ['cut gzip', gzipSync(message).subarray(0, 20), gzip, 400, /cannot decompress the body as gzip/],
    ['much in little gzip', gzipSync(Buffer.alloc(5000)), gzip, 413, /remote_write.max_decompressed_bytes/],
    [
      'another encoding',
      message,
      { ...V1, 'content-encoding': 'br' },
      415,
      /Content-Encoding "br".*prometheus.WriteRequest.*io.prometheus.write.v2.Request.*snappy/,
    ],
    ['JSON', message, { 'content-type': 'application/json' }, 415, /Content-Type "application\/json".*prometheus.WriteRequest.*io.prometheus.write.v2.Request/],
    ['no media type', message, { 'content-type': 'protobuf' }, 415, /Content-Type "protobuf".*prometheus.WriteRequest.*io.prometheus.write.v2.Request/],
    ['another message', message, { ...V1, 'content-type': 'application/x-protobuf;proto=x.Y' }, 415, /proto=x.Y/],
  ]
  for (const [name, body, headers, status, text] of bad) {
    const answer = await send(node, body, headers)
    t.equal(answer.status, status, name)
    t.match(answer.body.error, text, name)
  }
  const failed = await send(node, compressSync('what is this'), V2)
  t.match(failed, { status: 400, written: ['0', '0', '0'] }, 'version 2 says on failure too that nothing was written')
})

t.test('memory that is taken for one message is told before it is read, and what is kept for all is not', async (t) => {
  const payloads = new Payloads(1 << 20, 0, (error) => t.error(error))
  t.teardown(() => payloads.stop())
  const message = writeRequest([up(1)])
  const told: number[] = []
  const read = (body: Buffer, reading: () => unknown = () => 0) => payloads.read(body, reading, true, { hold: (bytes) => told.push(bytes) })
  let end = (): void => {}
  const first = read(compressSync(message), () => new Promise<void>((resolve) => (end = resolve)))
  t.same(told, [])
  for (const [name, body] of Object.entries({ snappy: compressSync(message), zstd: zstdCompressSync(message), gzip: gzipSync(message) }))
    await read(body, () => t.same(told.splice(0), [message.length], `${name} beside another one`))
  end()
  await first
  await read(compressSync(message), () => t.same(told, [], 'when that has been read'))
})

t.test('the path of Prometheus itself, which JSON keeps', async (t) => {
  for (const plugins of [['remote_write', 'native'], ['native', 'remote_write'], ['remote_write']]) {
    const node = await boot({ plugins })
    const body = compressSync(writeRequestV2([up(1)]))
    t.match(await send(node, body, V2, '/api/v1/write'), { status: 204, written: ['1', '0', '0'] })
    const point = { measurement: 'm', fields: { v: 1 } }
    const json = await node.inject({ method: 'POST', url: '/api/v1/write', payload: [point] })
    t.equal(json.statusCode, plugins.includes('native') ? 204 : 415)
    await node.stop()
  }
})

t.test('paths of VictoriaMetrics, a Pushgateway, Loki, Mimir, Cortex and Thanos that take data say where it goes', async (t) => {
  const node = await boot({ plugins: ['remote_write'] })
  t.teardown(() => node.stop())
  for (const [url, hint] of [
    ['/metrics/job/backup', /; a Pushgateway takes what jobs push; .*\/api\/v1\/prom\/write/],
    ['/loki/api/v1/push', /; logs are not stored here/],
    ['/insert/0/prometheus/api/v1/write', /; remote write is taken at \/api\/v1\/prom\/write, /],
    ['/api/v1/push', /; remote write is taken at /],
    ['/api/prom/push', /; remote write is taken at /],
    ['/api/v1/receive', /; remote write is taken at /],
    ['/api/v1/import/prometheus', /; vmagent takes it, and sends it here/],
  ] as const) {
    const answer = await node.inject({ method: 'POST', url })
    t.equal(answer.statusCode, 404)
    t.match(answer.json(), { code: 'NOT_FOUND', error: hint })
  }
})

t.test('the question of older vmagents', async (t) => {
  const node = await boot({ plugins: ['remote_write'] })
  t.teardown(() => node.stop())
  t.match(await send(node, new Uint8Array(0), {}, `${URL}?get_vm_proto_version=1`), { status: 200, body: '1' })
})

t.test('requests at once do not mix, though they share buffers', async (t) => {
  const node = await boot({ plugins: ['remote_write', 'sql'], storage: 'embedded' })
  t.teardown(() => node.stop())
  const requests = Array.from({ length: 24 }, (_, i) => {
    const list = Array.from(
      { length: 50 },
      (_, j): WireSeries => ({
        labels: [
          ['__name__', 'm'],
          ['i', String(i)],
        ],
        samples: [{ ms: now + j, value: i }],
      }),
    )
    const message = i % 2 === 0 ? writeRequest(list) : writeRequestV2(list)
    return send(node, i % 3 === 0 ? zstdCompressSync(message) : compressSync(message), i % 2 === 0 ? V1 : V2)
  })
  for (const { status } of await Promise.all(requests)) t.equal(status, 204)
  t.same(await sql(node, 'SELECT count(*), sum(CASE WHEN value = CAST(i AS DOUBLE) THEN 1 ELSE 0 END) FROM m'), [[1200, 1200]])
})

t.test('a retry with its Idempotency-Key, and storage that takes nothing', async (t) => {
  const node = await boot({ plugins: ['remote_write'] })
  const body = compressSync(writeRequest([up(1)]))
  const headers = { ...V1, 'idempotency-key': 'k' }
  t.equal((await send(node, body, headers)).status, 204)
  t.match(await send(node, body, headers), { status: 409, body: { code: 'CONFLICT' } })
  await node.stop()
})

for (const storage of ['memory', 'embedded'])
  t.test(`a measurement that is dropped while a request is read: it is to come again, whole, and is stored then: ${storage}`, async (t) => {
    let drop: (() => Promise<void>) | undefined
    const dropper = definePlugin({
      id: 'dropper',
      summary: 'Drops a measurement between reading and storing',
      stability: 'stable',
      setup: (svc) => svc.ingest.admit(() => drop?.()),
    })
    const node = await boot({ plugins: ['remote_write', dropper], storage })
    t.teardown(() => node.stop())
    const list = [up(1), { ...up(2), labels: [['__name__', 'other']] } as WireSeries]
    t.equal((await send(node, compressSync(writeRequest([up(0, now - 1)])))).status, 204)
    drop = () => node.storage.drop('', 'up')
    const headers = { ...V1, 'idempotency-key': 'k' }
    const body = compressSync(writeRequest(list))
    t.match(await send(node, body, headers), { status: 503, body: { code: 'BACKPRESSURE', error: /dropped .*send it again/ } })
    const names = async () => (await node.storage.measurements('')).map(({ name }) => name)
    t.same(await names(), [], 'nothing of it is stored: points without a time of their own would be stored twice')
    drop = undefined
    t.equal((await send(node, body, headers)).status, 204, 'its key is free')
    t.same(await names(), ['other', 'up'])
  })

t.test('what the storage does not take is to come again, and is not said to be written', async (t) => {
  const node = await boot({ plugins: ['remote_write'], config: { remote_write: { exemplars_written: 'accepted' } } })
  t.teardown(() => node.stop())
  node.storage.write = async (batch) => {
    node.storage.recycle(batch)
    throw new SvcError('BACKPRESSURE', 'later')
  }
  const series = { ...up(1), exemplars: 1 }
  t.match(await send(node, compressSync(writeRequest([series]))), { status: 503, body: { code: 'BACKPRESSURE' } })
  t.match(await send(node, compressSync(writeRequestV2([series])), V2), { status: 503, body: { code: 'BACKPRESSURE' }, written: ['0', '0', '0'] })
  t.equal(await metric(node, 'remote_write_points_written_total'), 0)
  t.equal(await metric(node, 'remote_write_exemplars_dropped_total'), 0, 'its exemplars come again, too')
})

t.test('metadata is there for other plugins, also after a restart', async (t) => {
  let found: MetricMetadata | undefined
  const reader = definePlugin({
    id: 'reader',
    summary: 'Finds the service',
    stability: 'experimental',
    setup(svc) {
      svc.start(() => {
        found = svc.find<MetricMetadata>('metric_metadata')
      })
    },
  })
  const config = { database: { data_dir: temporaryFolder(t) } }
  const start = () => boot({ plugins: ['remote_write', reader], storage: './storage/embedded/index.ts', config })
  let node = await start()
  t.teardown(() => node.stop())
  const long = 'prometheus_http_request_duration_seconds'
  for (const metric of ['temp', long]) await send(node, compressSync(writeRequest([], [{ type: 2, metric, help: 'Of the air', unit: 'celsius' }])))
  await send(node, compressSync(writeRequestV2([{ ...up(1), metadata: { type: 2, help: 'Reached', unit: '' } }])), V2)
  const all = () => [...(found as MetricMetadata).list('')].sort((a, b) => (a.metric < b.metric ? -1 : 1))
  const expected = [
    { metric: long, type: 'gauge', help: 'Of the air', unit: 'celsius' },
    { metric: 'temp', type: 'gauge', help: 'Of the air', unit: 'celsius' },
    { metric: 'up', type: 'gauge', help: 'Reached', unit: '' },
  ]
  t.same(all(), expected)
  await node.stop()
  node = await start()
  t.same(all(), expected)
})

/** Of large requests, four at a time. */
const ROUNDS = 12

t.test('large requests: decompressed beside the main thread or on it, both versions mean the same', async (t) => {
  for (const slots of [0, 4]) {
    const node = await boot({ plugins: ['remote_write', 'sql'], storage: 'embedded', config: { remote_write: { max_parallel_decompressions: slots } } })
    t.teardown(() => node.stop())
    const list = (round: number): WireSeries[] =>
      Array.from({ length: 3000 }, (_, i) => ({
        labels: [
          ['__name__', `large_${i % 7}`],
          ['city', `Zürich ${'and so on '.repeat(6)}`],
          ['host', `host_${i}`],
        ],
        samples: [{ ms: now + round, value: i + round / 8 }],
      }))
    // The thread starts with the first: later rounds go through it, several at a time.
    for (let round = 0; round < ROUNDS; round += 4) {
      const answers = await Promise.all(
        [0, 1, 2, 3].map((i) => {
          const write = i % 2 === 0 ? writeRequest : writeRequestV2
          // vmagent sends zstd.
          const compress = i === 2 ? zstdCompressSync : compressSync
          return send(node, compress(write(list(round + i))), i % 2 === 0 ? V1 : V2)
        }),
      )
      t.same(
        answers.map(({ status }) => status),
        [204, 204, 204, 204],
      )
      await new Promise((resolve) => setTimeout(resolve, 20))
    }
    const sum = Array.from({ length: ROUNDS }, (_, round) => 429 * round).reduce((a, b) => a + b)
    t.same(await sql(node, 'SELECT count(*), count(DISTINCT host), count(DISTINCT city) FROM large_3'), [[429 * ROUNDS, 429, 1]])
    const values = list(0).reduce((all, { samples }, i) => (i % 7 === 3 ? all + (samples?.[0].value as number) : all), 0)
    t.same(await sql(node, 'SELECT sum(value) FROM large_3'), [[values * ROUNDS + sum / 8]])
    const broken = compressSync(writeRequest(list(0)))
    broken.fill(0xff, broken.length - 50)
    t.match(await send(node, broken), { status: 400, body: { error: /cannot decompress the body as snappy/ } })
  }
})
