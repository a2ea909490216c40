/** Many regular expressions of one selector: nothing else runs on their thread until the last one is done, so that together they have the time of one. */
import { boot, type TestNode } from 'svcdb/testkit'
import t from 'tap'

const START = 1_700_000_000
/** Each takes some ten milliseconds, for it goes back and tries again. */
const many = (label: string, before: string, item: string, kind: string): string =>
  Array.from({ length: 300 }, (_, i) => `${label}!~"${before}(${item}+${item}*)+[^${kind}${String.fromCodePoint(0x4e00 + i)}]"`).join(',')

const ask = (node: TestNode, query: string) =>
  node.inject({
    method: 'POST',
    url: '/api/v1/query',
    headers: { 'content-type': 'application/x-www-form-urlencoded' },
    payload: `query=${encodeURIComponent(query)}&time=${START + 10}`,
  })

t.test('regular expressions of one selector have the time of one', async (t) => {
  // Without a time limit of queries: what ends them is their own.
  const node = await boot({ plugins: ['line_protocol', 'otlp', 'promql'], config: { server: { prom_query_timeout_secs: 0 } }, storage: 'embedded' })
  t.teardown(() => node.stop())
  const point = {
    timeUnixNano: `${START}000000000`,
    startTimeUnixNano: `${START - 100}000000000`,
    count: 3,
    sum: 1,
    bucketCounts: [1, 2],
    explicitBounds: [0.1111111111111111],
  }
  const body = { resourceMetrics: [{ scopeMetrics: [{ metrics: [{ name: 'h', histogram: { aggregationTemporality: 2, dataPoints: [point] } }] }] }] }
  const sent = await node.inject({ method: 'POST', url: '/v1/metrics', headers: { 'content-type': 'application/json' }, payload: JSON.stringify(body) })
  t.ok(sent.statusCode < 300, sent.body)
  const lines = `m${'n'.repeat(16)},a=x value=1 ${START}000000000`
  const written = await node.inject({ method: 'POST', url: '/write', headers: { 'content-type': 'text/plain' }, payload: lines })
  t.equal(written.statusCode, 204)
  for (const query of [`{${many('__name__', 'm', 'n', 'a-z')},a="x"}`, `h_bucket{${many('le', '0.', '\\\\d', '0-9')}}`]) {
    const answer = await ask(node, query)
    t.equal(answer.statusCode, 400, query.slice(0, 40))
    t.match(answer.json().error, /^cannot evaluate \d+ regular expressions on "(__name__|le)": together they take too long; write one in place of several$/)
  }
  const few = await ask(node, '{__name__=~"m.*",__name__!~"x.*y.*"}')
  t.equal(few.json().data.result.length, 1)
  const bounds = await ask(node, 'h_bucket{le=~".*1.*",le!~"2.*3.*"}')
  t.equal(bounds.json().data.result.length, 1)
})
