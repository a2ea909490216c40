/** A real Prometheus that scrapes exemplars and remote-writes them to svc: both answer the same bytes. It scrapes those of svc itself too. */
import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { type TestContext, test } from 'node:test'
import { setTimeout } from 'node:timers/promises'
import { freePort } from '../support/free-port.ts'
import { startNode } from './node.ts'
import { noPrometheus, startPrometheus } from './prometheus.ts'

const PATIENCE_MS = 30_000
const MESSAGES = { '1.0': 'prometheus.WriteRequest', '2.0': 'io.prometheus.write.v2.Request' } as const

/** What an application says of itself as OpenMetrics, with other exemplars each time. */
async function startTarget(t: TestContext): Promise<string> {
  let scrapes = 0
  const server = createServer((_, answer) => {
    const n = ++scrapes
    const now = Date.now() / 1000
    const lines = [
      '# TYPE app_requests counter',
      `app_requests_total{path="/a \\"b\\" é <x>&"} ${n} # {trace_id="${String(n).padStart(32, '0')}",span_id="0123456789abcdef"} ${n / 3} ${now.toFixed(3)}`,
      `app_requests_total{path="/plain"} ${n}`,
      '# TYPE app_seconds histogram',
      `app_seconds_bucket{le="0.1"} ${n} # {trace_id="low${n}"} 1e-07 ${(now - 0.5).toFixed(3)}`,
      `app_seconds_bucket{le="1.0"} ${2 * n} # {trace_id="high${n}",user="ü"} 0.5 ${now.toFixed(3)}`,
      `app_seconds_bucket{le="+Inf"} ${2 * n} # {} 7 ${now.toFixed(3)}`,
      `app_seconds_count ${2 * n}`,
      `app_seconds_sum ${n}`,
      '# EOF',
    ]
    answer.writeHead(200, { 'content-type': 'application/openmetrics-text; version=1.0.0; charset=utf-8' }).end(`${lines.join('\n')}\n`)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.after(() => {
    server.closeAllConnections()
    server.close()
  })
  return `127.0.0.1:${(server.address() as AddressInfo).port}`
}

const ask = async (url: string, parameters: Record<string, string>): Promise<string> =>
  (await fetch(`${url}/api/v1/query_exemplars?${new URLSearchParams(parameters)}`)).text()

for (const version of ['1.0', '2.0'] as const) {
  test(`exemplars by remote write ${version}`, { skip: noPrometheus }, async (t) => {
    const target = await startTarget(t)
    const section = `[tracing]\nendpoint = "http://127.0.0.1:${await freePort()}"\nsampling = "always_on"\n`
    const node = await startNode({ plugins: ['exemplars', 'remote_write', 'promql', 'tracing'], sections: section })
    const prometheus = await startPrometheus(`scrape_configs:
  - job_name: app
    static_configs: [{targets: ['${target}']}]
  - job_name: svc
    static_configs: [{targets: ['${new URL(node.url).host}']}]
remote_write:
  - url: ${node.url}/api/v1/prom/write
    protobuf_message: ${MESSAGES[version]}
    send_exemplars: true
    queue_config: {max_shards: 1, batch_send_deadline: 200ms}
    write_relabel_configs: [{source_labels: [job], regex: app, action: keep}]
`)
    t.after(async () => {
      await prometheus.stop()
      await node.stop()
    })
    await setTimeout(8000)
    const end = String(Math.floor(Date.now() / 1000))
    const late = Date.now() + PATIENCE_MS
    const newest = { query: 'app_requests_total', start: end }
    while (!(await ask(node.url, newest)).includes('trace_id')) {
      assert.ok(Date.now() < late, `no exemplars come:\n${node.output()}\n${prometheus.output()}`)
      await setTimeout(200)
    }
    for (const query of [
      'app_requests_total',
      'app_seconds_bucket',
      'histogram_quantile(0.9, sum by (le) (rate(app_seconds_bucket[1m])))',
      'app_requests_total{path=~"/a.*"} / on() group_left() app_seconds_bucket{le="0.1"}',
      'app_seconds_bucket{le!~"0.*"} or app_seconds_bucket{le="1.0"}',
      '{job="app"}',
      'app_requests_total{path="/plain"}',
      'nothing_at_all',
      'rate(app_requests_total[1m] offset 1h)',
      'max_over_time(rate(app_requests_total[1m])[5m:30s])',
    ]) {
      for (const start of ['0', String(Number(end) - 4)]) {
        const [theirs, own] = [await ask(prometheus.url, { query, start, end }), await ask(node.url, { query, start, end })]
        assert.equal(own, theirs, query)
        if (!/plain|nothing/.test(query)) assert.match(own, /trace_id/, query)
      }
    }
    // Of an expression without a selector Prometheus says nothing, by 204; svc says that there are none.
    const none = await fetch(`${prometheus.url}/api/v1/query_exemplars?query=1`)
    assert.equal(none.status, 204)
    assert.equal(await ask(node.url, { query: '1' }), '{"status":"success","data":[]}')
    const wrongs: Record<string, string>[] = [{ query: '' }, { query: 'a{' }, { query: 'up', start: '2', end: '1' }, { query: 'up', start: 'x' }]
    for (const wrong of wrongs) {
      const [theirs, own] = await Promise.all([prometheus.url, node.url].map(async (url) => JSON.parse(await ask(url, wrong))))
      assert.deepEqual({ ...own, code: undefined }, { ...theirs, code: undefined }, JSON.stringify(wrong))
    }
    assert.doesNotMatch(prometheus.output(), /level=(ERROR|WARN).*exemplar/i)
    const own = JSON.parse(await ask(prometheus.url, { query: 'svc_http_request_duration_seconds_bucket' }))
    assert.match(own.data[0].exemplars[0].labels.trace_id, /^[\da-f]{32}$/, 'exemplars of svc itself')
  })
}
