/** What the catalog stored, put back into the parts in memory when the database is opened. */

import type { Lifetime } from '../retention/lifetime.ts'
import type { Manifest } from '../segment/manifest.ts'
import { RELEASED, type SeriesIndex } from '../series/series-index.ts'
import type { SegmentMeta } from '../threads/layout.ts'
import type { WritePath } from '../write/write-path.ts'
import type { Catalog } from './catalog.ts'
import type { Measurement, Schema } from './schema.ts'

export interface LoadedParts {
  schema: Schema
  index: SeriesIndex
  writes: WritePath
  lifetime: Lifetime
  manifest: Manifest
}

/** @param segments those to serve. */
export function loadCatalog(catalog: Catalog, segments: readonly SegmentMeta[], { schema, index, writes, lifetime, manifest }: LoadedParts): void {
  const counters = catalog.counters()
  if (counters !== undefined) {
    manifest.nextSegment = counters.nextSegment
    writes.nextSequence = counters.nextSequence
    writes.continueAfter(counters.walSequence ?? 0)
    schema.nextTable = counters.nextTable
    schema.nextMeasurement = counters.nextMeasurement
    for (const [namespace, time] of Object.entries(counters.newest)) writes.windows.of(namespace).newest = BigInt(time)
  }
  schema.restore(catalog.tables(), catalog.measurements())
  for (const [table, file] of catalog.goneTables()) schema.goneTables.set(table, file)
  lifetime.tombstones.load(catalog.tombstones(), catalog.cutoffs())
  lifetime.tombstones.nextId = Math.max(lifetime.tombstones.nextId, counters?.nextTombstone ?? 1)
  lifetime.load(catalog.drops(), catalog.endedDrops())
  for (const segment of segments) manifest.insert(segment)
  catalog.loadSeries(index)
  index.publish(index.count - 1)
  seedSeries(schema, index, writes, manifest)
}

/** For each series a time above which a new row cannot repeat a stored one. */
function seedSeries(schema: Schema, index: SeriesIndex, writes: WritePath, manifest: Manifest): void {
  const newestOf = new Map([...schema.byId, ...schema.pending.values()].map((one) => [one?.id ?? RELEASED, newestTime(one, manifest)]))
  for (let series = 0; series < index.count; series++) {
    const id = index.measurement[series]
    if (id === RELEASED) continue
    const newest = newestOf.get(id)
    if (newest !== undefined) writes.times.seed(series, newest)
  }
}

function newestTime(measurement: Measurement | undefined, manifest: Manifest): bigint | undefined {
  let newest: bigint | undefined
  for (const table of measurement?.tables ?? []) {
    for (const { maxTime } of manifest.segments.get(table.id) ?? []) if (newest === undefined || BigInt(maxTime) > newest) newest = BigInt(maxTime)
  }
  return newest
}
