/**
 * Samples into the columns of a write: floats of all metrics in one table, as long as `value` is the only field they have, histograms in
 * the tables of their metrics. The two go into batches of their own, so that what the storage refuses of each can be told apart.
 */
import { type Column, FLOATS_BESIDE, HISTOGRAMS_BESIDE, typeConflict, VALUE_FIELD, type WriteBatch } from 'svcdb/lib/columns'
import { SvcError } from 'svcdb/lib/errors'
import { encodeHistogramInto, type NativeHistogram, staleHistogram } from 'svcdb/lib/histogram'
import { FLOATS, HISTOGRAMS, type Metric, NOTHING } from './metric.ts'
import type { DecodeOptions, Outcome } from './outcome.ts'
import { EXPONENT } from './plain-sample.ts'

const TWO_32 = 4294967296
/** The last whole milliseconds, either side of the epoch, whose nanoseconds are an int64. */
const MAX_MS = 9223372036854
const NS_PER_MS = 1_000_000
/** Halves of the staleness marker and of Prometheus' ordinary NaN; every other NaN becomes this one. */
const STALE_LOW = 2
const STALE_HIGH = 0x7ff00000
const NAN_LOW = 1
const NAN_HIGH = 0x7ff80000

const STALE_HISTOGRAM = staleHistogram()

export function isStale(low: number, high: number): boolean {
  return low === STALE_LOW && high === STALE_HIGH
}

export class SampleWriter {
  /** Place of the series at hand in the request. */
  position = 0
  outcome: Outcome = noOutcome()
  private offered = 0
  private timeLow = 0
  private timeHigh = 0
  /** What the time halves stand for: adjacent samples mostly have the same. */
  private ms = Number.NaN
  private serial = 0
  private floats!: WriteBatch
  private openHistograms!: () => WriteBatch
  private histograms: WriteBatch | undefined
  private options!: DecodeOptions

  /** @param histograms called at most once, when there is a histogram. @returns the number of this write. */
  begin(floats: WriteBatch, histograms: () => WriteBatch, options: DecodeOptions): number {
    this.floats = floats
    this.openHistograms = histograms
    this.histograms = undefined
    this.options = options
    this.outcome = noOutcome()
    this.offered = 0
    this.ms = Number.NaN
    return ++this.serial
  }

  /** Exemplars are read. */
  get wantsExemplars(): boolean {
    return this.options.exemplars === true
  }

  /** How many more samples and histograms the request may hold. */
  get room(): number {
    return this.options.maxSamples - this.offered
  }

  /** Announces samples and histograms. @throws BAD_REQUEST when they are more than one request may hold. */
  offer(count: number): void {
    this.offered += count
    if (this.offered <= this.options.maxSamples) return
    const limit = this.options.maxSamples
    throw new SvcError('BAD_REQUEST', `cannot write more than ${limit} samples at once: remote_write.max_samples_per_write is ${limit}; send smaller batches`)
  }

  /** Notes why samples of the series at hand are left out. */
  refuse(samples: number, histograms: number, code: string, message: string): void {
    const { outcome } = this
    outcome.refusedSamples += samples
    outcome.refusedHistograms += histograms
    if (outcome.failures.length < this.options.maxFailures) outcome.failures.push({ position: this.position, code, message })
  }

  /** Sets the time of the next sample, milliseconds since the epoch; false when nanoseconds cannot say it. */
  time(ms: number): boolean {
    if (ms === this.ms) return true
    if (!(ms <= MAX_MS && ms >= -MAX_MS)) return false
    // ms is below 2^44: in two parts every product below is an exact double.
    const upper = Math.floor(ms / 65536)
    const product = upper * NS_PER_MS
    const productHigh = Math.floor(product / 65536)
    const sum = (product - productHigh * 65536) * 65536 + (ms - upper * 65536) * NS_PER_MS
    const carry = Math.floor(sum / TWO_32)
    this.timeHigh = (productHigh + carry) | 0
    this.timeLow = (sum - carry * TWO_32) | 0
    this.ms = ms
    return true
  }

  /** @param low @param high the bits of the value: as a JavaScript number a NaN might lose its own. */
  float(metric: Metric, series: number, ms: number, low: number, high: number): void {
    if (metric.serial !== this.serial) metric.begin(this.serial)
    if (!this.time(ms)) return this.refuse(1, 0, 'INVALID_POINT', timeText(metric, ms))
    if (this.options.skipNonFinite && (high & EXPONENT) === EXPONENT) {
      this.outcome.nonFinite++
      this.outcome.skippedSamples++
      return
    }
    const column = metric.floatColumn ?? this.floatColumn(metric, low, high)
    if (column === undefined) {
      if (metric.holds === HISTOGRAMS && isStale(low, high)) {
        this.histogramRow(metric, series, undefined)
        this.outcome.samplesAsHistograms++
        this.outcome.nonFinite++
      }
      return
    }
    this.floatRow(metric, column, series, low, high)
  }

