/** Every protocol for points in front of the forwarding engine: what arrives upstream is what the same request stores in a node that keeps it. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { gzipSync } from 'node:zlib'
import { Client, credentials, type ServiceError } from '@grpc/grpc-js'
import { Bool, Float64, Int64, TimestampNanosecond, Uint64, Utf8 } from 'apache-arrow'
import snappy from 'snappy'
import type { Clock, Storage } from 'svcdb'
import { boot, systemClock, type TestNode } from 'svcdb/testkit'
import t, { type Test } from 'tap'
import { command, descriptor } from '../../plugins/flight_sql/testing.ts'
import { flightStream } from '../../plugins/flight_sql/testing-stream.ts'
import { point } from '../../plugins/grpc/testing.ts'
import { type WireMetric, writeMetrics } from '../../plugins/otlp/testing-wire.ts'
import { STALE, type WireHistogram, type WireSeries, writeRequest, writeRequestV2 } from '../../plugins/remote_write/testing-wire.ts'
import { lines } from '../../storage/conformance/points.ts'
import { flightClient, flightSql, grpc, grpcClient } from './grpc-protocols.ts'
import { lineProtocol, native, otlp, remoteWrite } from './http-protocols.ts'
import type { Protocol } from './protocol.ts'

const PLUGINS = ['native', 'line_protocol', 'remote_write', 'otlp', 'otlp_grpc', 'grpc', 'flight_sql']
const SAMPLES = new URL('../../storage/conformance/jobs/samples.ts', import.meta.url)
const EXPORT = '/opentelemetry.proto.collector.metrics.v1.MetricsService/Export'
const HOUR = 3_600_000
const MS = Math.floor(Date.now() / 1000) * 1000
const TIME = BigInt(MS) * 1_000_000n

/** It stands still, so that answers that name a time are the same. */
const clock: Clock = { ...systemClock, now: () => MS, nowNanos: () => TIME }
const addr = '127.0.0.1:0'
const LISTENERS = { grpc: { addr }, otlp_grpc: { addr }, flight_sql: { addr } }

interface Nodes {
  edge: TestNode
  /** What the edge sends to. */
  upstream: TestNode
  /** Gets the same requests itself. */
  direct: TestNode
}

