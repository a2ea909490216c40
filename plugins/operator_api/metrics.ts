import type { Counter, Metrics } from 'svcdb'

export interface ApiMetrics {
  answers: Counter
}

export function apiMetrics(metrics: Metrics): ApiMetrics {
  return {
    answers: metrics.counter('operator_api_answers_total', 'Answers by operation and status; the operation is empty for paths that there are not', [
      'operation',
      'status',
    ]),
  }
}
