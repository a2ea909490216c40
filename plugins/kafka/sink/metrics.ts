import type { Counter, Metrics } from 'svcdb'

export interface SinkMetrics {
  records: Counter
  bytes: Counter
  retries: Counter
  deadLetters: Counter
  dropped: Counter
  gaps: Counter
}

interface LagOfSink {
  name: string
  /** Commits that are not with the brokers. */
  lag(): number | null
  lagSeconds(): number
}

export function sinkMetrics(metrics: Metrics, sinks: () => readonly LagOfSink[]): SinkMetrics {
  const of = ['sink']
  metrics.gauge('kafka_sink_lag_commits', 'Commits that a sink has not looked at; none while it follows none', of, (gauge) => {
    gauge.reset()
    for (const sink of sinks()) {
      const lag = sink.lag()
      if (lag !== null) gauge.set({ sink: sink.name }, lag)
    }
  })
  metrics.gauge('kafka_sink_lag_seconds', 'Seconds since brokers had all that a sink is to send; 0 while they have', of, (gauge) => {
    for (const sink of sinks()) gauge.set({ sink: sink.name }, sink.lagSeconds())
  })
  return {
    records: metrics.counter('kafka_sink_records_total', 'Records that brokers have acknowledged', of),
    bytes: metrics.counter('kafka_sink_bytes_total', 'Bytes of the values of those', of),
    retries: metrics.counter('kafka_sink_retries_total', 'Sends that failed and were tried again', of),
    deadLetters: metrics.counter(
      'kafka_sink_dead_letters_total',
      'Changes that can never be sent: too large, refused as such, or nothing that the format can hold',
      of,
    ),
    dropped: metrics.counter('kafka_sink_dead_letters_dropped_total', 'Dead letters that gave way to newer ones', of),
    gaps: metrics.counter('kafka_sink_gaps_total', 'Times that the log no longer had what was to be sent', of),
  }
}
