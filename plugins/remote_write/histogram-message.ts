/** The message Histogram, the same in both versions, to a histogram as storage takes it. */
import { checkHistogram, reduceToKept, schemaProblem } from '../../kernel/decode/histogram-check.ts'
import { BYTES, type ProtobufReader } from '../../kernel/decode/protobuf.ts'
import type { CounterResetHint, HistogramSpan, NativeHistogram } from '../../kernel/histogram.ts'
import { isStale } from './sample-writer.ts'

const HINTS: readonly CounterResetHint[] = ['unknown', 'reset', 'not_reset', 'gauge']

/** Numbers of a repeated field whose count is not known before. */
class Numbers {
  /** Of all that were sent; what lies beyond `most` is not kept. */
  length = 0
  private values = new Float64Array(16)
  private readonly most: number

  constructor(most: number) {
    this.most = most
  }

  push(value: number): void {
    const at = this.length++
    if (at >= this.most) return
    if (at === this.values.length) {
      const grown = new Float64Array(at * 2)
      grown.set(this.values)
      this.values = grown
    }
    this.values[at] = value
  }

  copy(): Float64Array {
    return this.values.slice(0, this.length)
  }

  /** Each value the sum of it and all before. */
  sums(): Float64Array {
    const sums = this.copy()
    for (let i = 1; i < sums.length; i++) sums[i] += sums[i - 1]
    return sums
  }
}

/** One message at a time. */
export class HistogramMessage {
  /** Milliseconds since the epoch. */
  ms = 0
  /** A staleness marker: the sum alone says it. */
  stale = false
  private spans = 0
  private readonly most: number
  private readonly negativeDeltas: Numbers
  private readonly negativeCounts: Numbers
  private readonly positiveDeltas: Numbers
  private readonly positiveCounts: Numbers
  private readonly bounds: Numbers
  private readonly lists: readonly Numbers[]

  /** @param most buckets, spans or boundaries of one histogram */
  constructor(most: number) {
    this.most = most
    this.lists = [
      (this.negativeDeltas = new Numbers(most)),
      (this.negativeCounts = new Numbers(most)),
      (this.positiveDeltas = new Numbers(most)),
      (this.positiveCounts = new Numbers(most)),
      (this.bounds = new Numbers(most)),
    ]
  }

  /** Reads what is left of the reader's innermost message. @returns the reason in words when it cannot be stored. */
  read(reader: ProtobufReader): NativeHistogram | string {
    for (const numbers of this.lists) numbers.length = 0
    this.spans = 0
    this.ms = 0
    this.stale = false
    const histogram: NativeHistogram = {
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
    }
    while (reader.next()) this.field(reader, histogram)
    return this.stale ? histogram : this.finish(histogram)
  }

  private field(reader: ProtobufReader, histogram: NativeHistogram): void {
    switch (reader.field) {
      case 1:
        reader.int64()
        histogram.count = reader.unsigned
        histogram.integer = true
        break
      case 2:
        histogram.count = reader.double()
        histogram.integer = false
        break
      case 3:
        histogram.sum = reader.double()
        this.stale = isStale(reader.view.getInt32(reader.at - 8, true), reader.view.getInt32(reader.at - 4, true))
        break
      case 4:
        histogram.schema = reader.sint32()
        break
      case 5:
        histogram.zeroThreshold = reader.double()
        break
      case 6:
        reader.int64()
        histogram.zeroCount = reader.unsigned
        break
      case 7:
        histogram.zeroCount = reader.double()
        break
      case 8:
        this.span(reader, histogram.negativeSpans)
        break
      case 9:
        zigzags(reader, this.negativeDeltas)
        break
      case 10:
        doubles(reader, this.negativeCounts)
        break
      case 11:
        this.span(reader, histogram.positiveSpans)
        break
      case 12:
        zigzags(reader, this.positiveDeltas)
        break
      case 13:
        doubles(reader, this.positiveCounts)
        break
      case 14:
        histogram.counterReset = HINTS[reader.uint32()] ?? 'unknown'
        break
      case 15:
        reader.int64()
        this.ms = reader.signed
        break
      case 16:
        doubles(reader, this.bounds)
        break
      default:
        reader.skip()
    }
  }

  private span(reader: ProtobufReader, into: HistogramSpan[]): void {
    const outer = reader.enter()
    const read: HistogramSpan = { offset: 0, length: 0 }
    while (reader.next()) {
      if (reader.field === 1) read.offset = reader.sint32()
      else if (reader.field === 2) read.length = reader.uint32()
      else reader.skip()
    }
    reader.leave(outer)
    if (this.spans++ < this.most) into.push(read)
  }

  private finish(histogram: NativeHistogram): NativeHistogram | string {
    const parts = Math.max(this.spans, ...this.lists.map((numbers) => numbers.length))
    if (parts > this.most) return `the histogram has ${parts} buckets, spans or boundaries, remote_write.max_buckets_per_histogram is ${this.most}`
    const problem = schemaProblem(histogram.schema)
    if (problem !== undefined) return problem
    histogram.positiveCounts = histogram.integer ? this.positiveDeltas.sums() : this.positiveCounts.copy()
    histogram.negativeCounts = histogram.integer ? this.negativeDeltas.sums() : this.negativeCounts.copy()
    histogram.customBounds = this.bounds.copy()
    const kept = reduceToKept(histogram)
    return checkHistogram(kept) ?? kept
  }
}

const NONE = new Float64Array(0)

/** Repeated sint64, packed or not. */
function zigzags(reader: ProtobufReader, into: Numbers): void {
  if (reader.wire !== BYTES) {
    reader.sint64()
    into.push(reader.signed)
    return
  }
  const outer = reader.enter()
  while (reader.at < reader.end) {
    reader.zigzag()
    into.push(reader.signed)
  }
  reader.leave(outer)
}

/** Repeated double, packed or not. */
function doubles(reader: ProtobufReader, into: Numbers): void {
  if (reader.wire !== BYTES) {
    into.push(reader.double())
    return
  }
  const outer = reader.enter()
  if ((reader.end - reader.at) % 8 !== 0) throw reader.fault('packed doubles do not fill their field')
  for (let at = reader.at; at < reader.end; at += 8) into.push(reader.view.getFloat64(at, true))
  reader.leave(outer)
}
