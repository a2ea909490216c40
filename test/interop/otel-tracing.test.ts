/** The OpenTelemetry Collector takes the traces of plugin `tracing`, over gRPC and over HTTP, and shows them as they are meant. */
import assert from 'node:assert/strict'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { setTimeout } from 'node:timers/promises'
import { freePort } from '../support/free-port.ts'
import { startNode } from './node.ts'
import { missing, startProgram } from './service.ts'

const skip = missing('otelcol')
const PATIENCE_MS = 30_000
const TRACE = '0af7651916cd43dd8448eb211c80319c'
const PARENT = 'b7ad6b7169203331'

function config(receiver: string, own: string): string {
  const [host, port] = own.split(':')
  return `receivers:
  otlp: {protocols: {${receiver}}}
exporters:
  debug: {verbosity: detailed}
service:
  telemetry:
    metrics: {level: normal, readers: [{pull: {exporter: {prometheus: {host: '${host}', port: ${port}}}}}]}
  pipelines:
    traces: {receivers: [otlp], exporters: [debug]}
`
}

/** One span as the collector prints it: "Name value" lines after "Span #n". */
function spansIn(output: string): Map<string, string>[] {
  return output
    .split(/Span #\d+\n/)
    .slice(1)
    .map((text) => new Map([...text.matchAll(/^ +(?:-> )?([\w.]+(?: [\w]+)*) *: (.*)$/gm)].map(([, name, value]) => [name, value.trim()])))
}

for (const protocol of ['grpc', 'http_protobuf'] as const) {
  test(`OpenTelemetry Collector: traces over ${protocol}`, { skip }, async (t) => {
    const folder = await mkdtemp(join(tmpdir(), 'svc-interop-otelcol-'))
    const [otlp, own] = [`127.0.0.1:${await freePort()}`, `127.0.0.1:${await freePort()}`]
    const file = join(folder, 'collector.yaml')
    await writeFile(file, config(`${protocol === 'grpc' ? 'grpc' : 'http'}: {endpoint: '${otlp}'}`, own))
    const collector = await startProgram('otelcol', ['--config', file], `http://${own}`, '/metrics')
    const section = `[tracing]\nendpoint = "http://${otlp}"\nprotocol = "${protocol}"\nsampling = "always_on"\ninterval_secs = 0.1\nservice_name = "svc-interop"\n`
    const node = await startNode({ plugins: ['tracing', 'line_protocol', 'promql'], sections: section })
    t.after(async () => {
      await node.stop()
      await collector.stop()
      await rm(folder, { recursive: true, force: true })
    })
    const headers = { traceparent: `00-${TRACE}-${PARENT}-01`, tracestate: 'vendor=1' }
    assert.equal((await fetch(`${node.url}/write`, { method: 'POST', body: 'm,host=a value=1', headers })).status, 204)
    assert.equal((await fetch(`${node.url}/api/v1/query?query=m`)).status, 200)
    const late = Date.now() + PATIENCE_MS
    const find = async (name: string): Promise<Map<string, string>> => {
      for (;;) {
        const found = spansIn(collector.output()).find((span) => span.get('Name') === name)
        if (found !== undefined) return found
        assert.ok(Date.now() < late, `no span ${name} came:\n${collector.output()}`)
        await setTimeout(100)
      }
    }
    const write = await find('POST /write')
    assert.equal(write.get('Trace ID'), TRACE)
    assert.equal(write.get('Parent ID'), PARENT)
    assert.equal(write.get('TraceState'), 'vendor=1')
    assert.equal(write.get('Kind'), 'Server')
    assert.equal(write.get('Status code'), 'Unset')
    assert.equal(write.get('http.response.status_code'), 'Int(204)')
    for (const name of ['decode', 'write', 'admission', 'wal']) assert.equal((await find(name)).get('Trace ID'), TRACE, name)
    const query = await find('GET /api/v1/query')
    for (const name of ['engine job', 'run', 'evaluate', 'select']) assert.equal((await find(name)).get('Trace ID'), query.get('Trace ID'), name)
    assert.match(collector.output(), /-> service\.name: Str\(svc-interop\)/)
  })
}
