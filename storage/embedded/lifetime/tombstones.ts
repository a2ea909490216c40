/**
 * The tombstones and retention cutoffs (layout.ts), kept for the engine threads and the catalog.
 *
 * Invariant: a tombstone stays until no memtable and no segment can hold a row that it hides.
 */
import type { RetentionCutoffs, SegmentMeta, StateEvent, Tombstone } from '../layout.ts'
import { NO_CUTOFFS, newestId } from './cutoffs.ts'

/** Nothing of a dropped measurement comes back, whatever the sequence: its number is never used again. */
export const EVERY_SEQUENCE = Number.MAX_SAFE_INTEGER

export class Tombstones {
  /** Of tombstones and of retention cutoffs. */
  nextId = 1
  /** The newest in force: one with a higher id may be on its way through the log. */
  newest = 0
  cutoffs: RetentionCutoffs = NO_CUTOFFS
  readonly byId = new Map<number, Tombstone>()
  /** What the catalog does not have yet. */
  readonly changed = new Set<number>()
  readonly removed = new Set<number>()
  cutoffsChanged = false
  private readonly tell: (event: StateEvent) => void

  constructor(tell: (event: StateEvent) => void) {
    this.tell = tell
  }

  /** Replaces the one of the same id, which a replayed record brings back. */
  add(tombstone: Tombstone): void {
    this.see(tombstone.id)
    this.byId.set(tombstone.id, tombstone)
    this.changed.add(tombstone.id)
    this.removed.delete(tombstone.id)
    this.tell({ kind: 'tombstones', added: [tombstone], removed: [] })
  }

  remove(ids: readonly number[]): void {
    if (ids.length === 0) return
    for (const id of ids) {
      this.byId.delete(id)
      this.changed.delete(id)
      this.removed.add(id)
    }
    this.tell({ kind: 'tombstones', added: [], removed: [...ids] })
  }

  setCutoffs(cutoffs: RetentionCutoffs): void {
    this.see(newestId(cutoffs))
    this.cutoffs = cutoffs
    this.cutoffsChanged = true
    this.tell({ kind: 'cutoffs', cutoffs })
  }

  /** From the catalog. */
  load(tombstones: readonly Tombstone[], cutoffs: RetentionCutoffs): void {
    for (const tombstone of tombstones) {
      this.byId.set(tombstone.id, tombstone)
      this.see(tombstone.id)
    }
    this.see(newestId(cutoffs))
    this.cutoffs = cutoffs
  }

  /** What a thread that starts late must be told. */
  events(): StateEvent[] {
    return [
      { kind: 'tombstones', added: [...this.byId.values()], removed: [] },
      { kind: 'cutoffs', cutoffs: this.cutoffs },
    ]
  }

  of(measurement: number): Tombstone[] {
    return [...this.byId.values()].filter((tombstone) => tombstone.measurement === measurement)
  }

  private see(id: number): void {
    this.nextId = Math.max(this.nextId, id + 1)
    this.newest = Math.max(this.newest, id)
  }
}

/** Whether a segment may hold rows that the tombstone hides. */
export function touches(tombstone: Tombstone, segment: SegmentMeta): boolean {
  const { series } = tombstone
  if (tombstone.sequence <= segment.sequence || tombstone.id <= (segment.cleared ?? 0)) return false
  if (series !== null && (series.length === 0 || series[0] > segment.maxSeries || series[series.length - 1] < segment.minSeries)) return false
  return tombstone.start <= BigInt(segment.maxTime) && tombstone.end >= BigInt(segment.minTime)
}
