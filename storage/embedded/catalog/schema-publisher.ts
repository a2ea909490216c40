/** Makes durable definitions known: marked for the catalog, published to the engine threads. */
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
    const { schema, publisher } = this
    const measurements = new Set([
      ...(definitions.measurements ?? []).map((d) => d.id),
      ...(definitions.fields ?? []).map((d) => d.measurement),
      ...(definitions.homes ?? []).map((d) => d.measurement),
    ])
    const tables = new Set([...(definitions.tables ?? []).map((d) => d.id), ...(definitions.sharedFields ?? []).map((d) => d.table)])
    for (const id of measurements) {
      const home = schema.any(id)?.durableTables.at(-1)
      if (home !== undefined && home.measurement >= 0) tables.add(home.id)
    }
    for (const id of tables) {
      const table = schema.tables[id]
      if (table === undefined) continue // its measurement was dropped while the write was on its way
      this.unstored.mark('table', id)
      publisher.publish({ kind: 'table', def: table.def() })
    }
    for (const id of measurements) {
      this.unstored.mark('measurement', id)
      // Also one whose drop is on its way: should that fail, it goes on.
      const measurement = schema.any(id)
      if (measurement !== undefined) publisher.publish({ kind: 'measurement', def: measurement.def() })
    }
  }
}
