/** Traces over what connects nodes and plugins: gRPC, webhooks, an edge and its upstream, messages of brokers, schedules, runs of agents. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Client, credentials, Metadata } from '@grpc/grpc-js'
import { definePlugin } from 'svcdb'
import { defineSkill } from 'svcdb/agents'
import { Type } from 'svcdb/lib/schema'
import { Source } from 'svcdb/lib/source'
import { boot, Message } from 'svcdb/testkit'
import t, { type Test } from 'tap'
import { start as startPlane } from '../../plugins/agent_plane/testing/node.ts'
import { type Collector, grpcCollector, type TestSpan } from '../../plugins/tracing/testing.ts'
import { at, delivery, receive, start as startWebhooks } from '../../plugins/webhooks/testing.ts'

const TRACE = '0af7651916cd43dd8448eb211c80319c'
const traceparent = `00-${TRACE}-b7ad6b7169203331-01`
const EXPORT = '/opentelemetry.proto.collector.metrics.v1.MetricsService/Export'
const addr = '127.0.0.1:0'

const sectionOf = ({ url }: Collector, more: object = {}) => ({ endpoint: url, sampling: 'always_on', interval_secs: 0.05, ...more })
const named = (name: string) => (span: TestSpan) => span.name === name

/** ExportMetricsServiceRequest with one gauge. */
function gauge(): Buffer {
  const point = new Message().fixed(3, BigInt(Date.now()) * 1_000_000n).double(4, 1)
  const metric = new Message().put(1, 'm').put(5, new Message().put(1, point.done()).done())
  return new Message().put(1, new Message().put(2, new Message().put(2, metric.done()).done()).done()).done()
}

interface Answer {
  code: number
  metadata: Metadata
}

async function call(t: Test, port: number, message: Buffer, headers: Record<string, string>): Promise<Answer> {
  const client = new Client(`127.0.0.1:${port}`, credentials.createInsecure())
  t.teardown(() => client.close())
  const metadata = new Metadata()
  for (const [name, value] of Object.entries(headers)) metadata.set(name, value)
  const same = (bytes: Buffer) => bytes
  return new Promise((resolve) => {
    let first = new Metadata()
    client
      .makeUnaryRequest(EXPORT, same, same, message, metadata, {}, () => {})
      .on('metadata', (given) => (first = given))
      .on('status', ({ code }) => resolve({ code, metadata: first }))
  })
}

t.test('a call over gRPC goes on with the trace of its metadata, and answers with its own place in it', async (t) => {
  const collector = await grpcCollector(t)
  const node = await boot({ plugins: ['tracing', 'grpc', 'otlp'], config: { tracing: sectionOf(collector), grpc: { addr } } })
  t.teardown(() => node.stop())
  const { code, metadata } = await call(t, node.port('grpc'), gauge(), { traceparent, tracestate: 'a=1' })
  t.equal(code, 0)
  const span = await collector.span(named(EXPORT.slice(1)))
  t.match(span, { traceId: TRACE, parentId: 'b7ad6b7169203331', tracestate: 'a=1', kind: 2, failed: false })
  t.match(span.attributes, {
    'rpc.system': 'grpc',
    'rpc.service': 'opentelemetry.proto.collector.metrics.v1.MetricsService',
    'rpc.method': 'Export',
    'rpc.grpc.status_code': 0,
  })
  t.same([metadata.get('traceparent'), metadata.get('tracestate')], [[`00-${TRACE}-${span.spanId}-01`], ['a=1']])
  t.equal((await collector.span(named('decode'))).parentId, span.spanId)
})

t.test('a call over gRPC that was not recorded is, when it fails by the node', async (t) => {
  const collector = await grpcCollector(t)
  const broken = definePlugin({
    id: 'broken',
    summary: 'For the test',
    stability: 'experimental',
    setup(svc) {
      svc.auth.authorizer(() => {
        throw new Error('the policies are gone')
      })
      svc.auth.authenticator(() => ({ principal: 'p', method: 'test', claims: {}, namespaces: [], admin: false }))
    },
  })
  const node = await boot({
    plugins: ['tracing', 'grpc', 'otlp', broken],
    config: { tracing: sectionOf(collector, { sampling: 'always_off' }), grpc: { addr } },
  })
  t.teardown(() => node.stop())
  t.equal((await call(t, node.port('grpc'), Buffer.from('nonsense'), { traceparent })).code, 14)
  t.match(await collector.span(named(EXPORT.slice(1))), { traceId: TRACE, failed: true, attributes: { 'rpc.grpc.status_code': 14 } })
})

