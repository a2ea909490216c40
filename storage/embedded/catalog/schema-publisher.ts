/** Makes durable definitions known: marked for the catalog, published to the engine threads. */
import type { FieldDef } from '../threads/definitions.ts'
import type { Publisher } from '../threads/publishing/publisher.ts'
import type { Definitions } from '../wal/record.ts'
import type { Schema } from './schema.ts'
import type { Unstored } from './unstored.ts'

export class SchemaPublisher {
  private readonly schema: Schema
  private readonly unstored: Unstored
  private readonly publisher: Publisher

  constructor(schema: Schema, unstored: Unstored, publisher: Publisher) {
    this.schema = schema
    this.unstored = unstored
    this.publisher = publisher
  }

  publish(definitions: Definitions): void {
    const { schema, unstored, publisher } = this
    const { measurements = [], tables = [], sharedFields = [], fields = [], homes = [] } = definitions
    const changed = new Set([...measurements.map(({ id }) => id), ...homes.map(({ measurement }) => measurement)])
    const changedTables = new Set([...tables.map(({ id }) => id), ...sharedFields.map(({ table }) => table)])
    for (const id of changed) {
      const home = schema.any(id)?.durableTables.at(-1)
      if (home !== undefined && home.measurement >= 0) changedTables.add(home.id)
    }
    for (const id of changedTables) {
      const table = schema.tables[id]
      if (table === undefined) continue // its measurement was dropped while the write was on its way
      unstored.mark('table', id)
      publisher.publish({ kind: 'table', def: table.def() })
    }
    for (const id of changed) {
      unstored.mark('measurement', id)
      // Also one whose drop is on its way: should that fail, it goes on.
      const measurement = schema.any(id)
      if (measurement !== undefined) publisher.publish({ kind: 'measurement', def: measurement.def() })
    }
    this.publishFields(fields, changed)
  }

  /** Of measurements that have others already, which may be a thousand: the new ones alone. @param whole measurements that were published with all of theirs. */
  private publishFields(fields: NonNullable<Definitions['fields']>, whole: ReadonlySet<number>): void {
    const { schema, unstored, publisher } = this
    const added = new Map<number, FieldDef[]>()
    for (const { measurement, field } of fields) {
      if (whole.has(measurement)) continue
      const list = added.get(measurement)
      if (list === undefined) added.set(measurement, [field])
      else list.push(field)
    }
    for (const [id, list] of added) {
      unstored.mark('measurement', id)
      const measurement = schema.any(id)
      if (measurement === undefined) continue
      const home = measurement.durableTables.at(-1)
      if (home !== undefined && home.measurement >= 0) unstored.mark('table', home.id)
      publisher.publish({ kind: 'fields', measurement: id, fields: list })
    }
  }
}
