/** SummaryDataPoint, to the fields count, sum and one for each quantile. */
import { SvcError } from 'svcdb/lib/errors'
import type { ProtobufReader } from 'svcdb/lib/protobuf'
import type { AttributeRun } from './attribute-run.ts'
import { NO_RECORDED_VALUE } from './number-points.ts'
import type { PointWriter } from './point-writer.ts'
import type { PointsReader } from './points-of.ts'
import type { Stream, Streams } from './streams.ts'

const COUNT = 'count'
const SUM = 'sum'
const QUANTILE = 'quantile_'

export class SummaryPoints implements PointsReader {
  private readonly reader: ProtobufReader
  private readonly writer: PointWriter
  private readonly streams: Streams
  private readonly attributes: AttributeRun
  private readonly most: number
  /** Values by field. */
  private readonly fields = new Map<string, number>()
  private stream!: Stream
  private quantiles = 0
  private problem: string | undefined

  /** @param most quantiles of one point. */
  constructor(reader: ProtobufReader, writer: PointWriter, streams: Streams, attributes: AttributeRun, most: number) {
    this.reader = reader
    this.writer = writer
    this.streams = streams
    this.attributes = attributes
    this.most = most
  }

  begin(stream: Stream): void {
    this.stream = stream
  }

  point(start: number, end: number): void {
    const { reader, writer, attributes, fields } = this
    const { metric } = this.stream
    writer.next()
    attributes.begin(reader)
    fields.clear()
    fields.set(COUNT, 0).set(SUM, 0)
    this.quantiles = 0
    this.problem = undefined
    let timeLow = 0
    let timeHigh = 0
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
          reader.fixed64()
          fields.set(COUNT, reader.unsigned)
          break
        case 5:
          fields.set(SUM, reader.double())
          break
        case 6:
          this.quantile()
          break
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
    try {
      const problem = writer.timeProblem(metric, timeLow, timeHigh)
      if (problem !== undefined) throw problem
      if (this.problem !== undefined) throw new SvcError('INVALID_POINT', `cannot write summary of metric "${metric.ref.name}": ${this.problem}`)
      const isEnd = (flags & NO_RECORDED_VALUE) !== 0
      if (!isEnd) this.dropNonFinite()
      writer.fields(metric, this.streams.seriesOf(this.stream, attributes), timeLow, timeHigh, isEnd ? this.ends() : fields)
    } catch (error) {
      if (!(error instanceof SvcError) || error.code === 'BAD_REQUEST') throw error
      writer.refuse(error)
    }
  }

  private quantile(): void {
    const { reader } = this
    const outer = reader.enter()
    let quantile = 0
    let value = 0
    while (reader.next()) {
      if (reader.field === 1) quantile = reader.double()
      else if (reader.field === 2) value = reader.double()
      else reader.skip()
    }
    reader.leave(outer)
    if (!(quantile >= 0 && quantile <= 1)) this.problem ??= `it has a quantile of ${quantile}; quantiles are between 0 and 1`
    else if (++this.quantiles > this.most) this.problem ??= `it has more than ${this.most} quantiles, otlp.max_quantiles_per_summary`
    else this.fields.set(QUANTILE + quantile, value)
  }

  /** What has no finite value, such as quantiles of no observations, is left out. */
  private dropNonFinite(): void {
    for (const [name, value] of this.fields) {
      if (Number.isFinite(value)) continue
      this.fields.delete(name)
      this.writer.outcome.nonFinite++
    }
  }

  /** Every series that the measurement has of the summary ends here. */
  private *ends(): Iterable<readonly [string, number]> {
    const { fields } = this
    for (const name of this.writer.floatFields(this.stream.metric)) if (name.startsWith(QUANTILE) && !fields.has(name)) yield [name, Number.NaN]
    for (const name of fields.keys()) yield [name, Number.NaN]
  }
}
