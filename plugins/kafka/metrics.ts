import type { Counter, Gauge, Metrics } from 'svcdb'

export interface KafkaMetrics {
  consumed: Counter
  errors: Counter
  empty: Counter
  joins: Counter
  commits: Counter
  commitFailures: Counter
  dropped: Counter
}

interface LagOf {
  name: string
  lag(): number | null
  lags(): readonly { topic: string; partition: number; lag: number }[]
}

export function kafkaMetrics(metrics: Metrics, connectors: () => readonly LagOf[]): KafkaMetrics {
  metrics.gauge(
    'kafka_consumer_lag',
    'Records behind the committed offsets, of the partitions that this node has; none while that is not known',
    ['connector'],
    (gauge: Gauge) => {
      // Without a value while it is not known: 0 would be good news.
      gauge.reset()
      for (const connector of connectors()) {
        const lag = connector.lag()
        if (lag !== null) gauge.set({ connector: connector.name }, lag)
      }
    },
  )
  metrics.gauge(
    'kafka_partition_lag',
    'Records behind the committed offset of a partition that this node has',
    ['connector', 'topic', 'partition'],
    (gauge: Gauge) => {
      gauge.reset()
      for (const connector of connectors())
        for (const { topic, partition, lag } of connector.lags()) gauge.set({ connector: connector.name, topic, partition: String(partition) }, lag)
    },
  )
  return {
    consumed: metrics.counter('kafka_messages_consumed_total', 'Records that came, those that come again included'),
    errors: metrics.counter('kafka_deserialization_errors_total', 'Records that could not be stored, in whole or in part; they are with the dead letters'),
    empty: metrics.counter('kafka_empty_records_total', 'Of those that came, tombstones and empty values: there is nothing to store'),
    joins: metrics.counter('kafka_group_joins_total', 'Times that the group has given this node partitions: the first, and each rebalance', ['connector']),
    commits: metrics.counter('kafka_commits_total', 'Commits of offsets', ['connector']),
    commitFailures: metrics.counter('kafka_commit_failures_total', 'Commits that failed; what they are of comes again, or is committed with the next', [
      'connector',
    ]),
    dropped: metrics.counter('kafka_dead_letters_dropped_total', 'Dead letters that gave way to newer ones', ['connector']),
  }
}
