/** HistogramDataPoint and ExponentialHistogramDataPoint, to native histograms: of custom boundaries, and of the schema that the scale is. */

import { SvcError } from 'svcdb/lib/errors'
import { CUSTOM_BUCKETS_SCHEMA, checkHistogram, emptyHistogram, type NativeHistogram, reduceToKept, schemaProblem } from 'svcdb/lib/histogram'
import { NumberList, type ProtobufReader } from 'svcdb/lib/protobuf'
import type { AttributeRun } from './attribute-run.ts'
import { sideOf } from './bucket-side.ts'
import { type ExemplarSeries, PointExemplars } from './exemplars.ts'
import { NO_RECORDED_VALUE } from './number-points.ts'
import type { PointWriter } from './point-writer.ts'
import type { PointsReader } from './points-of.ts'
import type { Stream, Streams } from './streams.ts'

/** What a zero threshold that is not sent stands for, in the compatibility specification as in Prometheus. */
const ZERO_THRESHOLD = 1e-128

abstract class HistogramPoints implements PointsReader {
  protected readonly reader: ProtobufReader
  protected readonly most: number
  protected timeLow = 0
  protected timeHigh = 0
  protected count = 0
  /** NaN: not sent. */
  protected sum = Number.NaN
  protected flags = 0
  protected readonly attributes: AttributeRun
  protected readonly writer: PointWriter
  private readonly streams: Streams
  private stream!: Stream
  private delta = false
  private readonly exemplars: PointExemplars

  constructor(reader: ProtobufReader, writer: PointWriter, streams: Streams, attributes: AttributeRun, most: number) {
    this.reader = reader
    this.writer = writer
    this.streams = streams
    this.attributes = attributes
    this.most = most
    this.exemplars = new PointExemplars(reader)
  }

  begin(stream: Stream, delta: boolean): void {
    this.stream = stream
    this.delta = delta
  }

  point(start: number, end: number): void {
    const { reader, writer, attributes } = this
    const { metric } = this.stream
    writer.next()
    this.timeLow = this.timeHigh = this.count = this.flags = 0
    this.sum = Number.NaN
    this.clear()
    this.exemplars.clear()
    attributes.begin(reader)
    reader.at = start
    reader.end = end
    for (let from = start; reader.next(); from = reader.at) {
      switch (reader.field) {
        case 3:
          reader.fixed64()
          this.timeLow = reader.low
          this.timeHigh = reader.high
          break
        case 4:
          reader.fixed64()
          this.count = reader.unsigned
          break
        case 5:
          this.sum = reader.double()
          if (!Number.isFinite(this.sum)) this.unsetSum()
          break
        case 10:
          this.flags = reader.uint32()
          break
        default:
          this.field(from)
      }
    }
    attributes.finish()
    try {
      const problem = writer.timeProblem(metric, this.timeLow, this.timeHigh)
      if (problem !== undefined) throw problem
      const read = (this.flags & NO_RECORDED_VALUE) !== 0 ? undefined : this.finish()
      if (typeof read === 'string') throw new SvcError('INVALID_POINT', `cannot write histogram of metric "${metric.ref.name}": ${read}`)
      // What was added up since the point before says nothing of resets: it is a gauge to PromQL.
      if (read !== undefined && this.delta) read.counterReset = 'gauge'
      writer.histogram(metric, this.streams.seriesOf(this.stream, attributes), this.timeLow, this.timeHigh, read)
      this.exemplars.read(() => this.series(), writer.outcome)
    } catch (error) {
      if (!(error instanceof SvcError) || error.code === 'BAD_REQUEST') throw error
      writer.refuse(error)
    }
  }

  protected abstract clear(): void
  /** Reads a field that only this message has. @param from where its tag lies. */
  protected abstract field(from: number): void
  /** @returns a histogram that is good until the next point is read; the reason in words when it cannot be stored. */
  protected abstract finish(): NativeHistogram | string

  protected attribute(from: number): void {
    this.reader.span()
    this.attributes.add(from, this.reader.at)
  }

  protected exemplar(): void {
    const { reader, writer } = this
    const at = reader.span()
    writer.outcome.exemplars++
    if (writer.wantsExemplars) this.exemplars.add(at, reader.at)
  }

  private series(): ExemplarSeries | undefined {
    const labels = this.streams.labelsOf(this.stream, this.attributes, this.stream.metric.ref.name)
    return labels === undefined ? undefined : { labels, histogram: true }
  }

  protected tooMany(parts: number): string | undefined {
    return parts > this.most ? `the histogram has ${parts} buckets or boundaries, otlp.max_buckets_per_histogram is ${this.most}` : undefined
  }

