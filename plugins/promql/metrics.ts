import type { Counter, Histogram, Metrics } from 'svcdb'

export interface PromqlMetrics {
  seconds: Histogram
  failures: Counter
  truncated: Counter
}

export function promqlMetrics(metrics: Metrics): PromqlMetrics {
  return {
    seconds: metrics.histogram('promql_request_duration_seconds', 'Time until the first bytes of an answer were ready, by endpoint', ['endpoint']),
    failures: metrics.counter('promql_request_errors_total', "Requests that were answered with an error, by the error's type", ['type']),
    truncated: metrics.counter('promql_results_truncated_total', 'Answers cut at a limit of series, names or values'),
  }
}
