/** Bytes of histograms to what is calculated with. */

import { type HistogramParts, NO_COUNTS, NO_INDEX, type Side } from './buckets.ts'
import { HistogramCursor } from './cursor.ts'
import { type CounterResetHint, CUSTOM_BUCKETS_SCHEMA } from './native-histogram.ts'

/**
 * Decodes the histograms of a column, one after the other. Adjacent ones mostly have the same buckets: these then share their numbers,
 * which makes adding them a loop over counts.
 */
export class PartsDecoder {
  private readonly cursor = new HistogramCursor()
  private readonly positive = new Layout()
  private readonly negative = new Layout()
  private bounds: Float64Array = NO_COUNTS

  /** Fills all fields of h. @returns false for a staleness marker. @throws RangeError when the bytes are no histogram. */
  decode(bytes: Uint8Array, start: number, end: number, h: HistogramParts & { counterReset?: CounterResetHint }): boolean {
    const { cursor } = this
    cursor.open(bytes, start, end)
    if (cursor.stale) {
      cursor.close()
      return false
    }
    h.schema = cursor.schema
    h.counterReset = cursor.counterReset
    h.count = cursor.count
    h.sum = cursor.sum
    h.zeroThreshold = cursor.zeroThreshold
    h.zeroCount = cursor.zeroCount
    h.positive = this.positive.read(cursor)
    h.negative = this.negative.read(cursor)
    h.customBounds = NO_COUNTS
    if (h.schema === CUSTOM_BUCKETS_SCHEMA) {
      const bounds = cursor.bounds()
      if (bounds.length !== this.bounds.length || !beginsWith(bounds, this.bounds)) this.bounds = bounds
      h.customBounds = this.bounds
    }
    cursor.close()
    return true
  }
}

/** Spans of the last histogram and what they come to. */
class Layout {
  private pairs: Int32Array = NO_INDEX
  private index: Int32Array = NO_INDEX

  read(cursor: HistogramCursor): Side {
    const entries = cursor.spans()
    const counts = cursor.counts()
    if (entries !== this.pairs.length || !beginsWith(cursor.pairs, this.pairs)) {
      this.pairs = cursor.pairs.slice(0, entries)
      this.index = indexOfSpans(this.pairs, counts.length)
    }
    return { index: this.index, counts }
  }
}

/** Spans to bucket numbers. @param pairs offset and length of each span, one after the other */
export function indexOfSpans(pairs: Int32Array, buckets: number): Int32Array {
  if (buckets === 0) return NO_INDEX
  const index = new Int32Array(buckets)
  let next = 0
  let at = 0
  for (let i = 0; i < pairs.length; i += 2) {
    at += pairs[i]
    for (let k = pairs[i + 1]; k > 0; k--) index[next++] = at++
  }
  return index
}

function beginsWith(all: Int32Array | Float64Array, begin: Int32Array | Float64Array): boolean {
  for (let i = 0; i < begin.length; i++) if (all[i] !== begin[i]) return false
  return true
}
