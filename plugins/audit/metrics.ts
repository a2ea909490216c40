import type { Counter, Metrics } from 'svcdb'

export interface AuditMetrics {
  entries: Counter
  bytes: Counter
  failures: Counter
  counted: Counter
  changes: Counter
}

export function auditMetrics(metrics: Metrics, state: { depth(): number; size(): number }): AuditMetrics {
  metrics.gauge('audit_queue_depth', 'Audit entries that wait for the disk', [], (gauge) => gauge.set(state.depth()))
  metrics.gauge('audit_file_bytes', 'Size of the audit log', [], (gauge) => gauge.set(state.size()))
  return {
    entries: metrics.counter('audit_entries_total', 'Audit entries kept, by what was decided', ['decision']),
    bytes: metrics.counter('audit_bytes_total', 'Bytes of audit entries written'),
    failures: metrics.counter('audit_failures_total', 'Audit entries that could not be kept', ['code']),
    counted: metrics.counter('audit_counted_denials_total', 'Refusals that are in the audit log as a count only'),
    changes: metrics.counter('audit_trail_events_total', 'What happened to the file of the audit log: cut, damaged, changed or replaced', ['event']),
  }
}
