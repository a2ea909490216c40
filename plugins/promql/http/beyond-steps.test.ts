/** Panels of which a step follows from more than the samples before it are evaluated as a whole. */
import { boot } from 'svcdb/testkit'
import t from 'tap'

const BASE = 1_700_000_000

async function started() {
  const node = await boot({ plugins: ['line_protocol', 'otlp', 'promql'], storage: 'embedded' })
  const sent = async (url: string, payload: unknown): Promise<void> => {
    const headers = typeof payload === 'string' ? {} : { 'content-type': 'application/json' }
    const { statusCode, body } = await node.inject({ method: 'POST', url, headers, payload: payload as object })
    if (statusCode >= 300) throw new Error(body)
  }
  let asked = 0
  const ask = async (query: string, start: number, end: number): Promise<unknown> =>
    JSON.parse((await node.inject(`/api/v1/query_range?query=${encodeURIComponent(query)}&start=${BASE + start}&end=${BASE + end}&step=15`)).body)
  return {
    node,
    line: (line: string, time: number) => sent('/write?precision=s&backfill=true', `${line} ${BASE + time}`),
    /** A histogram with a bucket for each boundary and what is above. */
    histogram: (time: number, host: string, bounds: number[]) => {
      const bucketCounts = [...bounds, 0].map((_, i) => String(i + 1))
      const count = String(bucketCounts.reduce((sum, one) => sum + Number(one), 0))
      const attributes = [{ key: 'host', value: { stringValue: host } }]
      const point = { timeUnixNano: `${BASE + time}000000000`, attributes, count, sum: 1, bucketCounts, explicitBounds: bounds }
      const metrics = [{ name: 'h', histogram: { aggregationTemporality: 2, dataPoints: [point] } }]
      return sent('/v1/metrics', { resourceMetrics: [{ scopeMetrics: [{ metrics }] }] })
    },
    ask,
    /** In words that nobody has used. */
    afresh: (query: string, start: number, end: number) => ask(`${query} # ${++asked}`, start, end),
  }
}

t.test('boundaries of later histograms are those of earlier ones, too', async (t) => {
  const { node, histogram, ask, afresh } = await started()
  t.teardown(() => node.stop())
  for (let time = 0; time <= 300; time += 15) await histogram(time, 'a', [1, 2])
  for (const query of ['h_bucket', 'sum by (le) (h_bucket)', 'count(rate(h_bucket[1m]))']) for (let i = 0; i < 2; i++) await ask(query, 60, 300 - 15 * i)
  await histogram(315, 'a', [1, 2, 4])
  for (const query of ['h_bucket', 'sum by (le) (h_bucket)', 'count(rate(h_bucket[1m]))'])
    t.same(await ask(query, 75, 315), await afresh(query, 75, 315), query)
})

t.test('what else gets the name takes it at all times', async (t) => {
  const { node, histogram, line, ask, afresh } = await started()
  t.teardown(() => node.stop())
  for (let time = 0; time <= 300; time += 15) await histogram(time, 'a', [1, 2])
  for (const query of ['h_count', 'rate(h_sum[1m])']) for (let i = 0; i < 2; i++) await ask(query, 60, 300 - 15 * i)
  await line('h count=1,sum=2', 315)
  for (const query of ['h_count', 'rate(h_sum[1m])']) t.same(await ask(query, 75, 315), await afresh(query, 75, 315), query)
})

t.test('the name of a series of both sides of "or" is that of its first step', async (t) => {
  const { node, line, ask, afresh } = await started()
  t.teardown(() => node.stop())
  const query = 'm > 500 or m * 0'
  for (let time = 0; time <= 300; time += 15) await line(`m value=${time < 80 ? 900 : 100}`, time)
  for (let i = 0; i < 2; i++) await ask(query, 60, 285 + 15 * i)
  await line('m value=901', 315)
  t.same(await ask(query, 75, 315), await afresh(query, 75, 315))
  t.same(await ask(query, 90, 315), await afresh(query, 90, 315))
})