async function nodes(t: Test): Promise<Nodes> {
  const folder = mkdtempSync(join(tmpdir(), 'svc-edge-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  const started = async (options: Parameters<typeof boot>[0]): Promise<TestNode> => {
    const node = await boot({ ...options, clock })
    t.teardown(() => node.stop())
    return node
  }
  const upstream = await started({ plugins: ['grpc'], config: { grpc: { addr } } })
  const direct = await started({ plugins: PLUGINS, config: LISTENERS })
  const forward = { batch_interval_ms: 0, max_pause_secs: 1, upstream: [{ url: `http://127.0.0.1:${upstream.port('grpc')}` }] }
  const edge = await started({ plugins: PLUGINS, storage: 'forward', config: { ...LISTENERS, database: { data_dir: folder, forward } } })
  return { edge, upstream, direct }
}

async function figure(node: TestNode, name: string): Promise<number> {
  const found = new RegExp(`^${name}(?:\\{[^}]*\\})? (\\S+)$`, 'm').exec((await node.inject('/metrics')).body)
  if (found === null) throw new Error(`there is no ${name}`)
  return Number(found[1])
}

async function drained(edge: TestNode): Promise<void> {
  while ((await figure(edge, 'svc_forward_queue_records')) > 0) await sleep(5)
}

/** Types, values bit for bit, and what scans do not show: NaN, staleness markers, histograms. */
async function contents({ storage }: TestNode): Promise<unknown[]> {
  const measurements = await storage.measurements('')
  return Promise.all(measurements.sort((a, b) => (a.name < b.name ? -1 : 1)).map((one) => contentsOf(storage, one)))
}

async function contentsOf(storage: Storage, { name, tags, fields }: Awaited<ReturnType<Storage['measurements']>>[number]): Promise<unknown> {
  const samples: unknown[] = []
  for (const { name: field, type } of fields) {
    if (type !== 'float64' && type !== 'histogram') continue
    const request = { namespace: '', measurement: name, field, matchers: [], start: TIME - 1000n * 3_600_000_000_000n, end: TIME + 3_600_000_000_000n }
    const { result } = storage.run<{ lines: string[] }>(SAMPLES, request)
    samples.push([field, (await result).lines])
  }
  const types = fields.map((field) => `${field.name} ${field.type}`).sort()
  return { name, tags: [...tags].sort(), types, rows: await lines(storage, { namespace: '', measurement: name }), samples: samples.sort() }
}

async function post(node: TestNode, url: string, payload: string | Uint8Array, headers: Record<string, string>): Promise<unknown> {
  const answer = await node.inject({ method: 'POST', url, payload: typeof payload === 'string' ? payload : Buffer.from(payload), headers })
  return [answer.statusCode, answer.body]
}

/** One call of bytes, and its answer of bytes. */
function unary(port: number, path: string, body: Uint8Array): Promise<unknown> {
  const client = new Client(`127.0.0.1:${port}`, credentials.createInsecure())
  const pass = (bytes: Buffer) => bytes
  return new Promise((resolve) => {
    client.makeUnaryRequest(path, pass, pass, Buffer.from(body), (error: ServiceError | null, answer?: Buffer) => {
      client.close()
      resolve(error === null ? answer?.toString('hex') : [error.code, error.details])
    })
  })
}

const HISTOGRAM: WireHistogram = {
  ms: MS,
  countInt: 5,
  sum: 6.5,
  schema: 0,
  zeroThreshold: 0.001,
  zeroInt: 1,
  positiveSpans: [[0, 2]],
  positiveDeltas: [3, -2],
}
const labels = (name: string, host: string): WireSeries['labels'] => [
  ['__name__', name],
  ['host', host],
]
const series = (name: string): WireSeries[] => [
  {
    labels: labels(name, 'a'),
    samples: [
      { ms: MS - 2000, value: 1.5 },
      { ms: MS - 1000, value: STALE },
      { ms: MS, value: -0 },
    ],
  },
  { labels: labels(name, 'b'), samples: [{ ms: MS, value: Number.NaN }] },
  { labels: labels(name, 'c'), samples: [{ ms: MS, value: Number.POSITIVE_INFINITY }] },
  { labels: labels(`${name}_latency`, 'a'), histograms: [HISTOGRAM, { ...HISTOGRAM, ms: MS + 1000, countInt: 6, positiveDeltas: [4, -3] }] },
]
const metrics = (name: string): WireMetric[] => [
  { name: `${name}.load`, unit: '1', gauge: [{ time: TIME, value: 1.5, attributes: { cpu: '0', core: 3n } }] },
  { name: `${name}.requests`, sum: [{ time: TIME, start: TIME - 1000n, value: 7n }], temporality: 2, monotonic: true },
  { name: `${name}.sizes`, histogram: [{ time: TIME, count: 3n, sum: 4.5, counts: [1n, 2n], bounds: [1], min: 0.5, max: 2 }], temporality: 2 },
  {
    name: `${name}.times`,
    exponential: [{ time: TIME, count: 3n, sum: 4.5, scale: 1, zeroCount: 1n, positive: { offset: 0, counts: [1n, 1n] } }],
    temporality: 2,
  },
  { name: `${name}.quantiles`, summary: [{ time: TIME, count: 2n, sum: 3, quantiles: [[0.5, 1.5]] }] },
]
const PROTOBUF = { 'content-type': 'application/x-protobuf' }
const SNAPPY = { ...PROTOBUF, 'content-encoding': 'snappy' }
const V2 = { ...SNAPPY, 'content-type': 'application/x-protobuf;proto=io.prometheus.write.v2.Request' }

const everyKind = (measurement: string) => [
  point(
    measurement,
    TIME,
    { host: 'a', site: 'é' },
    { f: 1.5, i: -(2n ** 63n), b: true, s: 'x "y"\n', u: { uint64: String(2n ** 64n - 1n) }, d: { decimal: '12.3400' } },
  ),
  point(measurement, TIME + 1n, { host: 'b' }, { f: -0, s: '' }),
  point(measurement, TIME + 1n, {}, { i: 0n }),
]
const LINES = 'all,host=a,site=x\\ y f=1.5,i=-9223372036854775808i,u=18446744073709551615u,b=true,s="q \\" r"'

/** Requests of each plugin, with all kinds of values that it has. */
const REQUESTS: { name: string; send(node: TestNode): Promise<unknown>; measurements: number }[] = [
  {
    name: 'line_protocol',
    measurements: 2,
    send: (node) => post(node, `/api/v2/write?precision=ns`, `${LINES} ${TIME}\nall v=-0 ${TIME}\nother,host=a v=1i ${TIME + 5n}`, {}),
  },
  {
    name: 'line_protocol, gzip, in milliseconds',
    measurements: 1,
    send: (node) => post(node, '/write?precision=ms', gzipSync(`cpu,host=a v=1 ${MS}\ncpu,host=b v=2 ${MS + 1}`), { 'content-encoding': 'gzip' }),
  },
  {
    name: 'native JSON',
    measurements: 1,
    send: (node) =>
      post(
        node,
        '/api/v1/write',
        `[{"measurement":"m","tags":{"host":"a"},"fields":{"f":1.5,"s":"text","b":false,"i":9007199254740993},"timestamp":${TIME}},
          {"measurement":"m","fields":{"d":{"decimal":"0.1000"}},"timestamp":${TIME + 1n}}]`,
        { 'content-type': 'application/json' },
      ),
  },
  { name: 'remote_write 1.0', measurements: 2, send: (node) => post(node, '/api/v1/prom/write', snappy.compressSync(writeRequest(series('up'))), SNAPPY) },
  { name: 'remote_write 2.0', measurements: 2, send: (node) => post(node, '/api/v1/prom/write', snappy.compressSync(writeRequestV2(series('up'))), V2) },
  { name: 'otlp', measurements: 5, send: (node) => post(node, '/v1/metrics', writeMetrics(metrics('http'), { host: 'a' }), PROTOBUF) },
  {
    name: 'otlp_grpc, by its own port',
    measurements: 5,
    send: (node) => unary(node.port('otlp_grpc'), EXPORT, writeMetrics(metrics('own'), { host: 'a' })),
  },
  { name: 'otlp_grpc, by that of grpc', measurements: 5, send: (node) => unary(node.port('grpc'), EXPORT, writeMetrics(metrics('shared'), { host: 'a' })) },
  { name: 'grpc Write', measurements: 1, send: (node) => grpcClient(node).call('Write', { points: everyKind('one') }) },
  {
    name: 'grpc StreamWrite',
    measurements: 2,
    async send(node) {
      const { stream, answer } = grpcClient(node).streamWrite()
      for (const name of ['one', 'two']) stream.write({ points: everyKind(name) })
      stream.end()
      return answer
    },
  },
  {
    name: 'flight_sql DoPut',
    measurements: 1,
    async send(node) {
      const columns = [
        { name: '_time', type: new TimestampNanosecond(), values: [TIME, TIME + 1n] },
        { name: 'host', type: new Utf8(), values: ['a', 'b'] },
        { name: 's', type: new Utf8(), values: ['x', ''], role: 'field' },
        { name: 'f', type: new Float64(), values: [1.5, null] },
        { name: 'i', type: new Int64(), values: [-5n, 2n ** 53n + 1n] },
        { name: 'u', type: new Uint64(), values: [2n ** 64n - 1n, 0n] },
        { name: 'b', type: new Bool(), values: [true, false] },
      ]
      const { error, messages } = await flightClient(node).put('DoPut', flightStream(descriptor(command('CommandStatementUpdate', { 1: 'put' })), [columns]))
      return error ?? messages.map((message) => Buffer.from(message).toString('hex'))
    },
  },
]

for (const { name, send, measurements } of REQUESTS) {
  t.test(`${name}: what arrives is what was sent`, async (t) => {
    const { edge, upstream, direct } = await nodes(t)
    const expected = await send(direct)
    t.same(await send(edge), expected, 'the answer')
    await drained(edge)
    const [arrived, stored] = [await contents(upstream), await contents(direct)]
    t.same(arrived, stored)
    t.equal(stored.length, measurements, JSON.stringify(expected))
    t.notOk(JSON.stringify(stored).includes('"rows":[],"samples":[]'), 'there is something of each measurement')
  })
}

const PROTOCOLS: Protocol[] = [native, lineProtocol, remoteWrite(1), remoteWrite(2), otlp, grpc, flightSql]

for (const { name, write } of PROTOCOLS) {
  t.test(`${name}: what is refused at a node that keeps points is refused at the edge`, async (t) => {
    const { edge, upstream, direct } = await nodes(t)
    const both = async (what: string, ...request: Parameters<Protocol['write']> extends [TestNode, ...infer Rest] ? Rest : never) => {
      const expected = await write(direct, ...request)
      t.same(await write(edge, ...request), expected, what)
      await drained(edge)
      return expected
    }
    const sample = (host: string, ms = MS, value = 1) => ({ host, ms, value })
    t.match(await both('points', 'm', [sample('a'), sample('b', MS - 1000, 2.5)]), { ok: true })
    t.match(await both('a point written again', 'm', [sample('a', MS, 7)]), { ok: true })
    t.match(await both('a point outside the window', 'm', [sample('a', MS + 1), sample('a', MS - 100 * HOUR)]), { ok: false, rejected: 1 })
    t.match(await both('a backfill', 'm', [sample('a', MS - 100 * HOUR)], true), { ok: true })
    t.match(await both('a point of the far future', 'm', [sample('a', MS + 1000 * HOUR), sample('a', MS + 2)]), { ok: false, rejected: 1 })
    t.match(await both('a tag value with a reserved character', 'm', [sample('x\u0001y')]), { ok: false })
    t.match(await both('a name that is too long', 'm'.repeat(257), [sample('a')]), { ok: false })
    const stored = await contents(direct)
    t.same(await contents(upstream), stored)
    t.match(stored, [{ name: 'm', rows: { length: 5 } }])
    t.equal(await figure(upstream, 'svc_write_errors_total'), 0, 'nothing was left to be refused there')
  })
}

t.test('types that differ within a write and from the write before are refused at the edge', async (t) => {
  const { edge, direct } = await nodes(t)
  for (const body of ['m v=1', 'm v="text"\nm v=2', 'n v=1i\nn v=1.5']) {
    const [expected, answer] = [await post(direct, '/write', body, {}), await post(edge, '/write', body, {})]
    t.same(answer, expected, body)
  }
})

t.test('the edge says that it answers no queries', async (t) => {
  const { edge } = await nodes(t)
  const query = await edge.inject({ method: 'POST', url: '/api/v1/svc/query', payload: { measurement: 'm' } })
  t.match(query.json(), { code: 'METHOD_NOT_ALLOWED', error: /ask the upstream node/ })
  await t.rejects(grpcClient(edge).query({ measurement: 'm' }), { message: /ask the upstream node/ })
  const info = await flightClient(edge).put('GetFlightInfo', [descriptor(command('CommandStatementQuery', { 1: 'SELECT 1' }))])
  t.match(info.error, { details: /storage engine|upstream/ })
})
