/** What the catalog has to learn of deletes, drops and retention with the next commit. */
import type { Cuts, Tombstone } from '../layout.ts'
import type { Schema } from '../schema.ts'
import type { Lifetime } from './lifetime.ts'
import type { EndedDrops, StoredDrop } from './stored.ts'

export interface LifetimeWrites {
  tombstones: Tombstone[]
  tombstonesRemoved: number[]
  cuts: Cuts | undefined
  drops: StoredDrop[]
  dropsRemoved: number[]
  ended: EndedDrops | undefined
  measurementsGone: number[]
  tablesGone: { table: number; file: number }[]
  /** Gone tables of which the log has no rows any more. */
  tablesForgotten: number[]
  /** Blocks with series that were given back. */
  released: Iterable<number>
}

/** @param floor first log file that is still needed once the commit is done. */
export function takeLifetime(lifetime: Lifetime, schema: Schema, floor: number): { change: LifetimeWrites; putBack(): void } {
  const { tombstones, drops } = lifetime
  const unstored = lifetime.unstored.take()
  const changed = [...tombstones.changed]
  const removed = [...tombstones.removed]
  const { cutsChanged } = tombstones
  tombstones.changed.clear()
  tombstones.removed.clear()
  tombstones.cutsChanged = false
  const forgotten = [...schema.goneTables].flatMap(([table, file]) => (file < floor && !unstored.tables.has(table) ? [table] : []))
  for (const table of forgotten) schema.goneTables.delete(table)
  return {
    change: {
      tombstones: changed.flatMap((id) => tombstones.byId.get(id) ?? []),
      tombstonesRemoved: removed,
      cuts: cutsChanged ? tombstones.cuts : undefined,
      drops: [...unstored.drops].flatMap((id) => drops.get(id) ?? []),
      dropsRemoved: [...unstored.drops].filter((id) => !drops.has(id)),
      ended: unstored.ended ? lifetime.ended : undefined,
      measurementsGone: [...unstored.measurementsGone],
      tablesGone: [...unstored.tables].map((table) => ({ table, file: schema.goneTables.get(table) ?? 0 })),
      tablesForgotten: forgotten,
      released: unstored.released.keys(),
    },
    putBack: () => {
      lifetime.unstored.putBack(unstored)
      for (const id of changed) if (tombstones.byId.has(id)) tombstones.changed.add(id)
      for (const id of removed) if (!tombstones.byId.has(id)) tombstones.removed.add(id)
      tombstones.cutsChanged ||= cutsChanged
      for (const table of forgotten) schema.goneTables.set(table, 0)
    },
  }
}
