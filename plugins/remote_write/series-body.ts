/** What follows the labels of a series: samples and histograms into the batch, exemplars counted. */
import type { ProtobufReader } from 'svcdb/lib/protobuf'
import type { HistogramMessage } from './histogram-message.ts'
import type { Metric } from './metric.ts'
import { PLAIN_BYTES, plainTime, SAMPLE_TAG } from './plain-sample.ts'
import type { SampleWriter } from './sample-writer.ts'

/** The labels' field and that of the samples have the same numbers in both versions. */
export const LABELS = 1
const SAMPLES = 2
/** Exemplars, and fields that are not known: nobody sends as many, and each costs. */
const MAX_OTHERS = 262_144
/** Between two places where the work can be interrupted: some thousand samples. */
export const SLICE_BYTES = 65_536

/** Numbers of the other fields; 0 = the version has none. */
export interface BodyFields {
  histograms: number
  exemplars: number
  metadata: number
}

export class SeriesBody {
  /** What `scan` counted. */
  samples = 0
  histograms = 0
  exemplars = 0
  /** Where the metadata message lies, -1 = there is none. */
  metadataStart = -1
  metadataEnd = -1
  /** There are labels behind other fields. */
  scattered = false
  private readonly reader: ProtobufReader
  private readonly writer: SampleWriter
  private readonly message: HistogramMessage
  private readonly fields: BodyFields

  constructor(reader: ProtobufReader, writer: SampleWriter, message: HistogramMessage, fields: BodyFields) {
    this.reader = reader
    this.writer = writer
    this.message = message
    this.fields = fields
  }

  /** Counts what there is in [start, end), and checks that it is a message. @param most samples and histograms: with one more the count ends. */
  scan(start: number, end: number, most: number): void {
    const { reader, fields } = this
    const { bytes } = reader
    this.samples = this.histograms = this.exemplars = 0
    this.metadataStart = -1
    this.scattered = false
    let others = 0
    let at = start
    while (at < end && this.samples + this.histograms <= most) {
      if (bytes[at] === SAMPLE_TAG && bytes[at + 1] < 0x80 && at + 2 + bytes[at + 1] <= end) {
        this.samples++
        at += 2 + bytes[at + 1]
        continue
      }
      reader.at = at
      reader.end = end
      reader.next()
      const { field } = reader
      if (field !== SAMPLES && field !== fields.histograms && ++others > MAX_OTHERS) throw reader.fault('a series has too many fields', at)
      if (field === SAMPLES || field === fields.histograms || field === fields.exemplars || field === fields.metadata) {
        const from = reader.span()
        if (field === SAMPLES) this.samples++
        else if (field === fields.histograms) this.histograms++
        else if (field === fields.exemplars) this.exemplars++
        else {
          this.metadataStart = from
          this.metadataEnd = reader.at
        }
      } else {
        if (field === LABELS) this.scattered = true
        reader.skip()
      }
      at = reader.at
    }
  }

  /** Hands samples and histograms in [start, end), which has been scanned, to the writer, until that was some work. @returns where to go on, the end when it is done. */
  read(start: number, end: number, metric: Metric, series: number): number {
    const { reader, fields } = this
    const { bytes } = reader
    const far = start + SLICE_BYTES
    let at = start
    while (at < end && at < far) {
      if (bytes[at] === SAMPLE_TAG && bytes[at + 1] < 0x80) {
        const from = at + 2
        at = from + bytes[at + 1]
        this.sample(from, at, metric, series)
        continue
      }
      reader.at = at
      reader.end = end
      reader.next()
      if (reader.field === SAMPLES || reader.field === fields.histograms) {
        const { field } = reader
        const from = reader.span()
        at = reader.at
        if (field === SAMPLES) this.sample(from, at, metric, series)
        else this.histogram(from, at, metric, series)
      } else {
        reader.skip()
        at = reader.at
      }
    }
    return at
  }

  /** The message Sample in [start, end). */
  sample(start: number, end: number, metric: Metric, series: number): void {
    const { view } = this.reader
    const ms = end - start === PLAIN_BYTES ? plainTime(view, start) : -1
    if (ms >= 0) this.writer.float(metric, series, ms, view.getInt32(start + 1, true), view.getInt32(start + 5, true))
    else this.unusualSample(start, end, metric, series)
  }

  private unusualSample(start: number, end: number, metric: Metric, series: number): void {
    const { reader } = this
    let low = 0
    let high = 0
    let ms = 0
    reader.at = start
    reader.end = end
    while (reader.next()) {
      if (reader.field === 1) {
        reader.fixed64()
        low = reader.low
        high = reader.high
      } else if (reader.field === 2) {
        reader.int64()
        ms = reader.signed
      } else reader.skip()
    }
    this.writer.float(metric, series, ms, low, high)
  }

  private histogram(start: number, end: number, metric: Metric, series: number): void {
    const { reader, message, writer } = this
    reader.at = start
    reader.end = end
    const read = message.read(reader)
    if (typeof read === 'string') writer.refuse(0, 1, 'INVALID_POINT', `cannot write histogram of metric "${metric.ref.name}": ${read}`)
    else writer.histogram(metric, series, message.ms, message.stale ? undefined : read)
  }
}
