/** Between histograms of queries and those of protocols and storage. */
import { type HistogramSpan, type NativeHistogram, PartsDecoder, type Side } from 'svcdb/lib/histogram'
import { FloatHistogram } from './float-histogram.ts'

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

/** Decodes the histograms of a column. */
export class HistogramDecoder {
  private readonly parts = new PartsDecoder()

  /** @returns undefined for a staleness marker. @throws RangeError when the bytes are no histogram. */
  decode(bytes: Uint8Array, start: number, end: number): FloatHistogram | undefined {
    const h = new FloatHistogram()
    return this.parts.decode(bytes, start, end, h) ? h : undefined
  }
}
