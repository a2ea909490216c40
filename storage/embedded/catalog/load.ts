/** What the catalog stored, put back into schema, windows and series index when the database is opened. */
import type { StorageContext } from 'svcdb'
import { NO_TIME, type SeriesTimes, type TimeHalves } from '../memtable/series-times.ts'
import type { SegmentTable } from '../segment/segment-table.ts'
import { RELEASED, type SeriesIndex } from '../series/series-index.ts'
import type { Windows } from '../write/windows.ts'
import type { Catalog } from './catalog.ts'
import type { Measurement, Schema } from './schema.ts'
import { dropUnusedSymbols, hasManyUnused } from './unused-symbols.ts'

export function loadSchema(catalog: Catalog, schema: Schema): void {
  const counters = catalog.counters()
  if (counters !== undefined) {
    schema.nextTable = counters.nextTable
    schema.nextMeasurement = counters.nextMeasurement
  }
  schema.restore(catalog.tables(), catalog.measurements())
  for (const [table, file] of catalog.goneTables()) schema.goneTables.set(table, file)
}

export function loadWindows(catalog: Catalog, windows: Windows): void {
  for (const [namespace, time] of Object.entries(catalog.counters()?.newest ?? {})) windows.of(namespace).newest = BigInt(time)
}

/** @param make an empty index. @returns the stored series, without texts that none of them uses when these are many. */
export async function loadSeries(catalog: Catalog, make: () => SeriesIndex, log: StorageContext['log']): Promise<SeriesIndex> {
  const index = make()
  catalog.loadSeries(index)
  if (!hasManyUnused(index) || (await dropUnusedSymbols(catalog.store, log)) === 0) return index
  const renumbered = make()
  catalog.loadSeries(renumbered)
  return renumbered
}

/** What a start has told the times of the series that were there. */
export interface Seeds {
  /** They are the series below this number. */
  count: number
  /** Of each measurement. */
  of(measurement: number): TimeHalves
}

/** For each series a time above which a new row cannot repeat a stored one. Pending drops have left the schema's names. */
export function seedTimes(schema: Schema, index: SeriesIndex, segments: SegmentTable, times: SeriesTimes): Seeds {
  const newestOf: (TimeHalves | undefined)[] = []
  for (const one of [...schema.byId, ...schema.pending.values()]) {
    const newest = newestTime(one, segments)
    if (one !== undefined && newest !== undefined) newestOf[one.id] = { low: Number(BigInt.asIntN(32, newest)), high: Number(newest >> 32n) }
  }
  times.reserve(index.count)
  const { measurement, count } = index
  // Series of a measurement mostly follow each other.
  for (let first = 0, end = 0; first < count; first = end) {
    const owner = measurement[first]
    do end++
    while (end < count && measurement[end] === owner)
    const newest = owner === RELEASED ? undefined : newestOf[owner]
    if (newest !== undefined) times.seed(first, newest.low, newest.high, end)
  }
  return { count: index.count, of: (id) => newestOf[id] ?? NO_TIME }
}

function newestTime(measurement: Measurement | undefined, segments: SegmentTable): bigint | undefined {
  let newest: bigint | undefined
  for (const table of measurement?.tables ?? []) {
    for (const { maxTime } of segments.of(table.id)) if (newest === undefined || BigInt(maxTime) > newest) newest = BigInt(maxTime)
  }
  return newest
}
