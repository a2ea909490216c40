import { definePlugin, type Tracer } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import { currentSpan, traced } from 'svcdb/lib/trace'
import { type BootOptions, boot, type TestNode } from 'svcdb/testkit'
import t, { type Test } from 'tap'
import { endpointUrl } from './endpoint.ts'
import { sample } from './sampling.ts'
import { type Collector, grpcCollector, httpCollector, type TestSpan } from './testing.ts'

const TRACE = '0af7651916cd43dd8448eb211c80319c'
const PARENT = 'b7ad6b7169203331'
const traceparent = `00-${TRACE}-${PARENT}-01`

/** Fails, waits, and writes to the log, as it is asked. */
const probe = definePlugin({
  id: 'probe',
  summary: 'For the test',
  stability: 'experimental',
  setup(svc) {
    const seconds = svc.metrics.histogram('probe_seconds', 'For the test', ['kind'])
    svc.http.get('/probe/fails', async () => {
      throw new Error('the disk is on fire')
    })
    svc.http.get('/probe/refuses', async () => {
      throw new SvcError('BAD_REQUEST', 'cannot do that')
    })
    svc.http.get('/probe/logs', async () => {
      await new Promise((resolve) => setTimeout(resolve, 1))
      svc.log.info('from within')
      return {}
    })
    svc.http.get('/probe/observes', async () => {
      seconds.observe({ kind: 'a' }, 0.003)
      return {}
    })
    svc.http.get('/probe/many', async () => {
      for (let i = 0; i < 50; i++) traced('one of many', () => {})
      return {}
    })
  },
})

interface Started {
  node: TestNode
  collector: Collector
  get(path: string, headers?: Record<string, string>): Promise<Response>
  metric(name: string): Promise<number>
}

async function start(t: Test, tracing: object = {}, options: BootOptions & { collector?: Collector } = {}): Promise<Started> {
  const collector = options.collector ?? (await grpcCollector(t))
  const config = { tracing: { endpoint: collector.url, sampling: 'always_on', interval_secs: 0.05, ...tracing } }
  const node = await boot({ plugins: ['tracing', probe], ...options, config: { ...options.config, ...config } })
  t.teardown(() => node.stop())
  const get = async (path: string, headers: Record<string, string> = {}) => {
    const answer = await fetch(node.url + path, { headers })
    await answer.arrayBuffer()
    return answer
  }
  const metric = async (name: string) => {
    const text = await (await fetch(`${node.url}/metrics`, { headers: { accept: 'text/plain' } })).text()
    const line = text.split('\n').find((each) => each.startsWith(`${name} `))
    if (line === undefined) throw new Error(`there is no ${name}`)
    return Number(line.slice(name.length + 1))
  }
  return { node, collector, get, metric }
}

const named = (name: string) => (span: TestSpan) => span.name === name

