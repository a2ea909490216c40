/** Parts of the messages of prometheus/prompb that both kinds of answer have. */
import type { CounterResetHint, HistogramSpan, NativeHistogram } from 'svcdb/lib/histogram'
import type { ProtobufWriter } from 'svcdb/lib/protobuf'
import type { Labels } from '../labels.ts'

const NAN_BITS = [1, 0x7ff80000] as const
const STALE_BITS = [2, 0x7ff00000] as const
const RESET_HINTS: Record<CounterResetHint, number> = { unknown: 0, reset: 1, not_reset: 2, gauge: 3 }

export function writeLabelPairs(out: ProtobufWriter, field: number, { pairs }: Labels): void {
  for (let i = 0; i < pairs.length; i += 2) {
    const label = out.open(field)
    out.string(1, pairs[i])
    out.string(2, pairs[i + 1])
    out.close(label)
  }
}

export function writeSample(out: ProtobufWriter, field: number, time: number, value: number, stale: boolean): void {
  const sample = out.open(field)
  if (stale) out.fixed64(1, ...STALE_BITS)
  else if (Number.isNaN(value)) out.fixed64(1, ...NAN_BITS)
  else out.double(1, value)
  out.int(2, time)
  out.close(sample)
}

export function writeHistogram(out: ProtobufWriter, field: number, time: number, h: NativeHistogram): void {
  const histogram = out.open(field)
  if (h.integer) out.int(1, h.count)
  else out.double(2, h.count)
  out.double(3, h.sum)
  out.sint(4, h.schema)
  out.double(5, h.zeroThreshold)
  if (h.integer) out.int(6, h.zeroCount)
  else out.double(7, h.zeroCount)
  writeSpans(out, 8, h.negativeSpans)
  if (h.integer) out.sints(9, steps(h.negativeCounts))
  else out.doubles(10, h.negativeCounts)
  writeSpans(out, 11, h.positiveSpans)
  if (h.integer) out.sints(12, steps(h.positiveCounts))
  else out.doubles(13, h.positiveCounts)
  out.int(14, RESET_HINTS[h.counterReset])
  out.int(15, time)
  if (h.customBounds.length > 0) out.doubles(16, h.customBounds)
  out.close(histogram)
}

function writeSpans(out: ProtobufWriter, field: number, spans: readonly HistogramSpan[]): void {
  for (const { offset, length } of spans) {
    const span = out.open(field)
    out.sint(1, offset)
    out.int(2, length)
    out.close(span)
  }
}

/** Each as its difference to the one before. */
function steps(counts: Float64Array): Float64Array {
  return counts.map((count, i) => (i === 0 ? count : count - counts[i - 1]))
}
