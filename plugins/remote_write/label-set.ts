/**
 * The labels of a series seen for the first time, taken apart: where they lie in the request, and what is wrong with them.
 * The rules are Prometheus': any order, names and values in UTF-8, each name once, a name for the metric; a label without a value is none.
 */
import type { MeasurementRef, SeriesResolver } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import { utf8Of } from 'svcdb/lib/text'

const METRIC_NAME = Uint8Array.from('__name__', (c) => c.charCodeAt(0))
/** The most that an engine can be set to take (`database.max_tags_per_series`); it decides on the rest. */
export const MAX_LABELS = 1024
/** Of one series, as they are sent: they are hashed and taken apart in one go. */
export const MAX_LABELS_BYTES = 1_048_576
const SHOWN = 64
const NO_BYTES = new Uint8Array(0)

export class LabelSet {
  private bytes: Uint8Array = NO_BYTES
  /** Start and end of name and value of each label but the metric's name. */
  private ranges = new Int32Array(32 * 4)
  private count = 0
  private nameStart = -1
  private nameEnd = -1
  /** Printable ASCII throughout, and nothing empty. */
  private plain = true
  private problem: string | undefined

  begin(bytes: Uint8Array): void {
    this.bytes = bytes
    this.count = 0
    this.nameStart = this.nameEnd = -1
    this.plain = true
    this.problem = undefined
  }

  /** Says why the labels cannot be read; the first reason stays. */
  fail(problem: string): void {
    this.problem ??= problem
  }

  /** Whether labels of so many bytes are taken apart at all. */
  fits(bytes: number): boolean {
    if (bytes > MAX_LABELS_BYTES) this.fail(`its labels have more than ${MAX_LABELS_BYTES} bytes`)
    return bytes <= MAX_LABELS_BYTES
  }

  add(nameStart: number, nameEnd: number, valueStart: number, valueEnd: number): void {
    if (nameStart === nameEnd) return this.fail('a label has an empty name')
    if (this.isMetricName(nameStart, nameEnd)) {
      if (this.nameStart >= 0) return this.fail('the label "__name__" occurs twice')
      this.nameStart = valueStart
      this.nameEnd = valueEnd
      return
    }
    if (this.count === MAX_LABELS) return this.fail(`it has more than ${MAX_LABELS} labels`)
    const place = this.count++ * 4
    if (place === this.ranges.length) this.grow()
    this.ranges[place] = nameStart
    this.ranges[place + 1] = nameEnd
    this.ranges[place + 2] = valueStart
    this.ranges[place + 3] = valueEnd
    if (this.plain) this.plain = valueStart < valueEnd && this.isPlain(nameStart, nameEnd) && this.isPlain(valueStart, valueEnd)
  }

  /** The metric's name. @throws INVALID_POINT when this is no label set; SvcError like all that follows. */
  metricName(): string {
    if (this.problem !== undefined) throw this.refusal(this.problem)
    if (this.nameStart === this.nameEnd) throw this.refusal('it has no label "__name__"; every series needs the name of its metric')
    return this.text(this.nameStart, this.nameEnd, 'the name of the metric')
  }

  /** The number of the series. @throws INVALID_POINT, CARDINALITY_EXCEEDED. */
  resolve(resolver: SeriesResolver, metric: MeasurementRef): number {
    const { bytes, ranges, count } = this
    if (this.plain && resolver.seriesAscii !== undefined) {
      const series = resolver.seriesAscii(metric, bytes, ranges, count)
      if (series >= 0) return series
    }
    const tags: string[] = []
    const seen = new Set<string>()
    for (let place = 0; place < count * 4; place += 4) {
      const name = this.text(ranges[place], ranges[place + 1], 'a label name')
      if (seen.has(name)) throw this.refusal(`the label "${name.slice(0, SHOWN)}" occurs twice`)
      seen.add(name)
      tags.push(name, this.text(ranges[place + 2], ranges[place + 3], `the value of label "${name.slice(0, SHOWN)}"`))
    }
    return resolver.series(metric, tags)
  }

  private isMetricName(start: number, end: number): boolean {
    if (end - start !== METRIC_NAME.length) return false
    for (let i = 0; i < METRIC_NAME.length; i++) if (this.bytes[start + i] !== METRIC_NAME[i]) return false
    return true
  }

  private isPlain(start: number, end: number): boolean {
    for (let i = start; i < end; i++) if (this.bytes[i] < 32 || this.bytes[i] > 126) return false
    return true
  }

  private text(start: number, end: number, what: string): string {
    const text = utf8Of(this.bytes, start, end)
    if (text === undefined) throw this.refusal(`${what} is not UTF-8`)
    return text
  }

  private grow(): void {
    const grown = new Int32Array(this.ranges.length * 2)
    grown.set(this.ranges)
    this.ranges = grown
  }

  private refusal(reason: string): SvcError {
    return new SvcError('INVALID_POINT', `cannot write series: ${reason}`)
  }
}
