import type { Counter, Metrics } from 'svcdb'

export interface ApiMetrics {
  refused: Counter
  closed: Counter
  answers: Counter
}

export function apiMetrics(metrics: Metrics): ApiMetrics {
  return {
    refused: metrics.counter('operator_api_connections_refused_total', 'Connections that were closed at once, beyond server.max_connections', []),
    closed: metrics.counter(
      'operator_api_idle_connections_closed_total',
      'Connections without a request under way that were closed to make room for others',
      [],
    ),
    answers: metrics.counter('operator_api_answers_total', 'Answers by operation and status; the operation is empty for paths that there are not', [
      'operation',
      'status',
    ]),
  }
}
