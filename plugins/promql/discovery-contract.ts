/**
 * What the discovery endpoints (labels, label values, series, metadata of the database) ask of the storage. `discover.ts` implements it over a
 * `Reader` (`storageDiscovery(reader, namespace): Discovery`); the handlers code against this file.
 *
 * Times are milliseconds, both ends included. A series counts when it holds a sample in the range, staleness markers included. Metric names
 * are `<measurement>_<field>` (the measurement alone for a field named `value`); they appear as the label `__name__`. Classic `_bucket`,
 * `_count` and `_sum` names of native histograms can be selected, but are not listed.
 */
import type { LabelMatcher } from './ast.ts'
import type { Labels } from './labels.ts'

export interface DiscoverRequest {
  /** A union of selectors; all matchers of one apply. Empty: all series. */
  selectors: readonly (readonly LabelMatcher[])[]
  start: number
  end: number
  /** So many are enough, the first by order; more may come. 0 = all. */
  limit: number
  signal: AbortSignal
}

/** How many series there are, for the status endpoints: all that the namespace has, whatever their time. */
export interface DatabaseCounts {
  series: number
  /** Distinct label names with values. */
  labelPairs: number
  /** The largest first, at most `limit` each. */
  seriesByMetric: Count[]
  valuesByLabel: Count[]
  /** Bytes of the values of a label, each counted once. */
  bytesByLabel: Count[]
  /** `name=value`. */
  seriesByPair: Count[]
}

export interface Count {
  name: string
  value: number
}

export interface Discovery {
  /** Sorted, with `__name__` when there is any series. */
  labelNames(request: DiscoverRequest): Promise<string[]>
  /** Sorted, each once; for `__name__` the metric names. */
  labelValues(name: string, request: DiscoverRequest): Promise<readonly string[]>
  /** Each label set once, by metric name and within one by its labels, `__name__` among the labels. */
  series(request: DiscoverRequest): AsyncIterable<Labels>
  counts(limit: number, signal: AbortSignal): Promise<DatabaseCounts>
}
