/**
 * prometheus.WriteRequest, remote write 1.0, from bytes to columns. A series is recognised by its labels as they lie in the message.
 */
import { SvcError } from 'svcdb/lib/errors'
import type { Work } from 'svcdb/lib/event-loop'
import type { ProtobufReader } from 'svcdb/lib/protobuf'
import type { SlotMemory } from 'svcdb/lib/snappy'
import { labelV1, readExemplars, seriesV1 } from './exemplars.ts'
import { type LabelSet, MAX_LABELS_BYTES } from './label-set.ts'
import { labelsFirst } from './labels-first.ts'
import type { NoteMetadata } from './metadata.ts'
import { METRIC_TYPES } from './metadata.ts'
import type { Metric } from './metric.ts'
import { SAMPLE_TAG } from './plain-sample.ts'
import { SERIES_TAG } from './runs-module.ts'
import type { SampleWriter } from './sample-writer.ts'
import { type BodyFields, LABELS, type SeriesBody, SLICE_BYTES } from './series-body.ts'
import type { SeriesCache } from './series-cache.ts'
import type { SeriesRuns } from './series-runs.ts'

export const FIELDS_V1: BodyFields = { exemplars: 3, histograms: 4, metadata: 0 }

const TIMESERIES = 1
const METADATA = 3
/** Between two places where the work can be interrupted. */
const SLICE_SERIES = 64
/** Field 1, length-delimited: of a series a label. */
const LABEL_TAG = 0x0a

export class RequestV1 {
  private readonly reader: ProtobufReader
  private readonly cache: SeriesCache
  private readonly labels: LabelSet
  private readonly body: SeriesBody
  private readonly writer: SampleWriter

  constructor(reader: ProtobufReader, cache: SeriesCache, labels: LabelSet, body: SeriesBody, writer: SampleWriter) {
    this.reader = reader
    this.cache = cache
    this.labels = labels
    this.body = body
    this.writer = writer
  }

  /** @param memory that the message may lie in. @throws BAD_REQUEST for what is no such message. */
  *read(message: Uint8Array, note: NoteMetadata, memory: SlotMemory | undefined): Work<void> {
    const { reader, cache, writer } = this
    cache.begin()
    const runs = memory?.memory.buffer === message.buffer ? cache.runsIn(memory) : undefined
    reader.begin(message)
    const { bytes, end } = reader
    let position = 0
    let left = SLICE_SERIES
    let far = SLICE_BYTES
    while (reader.at < end) {
      if (--left <= 0 || reader.at > far) {
        const { at } = reader
        yield
        cache.begin()
        left = SLICE_SERIES
        far = at + SLICE_BYTES
      }
      const taken = runs === undefined ? 0 : this.run(runs, message.byteOffset, end, position)
      if (taken > 0) {
        position += taken
        left -= taken
        continue
      }
      // As nearly all series begin: the tag, and a length of two bytes.
      const { at } = reader
      if (at + 3 <= end && bytes[at] === SERIES_TAG && bytes[at + 1] >= 0x80 && bytes[at + 2] < 0x80) {
        const start = at + 3
        const after = start + ((bytes[at + 1] & 0x7f) | (bytes[at + 2] << 7))
        if (after <= end) {
          writer.position = position++
          const more = this.series(start, after)
          if (more !== undefined) yield* more
          reader.at = after
          reader.end = end
          continue
        }
      }
      reader.next()
      if (reader.field === TIMESERIES) {
        writer.position = position++
        const start = reader.span()
        const after = reader.at
        const more = this.series(start, after)
        if (more !== undefined) yield* more
        reader.at = after
        reader.end = end
      } else if (reader.field === METADATA) this.metadata(note)
      else reader.skip()
    }
  }

  /** Reads a run of series. @param address of the message. @param position of the first. @returns how many there were. */
  private run(runs: SeriesRuns, address: number, end: number, position: number): number {
    const { reader, cache, writer } = this
    if (cache.lastEntry < 0) return 0
    const taken = runs.take(address + reader.at, address + end, cache.lastEntry)
    if (taken === 0) return 0
    writer.offer(taken)
    for (let i = 0; i < taken; i++) {
      cache.takeExpected()
      writer.position = position + i
      writer.finite(cache.metric, cache.series, runs.time(i), runs.low(i), runs.high(i))
    }
    reader.at = runs.end - address
    return taken
  }

