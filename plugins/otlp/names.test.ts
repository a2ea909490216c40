import type { MetricMetadataEntry } from 'svcdb'
import { boot } from 'svcdb/testkit'
import t from 'tap'
import { prometheusLabel, prometheusName, prometheusUnit } from './names.ts'
import { type WireMetric, writeMetrics } from './testing-wire.ts'

t.test('names of metrics: units, per units, suffixes, characters', async (t) => {
  const names: [string, string, 'counter' | 'gauge' | '', string][] = [
    ['system.memory.usage', 'By', '', 'system_memory_usage_bytes'],
    ['system.network.dropped', '{packets}', 'counter', 'system_network_dropped_total'],
    ['system.network.dropped', 'packets', '', 'system_network_dropped_packets'],
    ['system.memory.utilization', '1', 'gauge', 'system_memory_utilization_ratio'],
    ['system.memory.utilization', '1', '', 'system_memory_utilization'],
    ['http.server.request.duration', 's', '', 'http_server_request_duration_seconds'],
    ['http.server.duration_milliseconds', 'ms', '', 'http_server_duration_milliseconds'],
    ['astro.light.speed', 'm/s', '', 'astro_light_speed_meters_per_second'],
    ['speed', 'km/h', 'gauge', 'speed_km_per_hour'],
    ['requests', '{request}/s', '', 'requests_per_second'],
    ['io', 'By/s', 'counter', 'io_bytes_per_second_total'],
    ['total.requests', '', 'counter', 'requests_total'],
    ['requests_total', '1', 'counter', 'requests_total'],
    ['cpu.load', '%', 'gauge', 'cpu_load_percent'],
    ['(lambda).function.executions(#)', '', '', 'lambda_function_executions'],
    ['2xx.responses', '', 'counter', '_2xx_responses_total'],
    ['job:rule:sum', '', '', 'job:rule:sum'],
    ['élan', '', '', 'lan'],
    ['x', 'constructor/valueOf', '', 'x_constructor_per_valueOf'],
  ]
  for (const [name, unit, type, expected] of names)
    t.equal(prometheusName({ name, unit, counter: type === 'counter', gauge: type === 'gauge' }), expected, `${name} in ${unit}`)
  for (const [unit, expected] of Object.entries({ By: 'bytes', '1': 'ratio', '{x}': '', 'm/s': 'meters_per_second', '{x}/s': 'per_second', Cel: 'celsius' }))
    t.equal(prometheusUnit(unit), expected, unit)
  for (const [key, expected] of Object.entries({ 'host.name': 'host_name', '0day': 'key_0day', 'a--b': 'a_b', _x: '_x', __x: '_x' }))
    t.equal(prometheusLabel(key), expected, key)
})

const now = BigInt(Date.now()) * 1_000_000n
const METRICS: WireMetric[] = [
  {
    name: 'process.cpu.time',
    unit: 's',
    description: 'CPU seconds',
    sum: [{ time: now, value: 5, attributes: { 'cpu.mode': 'user', cpu_mode: 'x' } }],
    temporality: 2,
    monotonic: true,
  },
  { name: 'process.memory.usage', unit: 'By', gauge: [{ time: now, value: 7n }] },
  { name: 'request.duration', unit: 's', histogram: [{ time: now, count: 1n, sum: 1, counts: [1n], bounds: [] }], temporality: 2 },
  { name: 'queue.wait', unit: 's', summary: [{ time: now, count: 2n, sum: 3, quantiles: [[0.5, 1]] }] },
]
const RESOURCE = { 'service.name': 'api', 'service.namespace': 'shop', 'service.instance.id': 'i-1', 'host.name': 'h' }

t.test('names = "prometheus": what PromQL finds', async (t) => {
  const node = await boot({ plugins: ['otlp', 'promql', 'remote_write'], storage: 'embedded', config: { otlp: { names: 'prometheus' } } })
  t.teardown(() => node.stop())
  const answer = await node.inject({
    method: 'POST',
    url: '/v1/metrics',
    headers: { 'content-type': 'application/x-protobuf' },
    payload: writeMetrics(METRICS, RESOURCE),
  })
  t.equal(answer.statusCode, 204)
  const ask = async (query: string) =>
    (await node.inject(`/api/v1/query?query=${encodeURIComponent(query)}&time=${Number(now / 1_000_000n) / 1000 + 1}`)).json().data.result
  const labels = { job: 'shop/api', instance: 'i-1', host_name: 'h' }
  t.match(await ask('process_cpu_time_seconds_total'), [{ metric: { ...labels, cpu_mode: 'user;x' }, value: { 1: '5' } }])
  t.match(await ask('process_memory_usage_bytes{job="shop/api"}'), [{ metric: labels, value: { 1: '7' } }])
  t.match(await ask('histogram_count(request_duration_seconds)'), [{ value: { 1: '1' } }])
  t.match(await ask('queue_wait_seconds_sum'), [{ metric: labels, value: { 1: '3' } }])
  const found = await ask('process_memory_usage_bytes')
  t.same(Object.keys(found[0].metric).sort(), ['__name__', 'host_name', 'instance', 'job'], 'what became job and instance is nothing else')
  const { data } = (await node.inject('/api/v1/metadata')).json() as { data: Record<string, MetricMetadataEntry[]> }
  t.same(data, {
    process_cpu_time_seconds_total: [{ type: 'counter', help: 'CPU seconds', unit: 'seconds' }],
    process_memory_usage_bytes: [{ type: 'gauge', help: '', unit: 'bytes' }],
    request_duration_seconds: [{ type: 'histogram', help: '', unit: 'seconds' }],
    queue_wait_seconds: [{ type: 'summary', help: '', unit: 'seconds' }],
  })
})

t.test('names = "otel": metadata under the name that PromQL has', async (t) => {
  const node = await boot({ plugins: ['otlp', 'promql', 'remote_write'] })
  t.teardown(() => node.stop())
  await node.inject({ method: 'POST', url: '/v1/metrics', headers: { 'content-type': 'application/x-protobuf' }, payload: writeMetrics(METRICS, RESOURCE) })
  const { data } = (await node.inject('/api/v1/metadata')).json()
  t.match(data, { 'process.cpu.time': [{ type: 'counter', help: 'CPU seconds', unit: 's' }], 'process.memory.usage_gauge': [{ type: 'gauge', unit: 'By' }] })
})
