import type { Counter, Metrics } from 'svcdb'

export interface CatalogMetrics {
  entries: Counter
  lost: Counter
  queryTokens: Counter
}

/** @param depth entries of the audit log that are not written yet. */
export function catalogMetrics(metrics: Metrics, depth: () => number): CatalogMetrics {
  metrics.gauge('catalog_audit_queue_entries', "Entries of the catalog's audit log that are not written yet", [], (gauge) => gauge.set(depth()))
  return {
    entries: metrics.counter('catalog_audit_entries_total', "Entries given to the catalog's audit log, by event", ['event']),
    lost: metrics.counter('catalog_audit_lost_total', "Entries of the catalog's audit log that were not written: write_failed, queue_full or closed", [
      'reason',
    ]),
    queryTokens: metrics.counter('catalog_query_tokens_total', 'Calls to the catalog whose token was in the URL'),
  }
}
