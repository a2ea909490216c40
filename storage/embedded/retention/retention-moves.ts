/** Moves of retention: through the log first, in its order, as deletes go. */

import type { Wal } from '../../common/log/log.ts'
import { INT64_MIN, later } from '../../common/time.ts'
import type { Schema } from '../catalog/schema.ts'
import type { Memtables } from '../memtable/memtables.ts'
import type { ChangeRecord } from '../wal/change-record.ts'
import type { WritePath } from '../write/write-path.ts'
import { type RetentionMove, withMove } from './cutoffs.ts'
import { withTaken } from './taken-times.ts'
import type { Tombstones } from './tombstones.ts'

type Retention = Extract<ChangeRecord, { kind: 'retention' }>

/** The measurement of a table that several share. */
const SHARED = -1

export class RetentionMoves {
  private readonly schema: Schema
  private readonly memtables: Memtables
  private readonly tombstones: Tombstones
  private readonly writes: Pick<WritePath, 'change'>
  private readonly wal: Wal

  constructor(schema: Schema, memtables: Memtables, tombstones: Tombstones, writes: Pick<WritePath, 'change'>, wal: Wal) {
    this.schema = schema
    this.memtables = memtables
    this.tombstones = tombstones
    this.writes = writes
    this.wal = wal
  }

  /** Masks what retention no longer keeps of the rows written so far. @returns the sequence below which sources have them. */
  async move(move: Omit<RetentionMove, 'id'>): Promise<number> {
    const change: Retention = { kind: 'retention', id: this.tombstones.nextId++, ...move }
    let sequence = 0
    await this.writes.change(change, () => {
      sequence = this.apply(change, this.wal.file)
    })
    return sequence
  }

  /** @param file the log file that holds its record. */
  apply(move: Retention, file: number): number {
    const { schema, memtables, tombstones } = this
    const general = move.general ?? INT64_MIN
    const except = new Set(move.except)
    const own = new Map(move.own)
    const latest = [...own.values()].reduce(later, general)
    const sequence = memtables.sequenceAboveOlder((table) => {
      const owner = schema.tables[table]?.measurement ?? SHARED
      if (owner < 0) return latest
      return later(except.has(owner) ? INT64_MIN : general, own.get(owner) ?? INT64_MIN)
    }, file)
    const taken = withTaken(tombstones.taken, move, (measurement) => schema.any(measurement) !== undefined)
    tombstones.setCutoffs(withMove(tombstones.cutoffs, move, sequence), taken)
    return sequence
  }
}
