/** A Prometheus that scrapes /federate: it has the same series with the same times, whatever characters their names are of. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { lookUntil } from '../support/until.ts'
import { startNode } from './node.ts'
import { noPrometheus, startPrometheus } from './prometheus.ts'
import { ask } from './promql/compare.ts'
import { ownMetric } from './service.ts'

const LINES = [
  'up,job=a,instance=x value=1',
  'cpu,host=a\\ b load=95.25,idle=4i',
  'http.requests,service.name=api,path=a"b\\\\c value=1e21',
  '9lives,0k=v,größe=1 value=-0.5',
  'labelled,job=mine,namn=å value=7',
  'other value=1',
]
/** What is asked for, and how many series that is: all but one. */
const MATCH = ['{job=~"a|mine"}', 'cpu_load', 'cpu_idle', '{"http.requests"}', '{__name__=~"9.*"}']
const SERIES = 6

interface Series {
  metric: Record<string, string>
  values: [number, string][]
}

/** Samples as they are stored, by the value. */
async function samples(url: string, query: string): Promise<Series[]> {
  const { data, error } = await ask(url, { query, time: Date.now() / 1000 })
  assert.equal(error, undefined)
  return ((data?.result ?? []) as Series[]).sort((a, b) => Number(a.values[0]?.[1]) - Number(b.values[0]?.[1]))
}

test('a Prometheus that scrapes /federate has the samples with their times', { skip: noPrometheus }, async (t) => {
  const node = await startNode({ plugins: ['line_protocol', 'promql'] })
  t.after(() => node.stop())
  const time = Date.now() - 60_000
  const body = LINES.map((line, i) => `${line} ${time + i}`).join('\n')
  assert.equal((await fetch(`${node.url}/write?precision=ms`, { method: 'POST', body })).status, 204)
  const { host } = new URL(node.url)
  const scrape = {
    job_name: 'svc',
    honor_labels: true,
    metrics_path: '/federate',
    params: { 'match[]': MATCH },
    static_configs: [{ targets: [host] }],
  }
  const prometheus = await startPrometheus(`scrape_configs: ${JSON.stringify([scrape])}\n`)
  t.after(() => prometheus.stop())

  // What Prometheus scrapes of its own accord, such as `up`, has the instance.
  const query = `{__name__=~".+",__name__!="other",instance!="${host}"}[5m]`
  const [expected, there] = [
    await samples(node.url, query),
    await lookUntil(
      () => samples(prometheus.url, query),
      (found) => found.length >= SERIES,
    ),
  ]
  // Of the scrape is the job that a series does not have.
  assert.deepEqual(
    there,
    expected.map(({ metric, values }) => ({ metric: { job: 'svc', ...metric }, values })),
    prometheus.output(),
  )
  assert.equal(await ownMetric(prometheus.url, 'prometheus_target_scrapes_sample_out_of_(?:order|bounds)_total'), 0)
  assert.doesNotMatch(prometheus.output(), /level=(?:WARN|ERROR).*scrape/)
})
