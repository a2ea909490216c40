import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { definePlugin, METRIC_METADATA, type MetricMetadata } from 'svcdb'
import { decodeSnappy, encodeSnappy } from 'svcdb/lib/snappy'
import { boot, type TestNode } from 'svcdb/testkit'
import t, { type Test } from 'tap'
import { fences, section } from '../../test/support/markdown.ts'
import { read } from '../../test/support/tree.ts'
import lineProtocol from '../line_protocol/index.ts'
import native from '../native/index.ts'
import plugin from './index.ts'
import { readFrames, readRequestBytes, readSamples } from './remote-read/testing-messages.ts'

const metadata = definePlugin({
  id: 'fake_metadata',
  summary: 'Knows two metrics',
  stability: 'experimental',
  provides: [METRIC_METADATA],
  setup(svc) {
    svc.provide(METRIC_METADATA, {
      list: () => [
        { metric: 'up', type: 'gauge', help: 'Is it up?', unit: '' },
        { metric: 'up', type: 'unknown', help: '', unit: '' },
        { metric: 'requests_total', type: 'counter', help: 'Requests', unit: '' },
      ],
    } satisfies MetricMetadata)
  },
})

/** A whole minute, some minutes ago. */
const base = Math.floor(Date.now() / 60_000) * 60_000 - 600_000
const seconds = (ms: number): string => String(ms / 1000)

/** up{job,instance} of two jobs at base, +15 s ... +60 s; cpu with two fields; one name that is no identifier. */
function points(): string {
  const list: string[] = []
  for (let i = 0; i <= 4; i++) {
    const timestamp = `${base + i * 15_000}000000`
    for (const [job, instance] of [
      ['a', '1'],
      ['a', '2'],
      ['b', '1'],
    ])
      list.push(`{"measurement":"up","tags":{"job":"${job}","instance":"${instance}"},"timestamp":${timestamp},"fields":{"value":${i}.5}}`)
    list.push(`{"measurement":"cpu","tags":{"host":"h1"},"timestamp":${timestamp},"fields":{"usage":${i},"idle":${100 - i}}}`)
    list.push(`{"measurement":"odd name","tags":{"länge":"1"},"timestamp":${timestamp},"fields":{"value":1}}`)
  }
  return `[${list.join(',')}]`
}

const form = (fields: Record<string, string | string[]>): string => {
  const out = new URLSearchParams()
  for (const [name, values] of Object.entries(fields)) for (const value of [values].flat()) out.append(name, value)
  return out.toString()
}

for (const storage of ['memory', 'embedded']) {
  t.test(storage, async (t) => {
    const node = await boot({ plugins: [native, plugin, metadata], storage, config: { server: { prom_series_limit: 3, max_range_query_points: 100 } } })
    t.teardown(() => node.stop())
    const written = await node.inject({ method: 'POST', url: '/api/v1/write', payload: points(), headers: { 'content-type': 'application/json' } })
    t.equal(written.statusCode, 204, written.body)
    await t.test('queries', (t) => queries(t, node))
    await t.test('parameters that are refused', (t) => refusals(t, node))
    await t.test('labels, values, series', (t) => discovery(t, node))
    await t.test('limits of the server', (t) => limits(t, node))
    await t.test('remote read', (t) => remoteRead(t, node))
    await t.test('what Grafana and promtool ask besides', (t) => besides(t, node))
  })
}

async function get(node: TestNode, path: string, fields: Record<string, string | string[]> = {}) {
  const answer = await node.inject(`/api/v1${path}?${form(fields)}`)
  return { status: answer.statusCode, json: answer.json(), headers: answer.headers }
}

async function post(node: TestNode, path: string, fields: Record<string, string | string[]>) {
  const headers = { 'content-type': 'application/x-www-form-urlencoded' }
  const answer = await node.inject({ method: 'POST', url: `/api/v1${path}`, payload: form(fields), headers })
  return { status: answer.statusCode, json: answer.json() }
}

