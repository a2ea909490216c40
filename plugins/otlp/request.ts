/** ExportMetricsServiceRequest from bytes to columns: down to the metrics; their points are read by kind. */
import type { MetricMetadataEntry } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import type { Work } from 'svcdb/lib/event-loop'
import { BYTES, ProtobufReader, ProtobufWriter } from 'svcdb/lib/protobuf'
import { AttributeRun } from './attribute-run.ts'
import { AttributeError, textAt } from './attribute-value.ts'
import { ExplicitPoints, ExponentialPoints } from './histogram-points.ts'
import { DELTA, EXPONENTIAL, GAUGE, HISTOGRAM, isPoints, type MetricHeader, SUM, SUMMARY } from './metric-header.ts'
import { NumberPoints } from './number-points.ts'
import type { PointWriter } from './point-writer.ts'
import { MAX_FIELDS, PointsMessage, type PointsReader } from './points-of.ts'
import type { Bytes, Stream, Streams } from './streams.ts'
import { SummaryPoints } from './summary-points.ts'

const NAME = 1
const DESCRIPTION = 2
const UNIT = 3
/** Between two places where the work can be interrupted. */
const SLICE_MESSAGES = 16
/** Of a data point: of all but its buckets, and of one of those, with its boundary. */
const POINT_BYTES = 1_048_576
const BUCKET_BYTES = 16

interface RequestOptions {
  scopeTags: boolean
  refuseDelta: boolean
  maxBuckets: number
  maxQuantiles: number
}

export class MetricsRequest {
  private readonly reader = new ProtobufReader()
  private readonly attributes = new AttributeRun()
  private readonly message: PointsMessage
  private readonly numbers: NumberPoints
  private readonly explicit: ExplicitPoints
  private readonly exponential: ExponentialPoints
  private readonly summaries: SummaryPoints
  private readonly writer: PointWriter
  private readonly streams: Streams
  private readonly options: RequestOptions
  private note: (entry: MetricMetadataEntry) => void = () => {}

  constructor(writer: PointWriter, streams: Streams, options: RequestOptions) {
    const { reader, attributes } = this
    this.writer = writer
    this.streams = streams
    this.options = options
    const maxBytes = POINT_BYTES + options.maxBuckets * BUCKET_BYTES
    const refuse = (bytes: number): void => {
      writer.next()
      writer.refuse(
        new SvcError('INVALID_POINT', `cannot write a data point of ${bytes} bytes: it has at most ${maxBytes}; give it fewer attributes or buckets`),
      )
    }
    this.message = new PointsMessage(maxBytes, refuse, () => streams.tired)
    this.numbers = new NumberPoints(reader, writer, streams, attributes)
    this.explicit = new ExplicitPoints(reader, writer, streams, attributes, options.maxBuckets)
    this.exponential = new ExponentialPoints(reader, writer, streams, attributes, options.maxBuckets)
    this.summaries = new SummaryPoints(reader, writer, streams, attributes, options.maxQuantiles)
  }

  /** @throws BAD_REQUEST for what is no such message. */
  *read(message: Uint8Array, note: (entry: MetricMetadataEntry) => void): Work<void> {
    const { reader } = this
    this.note = note
    this.streams.begin()
    try {
      reader.begin(message)
      yield* this.each(0, reader.end, 1, (start, end) => this.resourceMetrics(start, end))
      this.writer.outcome.points = this.writer.position + 1
    } finally {
      reader.release() // the request may be large and is not ours
      this.attributes.release()
      this.streams.release()
    }
  }

  /** ResourceMetrics: the resource may come behind what it is the resource of. */
  private *resourceMetrics(start: number, end: number): Work<void> {
    const resource = this.streams.resource(yield* this.single(start, end, 1))
    yield* this.each(start, end, 2, (from, to) => this.scopeMetrics(resource, from, to))
  }

  private *scopeMetrics(resource: number, start: number, end: number): Work<void> {
    const origin = this.options.scopeTags ? this.streams.scope(resource, yield* this.single(start, end, 1)) : resource
    yield* this.each(start, end, 2, (from, to) => this.metric(origin, from, to))
  }

  /** @returns what is left to do: its points when they are many. */
  private metric(origin: number, start: number, end: number): Work<void> | undefined {
    const { reader } = this
    let data = 0
    let fields = 0
    let from = start
    let to = start
    let headerEnd = start
    let usual = true
    reader.at = start
    reader.end = end
    for (let tag = start; reader.next(); tag = reader.at) {
      const { field } = reader
      if (++fields > MAX_FIELDS) throw reader.fault('a metric has too many fields', tag)
      if (isPoints(field)) {
        usual = usual && data === 0
        data = field
        headerEnd = tag
        from = reader.span()
        to = reader.at
      } else {
        if (data !== 0 && field <= UNIT) usual = false
        reader.skip()
      }
    }
    if (!usual) return this.reordered(origin, start, end)
    return data === 0 ? undefined : this.points(origin, { bytes: reader.bytes, view: reader.view, start, end: headerEnd }, data, from, to)
  }

