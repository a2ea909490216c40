/**
 * All that an engine thread must know, for one that starts late: the sum of the events published so far (messages.ts). It grows with tables and segments, and
 * to hand it over copies it: that is done in slices, each of which takes milliseconds.
 */

import type { Schema } from '../../catalog/schema.ts'
import type { Memtables } from '../../memtable/memtables.ts'
import type { Drops } from '../../retention/drops.ts'
import type { Tombstones } from '../../retention/tombstones.ts'
import type { SegmentTable } from '../../segment/segment-table.ts'
import type { SeriesIndex } from '../../series/series-index.ts'
import type { StateEvent } from '../messages.ts'

/** Events, or segments of one, that are handed over at once: of twenty thousand measurements a hundred thousand took 0.3 s. */
const SLICE = 1000

interface PublishedState {
  schema: Schema
  index: SeriesIndex
  tombstones: Tombstones
  drops: Drops
  segments: SegmentTable
  memtables: Memtables
}

export function stateEvents({ schema, index, tombstones, drops, segments, memtables }: PublishedState): StateEvent[] {
  const events: StateEvent[] = [{ kind: 'series', arrays: index.arrays() }]
  for (const table of schema.tables) if (table?.durable) events.push({ kind: 'table', def: table.def() })
  // A drop or a restore on its way through the log has changed the schema already and may yet fail: the threads learn of it when it takes effect.
  for (const measurement of [...schema.pending.values(), ...schema.byId])
    if (measurement?.durable && !drops.pending.has(measurement.id)) events.push({ kind: 'measurement', def: measurement.def() })
  // One by one: they are more than a call may have arguments.
  for (const event of tombstones.events()) events.push(event)
  for (const id of schema.goneTables.keys()) events.push({ kind: 'table-gone', id })
  const added = segments.all()
  for (let i = 0; i < added.length; i += SLICE) events.push({ kind: 'segments', added: added.slice(i, i + SLICE), removed: [], droppedMemtable: -1 })
  for (const memtable of memtables.all()) for (const event of memtable.events()) events.push(event)
  return events
}

/** In their order. There is at least one. */
export function slicesOf(events: readonly StateEvent[]): StateEvent[][] {
  const slices: StateEvent[][] = []
  let size = SLICE
  for (const event of events) {
    const weight = event.kind === 'segments' ? event.added.length : 1
    if (size + weight > SLICE) {
      slices.push([])
      size = 0
    }
    slices[slices.length - 1].push(event)
    size += weight
  }
  return slices.length > 0 ? slices : [[]]
}
