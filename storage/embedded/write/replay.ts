/** Puts the writes of the log back, as they took effect: what the catalog has of them already stays as it is. */
import type { Schema } from '../catalog/schema.ts'
import type { SchemaPublisher } from '../catalog/schema-publisher.ts'
import { definedTable, type Memtables } from '../memtable/memtables.ts'
import type { SeriesIndex } from '../series/series-index.ts'
import type { LateSeries } from '../wal/late-series.ts'
import type { TableRows, WriteRecord } from '../wal/record.ts'
import type { Windows } from './windows.ts'
import { moves } from './write-path.ts'

interface WriteReplayDependencies {
  schema: Schema
  index: SeriesIndex
  memtables: Memtables
  windows: Windows
  schemaPublisher: SchemaPublisher
}

export class WriteReplay {
  private readonly dependencies: WriteReplayDependencies
  private readonly flushThreshold: number

  /** @param flushThreshold bytes from which on a memtable is frozen. */
  constructor(dependencies: WriteReplayDependencies, flushThreshold: number) {
    this.dependencies = dependencies
    this.flushThreshold = flushThreshold
  }

  /** @param file the log file that holds the record. @param late as in `SeriesIndex.restore`. */
  restore(record: WriteRecord, file: number, late: () => LateSeries): void {
    const { schema, index, memtables, windows, schemaPublisher } = this.dependencies
    if (memtables.active.full) memtables.freeze(file)
    if (record.definitions !== undefined) {
      if (moves(record.definitions, schema)) memtables.freeze(file)
      schema.apply(record.definitions)
      schemaPublisher.publish(record.definitions)
    }
    const { series } = record
    for (let i = 0; i < series.length; i++) {
      const measurement = series.measurement(i)
      if (schema.any(measurement) === undefined) index.restoreGone(series.series(i), late)
      else index.restoreLogged(series.series(i), measurement, series.bytes, series.tagsAt(i), late)
    }
    // A table that a later drop takes away, of which the catalog knows already.
    const tables = record.tables.filter(({ table }) => schema.tables[table] !== undefined || !schema.goneTables.has(table))
    let lastSeries = -1
    for (const table of tables) for (let row = 0; row < table.rows; row++) if (table.series[row] > lastSeries) lastSeries = table.series[row]
    for (const table of tables) {
      const { fields } = definedTable(schema.tables[table.table], table.table)
      // Fields that a later drop takes away are passed over.
      const known = table.fields.map(({ id }) => (fields[id]?.id === id ? fields[id] : fields.find((field) => field.id === id)))
      table.columns = table.columns.filter((_, i) => known[i] !== undefined)
      table.fields = known.filter((field) => field !== undefined)
      const owned = windows.see(
        table,
        (number) => index.measurementOf(number),
        (id) => schema.any(id)?.namespace,
      )
      // Deleted later in the log: a delete that comes before must reach these rows too.
      if (!owned) memtables.active.ownerless = true
    }
    memtables.apply(this.namespaceOf(tables), tables, record.heap, lastSeries)
    if (memtables.active.bytes >= this.flushThreshold) memtables.freeze(file)
  }

  /** Whose rows a record of the log has: that of its first measurement that is still there. */
  private namespaceOf(tables: readonly TableRows[]): string | undefined {
    const { schema, index } = this.dependencies
    for (const { rows, series } of tables)
      for (let row = 0; row < rows; row++) {
        const owner = schema.any(index.measurementOf(series[row]))
        if (owner !== undefined) return owner.namespace
      }
    return undefined
  }
}