t.test('a write and a query, from the request down to the thread, over gRPC', async (t) => {
  const { node, collector } = await start(
    t,
    { service_name: 'db-7', attributes: { 'deployment.environment.name': 'test' } },
    { storage: 'embedded', plugins: ['tracing', 'line_protocol', 'promql', 'sql', 'native', probe] },
  )
  const time = Date.now()
  const written = await fetch(`${node.url}/write`, { method: 'POST', body: `m,host=a value=1 ${time}000000`, headers: { traceparent, tracestate: 'vendor=1' } })
  t.equal(written.status, 204)
  const request = await collector.span(named('POST /write'))
  t.match(request, { traceId: TRACE, parentId: PARENT, tracestate: 'vendor=1', kind: 2, failed: false })
  t.match(request.attributes, { 'http.request.method': 'POST', 'http.route': '/write', 'http.response.status_code': 204, 'svc.namespace': 'default' })
  t.match(request.resource, { 'service.name': 'db-7', 'deployment.environment.name': 'test' })
  t.equal(written.headers.get('traceresponse'), `00-${TRACE}-${request.spanId}-01`)
  const below = (name: string) => collector.span((span) => span.name === name && span.traceId === TRACE)
  const [decode, write, admission, wal] = await Promise.all(['decode', 'write', 'admission', 'wal'].map(below))
  t.same([decode.parentId, write.parentId], [request.spanId, request.spanId])
  t.same([admission.parentId, wal.parentId], [write.spanId, write.spanId])
  for (const { name, start, end } of [decode, write, admission, wal]) t.ok(start >= request.start && end <= request.end && start <= end, name)
  t.equal(write.attributes['svc.rows'], 1)

  const asked = await fetch(`${node.url}/api/v1/query?query=m&time=${time / 1000}`)
  t.equal(((await asked.json()) as { data: { result: unknown[] } }).data.result.length, 1)
  const query = await collector.span(named('GET /api/v1/query'))
  t.not(query.traceId, TRACE)
  t.equal(query.parentId, '')
  const ofQuery = (name: string) => collector.span((span) => span.name === name && span.traceId === query.traceId)
  const job = await ofQuery('engine job')
  t.match(job, { parentId: query.spanId, attributes: { 'svc.job': 'promql/query-job.ts' } })
  const run = await ofQuery('run')
  t.equal(run.parentId, job.spanId)
  t.equal((await ofQuery('wait for a thread')).parentId, job.spanId)
  for (const name of ['open a snapshot', 'parse', 'evaluate', 'write the answer']) t.equal((await ofQuery(name)).parentId, run.spanId, name)
  t.equal((await ofQuery('select')).parentId, (await ofQuery('evaluate')).spanId)

  const statement = await fetch(`${node.url}/api/v1/svc/sql`, {
    method: 'POST',
    body: JSON.stringify({ query: 'SELECT nothing FROM m' }),
    headers: { 'content-type': 'application/json' },
  })
  t.equal(statement.status, 400)
  await collector.span(({ name, failed, message }) => name === 'run' && failed && /nothing/.test(message))
  await node.storage.flush()
  const flush = await collector.span(named('flush'))
  t.equal(flush.parentId, '')
  t.equal((await collector.span(named('write segments'))).traceId, flush.traceId)
})

t.test('over HTTP, with credentials', async (t) => {
  const collector = await httpCollector(t)
  const { get } = await start(t, { protocol: 'http_protobuf', authorization: 'Bearer abc' }, { collector })
  await get('/health')
  await collector.span(named('GET /health'))
  t.same(collector.headers[0], { path: '/v1/traces', type: 'application/x-protobuf', authorization: 'Bearer abc' })
})

t.test('over gRPC, with credentials', async (t) => {
  const { get, collector } = await start(t, { authorization: 'Bearer abc' })
  await get('/health')
  await collector.span(named('GET /health'))
  t.equal(collector.headers[0].authorization, 'Bearer abc')
})

t.test('an authorization that no header may have is refused, and not shown', async (t) => {
  for (const protocol of ['grpc', 'http_protobuf']) {
    const tracing = { endpoint: 'http://127.0.0.1:1', protocol, authorization: 'Bearer hunter2\n' }
    const refused = (await boot({ plugins: ['tracing'], config: { tracing } }).then(
      (node) => node.stop(),
      (error: Error) => error,
    )) as Error
    t.match(refused.message, /cannot use tracing\.authorization: it has characters that no header may have/, protocol)
    t.notMatch(refused.message, /hunter2/)
  }
})

t.test('what is not sampled is not recorded, but what fails is', async (t) => {
  const { node, get, collector } = await start(t, { sampling: 'always_off' })
  t.equal((await get('/probe/fails', { traceparent })).status, 500)
  t.equal((await get('/probe/refuses')).status, 400)
  t.equal((await get('/health')).headers.get('traceresponse'), null)
  const failed = await collector.span(named('GET /probe/fails'))
  t.match(failed, { traceId: TRACE, parentId: PARENT, failed: true, attributes: { 'http.response.status_code': 500, 'error.type': '_OTHER' } })
  t.ok(failed.end >= failed.start)
  await node.stop()
  t.same(
    collector.spans.map(({ name }) => name),
    ['GET /probe/fails'],
  )
})