  /** @param header name, description and unit. @param start @param end of the message with the points. */
  private points(origin: number, header: Bytes, data: number, start: number, end: number): Work<void> | undefined {
    const { reader, message, writer, streams } = this
    message.scan(reader, start, end, writer.room)
    const { points, temporality, monotonic } = message
    if (points > writer.room) throw writer.tooMany()
    if (points === 0) return // nothing to store, so there is no metric to begin
    const delta = temporality === DELTA && data !== GAUGE && data !== SUMMARY
    const kind = data * 4 + (delta ? 2 : 0) + (monotonic && data === SUM ? 1 : 0)
    let stream: Stream
    const position = writer.position + 1
    try {
      stream = streams.stream(origin, header, kind, () => this.header(header, data, delta, monotonic), this.note)
      if (delta && this.options.refuseDelta) throw deltaRefused(stream.metric.ref.name)
    } catch (error) {
      if (!(error instanceof SvcError) || error.code === 'BAD_REQUEST') throw error
      writer.refuseAll(error, points)
      return
    }
    writer.outcome.metrics.push({ position, name: stream.metric.ref.name })
    const into = this.reading(stream, data, delta)
    const at = message.read(reader, start, end, into)
    return at < end ? this.further(at, end, into) : undefined
  }

  private *further(start: number, end: number, into: PointsReader): Work<void> {
    let at = start
    while (at < end) {
      yield* this.pause()
      at = this.message.read(this.reader, at, end, into)
    }
  }

  /** A place where the work can be interrupted. */
  private *pause(): Work<void> {
    yield
    this.streams.resume()
  }

  private reading(stream: Stream, data: number, delta: boolean): PointsReader {
    switch (data) {
      case HISTOGRAM:
        this.explicit.begin(stream, delta)
        return this.explicit
      case EXPONENTIAL:
        this.exponential.begin(stream, delta)
        return this.exponential
      case SUMMARY:
        this.summaries.begin(stream)
        return this.summaries
      default:
        this.numbers.begin(stream, data === GAUGE)
        return this.numbers
    }
  }

  private header({ start, end }: Bytes, data: number, delta: boolean, monotonic: boolean): MetricHeader {
    const { reader } = this
    const header: MetricHeader = { data, name: '', description: '', unit: '', delta, monotonic }
    let named = true
    reader.at = start
    reader.end = end
    while (reader.next()) {
      const { field } = reader
      if (field > UNIT || reader.wire !== BYTES) {
        reader.skip()
        continue
      }
      const from = reader.span()
      if (field === NAME) named = this.name(header, from, reader.at)
      else if (field === DESCRIPTION) header.description = this.shown(from, reader.at)
      else header.unit = this.shown(from, reader.at)
    }
    if (!named) throw new SvcError('INVALID_POINT', 'cannot write points of a metric: its name is not UTF-8')
    return header
  }

  private name(header: MetricHeader, start: number, end: number): boolean {
    try {
      header.name = textAt(this.reader.bytes, start, end)
      return true
    } catch (error) {
      if (!(error instanceof AttributeError)) throw error
      return false
    }
  }

  /** Text that is only shown: what is no UTF-8 in it is replaced. */
  private shown(start: number, end: number): string {
    return Buffer.from(this.reader.bytes.subarray(start, end)).toString('utf8')
  }

  /** A metric whose fields come in an order, or a number, that no encoder writes, though the format allows it: read again in the usual one. */
  private *reordered(origin: number, start: number, end: number): Work<void> {
    const { reader } = this
    const whole = reader.bytes
    const out = new ProtobufWriter(end - start)
    const header = new Map<number, Uint8Array>()
    let data = 0
    let parts: Uint8Array[] = []
    reader.at = start
    reader.end = end
    while (reader.next()) {
      const { field } = reader
      if (!isPoints(field) && (field > UNIT || reader.wire !== BYTES)) {
        reader.skip()
        continue
      }
      const from = reader.span()
      const value = whole.subarray(from, reader.at)
      if (field <= UNIT) header.set(field, value)
      else {
        // Of different kinds the last one counts; the parts of one are one message.
        if (field !== data) parts = []
        data = field
        parts.push(value)
      }
    }
    for (const field of [NAME, DESCRIPTION, UNIT]) if (header.has(field)) out.blob(field, header.get(field) as Uint8Array)
    out.blob(data, Buffer.concat(parts))
    const message = out.take()
    reader.begin(message)
    const more = this.metric(origin, 0, message.length)
    if (more !== undefined) yield* more
    reader.begin(whole)
  }

  /** Calls back for each of the messages in a repeated field; the reader's place is the callee's to change. */
  private *each(start: number, end: number, field: number, read: (start: number, end: number) => Work<void> | undefined): Work<void> {
    const { reader } = this
    let at = start
    for (let count = 1; at < end; count++) {
      if (count % SLICE_MESSAGES === 0 || this.streams.tired) yield* this.pause()
      reader.at = at
      reader.end = end
      reader.next()
      if (reader.field !== field) {
        reader.skip()
        at = reader.at
        continue
      }
      const from = reader.span()
      at = reader.at
      const more = read(from, at)
      if (more !== undefined) yield* more
    }
  }

  /** Where the one message of a field lies; the parts of one that is sent in parts are joined. */
  private *single(start: number, end: number, field: number): Work<Bytes> {
    const { reader } = this
    const { bytes, view } = reader
    let parts = 0
    let first = 0
    let last = 0
    let joined: ProtobufWriter | undefined
    yield* this.each(start, end, field, (from, to) => {
      if (parts++ === 0) [first, last] = [from, to]
      else {
        if (joined === undefined) (joined = new ProtobufWriter()).append(bytes.subarray(first, last))
        joined.append(bytes.subarray(from, to))
      }
      return undefined
    })
    if (joined === undefined) return { bytes, view, start: first, end: last }
    const whole = joined.take()
    return { bytes: whole, view: new DataView(whole.buffer, whole.byteOffset, whole.length), start: 0, end: whole.length }
  }
}

function deltaRefused(metric: string): SvcError {
  return new SvcError(
    'INVALID_POINT',
    `cannot write points of metric "${metric}": they are of delta temporality, and otlp.delta is "refuse"; send cumulative ones, or let the Collector's deltatocumulative processor make them`,
  )
}
