import type { Counter, Metrics } from 'svcdb'

export interface ExportMetrics {
  exports: Counter
  rows: Counter
  bytes: Counter
  truncated: Counter
}

export function exportMetrics(metrics: Metrics, running: () => number): ExportMetrics {
  metrics.gauge('exports_running', 'Exports under way', [], (gauge) => gauge.set(running()))
  return {
    exports: metrics.counter('exports_total', 'Exports that ended: done, failed or cancelled', ['result']),
    rows: metrics.counter('export_rows_total', 'Rows written to export files'),
    bytes: metrics.counter('export_bytes_total', 'Bytes of export files written'),
    truncated: metrics.counter('exports_truncated_total', 'Exports cut by export.max_bytes'),
  }
}