async function queries(t: Test, node: TestNode): Promise<void> {
  const time = seconds(base + 60_000)
  const wanted = {
    status: 'success',
    data: { resultType: 'vector', result: [{ metric: { __name__: 'up', instance: '1', job: 'b' }, value: [Number(time), '4.5'] }] },
  }
  const query = 'up{job="b"}'
  const got = await get(node, '/query', { query, time })
  t.same(got.json, wanted)
  t.match(got.headers['content-type'], /^application\/json/)
  t.same((await get(node, '/prom/query', { query, time })).json, wanted, 'under the other prefix')
  t.same((await post(node, '/query', { query, time })).json, wanted, 'as a form')
  t.same((await get(node, '/query', { query, time: new Date(base + 60_000).toISOString() })).json, wanted, 'with a time in RFC 3339')
  const url = `/api/v1/query?${form({ time, query: 'nonsense(' })}`
  const both = await node.inject({
    method: 'POST',
    url,
    payload: form({ query }),
    headers: { 'content-type': 'application/x-www-form-urlencoded; charset=UTF-8' },
  })
  t.same(both.json(), wanted, 'the form comes before the URL')
  t.match((await get(node, '/query', { query: '1+1' })).json, { data: { resultType: 'scalar', result: [Number, '2'] } }, 'the time is now')
  t.match((await get(node, '/query', { query: 'sum by (job) (up)', time })).json.data.result.length, 2)
  t.match((await get(node, '/query', { query: 'cpu_usage', time })).json.data.result, [{ metric: { __name__: 'cpu_usage', host: 'h1' }, value: [Number, '4'] }])
  t.same((await get(node, '/query', { query: 'cpu', time })).json.data.result, [], 'a measurement with other fields is no metric')
  const range = { query: 'sum(up)', start: seconds(base), end: seconds(base + 60_000), step: '30s' }
  const matrix = {
    resultType: 'matrix',
    result: [{ metric: {}, values: [0, 2, 4].map((i) => [(base + i * 15_000) / 1000, String(3 * i + 1.5)]) }],
  }
  t.same((await get(node, '/query_range', range)).json.data, matrix)
  t.same((await post(node, '/query_range', { ...range, step: '30' })).json.data, matrix)
  t.same((await get(node, '/query', { query: 'up{job="b"}', time, lookback_delta: '1s' })).json, wanted)
  t.same((await get(node, '/query', { query: 'up', time: seconds(base + 62_000), lookback_delta: '1s' })).json.data.result, [], 'too old for this lookback')
}

