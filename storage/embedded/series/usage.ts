/** What a namespace holds. */
import type { NamespaceUsage } from 'svcdb'
import type { Schema } from '../catalog/schema.ts'
import type { SegmentMeta } from '../threads/layout.ts'
import type { WritePath } from '../write/write-path.ts'
import type { SeriesIndex } from './series-index.ts'

export interface UsageParts {
  schema: Schema
  index: SeriesIndex
  writes: WritePath
  /** All segments by table. */
  segments: ReadonlyMap<number, readonly SegmentMeta[]>
}

export function usageOf(namespace: string, { schema, index, writes, segments }: UsageParts): NamespaceUsage {
  let bytes = writes.bytesOf(namespace)
  let oldest = Number.POSITIVE_INFINITY
  for (const { id, tables } of schema.owned(namespace)) {
    oldest = Math.min(oldest, id)
    for (const table of tables) if (table.measurement === id) for (const segment of segments.get(table.id) ?? []) bytes += sizeOf(segment)
  }
  for (const { id } of oldest < Number.POSITIVE_INFINITY ? schema.sharedOnes : []) {
    for (const segment of segments.get(id) ?? []) bytes += sizeOf(segment) * share(segment, namespace, oldest)
  }
  return { series: index.seriesOf(namespace), measurements: schema.count(namespace), bytes: Math.round(bytes) }
}

const sizeOf = ({ archived, bytes, sidecarBytes = 0 }: SegmentMeta): number => (archived ? 0 : bytes + sidecarBytes)

/** @param oldest the lowest of the numbers of the namespace's measurements. */
function share({ owners, rows }: SegmentMeta, namespace: string, oldest: number): number {
  if (owners === undefined) return namespace === '' ? 1 : 0
  if (!Object.hasOwn(owners, namespace)) return 0
  const [own, newest] = owners[namespace]
  return newest < oldest ? 0 : Math.min(1, own / rows)
}
