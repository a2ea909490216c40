/** A request of OTLP, as JSON. */
const NO_RECORDED_VALUE = 1
const CUMULATIVE = 2

const attributes = (values: Record<string, string>) => Object.entries(values).map(([key, stringValue]) => ({ key, value: { stringValue } }))

/** One metric of each kind. @param ended the gauge has no value any more. */
export function metrics(ms: number, ended: boolean): unknown {
  const at = { startTimeUnixNano: `${ms - 60_000}000000`, timeUnixNano: `${ms}000000`, attributes: attributes({ room: 'a b' }) }
  const list = [
    {
      name: 'test.temperature',
      unit: 'Cel',
      description: 'How warm it is',
      gauge: { dataPoints: [ended ? { ...at, flags: NO_RECORDED_VALUE } : { ...at, asDouble: 21.5 }] },
    },
    {
      name: 'test.requests',
      unit: '1',
      sum: { aggregationTemporality: CUMULATIVE, isMonotonic: true, dataPoints: [{ ...at, asInt: '42' }] },
    },
    {
      name: 'test.duration',
      unit: 's',
      histogram: {
        aggregationTemporality: CUMULATIVE,
        dataPoints: [{ ...at, count: '6', sum: 7.5, bucketCounts: ['1', '2', '3'], explicitBounds: [1, 2] }],
      },
    },
    {
      name: 'test.size',
      unit: 'By',
      exponentialHistogram: {
        aggregationTemporality: CUMULATIVE,
        dataPoints: [{ ...at, count: '9', sum: 30, scale: 0, zeroCount: '2', positive: { offset: 0, bucketCounts: ['3', '4'] }, negative: {} }],
      },
    },
    {
      name: 'test.latency',
      unit: 's',
      summary: { dataPoints: [{ ...at, count: '5', sum: 2.5, quantileValues: [{ quantile: 0.5, value: 0.25 }] }] },
    },
  ]
  const resource = { attributes: attributes({ 'service.name': 'shop', 'service.instance.id': 'one', region: 'north' }) }
  return { resourceMetrics: [{ resource, scopeMetrics: [{ metrics: list }] }] }
}

/** What PromQL gives for it: with names as they are, and in the form of Prometheus. */
export const EXPECTED = {
  otel: {
    '{"test.temperature_gauge",room="a b","service.name"="shop",region="north"}': 21.5,
    '{"test.requests"}': 42,
    'histogram_count({"test.duration"})': 6,
    'histogram_sum({"test.duration"})': 7.5,
    'histogram_fraction(1, 2, {"test.duration"}) * 6': 2,
    'histogram_count({"test.size"})': 9,
    'histogram_sum({"test.size"})': 30,
    'histogram_fraction(1, 2, {"test.size"}) * 9': 3,
    '{"test.latency_quantile_0.5"}': 0.25,
    '{"test.latency_count"}': 5,
    '{"test.latency_sum"}': 2.5,
  },
  prometheus: {
    'test_temperature_celsius{room="a b",job="shop",instance="one",region="north"}': 21.5,
    test_requests_total: 42,
    'histogram_count(test_duration_seconds)': 6,
    'histogram_sum(test_duration_seconds)': 7.5,
    'histogram_fraction(1, 2, test_duration_seconds) * 6': 2,
    'histogram_count(test_size_bytes)': 9,
    'histogram_sum(test_size_bytes)': 30,
    test_latency_seconds_count: 5,
    test_latency_seconds_sum: 2.5,
  },
}
