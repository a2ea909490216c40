/**
 * The bytes of a native histogram in a column, version 1: docs/formats/histogram.md.
 *
 * Invariants: what `encodeHistogram` writes, `decodeHistogram` gives back bit for bit (but for the payload of a NaN). Decoding trusts
 * nothing: it reads within the bytes given, makes no more buckets than there are bytes, and throws a RangeError on anything else.
 */
import { HistogramCursor } from './cursor.ts'
import { HINTS, HISTOGRAM_VERSION, INTEGER, MAX_PACKED, PACKED, STALE, THRESHOLD_BIAS, THRESHOLD_DOUBLE } from './layout.ts'
import { CUSTOM_BUCKETS_SCHEMA, type HistogramSpan, type NativeHistogram } from './native-histogram.ts'

const FIXED_BYTES = 3 + 9 + 8 + 8 + 8 + 5 + 5 + 5
const EMPTY = new Float64Array(0)

const STALE_BYTES = Uint8Array.of(HISTOGRAM_VERSION, STALE)

/** A staleness marker in a histogram column. */
export function staleHistogram(): Uint8Array {
  return STALE_BYTES.slice()
}

/** Whether stored bytes [start, end) are a staleness marker. */
export function isStaleHistogram(bytes: Uint8Array, start = 0, end: number = bytes.length): boolean {
  return end - start === 2 && bytes[start] === HISTOGRAM_VERSION && bytes[start + 1] === STALE
}

/** @param h as `checkHistogram` accepts it. */
export function encodeHistogram(h: NativeHistogram): Uint8Array {
  const bytes = new Uint8Array(maxBytes(h))
  return bytes.slice(0, write(h, bytes, 0))
}

/** Bytes that grow, as a batch's heap does: `reserve` makes room for n more and returns where they start. */
interface Heap {
  bytes: Uint8Array
  length: number
  reserve(n: number): number
}

/** Appends the bytes to a batch's heap and returns where they start; they end at `heap.length`. */
export function encodeHistogramInto(heap: Heap, h: NativeHistogram): number {
  const at = heap.reserve(maxBytes(h))
  heap.length = write(h, heap.bytes, at)
  return at
}

/**
 * @returns for a staleness marker an empty histogram whose sum is NaN: ask `isStaleHistogram` where it matters.
 * @throws RangeError when the bytes are no histogram.
 */
export function decodeHistogram(bytes: Uint8Array, start = 0, end: number = bytes.length): NativeHistogram {
  const cursor = new HistogramCursor()
  cursor.open(bytes, start, end)
  const { schema, counterReset, count, sum, zeroThreshold, zeroCount, integer } = cursor
  const positiveSpans = spansOf(cursor)
  const positiveCounts = cursor.counts()
  const negativeSpans = spansOf(cursor)
  const negativeCounts = cursor.counts()
  const customBounds = schema === CUSTOM_BUCKETS_SCHEMA ? cursor.bounds() : EMPTY
  cursor.close()
  return { schema, counterReset, count, sum, zeroThreshold, zeroCount, positiveSpans, positiveCounts, negativeSpans, negativeCounts, customBounds, integer }
}

function spansOf(cursor: HistogramCursor): HistogramSpan[] {
  const spans: HistogramSpan[] = []
  const entries = cursor.spans()
  for (let i = 0; i < entries; i += 2) spans.push({ offset: cursor.pairs[i], length: cursor.pairs[i + 1] })
  return spans
}

function maxBytes(h: NativeHistogram): number {
  const spans = h.positiveSpans.length + h.negativeSpans.length
  return FIXED_BYTES + spans * 10 + (h.positiveCounts.length + h.negativeCounts.length + h.customBounds.length) * 8
}

function write(h: NativeHistogram, bytes: Uint8Array, start: number): number {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const packed = packable(h.count) && packable(h.zeroCount) && allPackable(h.positiveCounts) && allPackable(h.negativeCounts)
  let at = start
  bytes[at++] = HISTOGRAM_VERSION
  bytes[at++] = HINTS.indexOf(h.counterReset) | (h.integer ? INTEGER : 0) | (packed ? PACKED : 0)
  view.setInt8(at++, h.schema)
  const threshold = thresholdByte(h.zeroThreshold)
  bytes[at++] = threshold
  if (threshold === THRESHOLD_DOUBLE) at = putDouble(view, at, h.zeroThreshold)
  at = putDouble(view, at, h.sum)
  at = packed ? putVarint(bytes, at, h.count) : putDouble(view, at, h.count)
  at = packed ? putVarint(bytes, at, h.zeroCount) : putDouble(view, at, h.zeroCount)
  at = putSide(bytes, view, at, h.positiveSpans, h.positiveCounts, packed)
  at = putSide(bytes, view, at, h.negativeSpans, h.negativeCounts, packed)
  if (h.schema !== CUSTOM_BUCKETS_SCHEMA) return at
  at = putVarint(bytes, at, h.customBounds.length)
  for (let i = 0; i < h.customBounds.length; i++) at = putDouble(view, at, h.customBounds[i])
  return at
}

function putSide(bytes: Uint8Array, view: DataView, start: number, spans: readonly HistogramSpan[], counts: Float64Array, packed: boolean): number {
  let at = putVarint(bytes, start, spans.length)
  for (const { offset, length } of spans) {
    at = putVarint(bytes, at, zigzag(offset))
    at = putVarint(bytes, at, length)
  }
  let last = 0
  // By index: iterators of typed arrays cost several times as much (otlp bench).
  for (let i = 0; i < counts.length; i++) {
    const count = counts[i]
    const step = zigzag(count - last)
    if (packed && step < 128) bytes[at++] = step
    else at = packed ? putVarint(bytes, at, step) : putDouble(view, at, count)
    last = count
  }
  return at
}

function allPackable(counts: Float64Array): boolean {
  for (let i = 0; i < counts.length; i++) if (!packable(counts[i])) return false
  return true
}

function packable(count: number): boolean {
  return count >= 0 && count <= MAX_PACKED && Math.floor(count) === count && !Object.is(count, -0)
}

function thresholdByte(threshold: number): number {
  if (Object.is(threshold, 0)) return 0
  const byte = Math.round(Math.log2(threshold)) + THRESHOLD_BIAS
  return byte > 0 && byte < THRESHOLD_DOUBLE && 2 ** (byte - THRESHOLD_BIAS) === threshold ? byte : THRESHOLD_DOUBLE
}

function zigzag(value: number): number {
  return value < 0 ? -value * 2 - 1 : value * 2
}

function putDouble(view: DataView, at: number, value: number): number {
  view.setFloat64(at, value, true)
  return at + 8
}

function putVarint(bytes: Uint8Array, start: number, value: number): number {
  let at = start
  let left = value
  while (left > 127) {
    bytes[at++] = (left % 128) | 128
    left = Math.floor(left / 128)
  }
  bytes[at++] = left
  return at
}
