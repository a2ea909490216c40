/**
 * What expressions evaluate to: all steps of the query at once, series-wise, in flat typed arrays.
 *
 * A vector's cell (series i, step t) lies at i * steps + t. `kinds` says what the cell holds: ABSENT, FLOAT (in `values`) or
 * HISTOGRAM (in `histograms`). Values are never changed once they were handed on: what changes them makes its own, unless it has made them.
 */

import type { FloatHistogram } from '../histogram/float-histogram.ts'
import type { LabelSets } from '../labels.ts'

export { SAMPLE_FLOAT, SAMPLE_HISTOGRAM, SAMPLE_STALE } from 'svcdb/lib/columns'

export const ABSENT = 0
export const FLOAT = 1
export const HISTOGRAM = 2

/** The steps of an evaluation: times in milliseconds are start, start + interval ... */
export interface Steps {
  start: number
  interval: number
  count: number
}

export interface ScalarValue {
  type: 'scalar'
  /** One a step. */
  values: Float64Array
}

export interface StringValue {
  type: 'string'
  value: string
}

export interface VectorValue {
  type: 'vector'
  labels: LabelSets
  steps: number
  values: Float64Array
  kinds: Uint8Array
  /** Absent when no cell holds a histogram; else one entry a cell, undefined where it holds none. */
  histograms?: (FloatHistogram | undefined)[]
  /** The metric name of these series is to be dropped when the result leaves the query (delayed name removal); one byte a series, absent = none. */
  dropName?: Uint8Array
}

/** The samples of some series, one after the other: series i has [starts[i], starts[i + 1]), in ascending time. */
export interface SampleBlock {
  /** The first series' place among those of the selection. */
  first: number
  starts: Int32Array
  /** Milliseconds since the Unix epoch. */
  times: Float64Array
  values: Float64Array
  /** SAMPLE_FLOAT, SAMPLE_STALE or SAMPLE_HISTOGRAM; absent when all are floats. */
  kinds?: Uint8Array
  histograms?: (FloatHistogram | undefined)[]
  /** Where samples were left out (SelectRequest.windows): the place of each among all samples of its series. */
  ordinals?: Int32Array
}

/**
 * The block as an object of the one shape that the loops over samples see, wherever it comes from: compiled for another shape, a loop would be thrown
 * away and compiled again while queries wait.
 */
export function shaped({ first, starts, times, values, kinds, histograms, ordinals }: SampleBlock): SampleBlock {
  return { first, starts, times, values, kinds, histograms, ordinals }
}

/** A range vector, before a function turns its windows into a vector. */
export interface MatrixValue {
  type: 'matrix'
  labels: LabelSets
  /** In ascending `first`; every series is in one block. Stale samples are left out already. Blocks may be kept. */
  blocks(): AsyncIterable<SampleBlock>
}

export type Value = ScalarValue | StringValue | VectorValue