t.test('always_sample_errors = false', async (t) => {
  const { node, get, collector } = await start(t, { sampling: 'always_off', always_sample_errors: false })
  t.equal((await get('/probe/fails')).status, 500)
  await node.stop()
  t.same(collector.spans, [])
})

t.test('a caller cannot have everything recorded', async (t) => {
  const { node, get, collector } = await start(t, { sampling: 'ratio', ratio: 0 })
  for (let i = 0; i < 20; i++) await get('/health', { traceparent, tracestate: 'x=1', baggage: 'sampled=true' })
  await node.stop()
  t.same(collector.spans, [])
})

t.test('unless it is told to follow its callers', async (t) => {
  const { node, get, collector } = await start(t, { sampling: 'always_on', parent: 'follow' })
  await get('/probe/logs', { traceparent: `${traceparent.slice(0, -2)}00` })
  await get('/ready', { traceparent })
  await get('/health')
  await node.stop()
  t.same(collector.spans.map(({ name }) => name).sort(), ['GET /health', 'GET /ready'])
})

t.test('what callers send is bounded, and what is no trace context counts as none', async (t) => {
  const { get, collector } = await start(t)
  const wrong = [
    '',
    'nonsense',
    `00-${'0'.repeat(32)}-${PARENT}-01`,
    `00-${TRACE}-${'0'.repeat(16)}-01`,
    `ff-${TRACE}-${PARENT}-01`,
    `${traceparent}-more`,
    traceparent.toUpperCase(),
  ]
  for (const [i, text] of wrong.entries()) {
    await get(`/probe/observes?n=${i}`, { traceparent: text })
    const span = await collector.span(({ name, attributes }) => name === 'GET /probe/observes' && attributes['svc.request_id'] !== undefined)
    t.not(span.traceId, TRACE, text)
    t.equal(span.parentId, '', text)
    collector.spans.length = 0
  }
  const states = [`a=${'x'.repeat(511)}`, Array.from({ length: 33 }, (_, i) => `k${i}=1`).join(',')]
  for (const tracestate of states) {
    await get('/probe/logs', { traceparent, tracestate })
    t.match(await collector.span(named('GET /probe/logs')), { traceId: TRACE, tracestate: '' })
    collector.spans.length = 0
  }
  // A version to come may say more.
  await get('/probe/logs', { traceparent: `01-${TRACE}-${PARENT}-01-more` })
  t.match(await collector.span(named('GET /probe/logs')), { traceId: TRACE, parentId: PARENT })
})

t.test('parent = ignore', async (t) => {
  const { get, collector } = await start(t, { parent: 'ignore' })
  await get('/health', { traceparent, tracestate: 'a=1' })
  t.match(await collector.span(named('GET /health')), { parentId: '', tracestate: '' })
  t.not((await collector.span(named('GET /health'))).traceId, TRACE)
})

