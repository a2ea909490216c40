/**
 * The regular pass over what lives: ends drops whose time has come, moves retention on, takes freed files out of the manifest, gives series without
 * rows back and forgets tombstones and retention cutoffs that mask nothing any more.
 */

import type { RetentionHold } from 'svcdb'
import { type Lifetimes, measurementCutoff, retentionCutoff } from '../../common/lifetime.ts'
import type { Limits } from '../../common/limits.ts'
import { INT64_MIN } from '../../common/time.ts'
import type { Schema } from '../catalog/schema.ts'
import type { Merge } from '../compaction/plan.ts'
import type { EngineMetrics } from '../metrics.ts'
import type { SeriesIndex } from '../series/series-index.ts'
import { type Cutoff, type GeneralCutoff, type SegmentMeta, Summary } from '../threads/layout.ts'
import type { Timers } from '../timers.ts'
import type { WritePath } from '../write/write-path.ts'
import { cutoffFor, type RetentionMove, withoutSpent } from './cutoffs.ts'
import { firstTimeFrom } from './first-times.ts'
import type { Lifetime } from './lifetime.ts'
import { freed, masks, planRewrite, spent, type TableView } from './reclaim.ts'
import { type Kept, nextMove } from './retention.ts'
import { shardsTaken, type Taken } from './shards.ts'

export interface HousekeepingParts {
  lifetime: Lifetime
  lifetimes: Lifetimes
  limits: Limits
  schema: Schema
  index: SeriesIndex
  writes: WritePath
  metrics: EngineMetrics
  timers: Timers
  /** Seconds that deleted rows may stay in files before these are written again for that reason alone. */
  rewriteAfterSecs: number
  /** Who still needs raw data. */
  holds: ReadonlySet<RetentionHold>
  /** Whether a merge under way reads the segment. */
  merging(segment: number): boolean
  /** All segments by table. */
  segments: ReadonlyMap<number, readonly SegmentMeta[]>
  /** Takes segments out of the manifest, with everything else the catalog does not have yet. */
  remove(segments: readonly SegmentMeta[]): Promise<void>
}

export class Housekeeping {
  /** When each tombstone came, in milliseconds of a clock that never goes back, and the active memtable's sequence then. */
  private readonly seen = new Map<number, { at: number; sequence: number }>()
  private readonly parts: HousekeepingParts
  /** By measurement, as of the last pass. */
  private kept: ReadonlyMap<number, Kept> = new Map()
  /** Cutoff of the measurements without a retention of their own, as of the last pass. */
  private general = INT64_MIN
  private running: Promise<void> | undefined
  private again = false

  constructor(parts: HousekeepingParts) {
    this.parts = parts
  }

  /** One pass; calls during one make another. Resolves when a pass that began after the call has ended. */
  pass(): Promise<void> {
    this.again = true
    this.running ??= this.passes().finally(() => {
      this.running = undefined
    })
    return this.running
  }

  /** A file of the table that is worth writing again. @param leaves as in `planRewrite`. */
  rewrite(table: number, leaves: (segment: SegmentMeta) => boolean): Merge | undefined {
    const now = this.parts.timers.monotonic()
    const ripe = (id: number): boolean => now - this.note(id).at >= this.parts.rewriteAfterSecs * 1000
    const former = (one: Cutoff, measurement: number | undefined): boolean => this.isFormer(one, measurement) && ripe(one.id)
    return planRewrite(this.view(table, this.parts.segments.get(table) ?? []), this.parts.lifetime.tombstones, ripe, former, leaves)
  }

  private async passes(): Promise<void> {
    while (this.again) {
      this.again = false
      await this.once()
    }
  }

