/** Between histograms of queries and those of doors and storage. */
import { HistogramCursor } from '../../../kernel/decode/histogram-cursor.ts'
import { CUSTOM_BUCKETS_SCHEMA, type HistogramSpan, type NativeHistogram } from '../../../kernel/histogram.ts'
import { sameBounds } from './custom-bounds.ts'
import { FloatHistogram } from './float-histogram.ts'
import { indexOfSpans, NO_COUNTS, NO_INDEX, type Side } from './side.ts'

export function fromNative(native: NativeHistogram): FloatHistogram {
  const h = new FloatHistogram()
  h.schema = native.schema
  h.counterReset = native.counterReset
  h.count = native.count
  h.sum = native.sum
  h.zeroThreshold = native.zeroThreshold
  h.zeroCount = native.zeroCount
  h.positive = { index: indexOfSpans(pairsOf(native.positiveSpans), native.positiveCounts.length), counts: native.positiveCounts.slice() }
  h.negative = { index: indexOfSpans(pairsOf(native.negativeSpans), native.negativeCounts.length), counts: native.negativeCounts.slice() }
  h.customBounds = native.customBounds
  return h
}

export function toNative(h: FloatHistogram): NativeHistogram {
  const { schema, counterReset, count, sum, zeroThreshold, zeroCount, customBounds } = h
  return {
    schema,
    counterReset,
    count,
    sum,
    zeroThreshold,
    zeroCount,
    positiveSpans: spansOf(h.positive),
    positiveCounts: h.positive.counts.slice(),
    negativeSpans: spansOf(h.negative),
    negativeCounts: h.negative.counts.slice(),
    customBounds,
    integer: false,
  }
}

function pairsOf(spans: readonly HistogramSpan[]): Int32Array {
  return Int32Array.from(spans.flatMap(({ offset, length }) => [offset, length]))
}

function spansOf({ index }: Side): HistogramSpan[] {
  const spans: HistogramSpan[] = []
  let end = 0
  for (const bucket of index) {
    if (spans.length > 0 && bucket === end) (spans.at(-1) as HistogramSpan).length++
    else spans.push({ offset: bucket - end, length: 1 })
    end = bucket + 1
  }
  return spans
}

/**
 * Decodes the histograms of a column. Neighbours mostly have the same buckets: these then share one index, which makes adding
 * them a loop over counts.
 */
export class HistogramDecoder {
  private readonly cursor = new HistogramCursor()
  private readonly positive = new Layout()
  private readonly negative = new Layout()
  private bounds: Float64Array = NO_COUNTS

  /** @returns undefined for a staleness marker. @throws RangeError when the bytes are no histogram. */
  decode(bytes: Uint8Array, start: number, end: number): FloatHistogram | undefined {
    const { cursor } = this
    cursor.open(bytes, start, end)
    if (cursor.stale) return undefined
    const h = new FloatHistogram()
    h.schema = cursor.schema
    h.counterReset = cursor.counterReset
    h.count = cursor.count
    h.sum = cursor.sum
    h.zeroThreshold = cursor.zeroThreshold
    h.zeroCount = cursor.zeroCount
    h.positive = this.positive.read(cursor)
    h.negative = this.negative.read(cursor)
    if (h.schema === CUSTOM_BUCKETS_SCHEMA) {
      const bounds = cursor.bounds()
      if (!sameBounds(bounds, this.bounds)) this.bounds = bounds
      h.customBounds = this.bounds
    }
    cursor.close()
    return h
  }
}

/** Spans of the last histogram and what they come to. */
class Layout {
  private pairs: Int32Array = NO_INDEX
  private index: Int32Array = NO_INDEX

  read(cursor: HistogramCursor): Side {
    const pairs = cursor.spans()
    const counts = cursor.counts()
    if (!samePairs(pairs, this.pairs)) {
      this.pairs = pairs
      this.index = indexOfSpans(pairs, counts.length)
    }
    return { index: this.index, counts }
  }
}

function samePairs(a: Int32Array, b: Int32Array): boolean {
  if (a.length !== b.length) return false
  for (let i = 0; i < a.length; i++) if (a[i] !== b[i]) return false
  return true
}