  protected begun(schema: number): NativeHistogram {
    const histogram = emptyHistogram()
    histogram.schema = schema
    histogram.count = this.count
    histogram.sum = this.sum
    // Above, counts are no exact doubles any more and need not add up.
    histogram.integer = this.count <= Number.MAX_SAFE_INTEGER
    return histogram
  }

  private unsetSum(): void {
    this.sum = Number.NaN
    this.writer.outcome.nonFinite++
  }
}

export class ExplicitPoints extends HistogramPoints {
  private readonly counts = new NumberList(this.most)
  private readonly bounds = new NumberList(this.most)

  protected clear(): void {
    this.counts.length = this.bounds.length = 0
  }

  protected field(from: number): void {
    const { reader } = this
    if (reader.field === 6) this.counts.fixed64s(reader)
    else if (reader.field === 7) this.bounds.doubles(reader)
    else if (reader.field === 8) this.exemplar()
    else if (reader.field === 9) this.attribute(from)
    else reader.skip()
  }

  protected finish(): NativeHistogram | string {
    const { counts, bounds } = this
    const many = this.tooMany(Math.max(counts.length, bounds.length))
    if (many !== undefined) return many
    // Without buckets there is one, of everything.
    if (counts.length === 0 && bounds.length === 0) counts.push(this.count)
    if (counts.length !== bounds.length + 1) return `it has ${counts.length} bucket counts and ${bounds.length} bounds; there is one count more than bounds`
    const histogram = this.begun(CUSTOM_BUCKETS_SCHEMA)
    const { spans, counts: populated } = sideOf(counts.values, counts.length, 0)
    histogram.positiveSpans = spans
    histogram.positiveCounts = populated
    histogram.customBounds = bounds.values.subarray(0, bounds.length)
    return checkHistogram(histogram) ?? histogram
  }
}

export class ExponentialPoints extends HistogramPoints {
  private scale = 0
  private zeroCount = 0
  private zeroThreshold = 0
  private positiveOffset = 0
  private negativeOffset = 0
  private readonly positive = new NumberList(this.most)
  private readonly negative = new NumberList(this.most)

  protected clear(): void {
    this.scale = this.zeroCount = this.zeroThreshold = this.positiveOffset = this.negativeOffset = 0
    this.positive.length = this.negative.length = 0
  }

  protected field(from: number): void {
    const { reader } = this
    switch (reader.field) {
      case 1:
        this.attribute(from)
        break
      case 6:
        this.scale = reader.sint32()
        break
      case 7:
        reader.fixed64()
        this.zeroCount = reader.unsigned
        break
      case 8:
        this.positiveOffset = this.buckets(this.positive, this.positiveOffset)
        break
      case 9:
        this.negativeOffset = this.buckets(this.negative, this.negativeOffset)
        break
      case 11:
        this.exemplar()
        break
      case 14:
        this.zeroThreshold = reader.double()
        break
      default:
        reader.skip()
    }
  }

  /** A message that is sent in parts is one. @returns its offset. */
  private buckets(into: NumberList, known: number): number {
    const { reader } = this
    const outer = reader.enter()
    let offset = known
    while (reader.next()) {
      if (reader.field === 1) offset = reader.sint32()
      else if (reader.field === 2) into.varints(reader)
      else reader.skip()
    }
    reader.leave(outer)
    return offset
  }

  protected finish(): NativeHistogram | string {
    const { positive, negative, scale, zeroThreshold } = this
    const problem = this.tooMany(Math.max(positive.length, negative.length)) ?? schemaProblem(scale)
    if (problem !== undefined) return problem
    if (!(zeroThreshold >= 0 && zeroThreshold < Number.POSITIVE_INFINITY)) return `its zero_threshold is ${zeroThreshold}, which is no width of a bucket`
    const histogram = this.begun(scale)
    histogram.zeroThreshold = zeroThreshold === 0 ? ZERO_THRESHOLD : zeroThreshold
    histogram.zeroCount = this.zeroCount
    // OTLP numbers a bucket by its lower bound, native histograms by its upper one.
    const above = sideOf(positive.values, positive.length, this.positiveOffset + 1)
    const below = sideOf(negative.values, negative.length, this.negativeOffset + 1)
    histogram.positiveSpans = above.spans
    histogram.positiveCounts = above.counts
    histogram.negativeSpans = below.spans
    histogram.negativeCounts = below.counts
    const kept = reduceToKept(histogram)
    return checkHistogram(kept) ?? kept
  }
}
