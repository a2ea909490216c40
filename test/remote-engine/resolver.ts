/**
 * Names as numbers of this process. The engine is not asked: a number stands for a name, and what becomes of the name is decided when its rows are written.
 * What needs no data is checked here all the same, for the row of a name that is refused later still decides the types of its batch. Numbers are never used
 * twice, so that a batch that is on its way keeps its meaning when the tables are emptied.
 */
import type { FieldInfo, MeasurementRef, SeriesResolver } from 'svcdb'
import type { WriteLimits } from 'svcdb/lib/columns'
import type { Limits } from '../../storage/common/limits.ts'
import { canonicalTags, checkMeasurementName } from '../../storage/common/names.ts'

interface LocalMeasurement extends MeasurementRef {
  fields: Map<string, FieldInfo>
  series: Map<string, number>
}

/** A series by name. */
export interface SeriesName {
  measurement: string
  /** key, value, key, value ... ordered by key. */
  tags: readonly string[]
}

export class LateResolver implements SeriesResolver {
  readonly writeLimits: WriteLimits
  epoch = 0
  private readonly names: { ref: LocalMeasurement; tags: readonly string[] }[] = []
  private readonly measurements = new Map<string, LocalMeasurement>()
  /** Types outlive numbers: a row of a wrong type that nobody knows to be wrong would decide for the rows behind it. */
  private readonly types = new Map<string, Map<string, FieldInfo>>()
  private readonly limits: Limits
  private nextMeasurement = 0

  constructor(limits: Limits) {
    this.limits = limits
    this.writeLimits = limits.writeLimits
  }

  measurement(namespace: string, name: string): LocalMeasurement {
    const key = keyOf([namespace, name])
    const known = this.measurements.get(key)
    if (known !== undefined) return known
    checkMeasurementName(name, this.limits)
    const ref: LocalMeasurement = { namespace, name, id: this.nextMeasurement++, fields: this.typesOf(key), series: new Map() }
    this.measurements.set(key, ref)
    return ref
  }

  series(ref: MeasurementRef, tags: readonly string[]): number {
    const { series } = ref as LocalMeasurement
    const sorted = canonicalTags(tags, this.limits)
    const key = keyOf(sorted)
    let number = series.get(key)
    if (number === undefined) {
      number = this.names.push({ ref: ref as LocalMeasurement, tags: sorted }) - 1
      series.set(key, number)
    }
    return number
  }

  nameOf(series: number): SeriesName {
    const { ref, tags } = this.names[series]
    return { measurement: ref.name, tags }
  }

  /** What the engine has said of a measurement's fields. */
  learn(namespace: string, name: string, fields: readonly FieldInfo[]): void {
    const types = this.typesOf(keyOf([namespace, name]))
    for (const field of fields) types.set(field.name, field)
  }

  /** A measurement has gone, with its fields. */
  drop(namespace: string, name: string): void {
    this.types.delete(keyOf([namespace, name]))
    this.forget()
  }

  /** All numbers that were handed out are void, but in batches that are open. */
  forget(): void {
    this.epoch++
    this.measurements.clear()
  }

  private typesOf(key: string): Map<string, FieldInfo> {
    const types = this.types.get(key) ?? new Map<string, FieldInfo>()
    this.types.set(key, types)
    return types
  }

  known(): Iterable<MeasurementRef> {
    return this.measurements.values()
  }
}

const keyOf = (parts: readonly string[]): string => JSON.stringify(parts)
