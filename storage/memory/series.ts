/**
 * Measurements and series by name and by number.
 *
 * A series is provisional from the moment a decoder asks for its number until a row of it is admitted. Both kinds count against
 * the budget. When a batch ends, provisional series that no open batch holds a row of are given back and `epoch` rises. A series that
 * is deleted becomes provisional again, so that rows on their way to it are stored. Numbers are not used twice.
 */
import type { FieldInfo, MeasurementRef, SeriesResolver } from 'svcdb'
import type { WriteBatch, WriteLimits } from 'svcdb/lib/columns'
import { SvcError } from 'svcdb/lib/errors'
import type { Limits } from '../common/limits.ts'
import { canonicalTags, checkMeasurementName } from '../common/names.ts'
import type { NamespaceGate } from '../common/namespace-gate.ts'
import type { Value } from './rows.ts'

/** One point's fields. Never changed once stored: a merge stores a new one. */
export type Fields = ReadonlyMap<string, Value>

export interface Series {
  number: number
  measurement: Measurement
  tags: Record<string, string>
  live: boolean
  points: Map<bigint, Fields>
  /** A snapshot holds `points`: copy before the next change. */
  shared: boolean
}

export interface Measurement extends MeasurementRef {
  /** Dropped, or taken away otherwise: rows for it are refused. */
  gone: boolean
  fields: Map<string, FieldInfo>
  series: Map<string, Series>
  /** How many live series have a tag of the key. */
  tagKeys: Map<string, number>
  /** As in AdmissionBounds. */
  takenBefore?: bigint
}

export class SeriesTable implements SeriesResolver {
  readonly writeLimits: WriteLimits
  epoch = 0
  private readonly limits: Limits
  private readonly namespaces = new Map<string, Map<string, Measurement>>()
  private readonly numbers = new Map<number, Series>()
  private readonly provisional = new Map<number, string>()
  /** Measurements that have no field yet. */
  private readonly fresh = new Set<Measurement>()
  /** Series by namespace. */
  private readonly counts = new Map<string, number>()
  private readonly gate: NamespaceGate
  private nextMeasurement = 0
  private nextSeries = 0

  constructor(limits: Limits, gate: NamespaceGate) {
    this.gate = gate
    this.limits = limits
    this.writeLimits = limits.writeLimits
  }

  /** Series that count against the budget. */
  get size(): number {
    return this.numbers.size
  }

  measurement(namespace: string, name: string): Measurement {
    const known = this.find(namespace, name)
    if (known !== undefined) return known
    checkMeasurementName(name, this.limits)
    this.gate.requireRoom(namespace, 'measurements', this.measurementsOf(namespace))
    const measurement: Measurement = { namespace, name, id: this.nextMeasurement++, gone: false, fields: new Map(), series: new Map(), tagKeys: new Map() }
    const names = this.namespaces.get(namespace) ?? new Map<string, Measurement>()
    this.namespaces.set(namespace, names.set(name, measurement))
    this.fresh.add(measurement)
    return measurement
  }

  series(ref: MeasurementRef, tags: readonly string[]): number {
    const measurement = this.measurement(ref.namespace, ref.name)
    const sorted = canonicalTags(tags, this.limits)
    const key = sorted.join('\0')
    const known = measurement.series.get(key)
    if (known !== undefined) return known.number
    if (this.numbers.size >= this.limits.maxSeriesCardinality) {
      throw new SvcError(
        'CARDINALITY_EXCEEDED',
        `cannot start another series of measurement "${ref.name}": max_series_cardinality of ${this.limits.maxSeriesCardinality} is reached; raise it, or send fewer distinct tag values`,
      )
    }
    const { namespace } = measurement
    this.gate.requireRoom(namespace, 'series', this.seriesOf(namespace))
    this.counts.set(namespace, this.seriesOf(namespace) + 1)
    const number = this.nextSeries++
    const pairs = sorted.flatMap((k, i) => (i % 2 === 0 ? [[k, sorted[i + 1]]] : []))
    const series: Series = { number, measurement, tags: Object.fromEntries(pairs), live: false, points: new Map(), shared: false }
    measurement.series.set(key, series)
    this.numbers.set(number, series)
    this.provisional.set(number, key)
    return number
  }

  /** One that was given back is of a measurement that is gone. */
  byNumber(number: number): Series {
    const series = this.numbers.get(number)
    if (series !== undefined) return series
    if (number >= this.nextSeries) throw new SvcError('DATABASE_ERROR', `cannot write to series ${number}: the number was never handed out`)
    const measurement: Measurement = { namespace: '', name: '', id: -1, gone: true, fields: new Map(), series: new Map(), tagKeys: new Map() }
    return { number, measurement, tags: {}, live: false, points: new Map(), shared: false }
  }

