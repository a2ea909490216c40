/** Native histograms under their classic names, over HTTP. */
import { boot } from 'svcdb/testkit'
import t from 'tap'

const BASE = 1_700_000_000
const BOUNDS = [1, 2, 4]

t.test('the newest samples of buckets beside a staleness marker', async (t) => {
  const node = await boot({ plugins: ['otlp', 'promql'], storage: 'embedded' })
  t.teardown(() => node.stop())
  /** A histogram with these counts, or where there are none a marker. */
  const write = async (time: number, host: string, counts?: number[]): Promise<void> => {
    const value =
      counts === undefined
        ? { flags: 1 }
        : {
            count: String(counts.reduce((sum, one) => sum + one, 0)),
            sum: 1,
            bucketCounts: counts.map(String),
            explicitBounds: BOUNDS.slice(0, counts.length - 1),
          }
    const attributes = [{ key: 'host', value: { stringValue: host } }]
    const metrics = [{ name: 'h', histogram: { aggregationTemporality: 2, dataPoints: [{ timeUnixNano: `${BASE + time}000000000`, attributes, ...value }] } }]
    const payload = { resourceMetrics: [{ scopeMetrics: [{ metrics }] }] }
    const { statusCode, body } = await node.inject({ method: 'POST', url: '/v1/metrics', payload })
    if (statusCode >= 300) throw new Error(body)
  }
  const ask = async (query: string): Promise<string[]> => {
    const { json } = await node.inject(`/api/v1/query?query=${encodeURIComponent(query)}&time=${BASE + 60}`)
    const { data } = json() as { data: { result: { metric: Record<string, string>; value: [number, string] }[] } }
    return data.result.map(({ metric, value }) => `${metric.host} ${metric.le} ${value[1]}`).sort()
  }
  await write(0, 'a', [7, 7, 7, 7])
  await write(15, 'a', [1, 1, 1, 1])
  await write(0, 'b', [1, 2, 3, 4])
  await write(15, 'b', [2, 3, 4, 5])
  await write(30, 'b')
  await write(15, 'c', [5, 0, 0, 1])
  const series = ['a +Inf', 'a 1.0', 'a 2.0', 'a 4.0', 'b +Inf', 'b 1.0', 'b 2.0', 'b 4.0', 'c +Inf', 'c 1.0', 'c 2.0', 'c 4.0']
  const values = (list: readonly number[]): string[] => series.map((one, i) => `${one} ${list[i]}`)
  t.same(await ask('last_over_time(h_bucket[5m])'), values([4, 1, 2, 3, 14, 2, 5, 9, 6, 5, 5, 5]))
  t.same(await ask('present_over_time(h_bucket[5m])'), values(series.map(() => 1)))
  t.same(await ask('ts_of_last_over_time(h_bucket[5m])'), values(series.map(() => BASE + 15)))
  t.same(await ask('last_over_time(h_bucket{host="b"}[5m]) / on (host, le) max_over_time(h_bucket[5m])'), ['b +Inf 1', 'b 1.0 1', 'b 2.0 1', 'b 4.0 1'])
})
