/**
 * Names as numbers of this process, given without asking anybody: a number stands for a name, and which series of ClickHouse that is, is decided when its rows
 * are written. Names are checked here. Numbers are never used twice; those from before `forget` hold as long as a batch is open that may have them.
 */
import type { FieldInfo, MeasurementRef, SeriesResolver } from 'svcdb'
import type { WriteLimits } from 'svcdb/lib/columns'
import type { Limits } from '../common/limits.ts'
import { canonicalTags, checkMeasurementName } from '../common/names.ts'

interface LocalMeasurement extends MeasurementRef {
  /** As the catalog has them. */
  readonly fields: Map<string, FieldInfo>
  readonly series: Map<string, LocalSeries>
}

export interface LocalSeries {
  readonly number: number
  readonly measurement: LocalMeasurement
  /** key, value, key, value ... ordered by key. */
  readonly tags: readonly string[]
  /** Its id in ClickHouse, of the life that it was written to last. */
  id: { life: number; bytes: Uint8Array; key: string } | undefined
}

export class Resolver implements SeriesResolver {
  readonly writeLimits: WriteLimits
  epoch = 0
  private readonly limits: Limits
  private readonly fieldsOf: (namespace: string, name: string) => Iterable<FieldInfo>
  private measurements = new Map<string, LocalMeasurement>()
  private names = new Map<number, LocalSeries>()
  /** Numbers below it are of names that were forgotten. */
  private floor = 0
  private nextMeasurement = 0
  private nextSeries = 0

  /** @param fieldsOf what the catalog knows of a measurement. */
  constructor(limits: Limits, fieldsOf: (namespace: string, name: string) => Iterable<FieldInfo>) {
    this.limits = limits
    this.writeLimits = limits.writeLimits
    this.fieldsOf = fieldsOf
  }

  measurement(namespace: string, name: string): LocalMeasurement {
    const key = `${namespace}\0${name}`
    const known = this.measurements.get(key)
    if (known !== undefined) return known
    checkMeasurementName(name, this.limits)
    const measurement: LocalMeasurement = { namespace, name, id: this.nextMeasurement++, fields: new Map(), series: new Map() }
    fill(measurement.fields, this.fieldsOf(namespace, name))
    this.measurements.set(key, measurement)
    return measurement
  }

  series(ref: MeasurementRef, tags: readonly string[]): number {
    const measurement = ref as LocalMeasurement
    const sorted = canonicalTags(tags, this.limits)
    const key = sorted.join('\0')
    let series = measurement.series.get(key)
    if (series === undefined) {
      series = { number: this.nextSeries++, measurement, tags: sorted, id: undefined }
      measurement.series.set(key, series)
      this.names.set(series.number, series)
    }
    return series.number
  }

  /** How many names are kept. */
  get size(): number {
    return this.names.size
  }

  byNumber(number: number): LocalSeries {
    const series = this.names.get(number)
    if (series === undefined) throw new Error(`cannot write to series ${number}: the number was never handed out, or its batch was ended`)
    return series
  }

  /** The catalog has another word on a measurement's fields. */
  learn(namespace: string, name: string): void {
    const measurement = this.measurements.get(`${namespace}\0${name}`)
    if (measurement === undefined) return
    fill(measurement.fields, this.fieldsOf(namespace, name))
  }

  /** All numbers that were handed out are void, but in batches that are open. */
  forget(): void {
    this.epoch++
    this.measurements = new Map()
    this.floor = this.nextSeries
  }

  /** Call when no batch is open. */
  release(): void {
    if (this.names.size === 0 || this.floor === 0) return
    for (const number of this.names.keys()) {
      if (number >= this.floor) break
      this.names.delete(number)
    }
  }
}

function fill(fields: Map<string, FieldInfo>, known: Iterable<FieldInfo>): void {
  fields.clear()
  for (const field of known) fields.set(field.name, field)
}