async function refusals(t: Test, node: TestNode): Promise<void> {
  const range = { query: 'up', start: '0', end: '100', step: '10' }
  for (const [path, fields, status, errorType, error] of [
    ['/query', { query: 'up{' }, 400, 'bad_data', /^invalid parameter "query": 1:4: parse error: /],
    ['/query', { query: 'max_over_time(up[1h:(1s / 1e9)])' }, 400, 'bad_data', /^invalid parameter "query": .*: duration must be greater than 0$/],
    ['/query', { query: 'up[(1s / 1e9)]' }, 400, 'bad_data', /^invalid parameter "query": .*: duration must be greater than 0$/],
    ['/query', {}, 400, 'bad_data', 'invalid parameter "query": unknown position: parse error: no expression found in input'],
    ['/query', { query: 'up', time: 'x' }, 400, 'bad_data', /^invalid parameter "time": invalid time value for 'time': cannot parse "x"/],
    ['/query', { query: 'up', limit: 'x' }, 400, 'bad_data', /^invalid parameter "limit"/],
    ['/query', { query: 'up', timeout: 'x' }, 400, 'bad_data', 'invalid parameter "timeout": cannot parse "x" to a valid duration'],
    ['/query', { query: 'up', lookback_delta: 'x' }, 400, 'bad_data', 'error parsing lookback delta duration: cannot parse "x" to a valid duration'],
    ['/query_range', { ...range, start: '' }, 400, 'bad_data', 'invalid parameter "start": cannot parse "" to a valid timestamp'],
    ['/query_range', { ...range, end: '-1' }, 400, 'bad_data', 'invalid parameter "end": end timestamp must not be before start time'],
    ['/query_range', { ...range, step: '0' }, 400, 'bad_data', /^invalid parameter "step": zero or negative query resolution step widths/],
    ['/query_range', { ...range, step: '-1s' }, 400, 'bad_data', /^invalid parameter "step"/],
    [
      '/query_range',
      { ...range, end: '1010' },
      400,
      'bad_data',
      'exceeded maximum resolution of 100 points per timeseries. Try decreasing the query resolution (?step=XX)',
    ],
    ['/series', {}, 400, 'bad_data', 'no match[] parameter provided'],
    ['/series', { 'match[]': 'up{' }, 400, 'bad_data', /^invalid parameter "match\[\]": 1:4: parse error/],
    ['/series', { 'match[]': '{job=~".*"}' }, 400, 'bad_data', /match\[\] must contain at least one non-empty matcher$/],
    ['/labels', { 'match[]': '{}' }, 400, 'bad_data', 'match[] must contain at least one non-empty matcher'],
    ['/labels', { start: 'x' }, 400, 'bad_data', /^invalid parameter "start": invalid time value for 'start'/],
    ['/query', { query: 'label_replace(up, "instance", "", "", "") + on(job) up', time: seconds(base + 60_000) }, 422, 'execution', /./],
    ['/format_query', { query: 'a b' }, 400, 'bad_data', /^invalid parameter "query": 1:3: parse error/],
    ['/label/%ff/values', {}, 400, 'bad_data', /^cannot decode the path: a "%" in it is not followed by two hexadecimal digits of UTF-8$/],
    ['/status/tsdb', { limit: '0' }, 400, 'bad_data', 'limit must be a positive number'],
    ['/rules', { type: 'x' }, 400, 'bad_data', 'invalid parameter "type": not supported value "x"'],
  ] as const) {
    const got = await get(node, path, fields)
    t.equal(got.status, status, `${path} ${form(fields)}`)
    t.match(got.json, { status: 'error', errorType, error }, path)
    t.same(Object.keys(got.json), ['status', 'errorType', 'error', 'code'])
  }
  t.equal((await node.inject({ method: 'DELETE', url: '/api/v1/series' })).statusCode, 405)
  t.match((await node.inject('/api/v1/nowhere')).json(), { code: 'NOT_FOUND' }, "unknown paths are the kernel's")
  t.match((await node.inject('/api/v1/nowhere%ff')).json(), { code: 'BAD_REQUEST' })
  const text = await node.inject({ method: 'POST', url: '/api/v1/query', payload: 'query=up', headers: { 'content-type': 'text/plain' } })
  t.equal(text.statusCode, 415)
  t.match(text.json(), {
    status: 'error',
    errorType: 'bad_data',
    error: /"text\/plain": this endpoint takes application\/x-www-form-urlencoded$/,
  })
}

async function discovery(t: Test, node: TestNode): Promise<void> {
  t.same((await get(node, '/labels')).json, { status: 'success', data: ['__name__', 'host', 'instance'], warnings: ['results truncated due to limit'] })
  t.same((await get(node, '/labels', { 'match[]': 'up' })).json, { status: 'success', data: ['__name__', 'instance', 'job'] })
  t.same((await post(node, '/labels', { 'match[]': ['cpu_idle', '{__name__="cpu_usage"}'] })).json.data, ['__name__', 'host'])
  t.same((await get(node, '/label/job/values')).json.data, ['a', 'b'])
  t.same((await get(node, '/label/job/values', { 'match[]': 'up{instance="2"}' })).json.data, ['a'])
  t.same((await get(node, '/label/job/values', { limit: '1' })).json, { status: 'success', data: ['a'], warnings: ['results truncated due to limit'] })
  t.same((await get(node, '/label/__name__/values', { 'match[]': '{__name__=~"cpu.+"}' })).json.data, ['cpu_idle', 'cpu_usage'])
  t.same((await get(node, '/label/U__l_e4_nge/values')).json.data, ['1'], 'escaped names')
  t.same((await get(node, `/label/${encodeURIComponent('länge')}/values`)).json.data, ['1'])
  t.same((await get(node, '/label/nothing/values')).json.data, [])
  t.same((await get(node, '/series', { 'match[]': ['up{job="b"}', 'cpu_idle'] })).json.data, [
    { __name__: 'cpu_idle', host: 'h1' },
    { __name__: 'up', instance: '1', job: 'b' },
  ])
  t.same((await get(node, '/series', { 'match[]': '{host="h1"}' })).json.data.length, 2, 'a selector without a name')
  const early = { start: '0', end: '100' }
  t.same((await get(node, '/series', { 'match[]': 'up', ...early })).json, { status: 'success', data: [] })
  t.same((await get(node, '/label/__name__/values', early)).json.data, [])
  t.same((await get(node, '/labels', { end: seconds(base - 1000) })).json.data, [], 'the start is an hour before the end')
}

