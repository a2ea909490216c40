/**
 * A real Prometheus that scrapes itself and a node exporter and remote-writes to svc: both give the same answers, also by remote read.
 *
 * SVC_INTEROP_SECONDS makes it scrape for longer.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout } from 'node:timers/promises'
import { freePort } from '../support/free-port.ts'
import { type Node, startNode } from './node.ts'
import { noPrometheus, startPrometheus } from './prometheus.ts'
import { type Answer, ask, difference, type Question, vector } from './promql/compare.ts'
import { DASHBOARD } from './promql/dashboard.ts'
import { missing, type Program, startProgram } from './service.ts'

const skip = noPrometheus || missing('node_exporter')
const SECONDS = Number(process.env.SVC_INTEROP_SECONDS ?? 45)
const PATIENCE_MS = 60_000
const MESSAGES = { '1.0': 'prometheus.WriteRequest', '2.0': 'io.prometheus.write.v2.Request' } as const
type Version = keyof typeof MESSAGES

async function startExporter(): Promise<Program> {
  const address = `127.0.0.1:${await freePort()}`
  return startProgram('node_exporter', [`--web.listen-address=${address}`, '--log.level=error'], `http://${address}`, '/metrics')
}

/** One shard, so that what is sent last is stored last. */
const sections = (exporter: Program, node: Node, version: Version): string => `scrape_configs:
  - job_name: prometheus
    scrape_native_histograms: true
    always_scrape_classic_histograms: true
    static_configs: [{targets: ['{self}']}]
  - job_name: node
    static_configs: [{targets: ['${new URL(exporter.url).host}']}]
remote_write:
  - url: ${node.url}/api/v1/prom/write
    protobuf_message: ${MESSAGES[version]}
    send_native_histograms: true
    send_exemplars: true
    metadata_config: {send_interval: 2s}
    queue_config: {max_shards: 1, batch_send_deadline: 500ms}
`

const value = async (url: string, query: string): Promise<number> => (await vector(url, query))[0]?.value ?? Number.NaN

/** Waits until the server has what was scraped up to then. */
async function arrived(node: Node, seconds: number): Promise<void> {
  for (const end = Date.now() + PATIENCE_MS; ; await setTimeout(200)) {
    const newest = await value(node.url, 'min(max by (job) (timestamp(up)))').catch((error: Error) => assert.fail(`${error.message}\n${node.output()}`))
    if (newest > seconds) return
    assert.ok(Date.now() < end, `the newest sample is of ${newest}, not after ${seconds}:\n${node.output()}`)
  }
}

async function sameAnswers(urls: readonly [string, string], questions: Question[]): Promise<string[]> {
  const found: string[] = []
  for (const question of questions) {
    const [a, b]: Answer[] = await Promise.all(urls.map((url) => ask(url, question)))
    const what = difference(question.query, a, b, true)
    if (what !== undefined) found.push(`${question.query}\n  ${what}`)
    if (question.query.startsWith('absent')) continue
    const results = (a.data?.result ?? []) as unknown[]
    if (results.length === 0) found.push(`${question.query} finds nothing: ${a.error}`)
  }
  return found
}

for (const version of ['1.0', '2.0'] as const) {
  test(`remote write ${version} of a scraping Prometheus, dashboard queries, remote read`, { skip }, async (t) => {
    // The sender goes first: it would wait for what it cannot send any more.
    const running: { stop(): Promise<unknown> }[] = []
    t.after(async () => {
      for (const one of running) await one.stop()
    })
    const exporter = await startExporter()
    running.unshift(exporter)
    const node = await startNode({ plugins: ['remote_write', 'promql'], sections: '[remote_write]\nexemplars_written = "accepted"\n' })
    running.unshift(node)
    const prometheus = await startPrometheus(sections(exporter, node, version))
    running.unshift(prometheus)
    await setTimeout(SECONDS * 1000)
    const time = Math.floor(Date.now() / 1000)
    await arrived(node, time)

    const questions = (query: string): Question[] => [
      { query, time },
      { query, start: time - SECONDS + 5, end: time, step: 3 },
    ]
    const all = DASHBOARD.flatMap(questions)
    await t.test('nothing is lost, refused or sent again', async () => {
      const total = (what: string) => value(prometheus.url, `sum({__name__=~"prometheus_remote_storage_(samples|histograms|metadata)_${what}_total"})`)
      assert.ok((await total('')) !== 0)
      for (const what of ['failed', 'dropped', 'retried']) assert.equal((await total(what)) || 0, 0, `${what}:\n${prometheus.output()}\n${node.output()}`)
      assert.doesNotMatch(prometheus.output(), /level=ERROR|non-recoverable/i)
    })
    await t.test(`${DASHBOARD.length} queries, at a time and over a range`, async () => {
      assert.deepEqual(await sameAnswers([prometheus.url, node.url], all), [])
    })
    await t.test('through the remote read of another Prometheus', async (t) => {
      const reader = await startPrometheus(`remote_read:\n  - url: ${node.url}/api/v1/prom/read\n    read_recent: true\n`)
      t.after(() => reader.stop())
      assert.deepEqual(await sameAnswers([prometheus.url, reader.url], all), [])
    })
    await t.test('metadata', async () => {
      const of = async (url: string) => ((await (await fetch(`${url}/api/v1/metadata?metric=node_cpu_seconds_total`)).json()) as { data: unknown }).data
      const own = await of(prometheus.url)
      assert.notDeepEqual(own, {})
      assert.deepEqual(await of(node.url), own)
    })
  })
}
