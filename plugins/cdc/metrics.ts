import type { Counter, Metrics } from 'svcdb'
import type { Subscriber } from './subscriber.ts'

export interface StreamMetrics {
  events: Counter
  bytes: Counter
  gaps: Counter
  ended: Counter
}

export function streamMetrics(metrics: Metrics, subscribers: ReadonlySet<Subscriber>): StreamMetrics {
  metrics.gauge('cdc_subscribers', 'Streams of changes that are open', [], (gauge) => gauge.set({}, subscribers.size))
  metrics.gauge('cdc_lag_commits', 'Commits that the reader furthest behind has not been told of', [], (gauge) =>
    gauge.set({}, Math.max(0, ...[...subscribers].map(({ behind }) => behind))),
  )
  return {
    events: metrics.counter('cdc_events_total', 'Events sent to subscribers'),
    bytes: metrics.counter('cdc_sent_characters_total', 'Bytes sent to subscribers'),
    gaps: metrics.counter('cdc_gaps_total', 'Times that a subscriber was told of changes it has missed'),
    ended: metrics.counter('cdc_streams_ended_total', 'Streams that the server has ended, by reason: lasted, drained, failed, slow, credential', ['reason']),
  }
}
