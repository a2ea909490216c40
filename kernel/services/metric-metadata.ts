/**
 * What senders say about their metrics: type, help and unit. Whoever receives it provides the service METRIC_METADATA, and query languages find it.
 */
export const METRIC_METADATA = 'metric_metadata'

/** What one sender has said of one metric; texts are empty where it said nothing. */
export interface MetricMetadataEntry {
  metric: string
  /** A word of OpenMetrics: counter, gauge, histogram, gaugehistogram, summary, info, stateset, unknown. */
  type: string
  help: string
  unit: string
}

/** The service METRIC_METADATA. */
export interface MetricMetadata {
  /** What is known of a namespace's metrics, a metric at most once for each different thing that was said of it. */
  list(namespace: string): Iterable<MetricMetadataEntry>
  /** Takes in what another plugin's sender has said; absent where the provider keeps only its own. */
  note?(namespace: string, entry: MetricMetadataEntry): void
}