  /** A finite value. @param ms of a plain sample. */
  finite(metric: Metric, series: number, ms: number, low: number, high: number): void {
    if (metric.serial !== this.serial) metric.begin(this.serial)
    const column = metric.floatColumn ?? this.floatColumn(metric, low, high)
    if (column === undefined) return
    // Six bytes cannot say a time that nanoseconds could not.
    this.time(ms)
    const row = (metric.floats as NonNullable<Metric['floats']>).addRow(series, this.timeLow, this.timeHigh, this.position)
    this.outcome.floatRows++
    column.setPair(row, low, high)
  }

  /** @param histogram undefined = a staleness marker. */
  histogram(metric: Metric, series: number, ms: number, histogram: NativeHistogram | undefined): void {
    if (metric.serial !== this.serial) metric.begin(this.serial)
    if (!this.time(ms)) return this.refuse(0, 1, 'INVALID_POINT', timeText(metric, ms))
    if (this.options.skipNonFinite && histogram === undefined) {
      this.outcome.nonFinite++
      this.outcome.skippedHistograms++
      return
    }
    if (metric.holds === NOTHING) metric.holds = HISTOGRAMS
    if (metric.holds === HISTOGRAMS || (metric.holds === FLOATS && histogram !== undefined && this.options.keepBoth))
      return this.histogramRow(metric, series, histogram)
    if (metric.holds === FLOATS && histogram === undefined) {
      const column = metric.floatColumn ?? this.floatColumn(metric, 0, 0)
      this.floatRow(metric, column as Column, series, STALE_LOW, STALE_HIGH)
      this.outcome.histogramsAsSamples++
      return
    }
    this.conflict(metric, 0, 1)
  }

  private floatRow(metric: Metric, column: Column, series: number, low: number, high: number): void {
    const table = metric.floats as NonNullable<Metric['floats']>
    const row = table.addRow(series, this.timeLow, this.timeHigh, this.position)
    this.outcome.floatRows++
    if ((high & EXPONENT) !== EXPONENT) return column.setPair(row, low, high)
    this.outcome.nonFinite++
    const number = low === 0 && (high & ~EXPONENT & 0x7fffffff) === 0
    if (number || isStale(low, high)) column.setPair(row, low, high)
    else column.setPair(row, NAN_LOW, NAN_HIGH)
  }

  private histogramRow(metric: Metric, series: number, histogram: NativeHistogram | undefined): void {
    this.histograms ??= this.openHistograms()
    const { heap } = this.histograms
    const table = (metric.histograms ??= this.histograms.table(metric.ref))
    const column = (metric.histogramColumn ??= table.column(metric.holds === FLOATS ? HISTOGRAMS_BESIDE : VALUE_FIELD, 'histogram'))
    const row = table.addRow(series, this.timeLow, this.timeHigh, this.position)
    let at: number
    if (histogram === undefined) {
      at = heap.reserve(STALE_HISTOGRAM.length)
      heap.bytes.set(STALE_HISTOGRAM, at)
    } else at = encodeHistogramInto(heap, histogram)
    column.setPair(row, at, heap.length - at)
    this.outcome.histogramRows++
  }

  /** Where a float of the metric goes; undefined when this one goes nowhere, or is refused. */
  private floatColumn(metric: Metric, low: number, high: number): Column | undefined {
    if (metric.holds === NOTHING) {
      // The first there is of the metric: it must not settle that `value` is a float, for it may end a series of histograms.
      if (isStale(low, high)) {
        metric.floats = this.floats.table(metric.ref)
        return metric.floats.column(FLOATS_BESIDE, 'float64')
      }
      metric.holds = FLOATS
    }
    if (metric.holds !== FLOATS) {
      const ends = metric.holds === HISTOGRAMS && isStale(low, high)
      if (metric.holds === HISTOGRAMS && !ends && this.options.keepBoth) {
        metric.floats = this.floats.table(metric.ref)
        return (metric.floatColumn = metric.floats.column(FLOATS_BESIDE, 'float64'))
      }
      if (!ends) this.conflict(metric, 1, 0)
      return undefined
    }
    const { fields } = metric.ref
    const alone = fields.size === 0 || (fields.size === 1 && fields.has(VALUE_FIELD))
    metric.floats = alone ? this.floats.mixed() : this.floats.table(metric.ref)
    return (metric.floatColumn = metric.floats.column(VALUE_FIELD, 'float64'))
  }

  private conflict(metric: Metric, samples: number, histograms: number): void {
    const held = metric.holds === FLOATS ? 'float64' : metric.holds === HISTOGRAMS ? 'histogram' : (metric.ref.fields.get(VALUE_FIELD)?.type ?? 'histogram')
    const { code, message } = typeConflict(metric.ref.name, VALUE_FIELD, held, samples > 0 ? 'float64' : 'histogram')
    this.refuse(samples, histograms, code, message)
  }
}

function timeText(metric: Metric, ms: number): string {
  return `cannot write sample of metric "${metric.ref.name}": its time of ${ms} ms is outside the range of 64-bit nanoseconds; send milliseconds since the Unix epoch`
}

function noOutcome(): Outcome {
  return {
    floatRows: 0,
    histogramRows: 0,
    samplesAsHistograms: 0,
    histogramsAsSamples: 0,
    skippedSamples: 0,
    skippedHistograms: 0,
    refusedSamples: 0,
    refusedHistograms: 0,
    exemplars: 0,
    found: [],
    foundCharacters: 0,
    nonFinite: 0,
    failures: [],
  }
}