  private async once(): Promise<void> {
    const { lifetime, segments, remove } = this.parts
    await lifetime.expire()
    const moved = await this.moveRetention()
    for (const id of lifetime.tombstones.byId.keys()) this.note(id)
    await lifetime.releases.run()
    // What a merge is reading stays until the next pass, and its tombstones with it: the merge may have begun before them.
    const removed = [...segments].flatMap(([table, list]) => freed(this.view(table, list), lifetime.tombstones)).filter(({ id }) => !this.parts.merging(id))
    if (moved || removed.length > 0 || this.parts.writes.unstored.waiting) await remove(removed)
    // Only now that no reader is told of the removed segments any more. The catalog learns of it with the next commit.
    const done = spent(
      lifetime.tombstones,
      (id) => this.tablesOf(id),
      (table) => segments.get(table) ?? [],
      this.oldest(),
      (id) => this.note(id).sequence,
    )
    // One that says which series are still to be given back stays for a restart.
    const gone = done.filter((id) => !lifetime.releases.waitsFor(id))
    lifetime.tombstones.remove(gone)
    for (const id of gone) this.seen.delete(id)
    this.forgetCutoffs()
  }

  /** @returns whether a cutoff moved. */
  private async moveRetention(): Promise<boolean> {
    const { lifetime, lifetimes, limits } = this.parts
    const { clock, tombstones } = lifetime
    const general = retentionCutoff(clock, lifetimes.retentionSecs, limits)
    this.general = general
    this.kept = this.keptNow(clock, general)
    if (lifetimes.retentionSecs === 0 && lifetimes.retention.size === 0) return false
    const next = nextMove(tombstones.cutoffs, general, [...this.kept.values()], (table, sequence) => this.firstTime(table, sequence))
    if (next === undefined) return false
    const shards = shardsTaken(this.takenBy(next), BigInt(limits.shardDurationSecs) * 1_000_000_000n)
    const sequence = await lifetime.retain(next)
    this.parts.metrics.shardsDropped.inc(shards)
    this.emptySeries(next, sequence)
    return true
  }

  /** What each measurement keeps by the configuration in force. */
  private keptNow(clock: bigint, general: bigint): Map<number, Kept> {
    const { lifetimes, limits, schema, holds } = this.parts
    const kept = new Map<number, Kept>()
    for (const measurement of [...schema.byId, ...schema.pending.values()]) {
      if (measurement === undefined || !measurement.kept) continue
      const { id, namespace, name } = measurement
      const tables = measurement.tables.map((table) => table.id)
      if (schema.pending.has(id)) {
        kept.set(id, { id, tables, cutoff: INT64_MIN })
        continue
      }
      const cutoff = measurementCutoff(lifetimes, limits, clock, namespace, name, holds)
      if (cutoff < general && !lifetimes.retention.has(name)) this.awaiting(tables, general)
      kept.set(id, { id, tables, cutoff })
    }
    return kept
  }

  private firstTime(table: number, sequence: number): bigint {
    const { segments, writes } = this.parts
    return firstTimeFrom(segments.get(table) ?? [], [...writes.frozen, writes.active], table, sequence)
  }

  /** Counts segments that retention would take and somebody still needs. */
  private awaiting(tables: readonly number[], cutoff: bigint): void {
    const count = tables.reduce((sum, table) => sum + (this.parts.segments.get(table) ?? []).filter(({ maxTime }) => BigInt(maxTime) < cutoff).length, 0)
    if (count > 0) this.parts.metrics.segmentsAwaitingRollup.inc(count)
  }

  /** Series whose newest row a move has masked. @param sequence that of the move. */
  private emptySeries({ general, except, own }: Omit<RetentionMove, 'id'>, sequence: number): void {
    const { index, lifetime } = this.parts
    const cutoffs = new Map([...except.map((id) => [id, INT64_MIN] as const), ...own])
    for (const id of index.members.measurements()) {
      const cutoff = cutoffs.get(id) ?? general ?? INT64_MIN
      if (cutoff !== INT64_MIN) lifetime.releases.expired(id, cutoff, sequence)
    }
  }

