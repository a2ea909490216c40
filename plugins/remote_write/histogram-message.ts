/** The message Histogram, the same in both versions, to a histogram as storage takes it. */

import {
  type CounterResetHint,
  checkHistogram,
  emptyHistogram,
  type HistogramSpan,
  type NativeHistogram,
  reduceToKept,
  schemaProblem,
} from 'svcdb/lib/histogram'
import { NumberList, type ProtobufReader } from 'svcdb/lib/protobuf'
import { isStale } from './sample-writer.ts'

const HINTS: readonly CounterResetHint[] = ['unknown', 'reset', 'not_reset', 'gauge']

/** One message at a time. */
export class HistogramMessage {
  /** Milliseconds since the epoch. */
  ms = 0
  /** A staleness marker: the sum alone says it. */
  stale = false
  private spans = 0
  private readonly most: number
  private readonly negativeDeltas: NumberList
  private readonly negativeCounts: NumberList
  private readonly positiveDeltas: NumberList
  private readonly positiveCounts: NumberList
  private readonly bounds: NumberList
  private readonly lists: readonly NumberList[]

  /** @param most buckets, spans or boundaries of one histogram */
  constructor(most: number) {
    this.most = most
    this.lists = [
      (this.negativeDeltas = new NumberList(most)),
      (this.negativeCounts = new NumberList(most)),
      (this.positiveDeltas = new NumberList(most)),
      (this.positiveCounts = new NumberList(most)),
      (this.bounds = new NumberList(most)),
    ]
  }

  /** Reads what is left of the reader's innermost message. @returns the reason in words when it cannot be stored. */
  read(reader: ProtobufReader): NativeHistogram | string {
    for (const numbers of this.lists) numbers.length = 0
    this.spans = 0
    this.ms = 0
    this.stale = false
    const histogram = emptyHistogram()
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
        this.negativeDeltas.zigzags(reader)
        break
      case 10:
        this.negativeCounts.doubles(reader)
        break
      case 11:
        this.span(reader, histogram.positiveSpans)
        break
      case 12:
        this.positiveDeltas.zigzags(reader)
        break
      case 13:
        this.positiveCounts.doubles(reader)
        break
      case 14:
        histogram.counterReset = HINTS[reader.uint32()] ?? 'unknown'
        break
      case 15:
        reader.int64()
        this.ms = reader.signed
        break
      case 16:
        this.bounds.doubles(reader)
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
    histogram.positiveCounts = histogram.integer ? sums(this.positiveDeltas.copy()) : this.positiveCounts.copy()
    histogram.negativeCounts = histogram.integer ? sums(this.negativeDeltas.copy()) : this.negativeCounts.copy()
    histogram.customBounds = this.bounds.copy()
    const kept = reduceToKept(histogram)
    return checkHistogram(kept) ?? kept
  }
}

/** Each value the sum of it and all before. */
function sums(values: Float64Array): Float64Array {
  for (let i = 1; i < values.length; i++) values[i] += values[i - 1]
  return values
}