  /** @returns what is left to do: its samples when they are many. */
  private series(start: number, end: number): Work<void> | undefined {
    const { reader, cache, body, writer } = this
    const { bytes, view } = reader
    let known = true
    let labelsEnd = cache.expectedEnd(view, start)
    // It may be the beginning of a longer list of labels, or reach into the next message.
    if (labelsEnd >= 0 && labelsEnd <= end && (labelsEnd === end || (bytes[labelsEnd] >>> 3 !== LABELS && bytes[labelsEnd] < 0x80))) cache.takeExpected()
    else {
      labelsEnd = this.endOfLabels(start, end)
      known = labelsEnd - start <= MAX_LABELS_BYTES && cache.find(view, start, labelsEnd)
    }
    if (known && bytes[labelsEnd] === SAMPLE_TAG && bytes[labelsEnd + 1] < 0x80 && labelsEnd + 2 + bytes[labelsEnd + 1] === end) {
      writer.offer(1)
      body.sample(labelsEnd + 2, end, cache.metric, cache.series)
      return
    }
    body.scan(labelsEnd, end, writer.room)
    if (body.scattered) return this.reordered(start, end)
    writer.outcome.exemplars += body.exemplars
    if (body.exemplars > 0 && writer.wantsExemplars) this.exemplars(start, labelsEnd, end)
    const samples = body.samples
    const histograms = body.histograms
    if (samples + histograms === 0) return // nothing to store, so there is no series to begin
    writer.offer(samples + histograms)
    if (!known && !this.intern(start, labelsEnd, samples, histograms)) return
    const { metric, series } = cache
    const at = body.read(labelsEnd, end, metric, series)
    return at < end ? this.further(at, end, metric, series) : undefined
  }

  private exemplars(start: number, labelsEnd: number, end: number): void {
    const { reader, writer } = this
    const place = [labelsEnd, end, FIELDS_V1.exemplars] as const
    readExemplars(
      reader,
      place,
      () => seriesV1(reader, start, labelsEnd),
      () => labelV1(reader),
      writer.outcome,
    )
  }

  private *further(start: number, end: number, metric: Metric, series: number): Work<void> {
    let at = start
    while (at < end) {
      yield
      at = this.body.read(at, end, metric, series)
    }
    this.cache.begin()
  }

  /** Takes the labels of a new series apart; false when they are refused. */
  private intern(start: number, end: number, samples: number, histograms: number): boolean {
    const { reader, labels } = this
    labels.begin(reader.bytes)
    reader.at = start
    reader.end = end
    if (labels.fits(end - start)) while (reader.next()) this.label()
    try {
      this.cache.add(labels, reader.bytes, reader.view, start, end)
      return true
    } catch (error) {
      if (!(error instanceof SvcError)) throw error
      this.writer.refuse(samples, histograms, error.code, error.message)
      return false
    }
  }

  private label(): void {
    const { reader } = this
    const outer = reader.enter()
    let nameStart = 0
    let nameEnd = 0
    let valueStart = 0
    let valueEnd = 0
    while (reader.next()) {
      if (reader.field === 1) {
        nameStart = reader.span()
        nameEnd = reader.at
      } else if (reader.field === 2) {
        valueStart = reader.span()
        valueEnd = reader.at
      } else reader.skip()
    }
    reader.leave(outer)
    this.labels.add(nameStart, nameEnd, valueStart, valueEnd)
  }

  /** Where the run of labels at `start` ends. */
  private endOfLabels(start: number, end: number): number {
    const { reader } = this
    const { bytes } = reader
    let at = start
    for (;;) {
      while (at < end && bytes[at] === LABEL_TAG && bytes[at + 1] < 0x80 && at + 2 + bytes[at + 1] <= end) at += 2 + bytes[at + 1]
      reader.at = at
      reader.end = end
      if (!reader.next() || reader.field !== LABELS) return at
      reader.span()
      at = reader.at
    }
  }

  private *reordered(start: number, end: number): Work<void> {
    const { reader } = this
    const whole = reader.bytes
    reader.begin(labelsFirst(reader, start, end))
    const more = this.series(0, reader.end)
    if (more !== undefined) yield* more
    reader.begin(whole)
  }

  private metadata(note: NoteMetadata): void {
    const { reader } = this
    const outer = reader.enter()
    let type = 0
    let metric = ''
    let help = ''
    let unit = ''
    while (reader.next()) {
      if (reader.field === 1) type = reader.uint32()
      else if (reader.field === 2) metric = this.text()
      else if (reader.field === 4) help = this.text()
      else if (reader.field === 5) unit = this.text()
      else reader.skip()
    }
    reader.leave(outer)
    note({ metric, type: METRIC_TYPES[type] ?? METRIC_TYPES[0], help, unit })
  }

  /** Text that is only shown: what is no UTF-8 in it is replaced. */
  private text(): string {
    const { reader } = this
    const start = reader.span()
    return Buffer.from(reader.bytes.buffer, reader.bytes.byteOffset + start, reader.at - start).toString('utf8')
  }
}