t.test('a webhook has the trace of its delivery', async (t) => {
  const collector = await grpcCollector(t)
  const receiver = await receive(t, undefined)
  const { hooks, reports } = await startWebhooks(t, {}, { plugins: ['tracing'], config: { tracing: sectionOf(collector) } })
  await hooks.define(at('a'), receiver.url)
  await hooks.enqueue([delivery('a', 'e-1')])
  const span = await collector.span(named('webhook'))
  t.match(span, { kind: 4, failed: false, parentId: '', attributes: { 'svc.attempt': 1 } })
  t.equal(receiver.received[0].headers.traceparent, `00-${span.traceId}-${span.spanId}-01`)
  t.equal(reports.length, 1)
})

t.test('what an edge forwards is one trace on both nodes', async (t) => {
  const [atEdge, above] = [await grpcCollector(t), await grpcCollector(t)]
  const folder = mkdtempSync(join(tmpdir(), 'svc-edge-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  const upstream = await boot({ plugins: ['tracing', 'grpc'], config: { tracing: sectionOf(above), grpc: { addr } } })
  t.teardown(() => upstream.stop())
  const forward = { batch_interval_ms: 0, upstream: [{ url: `http://127.0.0.1:${upstream.port('grpc')}` }] }
  const edge = await boot({
    plugins: ['tracing', 'line_protocol'],
    storage: 'forward',
    config: { tracing: sectionOf(atEdge), database: { data_dir: folder, forward } },
  })
  t.teardown(() => edge.stop())
  t.equal((await fetch(`${edge.url}/write`, { method: 'POST', body: 'm value=1' })).status, 204)
  const sent = await atEdge.span(named('forward'))
  t.match(sent, { kind: 3, parentId: '', attributes: { 'svc.rows': 1 } })
  t.match(await above.span(named('svc.Service/Write')), { traceId: sent.traceId, parentId: sent.spanId })
})

t.test('messages of a broker, and schedules', async (t) => {
  const collector = await grpcCollector(t)
  const held: { source?: Source } = {}
  const feed = definePlugin({
    id: 'feed',
    summary: 'For the test',
    stability: 'experimental',
    capabilities: ['points'],
    setup(svc) {
      held.source = new Source(svc, {
        name: 'plant',
        decode() {
          throw new Error('no points in it')
        },
      })
      svc.schedule('tick', 50, () => {}, { jitter: 0 })
      svc.schedule('fails', 50, () => Promise.reject(new Error('it cannot')), { jitter: 0 })
    },
  })
  const node = await boot({ plugins: ['tracing', feed], config: { tracing: sectionOf(collector) } })
  t.teardown(() => node.stop())
  await held.source?.take({ body: new Uint8Array(1), ack() {}, nack() {} })
  const received = await collector.span(named('receive plant'))
  t.match(received, { kind: 5, parentId: '', attributes: { 'svc.connector': 'plant', 'messaging.batch.message_count': 1 } })
  t.equal((await collector.span(named('decode'))).parentId, received.spanId)
  t.match(await collector.span(named('schedule feed/tick')), { parentId: '', failed: false })
  t.match(await collector.span(named('schedule feed/fails')), { failed: true, message: 'it cannot' })
})

t.test('steps and effects of an agent', async (t) => {
  const collector = await grpcCollector(t)
  const skill = defineSkill({
    capability: 'count',
    summary: 'Of the test',
    input: Type.Object({ n: Type.Integer() }),
    output: Type.Any(),
    invoke: (context, { n }) => context.effect({ kind: 'add', args: { n }, mutates: false }, async () => n + 1),
  })
  const { run } = await startPlane(t, [skill], { plugins: ['tracing'], config: { agent_plane: {}, tracing: sectionOf(collector) } })
  const done = await run('count', { n: 4 })
  t.equal(done.status, 'succeeded')
  const pass = await collector.span(named('agent run'))
  t.equal(pass.attributes['svc.run'], done.run)
  const step = await collector.span(named('step'))
  t.match(step, { traceId: pass.traceId, parentId: pass.spanId, attributes: { 'svc.capability': 'count', 'svc.phase': 'forward' } })
  t.match(await collector.span(named('effect add')), { parentId: step.spanId, kind: 3 })
})
