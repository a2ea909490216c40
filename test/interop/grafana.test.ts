/**
 * The requests of Grafana's Prometheus data source: save and test, the query editor, the metrics browser, panels. Where there is a Prometheus
 * with the same data, answers have to be the same.
 */
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { seeded } from '../../kernel/lib/random/index.ts'
import { startNode } from './node.ts'
import { noPrometheus, startPrometheus } from './prometheus.ts'
import { INTERVAL_MS, randomData, SAMPLES } from './promql/data.ts'
import { remoteWrite } from './promql/samples.ts'

const START = Date.UTC(2024, 5, 1) / 1000
const END = START + (SAMPLES * INTERVAL_MS) / 1000
const WINDOW = `start=${START}&end=${END}`
const FORM = { 'content-type': 'application/x-www-form-urlencoded' }

const node = await startNode({ plugins: ['remote_write', 'promql'] })
const prometheus = noPrometheus === false ? await startPrometheus() : undefined
after(async () => {
  await prometheus?.stop()
  await node.stop()
})
const series = randomData(seeded(11), START * 1000)
await remoteWrite(`${node.url}/api/v1/prom/write?backfill=true`, series)
if (prometheus !== undefined) await remoteWrite(`${prometheus.url}/api/v1/write`, series)

interface Call {
  what: string
  method: 'GET' | 'POST'
  path: string
  body?: string
  status?: number
  /** Which content it has is the server's own: only the shape of the envelope counts. */
  own?: true
  /** The order is free. */
  unordered?: true
}

const CALLS: Call[] = [
  { what: 'save and test: the query', method: 'POST', path: '/query', body: `query=1%2B1&time=${END}` },
  { what: 'save and test: the query, GET', method: 'GET', path: `/query?query=1%2B1&time=${END}` },
  { what: 'save and test: build information', method: 'GET', path: '/status/buildinfo', own: true },
  { what: 'label names', method: 'POST', path: '/labels', body: WINDOW },
  { what: 'label names of a metric', method: 'GET', path: `/labels?${WINDOW}&match[]=${encodeURIComponent('requests_total{job="api"}')}` },
  { what: 'label names, limited', method: 'GET', path: `/labels?${WINDOW}&limit=2` },
  { what: 'metric names', method: 'GET', path: `/label/__name__/values?${WINDOW}` },
  { what: 'metric names, limited', method: 'GET', path: `/label/__name__/values?${WINDOW}&limit=3`, own: true },
  { what: 'label values', method: 'GET', path: `/label/zone/values?${WINDOW}&match[]=${encodeURIComponent('temperature')}` },
  { what: 'values of a name that is escaped', method: 'GET', path: `/label/U__job/values?${WINDOW}` },
  { what: 'values of a name that no series has', method: 'GET', path: `/label/nothing/values?${WINDOW}` },
  { what: 'series', method: 'POST', path: '/series', body: `${WINDOW}&match%5B%5D=${encodeURIComponent('requests_total{code="500"}')}`, unordered: true },
  { what: 'series without a matcher', method: 'POST', path: '/series', body: WINDOW, status: 400 },
  { what: 'series of a selector that is wrong', method: 'GET', path: `/series?match[]=${encodeURIComponent('a{')}`, status: 400 },
  { what: 'metadata', method: 'GET', path: '/metadata?limit_per_metric=1', own: true },
  { what: 'rules', method: 'GET', path: '/rules' },
  { what: 'alerts', method: 'GET', path: '/alerts' },
  { what: 'exemplars', method: 'POST', path: '/query_exemplars', body: `query=requests_total&${WINDOW}` },
  {
    what: 'a query, well laid out',
    method: 'POST',
    path: '/format_query',
    body: `query=${encodeURIComponent('sum by(job)(rate(requests_total{code="200"}[5m]))/3')}`,
  },
  {
    what: 'the tree of a query',
    method: 'POST',
    path: '/parse_query',
    body: `query=${encodeURIComponent('sum by(job)(rate(requests_total{code="200"}[5m] offset 1m)) > bool 3')}`,
  },
  {
    what: 'a panel',
    method: 'POST',
    path: '/query_range',
    body: `query=${encodeURIComponent('sum by (job) (rate(requests_total[1m]))')}&${WINDOW}&step=15`,
    unordered: true,
  },
  { what: 'a panel, GET', method: 'GET', path: `/query_range?query=requests_total&${WINDOW}&step=1m`, unordered: true },
  { what: 'an instant panel', method: 'POST', path: '/query', body: `query=humidity&time=${END - 900}&timeout=30s&stats=all&lookback_delta=1m`, own: true },
  {
    what: 'a panel whose query is wrong',
    method: 'POST',
    path: '/query_range',
    body: `query=${encodeURIComponent('rate(requests_total)')}&${WINDOW}&step=15`,
    status: 400,
  },
  { what: 'a panel without a step', method: 'POST', path: '/query_range', body: `query=up&${WINDOW}`, status: 400 },
  { what: 'a panel that ends before it starts', method: 'POST', path: '/query_range', body: `query=up&start=${END}&end=${START}&step=15`, status: 400 },
  { what: 'a panel of too many steps', method: 'POST', path: '/query_range', body: `query=up&start=0&end=${END}&step=1`, status: 400 },
  { what: 'a time that is none', method: 'POST', path: '/query', body: 'query=up&time=noon', status: 400 },
  {
    what: 'a query that fails',
    method: 'POST',
    path: '/query',
    body: `query=${encodeURIComponent('label_replace(temperature, "instance", "x", "", "")')}&time=${END - 900}`,
    status: 422,
  },
]

