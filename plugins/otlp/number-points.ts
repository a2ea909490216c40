/** NumberDataPoint, of gauges and sums, from bytes to columns. */
import { VALUE_FIELD } from 'svcdb/lib/columns'
import { SvcError } from 'svcdb/lib/errors'
import type { ProtobufReader } from 'svcdb/lib/protobuf'
import type { AttributeRun } from './attribute-run.ts'
import { type ExemplarSeries, PointExemplars } from './exemplars.ts'
import type { PointWriter } from './point-writer.ts'
import type { PointsReader } from './points-of.ts'
import type { Stream, Streams } from './streams.ts'

const START_TAG = 0x11
const TIME_TAG = 0x19
const DOUBLE_TAG = 0x21
const INT_TAG = 0x31
const ATTRIBUTE_TAG = 0x3a
/** In the field `flags`: there is no value. */
export const NO_RECORDED_VALUE = 1

export class NumberPoints implements PointsReader {
  private readonly reader: ProtobufReader
  private readonly writer: PointWriter
  private readonly streams: Streams
  private readonly attributes: AttributeRun
  private stream!: Stream
  private gauge = false
  private readonly exemplars: PointExemplars

  constructor(reader: ProtobufReader, writer: PointWriter, streams: Streams, attributes: AttributeRun) {
    this.reader = reader
    this.writer = writer
    this.streams = streams
    this.attributes = attributes
    this.exemplars = new PointExemplars(reader)
  }

  begin(stream: Stream, gauge: boolean): void {
    this.stream = stream
    this.gauge = gauge
  }

  point(start: number, end: number): void {
    const { reader, writer, stream } = this
    const { bytes, view } = reader
    writer.next()
    // As most encoders write it, in the order of the fields: times, value, attributes and nothing else.
    const timeTag = bytes[start] === START_TAG ? start + 9 : start
    const valueTag = timeTag + 9
    const from = valueTag + 9
    if (from > end || bytes[timeTag] !== TIME_TAG) return this.unusual(start, end)
    const tag = bytes[valueTag]
    if (tag !== DOUBLE_TAG && tag !== INT_TAG) return this.unusual(start, end)
    const timeLow = view.getInt32(timeTag + 1, true)
    const timeHigh = view.getInt32(timeTag + 5, true)
    const low = view.getInt32(valueTag + 1, true)
    const high = view.getInt32(valueTag + 5, true)
    const series = this.streams.expected(stream, view, from, end)
    if (series >= 0 && timeHigh > 0) {
      if (tag === DOUBLE_TAG) writer.double(stream.metric, this.gauge, series, timeLow, timeHigh, low, high)
      else writer.integer(stream.metric, this.gauge, series, timeLow, timeHigh, low, high)
      return
    }
    if (!onlyAttributes(bytes, from, end)) return this.unusual(start, end)
    this.attributes.begin(reader)
    this.attributes.start = from
    this.attributes.end = end
    this.write(timeLow, timeHigh, tag, low, high)
  }

  private unusual(start: number, end: number): void {
    const { reader, attributes } = this
    attributes.begin(reader)
    this.exemplars.clear()
    let timeLow = 0
    let timeHigh = 0
    let low = 0
    let high = 0
    let tag = 0
    let flags = 0
    reader.at = start
    reader.end = end
    for (let from = start; reader.next(); from = reader.at) {
      switch (reader.field) {
        case 3:
          reader.fixed64()
          timeLow = reader.low
          timeHigh = reader.high
          break
        case 4:
        case 6:
          tag = reader.field === 4 ? DOUBLE_TAG : INT_TAG
          reader.fixed64()
          low = reader.low
          high = reader.high
          break
        case 5: {
          const at = reader.span()
          this.writer.outcome.exemplars++
          if (this.writer.wantsExemplars) this.exemplars.add(at, reader.at)
          break
        }
        case 7:
          reader.span()
          attributes.add(from, reader.at)
          break
        case 8:
          flags = reader.uint32()
          break
        default:
          reader.skip()
      }
    }
    attributes.finish()
    const { outcome } = this.writer
    const { refused } = outcome
    this.write(timeLow, timeHigh, (flags & NO_RECORDED_VALUE) !== 0 ? STALE : tag, low, high)
    if (outcome.refused === refused) this.exemplars.read(() => this.series(), outcome)
  }

  private series(): ExemplarSeries | undefined {
    const { stream, gauge, writer } = this
    const { name } = stream.metric.ref
    const field = gauge ? writer.gaugeField : VALUE_FIELD
    const labels = this.streams.labelsOf(stream, this.attributes, field === VALUE_FIELD ? name : `${name}_${field}`)
    return labels === undefined ? undefined : { labels }
  }

  /** Writes the point of the attributes at hand. @param tag of the value's field, 0 = there is none. */
  private write(timeLow: number, timeHigh: number, tag: number, low: number, high: number): void {
    const { writer, gauge, stream, attributes } = this
    const { metric } = stream
    try {
      const problem = writer.timeProblem(metric, timeLow, timeHigh)
      if (problem !== undefined) throw problem
      if (tag === 0) throw new SvcError('INVALID_POINT', `cannot write point of metric "${metric.ref.name}": it has no value; send as_double or as_int`)
      if (tag === DOUBLE_TAG && !writer.finite(high)) return // before it begins a series
      const series = this.streams.seriesOf(stream, attributes)
      if (tag === STALE) writer.staleNumber(metric, gauge, series, timeLow, timeHigh)
      else if (tag === DOUBLE_TAG) writer.double(metric, gauge, series, timeLow, timeHigh, low, high)
      else writer.integer(metric, gauge, series, timeLow, timeHigh, low, high)
    } catch (error) {
      if (!(error instanceof SvcError) || error.code === 'BAD_REQUEST') throw error
      writer.refuse(error)
    }
  }
}

const STALE = -1

function onlyAttributes(bytes: Uint8Array, start: number, end: number): boolean {
  let at = start
  while (at < end && bytes[at] === ATTRIBUTE_TAG && bytes[at + 1] < 0x80) at += 2 + bytes[at + 1]
  return at === end
}
