/** The OpenTelemetry Collector's exporters for OTLP, over HTTP and over gRPC. */
import assert from 'node:assert/strict'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { setTimeout } from 'node:timers/promises'
import { freePort } from '../support/free-port.ts'
import { type Listeners, startListeners } from './listeners.ts'
import { EXPECTED, metrics } from './otlp-sample.ts'
import { missing, ownMetric, type Program, startProgram } from './service.ts'
import { untilValues, valuesOf } from './values.ts'

const skip = missing('otelcol')

const GAUGE = { otel: '{"test.temperature_gauge"}', prometheus: 'test_temperature_celsius' }

interface Running {
  listeners: Listeners
  collector: Program
  send(ms: number, ended?: boolean): Promise<void>
  values(query: string): Promise<number[]>
  until(query: string, enough: (found: number[]) => boolean): Promise<void>
}

type Exporter = 'otlp_http' | 'otlp_grpc'

/** @param options lines of the exporter's configuration. */
async function start(t: TestContext, exporter: Exporter, options: string[], settings = '', receivers = ['otlp']): Promise<Running> {
  const folder = await mkdtemp(join(tmpdir(), 'svc-interop-otelcol-'))
  const listeners = await startListeners(['otlp', 'grpc'], { sections: { otlp: settings } })
  const lines = exporter === 'otlp_http' ? [`endpoint: ${listeners.url}`, ...options] : [`endpoint: ${listeners.grpc}`, 'tls: {insecure: true}', ...options]
  const [otlp, own] = [`127.0.0.1:${await freePort()}`, `127.0.0.1:${await freePort()}`]
  const [host, port] = own.split(':')
  const file = join(folder, 'collector.yaml')
  await writeFile(
    file,
    `receivers:
  otlp: {protocols: {http: {endpoint: '${otlp}'}}}
  host_metrics:
    collection_interval: 1s
    initial_delay: 0s
    scrapers: {cpu: {}, memory: {}, load: {}}
exporters:
  ${exporter}:
    ${lines.join('\n    ')}
service:
  telemetry:
    metrics: {level: normal, readers: [{pull: {exporter: {prometheus: {host: '${host}', port: ${port}}}}}]}
  pipelines:
    metrics: {receivers: [${receivers}], exporters: [${exporter}]}
`,
  )
  const collector = await startProgram('otelcol', [`--config=${file}`], `http://${own}`, '/metrics')
  t.after(async () => {
    await collector.stop()
    await listeners.stop()
    await rm(folder, { recursive: true, force: true })
  })
  const values = (query: string) => valuesOf(listeners.url, query)
  return {
    listeners,
    collector,
    values,
    async send(ms, ended = false) {
      const headers = { 'content-type': 'application/json' }
      const answer = await fetch(`http://${otlp}/v1/metrics`, { method: 'POST', headers, body: JSON.stringify(metrics(ms, ended)) })
      assert.equal(answer.status, 200, await answer.text())
    },
    until: (query, enough) => untilValues(listeners, collector, query, enough),
  }
}

const WAYS: [Exporter, string, string[], keyof typeof EXPECTED][] = [
  ['otlp_http', 'protobuf with gzip', [], 'otel'],
  ['otlp_http', 'JSON, uncompressed', ['encoding: json', 'compression: none'], 'otel'],
  ['otlp_http', 'protobuf with zstd', ['compression: zstd'], 'prometheus'],
  ['otlp_grpc', 'gzip', [], 'otel'],
  ['otlp_grpc', 'zstd', ['compression: zstd'], 'prometheus'],
  ['otlp_grpc', 'uncompressed', ['compression: none'], 'otel'],
]

for (const [exporter, way, options, names] of WAYS) {
  test(`OpenTelemetry Collector, ${exporter}, ${way}: metrics of all kinds arrive, and end; names as in ${names}`, { skip }, async (t) => {
    const { collector, send, values, until } = await start(t, exporter, options, `names = "${names}"`, ['otlp', 'host_metrics'])
    const now = Date.now()
    await send(now - 1000)
    await until(GAUGE[names], ({ length }) => length > 0)
    const found = await Promise.all(Object.keys(EXPECTED[names]).map(async (query) => [query, await values(query)]))
    assert.deepEqual(Object.fromEntries(found), Object.fromEntries(Object.entries(EXPECTED[names]).map(([query, value]) => [query, [value]])))
    await send(now, true)
    await until(GAUGE[names], ({ length }) => length === 0)
    await until('count({__name__=~"system.memory.usage.*"})', ([series]) => series > 0)
    const exported = (name: string) => ownMetric(collector.url, `otelcol_exporter_${name}(?:_total)?{.*}`)
    assert.ok((await exported('sent_metric_points')) > 0)
    assert.equal(await exported('send_failed_metric_points'), 0, collector.output())
    assert.doesNotMatch(collector.output(), /\t(error|warn)\t/)
  })
}

for (const [exporter, code] of [
  ['otlp_http', 'STORAGE_FULL'],
  ['otlp_http', 'BACKPRESSURE'],
  ['otlp_http', 'OVERLOADED'],
  ['otlp_grpc', 'STORAGE_FULL'],
  ['otlp_grpc', 'BACKPRESSURE'],
  ['otlp_grpc', 'OVERLOADED'],
] as const) {
  test(`OpenTelemetry Collector, ${exporter}: nothing is lost to ${code}`, { skip }, async (t) => {
    // Retry-After of OVERLOADED is a minute: what counts is that the batch is kept.
    const { listeners, collector, send, until } = await start(t, exporter, ['retry_on_failure: {initial_interval: 100ms, max_interval: 1s}'])
    await listeners.fail(code, 1)
    await send(Date.now())
    if (code === 'OVERLOADED') {
      while ((await listeners.failed()) === 0) await setTimeout(100)
      await setTimeout(500)
      assert.match(collector.output(), /Will retry the request/)
    } else await until(GAUGE.otel, ({ length }) => length > 0)
    assert.doesNotMatch(collector.output(), /Dropping data/)
  })
}

for (const exporter of ['otlp_http', 'otlp_grpc'] as const) {
  test(`OpenTelemetry Collector, ${exporter}: of a partial write the good points stay, and it says what was refused`, { skip }, async (t) => {
    const { listeners, collector, send, until } = await start(t, exporter, [])
    await listeners.write(['test.requests value="text"'])
    await send(Date.now())
    await until(GAUGE.otel, ({ length }) => length > 0)
    while (!/artial success/.test(collector.output())) await setTimeout(100)
    assert.doesNotMatch(collector.output(), /Dropping data/)
  })
}