interface Envelope {
  status: 'success' | 'error'
  data?: unknown
  errorType?: string
  error?: string
  /** Of the server's own: its code of the error. */
  code?: string
}

async function call(url: string, { method, path, body }: Call): Promise<{ status: number; type: string | null; body: Envelope }> {
  const answer = await fetch(`${url}/api/v1${path}`, method === 'POST' ? { method, headers: FORM, body } : {})
  return { status: answer.status, type: answer.headers.get('content-type'), body: (await answer.json()) as Envelope }
}

/** With lists of series and results in an order of their own. */
const ordered = (value: unknown): unknown => {
  if (Array.isArray(value)) return value.map((one) => JSON.stringify(one)).sort()
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, name === 'result' || name === 'data' ? ordered(inner) : inner]))
}

for (const one of CALLS) {
  test(`Grafana: ${one.what}`, async () => {
    const answer = await call(node.url, one)
    assert.equal(answer.status, one.status ?? 200, JSON.stringify(answer.body))
    assert.match(answer.type ?? '', /^application\/json/)
    assert.equal(answer.body.status, one.status === undefined ? 'success' : 'error')
    if (one.status !== undefined) {
      assert.ok(answer.body.errorType !== undefined && answer.body.error !== undefined)
      assert.match(answer.body.code ?? '', /^[A-Z_]+$/)
      delete answer.body.code
    }
    if (prometheus === undefined || one.own) return
    const expected = await call(prometheus.url, one)
    if (one.unordered) assert.deepEqual(ordered(answer.body), ordered(expected.body))
    else assert.deepEqual(answer.body, expected.body)
    assert.equal(answer.status, expected.status)
  })
}

test('Grafana: the version is that of a Prometheus, without features of another server', async () => {
  const { body } = await call(node.url, { what: '', method: 'GET', path: '/status/buildinfo' })
  const { version, features } = body.data as { version: string; features?: object }
  assert.match(version, /^3\.\d+\.\d+/)
  assert.equal(features, undefined)
})

test('what the language can do is told as by Prometheus', async () => {
  const asked: Call = { what: '', method: 'GET', path: '/features' }
  const features = (await call(node.url, asked)).body.data as Record<string, object>
  const expected = prometheus === undefined ? undefined : ((await call(prometheus.url, asked)).body.data as Record<string, object>)
  for (const category of ['promql', 'promql_functions', 'promql_operators']) {
    assert.ok(Object.keys(features[category]).length > 10)
    if (expected !== undefined) assert.deepEqual(features[category], expected[category])
  }
})

test('Grafana: alerting learns that there are no rules to edit, which it asks of every data source that has flags', async () => {
  const answer = await fetch(`${node.url}/rules/test/test?subtype=prometheus`)
  assert.equal(answer.status, 404)
  // A field "message" would be all that it looks at.
  const text = await answer.text()
  assert.match(text, /page not found/)
  assert.equal('message' in JSON.parse(text), false)
})

test('Grafana: a path of another server is answered by 404', async () => {
  for (const path of ['/api/v1/nothing', '/api/v1/prom/nothing']) {
    const answer = await fetch(node.url + path)
    assert.equal(answer.status, 404)
    assert.match(answer.headers.get('content-type') ?? '', /json/)
    await answer.arrayBuffer()
  }
})
