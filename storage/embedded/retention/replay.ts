/** Puts deletes, drops and moves of retention of the log back. */
import type { Schema } from '../catalog/schema.ts'
import type { SeriesIndex } from '../series/series-index.ts'
import type { ChangeRecord } from '../wal/change-record.ts'
import type { Deletes } from './deletes.ts'
import type { Drops } from './drops.ts'
import type { Releases } from './releases.ts'
import type { RetentionMoves } from './retention-moves.ts'

interface ReplayedChanges {
  deletes: Deletes
  drops: Drops
  moves: RetentionMoves
  releases: Releases
  index: SeriesIndex
}

/** @param file the log file that holds the record. */
export function replayChange(change: ChangeRecord, file: number, { deletes, drops, moves, releases, index }: ReplayedChanges): void {
  switch (change.kind) {
    case 'delete':
      return deletes.apply(change, file)
    case 'drop':
      return drops.replayDrop(change, file)
    case 'restore':
      return drops.replayRestore(change.measurement)
    case 'retention':
      return void moves.apply(change, file)
    case 'release':
      return releases.given(index.release(change.series))
  }
}

/** Call when the log has been read back. */
export function changesReplayed(schema: Schema, index: SeriesIndex, releases: Releases): void {
  schema.reindex()
  // A crash between the slices of a drop: what its measurement has left counts as given back.
  for (const id of index.members.measurements()) if (schema.any(id) === undefined) releases.gone(id)
  releases.runAtStart()
}
