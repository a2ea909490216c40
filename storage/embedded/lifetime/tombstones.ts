/**
 * The tombstones and cuts in force (layout.ts), kept for the engine threads and the catalog.
 *
 * Invariant: a tombstone stays until no memtable and no segment can hold a row that it hides.
 */
import type { Cuts, SegmentMeta, StateEvent, Tombstone } from '../layout.ts'
import type { Unstored } from '../unstored.ts'

/** Nothing of a dropped measurement comes back, whatever the sequence: its number is never used again. */
export const EVERY_SEQUENCE = Number.MAX_SAFE_INTEGER

const NO_CUTS: Cuts = { all: null, own: new Map() }

export class Tombstones {
  nextId = 1
  /** The newest in force: one with a higher id may be on its way through the log. */
  newest = 0
  cuts: Cuts = NO_CUTS
  readonly byId = new Map<number, Tombstone>()
  private readonly unstored: Unstored
  private readonly tell: (event: StateEvent) => void

  constructor(unstored: Unstored, tell: (event: StateEvent) => void) {
    this.unstored = unstored
    this.tell = tell
  }

  /** Replaces the one of the same id, which a replayed record brings back. */
  add(tombstone: Tombstone): void {
    this.nextId = Math.max(this.nextId, tombstone.id + 1)
    this.newest = Math.max(this.newest, tombstone.id)
    this.byId.set(tombstone.id, tombstone)
    this.unstored.mark('tombstone', tombstone.id)
    this.tell({ kind: 'tombstones', added: [tombstone], removed: [] })
  }

  remove(ids: readonly number[]): void {
    if (ids.length === 0) return
    for (const id of ids) {
      this.byId.delete(id)
      this.unstored.mark('tombstone', id)
    }
    this.tell({ kind: 'tombstones', added: [], removed: [...ids] })
  }

  setCuts(cuts: Cuts): void {
    this.cuts = cuts
    this.unstored.mark('cuts')
    this.tell({ kind: 'cuts', cuts })
  }

  /** From the catalog. */
  load(tombstones: readonly Tombstone[], cuts: Cuts): void {
    for (const tombstone of tombstones) {
      this.byId.set(tombstone.id, tombstone)
      this.nextId = Math.max(this.nextId, tombstone.id + 1)
      this.newest = Math.max(this.newest, tombstone.id)
    }
    this.cuts = cuts
  }

  /** What a thread that starts late must be told. */
  events(): StateEvent[] {
    return [
      { kind: 'tombstones', added: [...this.byId.values()], removed: [] },
      { kind: 'cuts', cuts: this.cuts },
    ]
  }

  of(measurement: number): Tombstone[] {
    return [...this.byId.values()].filter((tombstone) => tombstone.measurement === measurement)
  }
}

/** Whether a segment may hold rows that the tombstone hides. */
export function touches(tombstone: Tombstone, segment: SegmentMeta): boolean {
  const { series } = tombstone
  if (tombstone.sequence <= segment.sequence || tombstone.id <= (segment.cleared ?? 0)) return false
  if (series !== null && (series.length === 0 || series[0] > segment.maxSeries || series[series.length - 1] < segment.minSeries)) return false
  return tombstone.start <= BigInt(segment.maxTime) && tombstone.end >= BigInt(segment.minTime)
}
