/** The OpenTelemetry Collector's exporter for Kafka, a broker, and plugin `kafka` behind it: the format `otlp`. */
import assert from 'node:assert/strict'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { setTimeout } from 'node:timers/promises'
import { freePort } from '../support/free-port.ts'
import { KAFKA_VERSIONS, noKafka, startKafka } from './kafka-broker.ts'
import { startNode } from './node.ts'
import { EXPECTED, metrics } from './otlp-sample.ts'
import { vector } from './promql/compare.ts'
import { missing, startProgram } from './service.ts'

const NEWEST = KAFKA_VERSIONS[1]
const PATIENCE_MS = 60_000

for (const [encoding, compression] of [
  ['otlp_proto', 'none'],
  ['otlp_proto', 'zstd'],
  ['otlp_json', 'snappy'],
])
  test(`metrics of all kinds as ${encoding}, compression ${compression}`, { skip: missing('otelcol') || noKafka(NEWEST), timeout: 300_000 }, async (t) => {
    const folder = await mkdtemp(join(tmpdir(), 'svc-interop-otelcol-'))
    t.after(() => rm(folder, { recursive: true, force: true }))
    const broker = await startKafka(NEWEST)
    t.after(() => broker.stop())
    await broker.createTopic('metrics')
    const node = await startNode({
      plugins: ['otlp', 'kafka', 'promql'],
      sections: `[kafka]\nbrokers = "${broker.address()}"\ntopics = ["metrics"]\nformat = "otlp"\nauto_offset_reset = "earliest"\n`,
    })
    t.after(() => node.stop())
    const [otlp, own] = [`127.0.0.1:${await freePort()}`, `127.0.0.1:${await freePort()}`]
    const [host, port] = own.split(':')
    await writeFile(
      join(folder, 'collector.yaml'),
      `receivers:
  otlp: {protocols: {http: {endpoint: '${otlp}'}}}
exporters:
  kafka:
    brokers: ['${broker.address()}']
    metrics: {topic: metrics, encoding: ${encoding}}
    producer: {compression: ${compression}}
service:
  telemetry:
    metrics: {level: normal, readers: [{pull: {exporter: {prometheus: {host: '${host}', port: ${port}}}}}]}
  pipelines:
    metrics: {receivers: [otlp], exporters: [kafka]}
`,
    )
    const collector = await startProgram('otelcol', [`--config=${join(folder, 'collector.yaml')}`], `http://${own}`, '/metrics')
    t.after(() => collector.stop())
    const answer = await fetch(`http://${otlp}/v1/metrics`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(metrics(Date.now(), false)),
    })
    assert.equal(answer.status, 200, await answer.text())
    const found = async (): Promise<Record<string, number[]>> =>
      Object.fromEntries(await Promise.all(Object.keys(EXPECTED.otel).map(async (query) => [query, (await vector(node.url, query)).map(({ value }) => value)])))
    const expected = Object.fromEntries(Object.entries(EXPECTED.otel).map(([query, value]) => [query, [value]]))
    for (const end = Date.now() + PATIENCE_MS; Date.now() < end; await setTimeout(200))
      if (Object.values(await found()).every(({ length }) => length > 0)) break
    assert.deepEqual(await found(), expected, `${collector.output()}\n${node.output()}`)
    const [{ metrics: counted }] = ((await (await fetch(`${node.url}/api/v1/connectors`)).json()) as { items: { metrics: { decode_errors: number } }[] }).items
    assert.equal(counted.decode_errors, 0)
    assert.doesNotMatch(collector.output(), /\terror\t/)
  })
