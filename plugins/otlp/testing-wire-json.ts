/** For tests: the request of `testing-wire.ts` as OTLP/JSON. */
import type { WireAttributes, WireExponential, WireHistogram, WireMetric, WireNumber, WirePoint, WireResource, WireSummary, WireValue } from './testing-wire.ts'
import { exemplarsOf } from './testing-wire.ts'

type Json = Record<string, unknown>

function anyValueOf(value: WireValue): Json {
  if (value === null) return {}
  if (typeof value === 'string') return { stringValue: value }
  if (typeof value === 'boolean') return { boolValue: value }
  if (typeof value === 'bigint') return { intValue: String(value) }
  if (typeof value === 'number') return { doubleValue: double(value) }
  if (value instanceof Uint8Array) return { bytesValue: Buffer.from(value).toString('base64') }
  if (Array.isArray(value)) return { arrayValue: { values: value.map(anyValueOf) } }
  return { kvlistValue: { values: [...value].map(([key, item]) => ({ key, value: anyValueOf(item) })) } }
}

/** What JSON, or its writer, has no numbers for is text. */
const double = (value: number): unknown => (Object.is(value, -0) ? '-0' : Number.isFinite(value) ? value : String(value))
const attributesOf = (attributes: WireAttributes = {}): Json[] => Object.entries(attributes).map(([key, value]) => ({ key, value: anyValueOf(value) }))

function common({ attributes, start, time, flags, exemplars }: WirePoint): Json {
  return {
    attributes: attributesOf(attributes),
    startTimeUnixNano: start === undefined ? undefined : String(start),
    timeUnixNano: String(time),
    flags,
    exemplars: exemplarsOf(exemplars).map((one) => ({
      timeUnixNano: String(one.time),
      ...(typeof one.value === 'bigint' ? { asInt: String(one.value) } : { asDouble: double(one.value) }),
      traceId: one.traceId,
      spanId: one.spanId,
      filteredAttributes: attributesOf(one.attributes),
    })),
  }
}

const numberPoint = (point: WireNumber): Json => ({
  ...common(point),
  ...(typeof point.value === 'number' ? { asDouble: double(point.value) } : typeof point.value === 'bigint' ? { asInt: String(point.value) } : {}),
})
const histogramPoint = (point: WireHistogram): Json => ({
  ...common(point),
  count: String(point.count ?? 0n),
  sum: point.sum === undefined ? undefined : double(point.sum),
  bucketCounts: point.counts?.map(String),
  explicitBounds: point.bounds?.map(double),
  min: point.min,
  max: point.max,
})
const side = (given: { offset: number; counts: bigint[] } | undefined): Json | undefined =>
  given === undefined ? undefined : { offset: given.offset, bucketCounts: given.counts.map(String) }
const exponentialPoint = (point: WireExponential): Json => ({
  ...common(point),
  count: String(point.count ?? 0n),
  sum: point.sum === undefined ? undefined : double(point.sum),
  scale: point.scale,
  zeroCount: String(point.zeroCount ?? 0n),
  zeroThreshold: point.zeroThreshold,
  positive: side(point.positive),
  negative: side(point.negative),
})
const summaryPoint = (point: WireSummary): Json => ({
  ...common(point),
  count: String(point.count ?? 0n),
  sum: double(point.sum ?? 0),
  quantileValues: point.quantiles?.map(([quantile, value]) => ({ quantile: double(quantile), value: double(value) })),
})

function metricJson({ name, description, unit, temporality: aggregationTemporality, monotonic: isMonotonic, ...kinds }: WireMetric): Json {
  const { gauge, sum, histogram, exponential, summary } = kinds
  return {
    name,
    description,
    unit,
    gauge: gauge && { dataPoints: gauge.map(numberPoint) },
    sum: sum && { dataPoints: sum.map(numberPoint), aggregationTemporality, isMonotonic },
    histogram: histogram && { dataPoints: histogram.map(histogramPoint), aggregationTemporality },
    exponentialHistogram: exponential && { dataPoints: exponential.map(exponentialPoint), aggregationTemporality },
    summary: summary && { dataPoints: summary.map(summaryPoint) },
  }
}

export function requestJson(resources: readonly WireResource[]): Json {
  return {
    resourceMetrics: resources.map(({ attributes, scopes }) => ({
      resource: attributes === undefined ? undefined : { attributes: attributesOf(attributes) },
      scopeMetrics: scopes.map(({ name, version, metrics }) => ({
        scope: name === undefined ? undefined : { name, version },
        metrics: metrics.map(metricJson),
      })),
    })),
  }
}