  find(namespace: string, name: string): Measurement | undefined {
    return this.namespaces.get(namespace)?.get(name)
  }

  /** A measurement whose every row was refused does not exist. */
  existing(namespace: string, name: string): Measurement | undefined {
    const measurement = this.find(namespace, name)
    return measurement !== undefined && measurement.fields.size > 0 ? measurement : undefined
  }

  /** Those without fields included. */
  measurementsOf(namespace: string): number {
    return this.namespaces.get(namespace)?.size ?? 0
  }

  /** Provisional ones, and those of measurements that can be restored, included. */
  seriesOf(namespace: string): number {
    return this.counts.get(namespace) ?? 0
  }

  /** How many fields the namespace may have besides those it has. */
  left(namespace: string): number {
    return this.gate.fieldsLeft(namespace, this.fieldsOf(namespace), this.allFields)
  }

  refusal(measurement: Measurement, field: string): SvcError {
    return this.gate.noFieldLeft(measurement, field, this.fieldsOf(measurement.namespace), this.allFields)
  }

  private fieldsOf(namespace: string): number {
    let count = 0
    for (const { fields } of this.namespaces.get(namespace)?.values() ?? []) count += fields.size
    return count
  }

  private get allFields(): number {
    return this.allNamespaces().reduce((sum, namespace) => sum + this.fieldsOf(namespace), 0)
  }

  list(namespace: string): Measurement[] {
    const all = [...(this.namespaces.get(namespace)?.values() ?? [])]
    return all.filter((m) => m.fields.size > 0).sort((a, b) => (a.name < b.name ? -1 : 1))
  }

  allNamespaces(): string[] {
    return [...this.namespaces.keys()]
  }

  makeLive(series: Series): void {
    if (!series.live) countKeys(series, 1)
    series.live = true
    this.provisional.delete(series.number)
  }

  /** Takes a measurement away from its name; its series keep their numbers. */
  detach(measurement: Measurement): void {
    this.namespaces.get(measurement.namespace)?.delete(measurement.name)
    measurement.gone = true
    this.epoch++
  }

  /** Undoes `detach`. What decoders know of the name meanwhile is void. */
  attach(measurement: Measurement): void {
    const provisional = this.find(measurement.namespace, measurement.name)
    if (provisional !== undefined) this.detach(provisional)
    this.namespaces.get(measurement.namespace)?.set(measurement.name, measurement)
    measurement.gone = false
    this.epoch++
  }

  /** Gives back every series of a measurement that is gone. */
  releaseAll(measurement: Measurement): void {
    for (const { number } of measurement.series.values()) {
      this.drop(number, measurement)
      this.provisional.delete(number)
    }
    measurement.series.clear()
  }

  /** Gives series back, with their points; one that an open batch holds a row of when that batch has ended, unless the row is admitted. */
  forget(series: Iterable<[key: string, series: Series]>, open: Iterable<WriteBatch>): void {
    for (const [key, one] of series) {
      if (one.live) countKeys(one, -1)
      one.live = false
      one.points = new Map()
      one.shared = false
      this.provisional.set(one.number, key)
    }
    this.release(open)
  }

  /** Call when a batch has ended. @param open the batches that are still with a decoder. */
  release(open: Iterable<WriteBatch>): void {
    this.releaseFresh(open)
    if (this.provisional.size === 0) return
    const held = new Set<number>()
    for (const batch of open) for (const table of batch.tables) for (let row = 0; row < table.rows; row++) held.add(table.series[row])
    const before = this.numbers.size
    for (const [number, key] of this.provisional) {
      if (held.has(number)) continue
      const { measurement } = this.byNumber(number)
      measurement.series.delete(key)
      this.drop(number, measurement)
      this.provisional.delete(number)
    }
    if (this.numbers.size < before) this.epoch++
  }

  /** Measurements of which no point was stored are forgotten when no batch is open that could bring one. */
  private releaseFresh(open: Iterable<WriteBatch>): void {
    for (const _ of open) return
    for (const measurement of this.fresh) {
      if (measurement.fields.size > 0 || this.find(measurement.namespace, measurement.name) !== measurement) continue
      this.detach(measurement)
    }
    this.fresh.clear()
  }

  private drop(number: number, { namespace }: Measurement): void {
    if (this.numbers.delete(number)) this.counts.set(namespace, this.seriesOf(namespace) - 1)
  }
}

function countKeys({ measurement: { tagKeys }, tags }: Series, by: 1 | -1): void {
  for (const key of Object.keys(tags)) {
    const uses = (tagKeys.get(key) ?? 0) + by
    if (uses === 0) tagKeys.delete(key)
    else tagKeys.set(key, uses)
  }
}