async function limits(t: Test, node: TestNode): Promise<void> {
  const time = seconds(base + 60_000)
  const warnings = ['results truncated due to limit']
  const query = '{__name__=~".+"}'
  const cut = (await get(node, '/query', { query, time, limit: '1000' })).json
  t.equal(cut.data.result.length, 3, 'a limit above that of the server does not raise it')
  t.same(cut.warnings, warnings)
  const range = { query: 'up', start: seconds(base), end: time, step: '15' }
  t.same((await get(node, '/query_range', { ...range, limit: '2' })).json.warnings, warnings)
  const whole = (await get(node, '/query_range', range)).json
  t.equal(whole.data.result.length, 3)
  t.notOk('warnings' in whole)
  const metrics = (await node.inject('/metrics')).body
  t.match(metrics, /svc_promql_results_truncated_total [1-9]/)
  t.match(metrics, /svc_promql_request_duration_seconds_count\{endpoint="query"\} [1-9]/)
  t.match(metrics, /svc_promql_request_errors_total\{type="execution"\} 1/)
}

async function remoteRead(t: Test, node: TestNode): Promise<void> {
  const query = { start: base, end: base + 60_000, matchers: [['__name__', '=~', 'up|cpu_idle'] as ['__name__', '=~', string]] }
  const read = async (accepted: number[], url = '/api/v1/read') => {
    const headers = { 'content-type': 'application/x-protobuf', 'content-encoding': 'snappy', 'x-prometheus-remote-read-version': '0.1.0' }
    return node.inject({ method: 'POST', url, headers, payload: Buffer.from(await encodeSnappy(readRequestBytes([query], accepted))) })
  }
  const samples = await read([])
  t.equal(samples.statusCode, 200, samples.body)
  t.match(samples.headers, { 'content-type': 'application/x-protobuf', 'content-encoding': 'snappy' })
  const series = readSamples(await decodeSnappy(samples.rawPayload, 1e6))
  t.same(series.map(({ labels }) => labels.__name__).sort(), ['cpu_idle', 'up', 'up', 'up'])
  t.ok(series.every(({ samples }) => samples.length === 5))
  const chunks = await read([1, 0], '/api/v1/prom/read')
  t.equal(chunks.headers['content-type'], 'application/x-streamed-protobuf; proto=prometheus.ChunkedReadResponse')
  t.notOk(chunks.headers['content-encoding'])
  t.same(
    readFrames(chunks.rawPayload).map(({ series }) => [series.labels.__name__, series.labels.instance, series.samples.length]),
    [
      ['cpu_idle', undefined, 5],
      ['up', '1', 5],
      ['up', '1', 5],
      ['up', '2', 5],
    ],
  )
  const broken = await node.inject({ method: 'POST', url: '/api/v1/read', payload: 'no snappy', headers: { 'content-type': 'application/x-protobuf' } })
  t.equal(broken.statusCode, 400)
  t.match(broken.json(), { status: 'error', errorType: 'bad_data', error: /cannot decompress the body as snappy/ })
  // The second matcher of the second query is of type 7.
  const matcher = (type: number) => [0x1a, 6, 0x08, type, 0x12, 2, 0x75, 0x70]
  const queries = [0x0a, 8, ...matcher(0), 0x0a, 16, ...matcher(0), ...matcher(7)]
  const unknown = await node.inject({
    ...{ method: 'POST', url: '/api/v1/read', headers: { 'content-type': 'application/x-protobuf' } },
    payload: Buffer.from(await encodeSnappy(Uint8Array.from(queries))),
  })
  t.equal(unknown.statusCode, 400)
  t.match(unknown.json(), { errorType: 'bad_data', error: /queries\[1\]\.matchers\[1\], of label "up", has the unknown type 7; use 0 \(=\), 1 \(!=\)/ })
  const none = await node.inject({ method: 'POST', url: '/api/v1/read' })
  t.equal(none.statusCode, 400, 'no body')
}

