import type { Counter, Metrics } from 'svcdb'
import { OUTCOMES } from './decoder.ts'

export interface SparkplugMetrics {
  outcomes: Counter
  gaps: Counter
  rebirths: Counter
}

/** @param known how much of births is known at the moment. */
export function sparkplugMetrics(metrics: Metrics, known: () => number): SparkplugMetrics {
  metrics.gauge('sparkplug_b_known_metrics', 'Metrics, devices and edge nodes whose births are known, of all connectors', [], (gauge) => gauge.set(known()))
  const outcomes = metrics.counter('sparkplug_b_metrics_total', 'Metrics of messages by what became of them', ['outcome'])
  for (const outcome of OUTCOMES) outcomes.inc({ outcome }, 0)
  return {
    outcomes,
    gaps: metrics.counter('sparkplug_b_sequence_gaps_total', 'Messages whose number did not follow that of the one before: something was missed'),
    rebirths: metrics.counter('sparkplug_b_rebirth_requests_total', 'Requests to edge nodes to send their births again'),
  }
}
