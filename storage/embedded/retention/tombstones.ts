/**
 * The tombstones and retention cutoffs (../threads/removals.ts), kept for the engine threads and the catalog.
 *
 * Invariant: a tombstone stays until no memtable and no segment can hold a row that it masks.
 */

import { INT64_MIN } from '../../common/time.ts'
import type { Unstored } from '../catalog/unstored.ts'
import type { StateEvent } from '../threads/messages.ts'
import type { RetentionCutoffs, Tombstone } from '../threads/removals.ts'
import type { SegmentMeta } from '../threads/segment-entry.ts'
import { NO_CUTOFFS, newestId } from './cutoffs.ts'
import { NOTHING_TAKEN, type TakenTimes, takenOf } from './taken-times.ts'

/** Nothing of a dropped measurement comes back, whatever the sequence: its number is never used again. */
export const EVERY_SEQUENCE = Number.MAX_SAFE_INTEGER

const NO_MEASUREMENT = -1

export class Tombstones {
  /** Of tombstones and of retention cutoffs. */
  nextId = 1
  /** The newest in force: one with a higher id may be on its way through the log. */
  newest = 0
  cutoffs: RetentionCutoffs = NO_CUTOFFS
  /** Stored with the cutoffs. */
  taken: TakenTimes = NOTHING_TAKEN
  readonly byId = new Map<number, Tombstone>()
  private readonly byMeasurement = new Map<number, Map<number, Tombstone>>()
  private readonly unstored: Unstored
  private readonly publish: (event: StateEvent) => void

  constructor(unstored: Unstored, publish: (event: StateEvent) => void) {
    this.unstored = unstored
    this.publish = publish
  }

  /** Replaces the one of the same id, which a replayed record brings back. */
  add(tombstone: Tombstone): void {
    this.see(tombstone.id)
    this.insert(tombstone)
    this.unstored.mark('tombstone', tombstone.id)
    this.publish({ kind: 'tombstones', added: [tombstone], removed: [] })
  }

  remove(ids: readonly number[]): void {
    if (ids.length === 0) return
    for (const id of ids) {
      const measurement = this.byId.get(id)?.measurement ?? NO_MEASUREMENT
      const own = this.byMeasurement.get(measurement)
      own?.delete(id)
      if (own?.size === 0) this.byMeasurement.delete(measurement)
      this.byId.delete(id)
      this.unstored.mark('tombstone', id)
    }
    this.publish({ kind: 'tombstones', added: [], removed: [...ids] })
  }

  setCutoffs(cutoffs: RetentionCutoffs, taken = this.taken): void {
    this.see(newestId(cutoffs))
    this.cutoffs = cutoffs
    this.taken = taken
    this.unstored.mark('retention')
    this.publish({ kind: 'cutoffs', cutoffs })
  }

  /** From the catalog. @param nextId numbers below are taken. */
  load(tombstones: readonly Tombstone[], cutoffs: RetentionCutoffs, taken: TakenTimes, nextId = 1): void {
    this.nextId = Math.max(this.nextId, nextId)
    for (const tombstone of tombstones) {
      this.insert(tombstone)
      this.see(tombstone.id)
    }
    this.see(newestId(cutoffs))
    this.cutoffs = cutoffs
    this.taken = taken
  }

  /** What a thread that starts late must know. */
  events(): StateEvent[] {
    return [
      { kind: 'tombstones', added: [...this.byId.values()], removed: [] },
      { kind: 'cutoffs', cutoffs: this.cutoffs },
    ]
  }

  /** Before which retention may have taken points of a measurement; undefined = it has taken none. */
  takenBefore(measurement: number): bigint | undefined {
    const time = takenOf(this.taken, measurement)
    return time === INT64_MIN ? undefined : time
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

  private see(id: number): void {
    this.nextId = Math.max(this.nextId, id + 1)
    this.newest = Math.max(this.newest, id)
  }
}

/** Whether a segment may hold rows that the tombstone masks. */
export function touches(tombstone: Tombstone, segment: SegmentMeta): boolean {
  const { series } = tombstone
  if (tombstone.sequence <= segment.sequence || tombstone.id <= (segment.cleared ?? 0)) return false
  if (series !== null && (series.length === 0 || series[0] > segment.maxSeries || series[series.length - 1] < segment.minSeries)) return false
  return tombstone.start <= BigInt(segment.maxTime) && tombstone.end >= BigInt(segment.minTime)
}
