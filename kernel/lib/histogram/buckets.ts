/** Walks over all buckets of a histogram, in ascending or descending order. */

import { boundOf } from './bounds.ts'
import { CUSTOM_BUCKETS_SCHEMA } from './native-histogram.ts'

/** The buckets of one sign: their numbers, ascending, and a count for each. */
export interface Side {
  index: Int32Array
  counts: Float64Array
}

export const NO_INDEX: Int32Array = new Int32Array(0)
export const NO_COUNTS: Float64Array = new Float64Array(0)

/** A histogram as it is calculated with. */
export interface HistogramParts {
  schema: number
  count: number
  sum: number
  zeroThreshold: number
  zeroCount: number
  positive: Side
  negative: Side
  customBounds: Float64Array
}

/** A histogram of nothing, to be filled. */
export const emptyParts = (): HistogramParts => ({
  schema: 0,
  count: 0,
  sum: 0,
  zeroThreshold: 0,
  zeroCount: 0,
  positive: { index: NO_INDEX, counts: NO_COUNTS },
  negative: { index: NO_INDEX, counts: NO_COUNTS },
  customBounds: NO_COUNTS,
})

const NOTHING = emptyParts()

/**
 * `next` goes to a bucket and fills the fields; behind the last bucket they stay as they are. Buckets that reach into the zero bucket
 * end at its threshold, unless they are wanted `raw`. A cursor may be opened again and again.
 */
export class BucketCursor {
  lower = 0
  upper = 0
  lowerInclusive = false
  upperInclusive = false
  count = 0
  private h: HistogramParts = NOTHING
  private reverse = false
  private custom = false
  private raw = false
  /** Place among all buckets: those of one side, the zero bucket, those of the other. */
  private at = 0

  open(h: HistogramParts, reverse: boolean, raw = false): void {
    this.h = h
    this.reverse = reverse
    this.raw = raw
    this.custom = h.schema === CUSTOM_BUCKETS_SCHEMA
    this.at = 0
    this.lower = 0
    this.upper = 0
    this.count = 0
  }

  next(): boolean {
    const { h, reverse } = this
    const first = reverse ? h.positive : h.negative
    const firstLength = first.index.length
    if (this.at < firstLength) {
      this.fill(first, firstLength - 1 - this.at++, reverse)
      return true
    }
    if (this.at === firstLength) {
      this.at++
      if (h.zeroCount > 0 || (this.raw && h.zeroCount !== 0)) {
        this.upper = h.zeroThreshold
        this.lower = -h.zeroThreshold
        this.lowerInclusive = true
        this.upperInclusive = true
        this.count = h.zeroCount
        return true
      }
    }
    const second = reverse ? h.negative : h.positive
    const place = this.at - firstLength - 1
    if (place >= second.index.length) return false
    this.at++
    this.fill(second, place, !reverse)
    return true
  }

  private fill(side: Side, place: number, positive: boolean): void {
    const { schema, customBounds, zeroThreshold } = this.h
    const index = side.index[place]
    const far = boundOf(schema, index, customBounds)
    let near = boundOf(schema, index - 1, customBounds)
    this.count = side.counts[place]
    if (near > 0 && near < zeroThreshold && !this.raw) near = zeroThreshold
    this.upper = positive ? far : -near
    this.lower = positive ? near : -far
    this.lowerInclusive = this.custom ? index === 0 : this.lower < 0
    this.upperInclusive = this.custom || this.upper > 0
  }
}
