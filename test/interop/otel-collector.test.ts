/** The OpenTelemetry Collector: what it receives over OTLP and measures on its host goes on by its exporter for Prometheus remote write. */
import assert from 'node:assert/strict'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { freePort } from '../support/free-port.ts'
import { startNode } from './node.ts'
import { metrics } from './otlp-sample.ts'
import { missing, ownMetric, startProgram } from './service.ts'
import { untilValues, valuesOf } from './values.ts'

const skip = missing('otelcol')
const VERSIONS = {
  '1.0': { exporter: 'send_metadata: true', flags: [] },
  '2.0, histograms with boundaries of their own': {
    exporter: 'protobuf_message: io.prometheus.write.v2.Request\n    convert_explicit_histograms_to_nhcb: true',
    flags: ['--feature-gates=+exporter.prometheusremotewritexporter.enableSendingRW2'],
  },
}

const EXPECTED: Record<string, number> = {
  'test_temperature_celsius{room="a b",job="shop",instance="one"}': 21.5,
  test_requests_total: 42,
  'test_duration_seconds_bucket{le=~"1|1.0"}': 1,
  'test_duration_seconds_bucket{le=~"2|2.0"}': 3,
  'test_duration_seconds_bucket{le="+Inf"}': 6,
  test_duration_seconds_count: 6,
  test_duration_seconds_sum: 7.5,
  'histogram_count(test_size_bytes)': 9,
  'histogram_sum(test_size_bytes)': 30,
  'histogram_fraction(1, 2, test_size_bytes) * 9': 3,
  'test_latency_seconds{quantile="0.5"}': 0.25,
  test_latency_seconds_count: 5,
  'target_info{job="shop",region="north"}': 1,
}

function config(url: string, otlp: string, own: string, exporter: string): string {
  const [host, port] = own.split(':')
  return `receivers:
  otlp: {protocols: {http: {endpoint: '${otlp}'}}}
  hostmetrics:
    collection_interval: 1s
    initial_delay: 0s
    scrapers: {cpu: {}, memory: {}, load: {}}
exporters:
  prometheusremotewrite:
    endpoint: ${url}/api/v1/prom/write
    ${exporter}
service:
  telemetry:
    metrics: {level: normal, readers: [{pull: {exporter: {prometheus: {host: '${host}', port: ${port}}}}}]}
  pipelines:
    metrics: {receivers: [otlp, hostmetrics], exporters: [prometheusremotewrite]}
`
}

for (const [version, { exporter, flags }] of Object.entries(VERSIONS)) {
  test(`OpenTelemetry Collector, remote write ${version}: metrics of all kinds arrive, and end`, { skip }, async (t) => {
    const folder = await mkdtemp(join(tmpdir(), 'svc-interop-otelcol-'))
    const node = await startNode({ plugins: ['remote_write', 'promql'] })
    t.after(async () => {
      await node.stop()
      await rm(folder, { recursive: true, force: true })
    })
    const [otlp, own] = [`127.0.0.1:${await freePort()}`, `127.0.0.1:${await freePort()}`]
    const file = join(folder, 'collector.yaml')
    await writeFile(file, config(node.url, otlp, own, exporter))
    const collector = await startProgram('otelcol', [`--config=${file}`, ...flags], `http://${own}`, '/metrics')
    try {
      const send = async (ms: number, ended: boolean) => {
        const headers = { 'content-type': 'application/json' }
        const answer = await fetch(`http://${otlp}/v1/metrics`, { method: 'POST', headers, body: JSON.stringify(metrics(ms, ended)) })
        assert.equal(answer.status, 200, await answer.text())
      }
      const values = (query: string) => valuesOf(node.url, query)
      const until = (query: string, enough: (found: number[]) => boolean) => untilValues(node, collector, query, enough)
      const now = Date.now()
      await send(now - 1000, false)
      await until('test_temperature_celsius', ({ length }) => length > 0)
      const found = await Promise.all(Object.keys(EXPECTED).map(async (query) => [query, await values(query)]))
      assert.deepEqual(Object.fromEntries(found), Object.fromEntries(Object.entries(EXPECTED).map(([query, value]) => [query, [value]])))
      await send(now, true)
      await until('test_temperature_celsius', ({ length }) => length === 0)
      await until('count(count_over_time(system_memory_usage_bytes[1m]) > 2)', ([series]) => series > 0)
      assert.deepEqual(await values('sum by (state) (system_cpu_time_seconds_total{state="idle"}) > bool 0'), [1])
      const said = ((await (await fetch(`${node.url}/api/v1/metadata?metric=test_temperature_celsius`)).json()) as { data: unknown }).data
      assert.deepEqual(said, { test_temperature_celsius: [{ type: 'gauge', help: 'How warm it is', unit: 'celsius' }] })
      const exported = (name: string) => ownMetric(collector.url, `otelcol_exporter_${name}(?:_total)?{.*}`)
      assert.ok((await exported('sent_metric_points')) > 0)
      assert.equal(await exported('send_failed_metric_points'), 0, collector.output())
      assert.doesNotMatch(collector.output(), /\terror\t/)
    } finally {
      await collector.stop()
    }
  })
}
