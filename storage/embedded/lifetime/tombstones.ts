/**
 * The tombstones and cuts in force (layout.ts), kept for the engine threads and the catalog.
 *
 * Invariant: a tombstone stays until no memtable and no segment can hold a row that it hides.
 */
import type { Cuts, SegmentMeta, StateEvent, Tombstone } from '../layout.ts'

/** Nothing of a dropped measurement comes back, whatever the sequence: its number is never used again. */
export const EVERY_SEQUENCE = Number.MAX_SAFE_INTEGER

const NO_MEASUREMENT = -1
const NO_CUTS: Cuts = { all: null, own: new Map() }

export class Tombstones {
  nextId = 1
  /** The newest in force: one with a higher id may be on its way through the log. */
  newest = 0
  cuts: Cuts = NO_CUTS
  readonly byId = new Map<number, Tombstone>()
  /** What the catalog does not have yet. */
  readonly changed = new Set<number>()
  readonly removed = new Set<number>()
  cutsChanged = false
  private readonly byMeasurement = new Map<number, Map<number, Tombstone>>()
  private readonly tell: (event: StateEvent) => void

  constructor(tell: (event: StateEvent) => void) {
    this.tell = tell
  }

  /** Replaces the one of the same id, which a replayed record brings back. */
  add(tombstone: Tombstone): void {
    this.nextId = Math.max(this.nextId, tombstone.id + 1)
    this.newest = Math.max(this.newest, tombstone.id)
    this.insert(tombstone)
    this.changed.add(tombstone.id)
    this.removed.delete(tombstone.id)
    this.tell({ kind: 'tombstones', added: [tombstone], removed: [] })
  }

  remove(ids: readonly number[]): void {
    if (ids.length === 0) return
    for (const id of ids) {
      const measurement = this.byId.get(id)?.measurement ?? NO_MEASUREMENT
      const own = this.byMeasurement.get(measurement)
      own?.delete(id)
      if (own?.size === 0) this.byMeasurement.delete(measurement)
      this.byId.delete(id)
      this.changed.delete(id)
      this.removed.add(id)
    }
    this.tell({ kind: 'tombstones', added: [], removed: [...ids] })
  }

  setCuts(cuts: Cuts): void {
    this.cuts = cuts
    this.cutsChanged = true
    this.tell({ kind: 'cuts', cuts })
  }

  /** From the catalog. */
  load(tombstones: readonly Tombstone[], cuts: Cuts): void {
    for (const tombstone of tombstones) {
      this.insert(tombstone)
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
    return [...(this.byMeasurement.get(measurement)?.values() ?? [])]
  }

  private insert(tombstone: Tombstone): void {
    this.byId.set(tombstone.id, tombstone)
    let own = this.byMeasurement.get(tombstone.measurement)
    if (own === undefined) this.byMeasurement.set(tombstone.measurement, (own = new Map()))
    own.set(tombstone.id, tombstone)
  }
}

/** Whether a segment may hold rows that the tombstone hides. */
export function touches(tombstone: Tombstone, segment: SegmentMeta): boolean {
  const { series } = tombstone
  if (tombstone.sequence <= segment.sequence || tombstone.id <= (segment.cleared ?? 0)) return false
  if (series !== null && (series.length === 0 || series[0] > segment.maxSeries || series[series.length - 1] < segment.minSeries)) return false
  return tombstone.start <= BigInt(segment.maxTime) && tombstone.end >= BigInt(segment.minTime)
}
