/** What evaluators read of the points: the samples of one field, series by series, in flat typed arrays (Reader.samples). */

import { SvcError } from '../errors/index.ts'
import type { Matcher } from './chunks.ts'
import type { Integers } from './integers.ts'

/** One tag of many series: `codes[i]` is the place in `texts` of series i's value, -1 when it has none. */
export interface TagColumn {
  codes: Int32Array
  texts: readonly string[]
}

/** The tags of many series; texts are made for those that are asked for. */
export interface TagSets {
  readonly length: number
  /** key, value, key, value ... ordered by key. */
  at(i: number): readonly string[]
  /** The tags that any of the series has; maybe others too. */
  keys(): readonly string[]
  /** Stays as it is once handed out. */
  column(key: string): TagColumn
}

/** Windows of time (end - range, end] that end at `first`, `first + interval` and so on, `count` of them; milliseconds. */
export interface SampleWindows {
  first: number
  interval: number
  count: number
  range: number
}

/** Which samples of one field are wanted. Times in nanoseconds since the Unix epoch; absent = unbounded. */
export interface SampleRequest {
  namespace: string
  measurement: string
  /** Integers, booleans and decimals come as floats; a string field has no samples. */
  field: string
  matchers?: readonly Matcher[]
  /** Inclusive, and as `end`, which is exclusive, a multiple of a millisecond: samples are told apart no finer. */
  start?: bigint
  end?: bigint
  /** Of each series only the newest sample of the range. */
  newestOnly?: boolean
  /**
   * Of each of these windows only its first and its last sample matter, how many it has, and between which samples values fall. Samples in between may then be
   * left out, and `SampleRows.ordinals` counts them. A reader need not leave out any.
   */
  windows?: SampleWindows
  /** What a block may have; the samples of one series are always in one. Absent = no limit. */
  maxBlockSamples?: number
}

/** A series has more samples in the range than a block may have. */
export class TooManySamplesError extends SvcError {
  constructor(limit: number) {
    super('BAD_REQUEST', `cannot read more than ${limit} samples of a series at once; ask for a shorter range`)
  }
}

export const SAMPLE_FLOAT = 0
/** A staleness marker: the series ends here until its next sample. */
export const SAMPLE_STALE = 1
export const SAMPLE_HISTOGRAM = 2

/** The samples of some series, one after the other: those of series i of the block lie at [starts[i], starts[i + 1]), in ascending time, each time once. */
export interface SampleRows {
  /** Place of the block's first series in `SampleSet.series`; the block holds the `starts.length - 1` from there on. */
  first: number
  starts: Int32Array
  /** Whole milliseconds since the Unix epoch, rounded down; of the points within a millisecond the last. */
  times: Float64Array
  /** Not finite ones too. */
  values: Float64Array
  /** SAMPLE_FLOAT, SAMPLE_STALE or SAMPLE_HISTOGRAM; absent when all are floats. */
  kinds?: Uint8Array
  /** Where samples were left out: the place of each among all samples of its series that the request is for. */
  ordinals?: Int32Array
  /** Encoded (svcdb/lib/histogram); set where the kind says so. */
  histograms?: (Uint8Array | undefined)[]
}

/** Samples as a storage has them. All are floats, not finite ones too. */
export interface StoredSamples {
  /** As those of SampleRows. */
  times: Float64Array
  /** Integers are the samples times `divisor`: the quotients are the samples, bit by bit. */
  values: Float64Array | Integers
  /** Of integers. */
  divisor?: number
}

/** The samples of some series where the storage has them: nothing is copied. */
export interface StoredRows {
  /** As of SampleRows. */
  first: number
  /** Of series i of the block the runs [starts[i], starts[i + 1]), in ascending time; each time is in one of them. */
  starts: Int32Array
  /** Three numbers a run: its place in `stored`, its first sample, the one after its last. None is empty. */
  runs: Int32Array
  stored: readonly StoredSamples[]
}

/** Series by number, each with its tags. */
export interface SeriesSet {
  /** Ascending. */
  series: Int32Array
  tags: TagSets
}

/** The series that match; some may have no samples in the range. */
export interface SampleSet extends SeriesSet {
  /** To be read once. Blocks come in order; one may not be changed, and its arrays are used again once the next one is asked for. */
  blocks(): AsyncIterable<SampleRows>
  /** Instead of `blocks`: some may come where they are stored. Absent where none would. */
  stored?(): AsyncIterable<SampleRows | StoredRows>
}