async function besides(t: Test, node: TestNode): Promise<void> {
  const build = (await get(node, '/status/buildinfo')).json.data
  t.match(build.version, /^3\.\d+\.\d+$/)
  t.notOk('features' in build, 'what has features is taken for Mimir')
  t.match(build.buildDate, /^2\d{7}-\d\d:\d\d:\d\d$/, 'clients with types read a date of this form')
  t.match((await get(node, '/status/runtimeinfo')).json.data, { startTime: /^2\d{3}-.*Z$/, reloadConfigSuccess: true, CWD: process.cwd() })
  t.match((await get(node, '/status/flags')).json.data, { 'query.lookback-delta': '300s' })
  t.match((await get(node, '/status/flags')).json.data['enable-feature'].split(','), ['promql-experimental-functions'], 'by which tools such as pint go')
  const features = (await get(node, '/features')).json.data
  t.match(features, {
    api: { admin: false, label_values_match: true, search: false },
    promql: { at_modifier: true, by: true, duration_expr: true, fill_left: true, unquoted_utf8_names: true, type_and_unit_labels: false },
    promql_functions: { rate: true, integral: true, mad_over_time: true },
    promql_operators: { '=~': true, and: true, limitk: true, sum: true },
  })
  t.same(Object.keys(features.promql_operators), Object.keys(features.promql_operators).sort(), 'sorted, as by Prometheus')
  t.match((await get(node, '/status/config')).json.data.yaml, /^global:/)
  t.same((await get(node, '/status/walreplay')).json.data, { min: 0, max: 0, current: 0 })
  const { headStats, seriesCountByMetricName } = (await get(node, '/status/tsdb', { limit: '2' })).json.data
  t.equal(headStats.numSeries, 6)
  const noHead = '"chunkCount":0,"minTime":9223372036854775807,"maxTime":-9223372036854775808}'
  t.ok((await node.inject('/api/v1/status/tsdb')).body.includes(noHead), 'clients with types want all members, in 64 bits')
  t.same(seriesCountByMetricName[0], { name: 'up', value: 3 })
  t.equal(seriesCountByMetricName.length, 2)
  t.same((await get(node, '/rules')).json.data, { groups: [] })
  t.same((await get(node, '/alerts')).json.data, { alerts: [] })
  t.same((await get(node, '/query_exemplars', { query: 'up' })).json, { status: 'success', data: [] })
  t.same((await get(node, '/targets')).json.data, { activeTargets: [], droppedTargets: [], droppedTargetCounts: {} })
  t.equal((await get(node, '/format_query', { query: 'sum(up)by(job)' })).json.data, 'sum by (job) (up)')
  t.match((await get(node, '/parse_query', { query: 'sum(up)' })).json.data, { type: 'aggregation', op: 'sum' })
  t.same((await get(node, '/metadata', { metric: 'requests_total' })).json.data, { requests_total: [{ type: 'counter', help: 'Requests', unit: '' }] })
  t.same(Object.keys((await get(node, '/metadata', { limit: '1' })).json.data), ['up'])
  t.same((await get(node, '/metadata', { limit_per_metric: '1' })).json.data.up, [{ type: 'gauge', help: 'Is it up?', unit: '' }])
  t.equal((await get(node, '/metadata', { limit: 'x' })).json.error, 'limit must be a number')
  const ruler = await node.inject('/rules/test/test')
  t.equal(ruler.statusCode, 404)
  t.match(ruler.body, /page not found/, "Grafana's alerting knows by these words that rules cannot be edited, and fails at others")
  for (const url of ['/select/0/prometheus/api/v1/query?query=1', '/prometheus/api/v1/query']) {
    const elsewhere = await node.inject(url)
    t.equal(elsewhere.statusCode, 404)
    t.match(elsewhere.json(), { error: /; PromQL is answered at \/api\/v1\/query and the like, without a prefix$/ })
  }
}

