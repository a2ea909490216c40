import type { Counter, Metrics } from 'svcdb'

export interface OtlpMetrics {
  written: Counter
  skipped: Counter
  rejected: Counter
  exemplars: Counter
}

export function otlpMetrics(metrics: Metrics): OtlpMetrics {
  return {
    written: metrics.counter('otlp_points_written_total', 'Data points written by OTLP'),
    skipped: metrics.counter('otlp_points_skipped_total', 'Gauge and sum points of OTLP that were taken and not stored: their value is NaN or infinite'),
    rejected: metrics.counter('otlp_points_rejected_total', 'Data points of OTLP that were refused for good'),
    exemplars: metrics.counter('otlp_exemplars_dropped_total', 'Exemplars received by OTLP that are not kept'),
  }
}
