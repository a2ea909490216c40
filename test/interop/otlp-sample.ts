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
