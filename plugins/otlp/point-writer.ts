/**
 * Data points into the columns of a write. Numbers of metrics that have one field only go into a table that all such metrics share: sums
 * into that of one batch, gauges, whose field has another name, into that of a second one.
 */
import { type TableBatch, typeConflict, VALUE_FIELD, type WriteBatch } from 'svcdb/lib/columns'
import { SvcError } from 'svcdb/lib/errors'
import { encodeHistogramInto, type NativeHistogram, staleHistogram } from 'svcdb/lib/histogram'
import type { Metric, Slot } from './metric.ts'
import type { DecodeOptions, Outcome } from './outcome.ts'

const TWO_32 = 4294967296
const TWO_21 = 2097152
const EXPONENT = 0x7ff00000
/** Halves of the staleness marker. */
const STALE_LOW = 2
const STALE_HIGH = 0x7ff00000
const STALE_HISTOGRAM = staleHistogram()

type NumberType = 'float64' | 'int64' | 'uint64'

/** Sums, histograms and summaries; and gauges. */
export type BatchName = 'points' | 'gauges'

export class PointWriter {
  /** Place of the data point at hand in the request; -1 before the first one. */
  position = -1
  outcome: Outcome = noOutcome()
  readonly gaugeField: string
  private open!: (name: BatchName) => WriteBatch
  private points: WriteBatch | undefined
  private gauges: WriteBatch | undefined
  private sharedSums: Slot | undefined
  private sharedGauges: Slot | undefined
  private options!: DecodeOptions
  private serial = 0

  /** @param gaugeField the field of gauges. */
  constructor(gaugeField: string) {
    this.gaugeField = gaugeField
  }

  /** @param open called at most once for each batch, when there is a point for it. */
  begin(open: (name: BatchName) => WriteBatch, options: DecodeOptions): void {
    this.open = open
    this.points = this.gauges = this.sharedSums = this.sharedGauges = undefined
    this.options = options
    this.outcome = noOutcome()
    this.position = -1
    this.serial++
  }

  /** Exemplars are read. */
  get wantsExemplars(): boolean {
    return this.options.exemplars === true
  }

  /** How many more data points the request may hold. */
  get room(): number {
    return this.options.maxPoints - this.position - 1
  }

  /** Steps to the next data point. @throws BAD_REQUEST when there are more than one request may hold. */
  next(): void {
    this.position++
    this.checkLimit()
  }

  /** Steps over data points that are all refused. */
  refuseAll(error: SvcError, points: number): void {
    this.position++
    this.refuse(error, points)
    this.position += points - 1
    this.checkLimit()
  }

  private checkLimit(): void {
    if (this.position >= this.options.maxPoints) throw this.tooMany()
  }

  tooMany(): SvcError {
    const limit = this.options.maxPoints
    return new SvcError('BAD_REQUEST', `cannot write more than ${limit} data points at once: otlp.max_points_per_write is ${limit}; send smaller batches`)
  }

  /** Notes why data points are left out. */
  refuse(error: SvcError, points = 1): void {
    const { outcome } = this
    outcome.refused += points
    if (outcome.failures.length < this.options.maxFailures) outcome.failures.push({ position: this.position, code: error.code, message: error.message })
  }

  /** @param high @param low halves of a time in nanoseconds. @returns why it is refused. */
  timeProblem(metric: Metric, low: number, high: number): SvcError | undefined {
    if (high >= 0 && (high !== 0 || low !== 0)) return undefined
    const cause = high < 0 ? 'its time is beyond the range of 64-bit nanoseconds' : 'its time_unix_nano is missing'
    return new SvcError('INVALID_POINT', `cannot write point of metric "${metric.ref.name}": ${cause}; send nanoseconds since the Unix epoch`)
  }

  /** Whether a double is one to store; one that is not is counted. @param high half of its bits. */
  finite(high: number): boolean {
    if ((high & EXPONENT) !== EXPONENT) return true
    this.outcome.skipped++
    this.outcome.nonFinite++
    return false
  }

  /** @param low @param high the bits of a double. */
  double(metric: Metric, gauge: boolean, series: number, timeLow: number, timeHigh: number, low: number, high: number): void {
    if (!this.finite(high)) return
    const slot = this.slot(metric, gauge, 'float64')
    if (slot === undefined) return
    const { table, column } = slot
    if (column.type === 'float64') column.setPair(table.addRow(series, timeLow, timeHigh, this.position), low, high)
    else this.refuse(typeConflict(metric.ref.name, column.name, column.type, 'float64'))
  }

  /** @param low @param high an int64: exact in a field of integers, the nearest double in one of floats. */
  integer(metric: Metric, gauge: boolean, series: number, timeLow: number, timeHigh: number, low: number, high: number): void {
    const slot = this.slot(metric, gauge, beyondDoubles(low, high) ? 'int64' : 'float64')
    if (slot === undefined) return
    const { table, column } = slot
    if (column.type === 'float64') column.setF64(table.addRow(series, timeLow, timeHigh, this.position), high * TWO_32 + (low >>> 0))
    else if (column.type === 'uint64' && high < 0) this.refuse(typeConflict(metric.ref.name, column.name, 'uint64', 'int64'))
    else column.setPair(table.addRow(series, timeLow, timeHigh, this.position), low, high)
  }

