/** All that an engine thread must know, for one that starts late: the sum of the events told so far (layout.ts). */

import type { Schema } from '../catalog/schema.ts'
import type { Lifetime } from '../retention/lifetime.ts'
import type { SeriesIndex } from '../series/series-index.ts'
import type { WritePath } from '../write/write-path.ts'
import type { SegmentMeta, StateEvent } from './layout.ts'

export function stateEvents(
  { schema, index, lifetime, writes }: { schema: Schema; index: SeriesIndex; lifetime: Lifetime; writes: WritePath },
  segments: SegmentMeta[],
): StateEvent[] {
  const events: StateEvent[] = [{ kind: 'series', arrays: index.arrays() }]
  for (const table of schema.tables) if (table?.durable) events.push({ kind: 'table', def: table.def() })
  // A drop or a restore on its way through the log has changed the schema already and may yet fail: the threads learn of it when it takes effect.
  for (const measurement of [...schema.pending.values(), ...schema.byId])
    if (measurement?.durable && !lifetime.drops.has(measurement.id)) events.push({ kind: 'measurement', def: measurement.def() })
  events.push(...lifetime.tombstones.events())
  for (const id of schema.goneTables.keys()) events.push({ kind: 'table-gone', id })
  events.push({ kind: 'segments', added: segments, removed: [], droppedMemtable: -1 })
  for (const memtable of [...writes.frozen, writes.active]) events.push(...memtable.events())
  return events
}
