/** Examples of what is behind a sample, mostly a trace: whoever keeps them provides the service EXEMPLARS, receivers hand them in, and query languages ask for them. */

import type { Matcher } from '../lib/columns/index.ts'
import type { Work } from '../lib/event-loop/index.ts'

/** Name of the service `Exemplars`. */
export const EXEMPLARS = 'exemplars'

/** One example of a sample: its labels, such as `trace_id`, its value and its time. */
export interface Exemplar {
  /** Name, value, name, value ... */
  labels: readonly string[]
  value: number
  /** Milliseconds since the Unix epoch. */
  time: number
}

/** An exemplar and the series that it is of. */
export interface SeriesExemplar extends Exemplar {
  /** Labels of the series as PromQL shows them, `__name__` among them: name, value, name, value ... */
  series: readonly string[]
  /** The series is of native histograms: it answers to the names `_bucket`, `_count` and `_sum` of classic ones too. */
  histogram?: true
}

/** The exemplars of one series. */
export interface ExemplarsOfSeries {
  /** By name, in order. */
  series: readonly string[]
  /** Oldest first. */
  exemplars: readonly Exemplar[]
}

/** The service EXEMPLARS. `namespace` is that of the data, as `CallContext.dataNamespace`. */
export interface Exemplars {
  /** @returns how many are kept now; those that were there already count. */
  add(namespace: string, exemplars: readonly SeriesExemplar[]): Work<number>
  /**
   * Those of series that match all matchers of a list, of any of the lists; in order of their labels.
   * @param start milliseconds, inclusive, as is @param end. @throws BAD_REQUEST for an expression that takes too long.
   */
  select(namespace: string, selectors: readonly (readonly Matcher[])[], start: number, end: number): Work<ExemplarsOfSeries[]>
}