  /** What a move masks of each segment and memtable. Rows of a shared table are taken for those of a measurement like most. */
  private *takenBy({ general, except, own }: Omit<RetentionMove, 'id'>): Generator<Taken> {
    const { schema, segments, writes, lifetime } = this.parts
    const cutoffs = new Map([...except.map((id) => [id, INT64_MIN] as const), ...own])
    for (const table of schema.tables) {
      if (table === undefined) continue
      const cutoff = cutoffs.get(table.measurement) ?? general ?? INT64_MIN
      if (this.firstTime(table.id, 0) >= cutoff) continue
      const before = (sequence: number): bigint => cutoffFor(lifetime.tombstones.cutoffs, table.measurement, { sequence, cleared: 0 })
      for (const { sequence, minTime, maxTime } of segments.get(table.id) ?? [])
        yield { minTime: BigInt(minTime), maxTime: BigInt(maxTime), before: before(sequence), cutoff }
      for (const { sequence, tables } of [...writes.frozen, writes.active]) {
        const part = tables.get(table.id)
        if (part === undefined || part.rows === 0) continue
        yield { minTime: part.summary[Summary.MIN_TIME], maxTime: part.summary[Summary.MAX_TIME], before: before(sequence), cutoff }
      }
    }
  }

  /** Forgets cutoffs that mask nothing any more. */
  private forgetCutoffs(): void {
    const { lifetime, schema, segments } = this.parts
    const { tombstones } = lifetime
    const oldest = this.oldest()
    const concerns = (one: Cutoff | GeneralCutoff, table: number): boolean => {
      const owner = schema.tables[table]?.measurement
      // The files of a dropped measurement go with it.
      if (owner === undefined || ('except' in one && one.except.has(owner))) return false
      return (segments.get(table) ?? []).some((segment) => masks(one, segment))
    }
    const left = withoutSpent(tombstones.cutoffs, (one, measurement) => {
      if (oldest < one.sequence) return true
      const tables = measurement === undefined ? [...segments.keys()] : (schema.any(measurement)?.tables.map(({ id }) => id) ?? [])
      return tables.some((table) => concerns(one, table))
    })
    if (left !== tombstones.cutoffs) tombstones.setCutoffs(left)
    const ids = new Set([...left.general, ...[...left.own.values()].flat()].map(({ id }) => id))
    for (const id of this.seen.keys()) if (!ids.has(id) && !tombstones.byId.has(id)) this.seen.delete(id)
  }

  /** Whether the configuration in force keeps what the cutoff masks: it is of an earlier one, and only its files keep it. */
  private isFormer({ cutoff }: Cutoff, measurement: number | undefined): boolean {
    return cutoff > (measurement === undefined ? this.general : (this.kept.get(measurement)?.cutoff ?? INT64_MIN))
  }

  private view(table: number, segments: readonly SegmentMeta[]): TableView {
    const { schema } = this.parts
    const owner = schema.tables[table]
    const has = (measurement: number): boolean => schema.any(measurement)?.tables.some(({ id }) => id === table) === true
    return { id: table, measurement: owner === undefined || owner.measurement < 0 ? undefined : owner.measurement, gone: owner === undefined, has, segments }
  }

  private tablesOf(measurement: number): readonly number[] {
    const { schema } = this.parts
    const known = schema.any(measurement)
    if (known !== undefined) return known.tables.map(({ id }) => id)
    return schema.tables.flatMap((table) => (table !== undefined && table.measurement < 0 ? [table.id] : []))
  }

  private oldest(): number {
    const { writes } = this.parts
    return (writes.frozen[0] ?? writes.active).sequence
  }

  private note(id: number): { at: number; sequence: number } {
    let note = this.seen.get(id)
    if (note === undefined) this.seen.set(id, (note = { at: this.parts.timers.monotonic(), sequence: this.parts.writes.active.sequence }))
    return note
  }
}
