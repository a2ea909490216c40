/**
 * All that an engine thread must know, for one that starts late: the sum of the events published so far (messages.ts). It grows with tables, their columns and segments,
 * and to hand it over copies it: that is done in slices, each of which takes milliseconds.
 */

import type { Schema } from '../../catalog/schema.ts'
import type { Memtables } from '../../memtable/memtables.ts'
import type { Drops } from '../../retention/drops.ts'
import type { Tombstones } from '../../retention/tombstones.ts'
import type { SegmentTable } from '../../segment/segment-table.ts'
import type { SeriesIndex } from '../../series/series-index.ts'
import type { StateEvent } from '../messages.ts'
import type { SegmentMeta } from '../segment-entry.ts'

/** Weight of what is handed over at once: of twenty thousand measurements a hundred thousand events took 0.3 s. */
const SLICE = 1000
/** The same, of numbers. */
const CHUNK_INTS = 5000
/** Columns of an event that take as long to copy as an event without any. */
const COLUMNS = 4

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
  for (const added of slices(segments.all(), segmentWeight)) events.push({ kind: 'segments', added, removed: [], droppedMemtable: -1 })
  for (const memtable of memtables.all()) for (const event of memtable.events()) events.push(event)
  return events
}

/** In their order. There is at least one. */
export function slicesOf(events: readonly StateEvent[]): StateEvent[][] {
  return events.length === 0 ? [[]] : slices(events, eventWeight)
}

/** Each has at most SLICE of weight, or one item. */
function slices<T>(items: readonly T[], weightOf: (item: T) => number): T[][] {
  const made: T[][] = []
  let size = SLICE
  for (const item of items) {
    const weight = weightOf(item)
    if (size + weight > SLICE) {
      made.push([])
      size = 0
    }
    made[made.length - 1].push(item)
    size += weight
  }
  return made
}

function eventWeight(event: StateEvent): number {
  switch (event.kind) {
    case 'segments':
      return event.added.reduce((sum, segment) => sum + segmentWeight(segment), 0)
    case 'measurement':
    case 'table':
      return weightOf(event.def.fields)
    case 'chunk':
      return 1 + event.chunk.columns.length / CHUNK_INTS
    default:
      return 1
  }
}

const segmentWeight = ({ columns }: SegmentMeta): number => weightOf(columns)

const weightOf = (columns: readonly unknown[]): number => 1 + columns.length / COLUMNS