t.test('the examples of the README answer what is shown below them', async (t) => {
  const node = await boot({ plugins: [lineProtocol, plugin] })
  t.teardown(() => node.stop())
  // On a node that holds newer points the examples must do the same.
  t.equal((await node.inject({ method: 'POST', url: '/write', payload: 'now v=1' })).statusCode, 204)
  const blocks = fences(section(read('plugins/promql/README.md'), 'Examples') ?? '')
  t.ok(blocks.filter(({ language }) => language === 'json').length >= 4)
  for (const [i, { language, text }] of blocks.entries()) {
    if (language !== 'sh') continue
    const command = text.replaceAll('curl ', 'curl -sS ').replaceAll('http://localhost:8086', node.url)
    const { stdout } = await promisify(execFile)('bash', ['-ec', command])
    t.equal(stdout.trim(), blocks[i + 1]?.language === 'json' ? blocks[i + 1].text.trim() : '', text)
  }
})

for (const storage of ['memory', 'embedded']) {
  t.test(`${storage}: series that differ by a tag called __name__ are one`, async (t) => {
    const node = await boot({ plugins: [lineProtocol, plugin], storage })
    t.teardown(() => node.stop())
    const lines = Array.from({ length: 9 }, (_, i) => `cpu,__name__=${i % 2},host=x usage=${i} ${base + i * 1000}`)
    const written = await node.inject({ method: 'POST', url: '/write?precision=ms', payload: lines.join('\n') })
    t.equal(written.statusCode, 204, written.body)
    const time = seconds(base + 60_000)
    const metric = { __name__: 'cpu_usage', host: 'x' }
    t.same((await get(node, '/query', { query: 'cpu_usage', time })).json.data.result, [{ metric, value: [Number(time), '8'] }])
    t.match((await get(node, '/query', { query: 'count_over_time(cpu_usage[2m])', time })).json.data.result, [{ value: [Number(time), '9'] }])
    const range = { query: 'increase(cpu_usage[10s])', start: seconds(base), end: seconds(base + 60_000), step: '1s' }
    const [one, ...others] = (await get(node, '/query_range', range)).json.data.result
    t.same([others.length, one.values[7]], [0, [Number(seconds(base + 8000)), '8']])
    t.same((await get(node, '/series', { 'match[]': 'cpu_usage' })).json.data, [metric])
  })
}

t.test('external labels are in /status/config, where the sidecar of Thanos looks for them', async (t) => {
  const yaml = async (external_labels: object) => {
    const node = await boot({ plugins: [plugin], config: { promql: { external_labels } } })
    t.teardown(() => node.stop())
    return (await get(node, '/status/config')).json.data.yaml
  }
  t.equal(await yaml({}), 'global:\n  evaluation_interval: 60s\n')
  const expected = 'global:\n  evaluation_interval: 60s\n  external_labels:\n    "replica": "a: \\"1\\" # \u00fc"\n    "yes": ""\n'
  t.equal(await yaml({ replica: 'a: "1" # \u00fc', yes: '' }), expected, 'quoted')
  await t.rejects(yaml({ 'data-center': 'eu' }), /external_labels/)
})
