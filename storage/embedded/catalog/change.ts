/**
 * What a commit writes about definitions, deletes, drops and retention: for each mark the state of its entry in memory, or that it is gone. Call
 * within the commit's body, so that one that runs later stores later state.
 */

import type { Drops } from '../retention/drops.ts'
import { storeCutoffs, storeTaken, storeTombstone } from '../retention/stored.ts'
import type { Tombstones } from '../retention/tombstones.ts'
import type { Tombstone } from '../threads/removals.ts'
import { blockKey } from './catalog.ts'
import type { Schema } from './schema.ts'
import type { Kind, Marks } from './unstored.ts'

interface Entries {
  /** Keys and values; undefined = there is no such entry any more. */
  entries: [key: string, value: unknown][]
  /** Blocks of series that changed. */
  seriesBlocks: number[]
  /** Tombstones that changed or came, and numbers of those that went. */
  tombstones: Tombstone[]
  tombstonesRemoved: number[]
  /** Gone tables that the log has no rows of any more. */
  forgotten: number[]
}

/** @param floor first log file that is still needed once the commit is durable. */
export function entriesOf(marks: Marks, { schema, tombstones, drops }: { schema: Schema; tombstones: Tombstones; drops: Drops }, floor: number): Entries {
  const entries: Entries['entries'] = []
  const changed: Tombstone[] = []
  const removed: number[] = []
  const ids = (kind: Kind): number[] => [...(marks.get(kind)?.keys() ?? [])]
  const forgotten = [...schema.goneTables].flatMap(([table, file]) => (file < floor ? [table] : []))
  for (const id of ids('measurement')) entries.push([blockKey('measurement', id), schema.any(id)?.def()])
  for (const id of ids('table')) {
    const file = schema.goneTables.get(id)
    entries.push([blockKey('table', id), schema.tables[id]?.def()], [blockKey('gone', id), file === undefined ? undefined : { table: id, file }])
  }
  for (const table of forgotten) entries.push([blockKey('gone', table), undefined])
  for (const id of ids('tombstone')) {
    const tombstone = tombstones.byId.get(id)
    entries.push([blockKey('tombstone', id), tombstone === undefined ? undefined : storeTombstone(tombstone)])
    if (tombstone === undefined) removed.push(id)
    else changed.push(tombstone)
  }
  for (const id of ids('drop')) entries.push([blockKey('drop', id), drops.pending.get(id)])
  for (const _ of ids('retention'))
    entries.push(['meta/retention', storeCutoffs(tombstones.cutoffs)], ['meta/taken', storeTaken(tombstones.taken)], ['meta/cuts', undefined])
  for (const _ of ids('ended-drops')) entries.push(['meta/ended-drops', drops.ended])
  return { entries, seriesBlocks: ids('series'), tombstones: changed, tombstonesRemoved: removed, forgotten }
}
