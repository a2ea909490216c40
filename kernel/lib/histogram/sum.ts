/** The sum of many histograms, at the coarsest resolution and the widest zero bucket of them all. */
import { emptyParts, type HistogramParts, type Side } from './buckets.ts'
import { addInCommonBounds, commonBounds, sameBounds } from './custom-bounds.ts'
import { CUSTOM_BUCKETS_SCHEMA, type HistogramSpan, type NativeHistogram } from './native-histogram.ts'
import { PartsDecoder } from './parts.ts'
import { addSide, copySide, firstAbove, reduceSide } from './side.ts'
import { otherZero, reconcileZeroBuckets } from './zero-bucket.ts'

/** Adds stored histograms up: one by one with `add`. */
export class HistogramSum {
  /** Histograms in it. */
  terms = 0
  private readonly total: HistogramParts = emptyParts()
  private readonly decoder = new PartsDecoder()

  /**
   * Adds a stored histogram.
   * @returns whether it is in the sum: custom and exponential buckets cannot be added to each other, nor is a staleness marker a histogram.
   * @throws RangeError when the bytes are no histogram.
   */
  add(bytes: Uint8Array, start = 0, end: number = bytes.length): boolean {
    const next = emptyParts()
    if (!this.decoder.decode(bytes, start, end, next)) return false
    const { total } = this
    if (this.terms === 0) {
      Object.assign(total, next, { positive: copySide(next.positive), negative: copySide(next.negative) })
      this.terms = 1
      return true
    }
    const custom = total.schema === CUSTOM_BUCKETS_SCHEMA
    if (custom !== (next.schema === CUSTOM_BUCKETS_SCHEMA)) return false
    if (custom) addCustom(total, next)
    else addExponential(total, next)
    total.count += next.count
    total.sum += next.sum
    this.terms++
    return true
  }

  /** @param factor of all counts and of the sum. */
  result(factor = 1): NativeHistogram {
    const { schema, count, sum, zeroThreshold, zeroCount, positive, negative, customBounds } = this.total
    return {
      schema,
      counterReset: 'gauge',
      count: count * factor,
      sum: sum * factor,
      zeroThreshold,
      zeroCount: zeroCount * factor,
      positiveSpans: spansOf(positive),
      positiveCounts: positive.counts.map((n) => n * factor),
      negativeSpans: spansOf(negative),
      negativeCounts: negative.counts.map((n) => n * factor),
      customBounds,
      integer: false,
    }
  }
}

function addExponential(total: HistogramParts, next: HistogramParts): void {
  reconcileZeroBuckets(total, next, undefined)
  total.zeroCount += otherZero.count
  const schema = Math.min(total.schema, next.schema)
  const at = (side: Side, own: number): Side => (own === schema ? side : reduceSide(side, own - schema))
  total.positive = at(total.positive, total.schema)
  total.negative = at(total.negative, total.schema)
  total.schema = schema
  const positive = at(next.positive, next.schema)
  const negative = at(next.negative, next.schema)
  addSide(total.positive, positive, firstAbove(positive.index, schema, total.zeroThreshold), 1)
  addSide(total.negative, negative, firstAbove(negative.index, schema, total.zeroThreshold), 1)
}

function addCustom(total: HistogramParts, next: HistogramParts): void {
  if (sameBounds(total.customBounds, next.customBounds)) {
    addSide(total.positive, next.positive, 0, 1)
    return
  }
  const common = commonBounds(total.customBounds, next.customBounds)
  addInCommonBounds(total.positive, undefined, total.customBounds, next.positive, next.customBounds, common, 1)
  total.customBounds = common
}

function spansOf({ index }: Side): HistogramSpan[] {
  const spans: HistogramSpan[] = []
  let end = 0
  for (const bucket of index) {
    const last = spans.at(-1)
    if (last !== undefined && bucket === end) last.length++
    else spans.push({ offset: bucket - end, length: 1 })
    end = bucket + 1
  }
  return spans
}
