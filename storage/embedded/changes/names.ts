/**
 * What numbers in records stand for, as long as somebody may read the record: series that were given back and measurements that are gone keep their names here
 * while changes are followed. Bounded: of what was forgotten, rows are left out of what is read late; that they are gone was told.
 */
import type { FieldInfo } from 'svcdb'
import type { Measurement, Schema, Table } from '../catalog/schema.ts'
import type { SeriesIndex } from '../series/series-index.ts'
import { RELEASED } from '../series/series-index.ts'
import { type FieldDef, fieldInfo } from '../threads/definitions.ts'

/** Series, and measurements, remembered after they have gone. */
const KEPT_SERIES = 1 << 18
const KEPT_MEASUREMENTS = 1 << 14

export interface MeasurementName {
  readonly id: number
  readonly namespace: string
  readonly name: string
}

export class ChangeNames {
  /** Whether what goes is remembered. */
  following = false
  /** The log was read back. */
  begun = false
  private readonly schema: Schema
  private readonly index: SeriesIndex
  private readonly formerOwners = new Map<number, number>()
  private readonly formerTags = new Map<number, readonly string[]>()
  private readonly former = new Map<number, MeasurementName>()
  private readonly formerTables = new Map<number, Table>()
  private readonly infos = new WeakMap<FieldDef, FieldInfo>()

  constructor(schema: Schema, index: SeriesIndex) {
    this.schema = schema
    this.index = index
    schema.removed = (measurement) => this.gone(measurement)
    index.released = (series, measurement) => {
      if (this.following) remember(this.formerOwners, series, measurement, KEPT_SERIES)
    }
  }

  /** A series that the log says was given back before this process began. @param tags key, value ... ordered by key. */
  learn(series: number, measurement: number, tags: readonly string[]): void {
    if (this.ownerOf(series) >= 0) return
    remember(this.formerOwners, series, measurement, KEPT_SERIES)
    remember(this.formerTags, series, tags, KEPT_SERIES)
  }

  forget(): void {
    for (const map of [this.formerOwners, this.formerTags, this.former, this.formerTables]) map.clear()
  }

  /** Nobody is to be told any more what a namespace had that is gone. */
  forgetNamespace(namespace: string): void {
    for (const [id, former] of this.former) if (former.namespace === namespace) this.former.delete(id)
  }

  /** The measurement of a series; RELEASED when nobody knows any more. */
  ownerOf(series: number): number {
    if (series >= this.index.count) return RELEASED
    const owner = this.index.measurementOf(series)
    return owner === RELEASED ? (this.formerOwners.get(series) ?? RELEASED) : owner
  }

  measurement(id: number): MeasurementName | undefined {
    return this.schema.any(id) ?? this.former.get(id)
  }

  table(id: number): Table | undefined {
    return this.schema.tables[id] ?? this.formerTables.get(id)
  }

  info(def: FieldDef): FieldInfo {
    let info = this.infos.get(def)
    if (info === undefined) {
      info = fieldInfo(def)
      this.infos.set(def, info)
    }
    return info
  }

  tagsOf(series: number): Record<string, string> {
    const pairs = this.formerTags.get(series) ?? this.index.tagsOf(series)
    // Own names only: a tag may be called __proto__.
    const tags: Record<string, string> = Object.create(null)
    for (let i = 0; i < pairs.length; i += 2) tags[pairs[i]] = pairs[i + 1]
    return tags
  }

  private gone({ id, namespace, name, tables }: Measurement): void {
    // While the log is read back nobody knows whether the namespace went too, and another has its name now.
    if (!this.following || (!this.begun && namespace !== '')) return
    remember(this.former, id, { id, namespace, name }, KEPT_MEASUREMENTS)
    for (const table of tables) if (table.measurement === id) remember(this.formerTables, table.id, table, KEPT_MEASUREMENTS)
  }
}

function remember<V>(map: Map<number, V>, key: number, value: V, kept: number): void {
  if (map.size >= kept) map.delete(map.keys().next().value as number)
  map.set(key, value)
}
