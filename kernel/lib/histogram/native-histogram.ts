/**
 * A native histogram as it travels between protocols, storage and query languages; `codec.ts` has its bytes.
 * Terms and limits: the Prometheus native histogram specification.
 */

/** A run of buckets that follow each other: the first lies `offset` after the end of the run before (the first run: at index `offset`). */
export interface HistogramSpan {
  offset: number
  length: number
}

/** Custom bucket boundaries instead of exponential ones. */
export const CUSTOM_BUCKETS_SCHEMA = -53
export const MIN_EXPONENTIAL_SCHEMA = -4
export const MAX_EXPONENTIAL_SCHEMA = 8

/** What is known of counter resets: unknown, a reset before this sample, none before it, or a gauge histogram. */
export type CounterResetHint = 'unknown' | 'reset' | 'not_reset' | 'gauge'

/** A histogram whose bounds follow from its schema, or are its own (custom). Only populated runs of buckets are listed. */
export interface NativeHistogram {
  /** -4 to 8: bucket i ends at (2^(2^-schema))^i; CUSTOM_BUCKETS_SCHEMA: at `customBounds[i]`. */
  schema: number
  counterReset: CounterResetHint
  count: number
  sum: number
  zeroThreshold: number
  zeroCount: number
  positiveSpans: HistogramSpan[]
  /** One absolute count a bucket of the spans, in their order. */
  positiveCounts: Float64Array
  negativeSpans: HistogramSpan[]
  negativeCounts: Float64Array
  /** Upper bounds, ascending, without +Inf; empty unless the schema is CUSTOM_BUCKETS_SCHEMA. */
  customBounds: Float64Array
  /** The sender counted in integers. */
  integer: boolean
}

const NONE = new Float64Array(0)

/** @returns one of nothing observed, of schema 0 and in integers. Its arrays are to be replaced, not written to. */
export const emptyHistogram = (): NativeHistogram => ({
  schema: 0,
  counterReset: 'unknown',
  count: 0,
  sum: 0,
  zeroThreshold: 0,
  zeroCount: 0,
  positiveSpans: [],
  positiveCounts: NONE,
  negativeSpans: [],
  negativeCounts: NONE,
  customBounds: NONE,
  integer: true,
})
