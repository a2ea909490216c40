/** What evaluators need not compute themselves: values of windows, brought together by groups of series where the points are (Reader.aggregate). */
import type { SampleRequest, SampleWindows, TagSets } from './samples.ts'

/**
 * What becomes of a series' samples in a window: what PromQL's function of that name gives, which passes staleness markers over. `last` is the newest sample,
 * and nothing where that is a staleness marker.
 */
export type WindowFunction = 'last' | 'rate' | 'increase' | 'delta' | 'irate' | 'idelta'

/** How the values that the series of a group have for a window become one; `count` is their number. */
export type GroupFunction = 'sum' | 'avg' | 'min' | 'max' | 'count'

/** Which windows of which samples are wanted, and how series are brought together. Times as in `SampleRequest`. */
export interface AggregateRequest extends Pick<SampleRequest, 'namespace' | 'measurement' | 'field' | 'matchers' | 'start' | 'end'> {
  windows: SampleWindows
  window: WindowFunction
  group: GroupFunction
  /** Series that agree in all these tags are a group; with `without` those that agree in all others. An absent tag is as one with an empty value. */
  tags: readonly string[]
  without: boolean
  /** Groups times windows at most; of more it is declined. */
  maxCells: number
}

/** A value for each group and window that has one. */
export interface AggregateSet {
  /** Of each group the tags that it has in common. No two are the same. Groups without any value may be there. */
  groups: TagSets
  /** Of group i and window k at i * windows.count + k; finite. */
  values: Float64Array
  /** A byte a value: 1 = there is one. */
  present: Uint8Array
  /** Samples that were looked at. */
  samples: number
}
