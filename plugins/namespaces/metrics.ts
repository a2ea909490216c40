import type { Counter, Metrics } from 'svcdb'

const QUOTAS = ['series', 'measurements', 'storage', 'ingestion_rate', 'namespaces'] as const

/** No metric has a label for the namespace: there may be very many. */
export function namespacesMetrics(metrics: Metrics, count: () => number): { refusals: Counter } {
  metrics.gauge('namespaces', 'Namespaces there are', [], (gauge) => gauge.set(count()))
  const refusals = metrics.counter(
    'namespace_quota_refusals_total',
    'Refusals because a quota is used up: rows that would begin a series or measurement, writes for storage and ingestion_rate, new namespaces',
    ['quota'],
  )
  for (const quota of QUOTAS) refusals.inc({ quota }, 0)
  return { refusals }
}