  /** The end of a series of numbers. Fields of integers have no marker for it. */
  staleNumber(metric: Metric, gauge: boolean, series: number, timeLow: number, timeHigh: number): void {
    const slot = this.slot(metric, gauge, 'float64')
    if (slot === undefined) return
    if (slot.column.type !== 'float64') {
      this.outcome.skipped++
      return
    }
    slot.column.setPair(slot.table.addRow(series, timeLow, timeHigh, this.position), STALE_LOW, STALE_HIGH)
    this.outcome.nonFinite++
  }

  /** @param histogram undefined = the end of a series. */
  histogram(metric: Metric, series: number, timeLow: number, timeHigh: number, histogram: NativeHistogram | undefined): void {
    if (metric.serial !== this.serial) metric.begin(this.serial)
    const batch = this.pointsBatch()
    const slot = (metric.histogram ??= this.ownSlot(batch, metric, VALUE_FIELD, 'histogram'))
    if (slot === undefined) return
    const { heap } = batch
    let at: number
    if (histogram === undefined) {
      at = heap.reserve(STALE_HISTOGRAM.length)
      heap.bytes.set(STALE_HISTOGRAM, at)
      this.outcome.nonFinite++
    } else at = encodeHistogramInto(heap, histogram)
    slot.column.setPair(slot.table.addRow(series, timeLow, timeHigh, this.position), at, heap.length - at)
  }

  /** Fields of floats that the metric has, those of this write among them. */
  *floatFields({ ref }: Metric): Generator<string> {
    for (const [name, { type }] of ref.fields) if (type === 'float64') yield name
    for (const { name, type, next } of this.pointsBatch().table(ref).columns) if (type === 'float64' && next > 0 && !ref.fields.has(name)) yield name
  }

  /** A row with a number in each of the fields, which are asked for when there is room for it; NaN stands for the end of the field's series. */
  fields(metric: Metric, series: number, timeLow: number, timeHigh: number, fields: Iterable<readonly [string, number]>): void {
    const table = this.pointsBatch().table(metric.ref)
    const row = table.addRow(series, timeLow, timeHigh, this.position)
    try {
      for (const [name, value] of fields) {
        const column = table.column(name, 'float64')
        if (Number.isNaN(value)) {
          column.setPair(row, STALE_LOW, STALE_HIGH)
          this.outcome.nonFinite++
        } else column.setF64(row, value)
      }
    } catch (error) {
      if (!(error instanceof SvcError)) throw error
      table.dropRow()
      this.refuse(error)
    }
  }

  /** @param wanted of a field that is new; one that exists keeps its type. */
  private slot(metric: Metric, gauge: boolean, wanted: NumberType): Slot | undefined {
    if (metric.serial !== this.serial) metric.begin(this.serial)
    return (gauge ? metric.gauge : metric.sum) ?? this.newSlot(metric, gauge, wanted)
  }

  /** Where a metric's numbers go in this write; undefined when the point is refused. */
  private newSlot(metric: Metric, gauge: boolean, wanted: NumberType): Slot | undefined {
    const field = gauge ? this.gaugeField : VALUE_FIELD
    const { fields } = metric.ref
    const declared = fields.get(field)?.type
    const apart = gauge && field !== VALUE_FIELD
    const type = declared === 'int64' || declared === 'uint64' ? declared : declared === undefined ? wanted : 'float64'
    let slot: Slot | undefined
    if (type === 'float64' && (fields.size === 0 || (fields.size === 1 && declared === 'float64')))
      slot = apart ? (this.sharedGauges ??= shared(this.gaugesBatch(), field)) : (this.sharedSums ??= shared(this.pointsBatch(), field))
    else slot = this.ownSlot(apart ? this.gaugesBatch() : this.pointsBatch(), metric, field, type)
    if (gauge) metric.gauge = slot
    else metric.sum = slot
    return slot
  }

  private ownSlot(batch: WriteBatch, metric: Metric, field: string, type: NumberType | 'histogram'): Slot | undefined {
    const declared = metric.ref.fields.get(field)?.type
    if (declared !== undefined && declared !== type) {
      this.refuse(typeConflict(metric.ref.name, field, declared, type))
      return undefined
    }
    const table = batch.table(metric.ref)
    try {
      return { table, column: table.column(field, type) }
    } catch (error) {
      if (!(error instanceof SvcError)) throw error
      this.refuse(error)
      return undefined
    }
  }

  private pointsBatch(): WriteBatch {
    return (this.points ??= this.open('points'))
  }

  private gaugesBatch(): WriteBatch {
    return (this.gauges ??= this.open('gauges'))
  }
}

/** Whether an int64 is beyond 2^53 in either direction: doubles do not hold each of these. */
function beyondDoubles(low: number, high: number): boolean {
  return high >= 0 ? high > TWO_21 || (high === TWO_21 && low !== 0) : high < -TWO_21
}

function shared(batch: WriteBatch, field: string): Slot {
  const table: TableBatch = batch.mixed()
  return { table, column: table.column(field, 'float64') }
}

function noOutcome(): Outcome {
  return { points: 0, skipped: 0, refused: 0, exemplars: 0, found: [], foundLabels: 0, nonFinite: 0, failures: [], metrics: [] }
}
