/** What a Metric message says beside its points, and what it is called here. Pure. */
import type { MetricMetadataEntry } from 'svcdb'
import { prometheusName, prometheusUnit } from './names.ts'

/** Numbers of the Metric's fields that hold points. */
export const GAUGE = 5
export const SUM = 7
export const HISTOGRAM = 9
export const EXPONENTIAL = 10
export const SUMMARY = 11

export const DELTA = 1

export interface MetricHeader {
  /** The field that its points came in. */
  data: number
  name: string
  description: string
  unit: string
  delta: boolean
  /** A sum that only rises. */
  monotonic: boolean
}

export function isPoints(field: number): boolean {
  return field === GAUGE || field === SUM || field === HISTOGRAM || field === EXPONENTIAL || field === SUMMARY
}

export function metricName({ data, name, unit, monotonic }: MetricHeader, prometheus: boolean): string {
  if (!prometheus) return name
  return prometheusName({ name, unit, counter: data === SUM && monotonic, gauge: data === GAUGE })
}

/** @param measurement where the points go. @returns metadata of the metric as PromQL calls it. */
export function metadataOf(header: MetricHeader, measurement: string, prometheus: boolean): MetricMetadataEntry {
  const { data, description, unit } = header
  return {
    metric: data === GAUGE && !prometheus ? `${measurement}_gauge` : measurement,
    type: typeOf(header),
    help: description,
    unit: prometheus ? prometheusUnit(unit) : unit,
  }
}

/** In the words of OpenMetrics. A delta is no counter: its rate is not what `rate` says. */
function typeOf({ data, delta, monotonic }: MetricHeader): string {
  switch (data) {
    case SUM:
      return monotonic && !delta ? 'counter' : 'gauge'
    case HISTOGRAM:
    case EXPONENTIAL:
      return delta ? 'gaugehistogram' : 'histogram'
    case SUMMARY:
      return 'summary'
    default:
      return 'gauge'
  }
}
