/** What a namespace holds. */
import type { NamespaceUsage } from 'svcdb'
import type { Schema } from '../catalog/schema.ts'
import type { Memtables } from '../memtable/memtables.ts'
import type { SegmentTable } from '../segment/segment-table.ts'
import type { SegmentMeta } from '../threads/segment-entry.ts'
import type { SeriesIndex } from './series-index.ts'

interface UsageSources {
  schema: Schema
  index: SeriesIndex
  memtables: Memtables
  segments: SegmentTable
}

export function usageOf(namespace: string, { schema, index, memtables, segments }: UsageSources): NamespaceUsage {
  let { bytes } = memtables.takenBy(namespace)
  let oldest = Number.POSITIVE_INFINITY
  let measurements = 0
  for (const { id, tables, kept } of schema.owned(namespace)) {
    // Not those that a decoder has named: a write of theirs may never come.
    if (kept && schema.byId[id] !== undefined) measurements++
    oldest = Math.min(oldest, id)
    for (const table of tables) if (table.measurement === id) for (const segment of segments.of(table.id)) bytes += sizeOf(segment)
  }
  for (const { id } of oldest < Number.POSITIVE_INFINITY ? schema.sharedOnes : []) {
    for (const segment of segments.of(id)) bytes += sizeOf(segment) * share(segment, namespace, oldest)
  }
  return { series: index.seriesOf(namespace), measurements, bytes: Math.round(bytes) }
}

const sizeOf = ({ archived, bytes, sidecarBytes = 0 }: SegmentMeta): number => (archived ? 0 : bytes + sidecarBytes)

/** @param oldest the lowest of the numbers of the namespace's measurements. */
function share({ owners, rows }: SegmentMeta, namespace: string, oldest: number): number {
  if (owners === undefined) return namespace === '' ? 1 : 0
  if (!Object.hasOwn(owners, namespace)) return 0
  const [own, newest] = owners[namespace]
  return newest < oldest ? 0 : Math.min(1, own / rows)
}