t.test('entries in the log, and figures, name the trace', async (t) => {
  const lines: string[] = []
  const { node, get, collector } = await start(t, {}, { log: (line) => lines.push(line) })
  await get('/probe/logs', { traceparent })
  const entry = JSON.parse(lines.find((line) => line.includes('from within')) as string)
  t.match(entry, { trace_id: TRACE, span_id: (await collector.span(named('GET /probe/logs'))).spanId })
  await get('/probe/fails', { traceparent })
  t.equal(JSON.parse(lines.find((line) => line.includes('request failed')) as string).trace_id, TRACE)
  t.notOk(lines.filter((line) => line.includes('traces are sent')).some((line) => line.includes('trace_id')))

  await get('/probe/observes', { traceparent })
  const ask = (accept: string) => fetch(`${node.url}/metrics`, { headers: { accept } })
  const open = await ask('application/openmetrics-text;version=1.0.0;q=0.8,text/plain;version=0.0.4;q=0.5')
  t.equal(open.headers.get('content-type'), 'application/openmetrics-text; version=1.0.0; charset=utf-8')
  const text = await open.text()
  t.match(text, new RegExp(`^svc_probe_seconds_bucket\\{le="0.005",kind="a"\\} 1 # \\{trace_id="${TRACE}",span_id="[0-9a-f]{16}"\\} 0.003 \\d+\\.\\d+$`, 'm'))
  t.match(text, /^svc_http_request_duration_seconds_bucket\{le="[^"]+",action="read"\} \d+ # \{trace_id=/m)
  t.match(text, /^# TYPE svc_points_written counter\nsvc_points_written_total /m)
  t.ok(text.endsWith('\n# EOF\n'))
  for (const accept of [
    'text/plain',
    '*/*',
    'application/openmetrics-text;q=0.1,text/plain;q=0.5',
    'application/openmetrics-text;q=0',
    'application/openmetrics-text;version=2.0.0',
  ]) {
    const plain = await (await ask(accept)).text()
    t.notMatch(plain, /# \{|# EOF/, accept)
    t.match(plain, /^# TYPE svc_points_written_total counter\nsvc_points_written_total /m, accept)
  }
})

t.test('spans of one operation are bounded', async (t) => {
  const { get, collector, metric } = await start(t, { max_trace_spans: 10 })
  await get('/probe/many')
  const { traceId } = await collector.span(named('GET /probe/many'))
  t.equal(collector.spans.filter((span) => span.traceId === traceId).length, 10)
  t.equal(await metric('svc_tracing_spans_total{result="dropped"}'), 0)
})

t.test('a collector that is not there is told of once, and bounds what is kept', async (t) => {
  const collector = await httpCollector(t)
  await collector.close()
  const lines: string[] = []
  const log = (line: string) => lines.push(line)
  const options = { protocol: 'http_protobuf', queue_size: 16, batch_size: 4, timeout_secs: 10 }
  const { node, get, metric } = await start(t, options, { collector, log })
  const told = () => lines.filter((line) => line.includes('cannot send spans'))
  while ((await metric('svc_tracing_spans_total{result="failed"}')) < 12) await get('/health')
  t.equal(told().length, 1)
  t.match(JSON.parse(told()[0]), { level: 'warn', name: 'tracing', endpoint: `${collector.url}/v1/traces` })
  while ((await metric('svc_tracing_spans_total{result="dropped"}')) === 0) await Promise.all(Array.from({ length: 50 }, () => get('/health')))
  t.ok((await metric('svc_tracing_waiting_spans')) <= 16)
  const again = await httpCollector(t, Number(new URL(collector.url).port))
  while (again.spans.length === 0) await get('/health')
  while (!lines.some((line) => line.includes('spans are taken again'))) await get('/health')
  t.equal(told().length, 1)
  t.same(await node.stop(), [])
})

t.test('a stop sends what is left', async (t) => {
  const { node, get, collector } = await start(t, { interval_secs: 300 })
  await get('/health')
  t.same(collector.spans, [])
  await node.stop()
  t.ok(collector.spans.some(named('GET /health')))
})

t.test('another plugin may bring a tracer of its own', async (t) => {
  const names: string[] = []
  const own = definePlugin({
    id: 'own_tracer',
    summary: 'Writes names down',
    stability: 'experimental',
    setup(svc) {
      const span = (name: string): ReturnType<Tracer['begin']> => {
        names.push(name)
        return {
          traceId: TRACE,
          spanId: PARENT,
          tracestate: undefined,
          child: (below) => span(below) as never,
          set() {},
          fail() {},
          end: () => names.push(`end ${name}`),
        }
      }
      svc.tracing.tracer({ begin: span, failed() {} })
      svc.http.get('/own', async () => traced('below', async () => ({ id: currentSpan()?.traceId })))
    },
  })
  const node = await boot({ plugins: [own] })
  t.teardown(() => node.stop())
  t.same(await (await fetch(`${node.url}/own`)).json(), { id: TRACE })
  t.same(names.slice(0, 3), ['GET /own', 'below', 'end below'])
  await t.rejects(boot({ plugins: ['tracing', own], config: { tracing: { endpoint: 'http://127.0.0.1:1' } } }), /cannot use a second tracer/)
})

t.test('without the section there is no tracer', async (t) => {
  const seen: boolean[] = []
  const asks = definePlugin({
    id: 'asks',
    summary: 'For the test',
    stability: 'experimental',
    setup(svc) {
      svc.http.get('/asks', async () => {
        seen.push(svc.tracing.on, currentSpan() !== undefined)
        return svc.tracing.operation('alone', (span) => ({ recorded: span !== undefined }))
      })
    },
  })
  const node = await boot({ plugins: ['tracing', asks] })
  t.teardown(() => node.stop())
  t.same(await (await fetch(`${node.url}/asks`)).json(), { recorded: false })
  t.same(seen, [false, false])
})

t.test('the documented section, and a part to record as a number', async (t) => {
  for (const [sampling, recorded] of [
    [1, true],
    [0, false],
    ['always_on', true],
  ] as const) {
    const collector = await grpcCollector(t)
    const otlp = { endpoint: collector.url, sampling, always_sample_errors: false }
    const node = await boot({ plugins: ['tracing', probe], config: { tracing: { service_name: 'named', interval_secs: 0.05, otlp } } })
    t.teardown(() => node.stop())
    await (await fetch(`${node.url}/probe/observes`)).arrayBuffer()
    await (await fetch(`${node.url}/probe/fails`)).arrayBuffer()
    if (recorded) t.equal((await collector.span(({ name }) => name === 'GET /probe/fails')).resource['service.name'], 'named')
    await node.stop()
    t.equal(collector.spans.length > 0, recorded, `sampling = ${sampling}`)
  }
})

t.test('sampling by chance', async (t) => {
  const config = { sampling: 'ratio' as const, ratio: 0.25, parent: 'continue' as const }
  t.same(
    sample(config, {}, () => 0.2499),
    { parent: undefined },
  )
  t.equal(
    sample(config, { traceparent }, () => 0.25),
    undefined,
  )
  t.match(
    sample(config, { traceparent }, () => 0),
    { parent: { traceId: TRACE, spanId: PARENT, sampled: true } },
  )
  t.equal(
    sample({ ...config, ratio: 0 }, {}, () => 0),
    undefined,
  )
  t.same(
    sample({ ...config, ratio: 1 }, {}, () => 0.999999),
    { parent: undefined },
  )
})

t.test('endpoints', async (t) => {
  const grpc = (endpoint: string) => endpointUrl({ endpoint, protocol: 'grpc' })
  const http = (endpoint: string) => endpointUrl({ endpoint, protocol: 'http_protobuf' })
  t.equal(grpc('http://localhost'), 'http://localhost:4317')
  t.equal(grpc('https://collector:443/ignored'), 'https://collector:443')
  t.equal(grpc('http://[::1]:80'), 'http://[::1]:80')
  t.equal(http('http://localhost'), 'http://localhost:4318/v1/traces')
  t.equal(http('https://a.example/otlp/v1/traces'), 'https://a.example:4318/otlp/v1/traces')
  for (const wrong of ['http://user:secret@host', 'http://host/?a=1', 'http://ho st']) t.throws(() => grpc(wrong), /cannot use tracing.endpoint/)
  t.throws(() => grpc('http://user:secret@host'), { message: /\/\/…@host": it has a user/ })
})
