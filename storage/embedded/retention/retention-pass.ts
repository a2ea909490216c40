/**
 * The regular pass of retention, drops and deletes: ends drops whose time has come, moves retention on, takes freed files out of the manifest, gives series without
 * rows back and forgets tombstones and retention cutoffs that mask nothing any more.
 */

import type { RetentionHold } from 'svcdb'
import { atOnce, type Work } from 'svcdb/lib/event-loop'
import type { Limits } from '../../common/limits.ts'
import { measurementCutoff, retentionCutoff } from '../../common/retention.ts'
import { INT64_MIN } from '../../common/time.ts'
import type { Timers } from '../../common/timers.ts'
import type { Schema } from '../catalog/schema.ts'
import type { Unstored } from '../catalog/unstored.ts'
import type { Merge } from '../compaction/plan.ts'
import type { Memtables } from '../memtable/memtables.ts'
import type { EngineMetrics } from '../metrics.ts'
import type { Manifest } from '../segment/manifest.ts'
import type { SegmentTable } from '../segment/segment-table.ts'
import type { SeriesIndex } from '../series/series-index.ts'
import type { Slices } from '../slices.ts'
import { Summary } from '../threads/memtable-layout.ts'
import type { Cutoff, GeneralCutoff } from '../threads/removals.ts'
import type { SegmentMeta } from '../threads/segment-entry.ts'
import type { RetentionClock } from './clock.ts'
import { cutoffFor, type RetentionMove, withoutSpent } from './cutoffs.ts'
import type { Drops } from './drops.ts'
import { firstTimeFrom } from './first-times.ts'
import { freed, masks, planRewrite, spent, type TableView } from './reclaim.ts'
import type { Releases } from './releases.ts'
import { type Kept, nextMove } from './retention.ts'
import type { RetentionMoves } from './retention-moves.ts'
import type { SeededTimes } from './seeded-times.ts'
import { shardsTaken, type Taken } from './shards.ts'
import type { Tombstones } from './tombstones.ts'

interface Decided {
  /** Cutoff of the measurements without a retention of their own. */
  general: bigint
  kept: ReadonlyMap<number, Kept>
  /** Segments that somebody still needs. */
  awaiting: number
  next: Omit<RetentionMove, 'id'> | undefined
}

interface RetentionPassDependencies {
  clock: RetentionClock
  limits: Limits
  schema: Schema
  index: SeriesIndex
  memtables: Memtables
  unstored: Unstored
  tombstones: Tombstones
  drops: Drops
  moves: RetentionMoves
  releases: Releases
  seeded: SeededTimes
  segments: SegmentTable
  manifest: Manifest
  metrics: EngineMetrics
  timers: Timers
  slices: Slices
  /** Seconds that deleted rows may stay in files before these are written again for that reason alone. */
  rewriteAfterSecs: number
  /** Who still needs raw data. */
  holds: ReadonlySet<RetentionHold>
}

export class RetentionPass {
  /** When each tombstone came, in milliseconds of a clock that never goes back, and the active memtable's sequence then. */
  private readonly seen = new Map<number, { at: number; sequence: number }>()
  private readonly dependencies: RetentionPassDependencies
  /** By measurement, as of the last pass. */
  private kept: ReadonlyMap<number, Kept> = new Map()
  /** Cutoff of the measurements without a retention of their own, as of the last pass. */
  private general = INT64_MIN
  private running: Promise<void> | undefined
  private again = false

  constructor(dependencies: RetentionPassDependencies) {
    this.dependencies = dependencies
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
    const now = this.dependencies.timers.monotonic()
    const ripe = (id: number): boolean => now - this.note(id).at >= this.dependencies.rewriteAfterSecs * 1000
    const former = (one: Cutoff, measurement: number | undefined): boolean => this.isFormer(one, measurement) && ripe(one.id)
    return planRewrite(this.view(table, this.dependencies.segments.of(table)), this.dependencies.tombstones, ripe, former, leaves)
  }

  private async passes(): Promise<void> {
    while (this.again) {
      this.again = false
      await this.once()
    }
  }

  private async once(): Promise<void> {
    const { unstored, tombstones, drops, releases, seeded, segments, manifest } = this.dependencies
    let moved = false
    let failure: unknown
    try {
      await drops.expire()
      moved = await this.moveRetention()
    } catch (error) {
      // Their records find no space in the log, say: what is free already is all the more to go.
      failure = error
    }
    for (const id of tombstones.byId.keys()) this.note(id)
    await releases.run()
    // What a merge is reading stays until the next pass, and its tombstones with it: the merge may have begun before them.
    const removed = [...segments.tables].flatMap(([table, list]) => freed(this.view(table, list), tombstones)).filter(({ id }) => !segments.isClaimed(id))
    if (moved || removed.length > 0 || unstored.waiting) await manifest.remove(removed)
    // Only now that no reader is given the removed segments any more. The catalog learns of it with the next commit.
    const done = spent(
      tombstones,
      (id) => this.tablesOf(id),
      (table) => segments.of(table),
      this.oldest(),
      (id) => this.note(id).sequence,
    )
    // One that says which series are still to be given back stays for a restart.
    const gone = done.filter((id) => !releases.waitsFor(id))
    tombstones.remove(gone)
    for (const id of gone) this.seen.delete(id)
    this.forgetCutoffs()
    seeded.look(new Set([...this.kept.values()].flatMap(({ id, cutoff }) => (cutoff === INT64_MIN ? [] : [id]))))
    if (failure !== undefined) throw failure
  }

  /** @returns whether a cutoff moved. */
  private async moveRetention(): Promise<boolean> {
    const { limits, moves, metrics, slices } = this.dependencies
    const deciding = this.decide()
    let inOne = true
    let step = deciding.next()
    for (; step.done !== true; step = deciding.next()) {
      inOne = false
      await slices.next()
    }
    let decided = step.value
    // Measurements and holds may have come in the turns of others: a move follows from what there is in one turn. Few passes have one.
    if (!inOne && decided.next !== undefined) decided = atOnce(this.decide())
    const { general, kept, awaiting, next } = decided
    this.general = general
    this.kept = kept
    if (awaiting > 0) metrics.segmentsAwaitingRollup.inc(awaiting)
    if (next === undefined) return false
    const shards = shardsTaken(this.takenBy(next), BigInt(limits.shardDurationSecs) * 1_000_000_000n)
    const sequence = await moves.move(next)
    metrics.shardsDropped.inc(shards)
    this.emptySeries(next, sequence)
    return true
  }

  /** What each measurement keeps by the configuration in force, and what follows from it. */
  private *decide(): Work<Decided> {
    const { clock, limits, schema, holds, tombstones, slices } = this.dependencies
    const { now, settings } = clock
    const general = retentionCutoff(now, settings.retentionSecs, limits)
    const kept = new Map<number, Kept>()
    let awaiting = 0
    for (const measurement of [...schema.byId, ...schema.pending.values()]) {
      if (measurement === undefined || !measurement.kept) continue
      const { id, namespace, name } = measurement
      const tables = measurement.tables.map((table) => table.id)
      const isPending = schema.pending.has(id)
      const cutoff = isPending ? INT64_MIN : measurementCutoff(settings, limits, now, namespace, name, holds)
      if (!isPending && cutoff < general && !settings.retention.has(name)) awaiting += this.awaiting(tables, general)
      kept.set(id, { id, tables, cutoff })
      if (kept.size % slices.size === 0) yield
    }
    if (settings.retentionSecs === 0 && settings.retention.size === 0) return { general, kept, awaiting, next: undefined }
    const next = nextMove(tombstones.cutoffs, general, [...kept.values()], (table, sequence) => this.firstTime(table, sequence))
    return { general, kept, awaiting, next }
  }

  private firstTime(table: number, sequence: number): bigint {
    const { segments, memtables } = this.dependencies
    return firstTimeFrom(segments.of(table), memtables.all(), table, sequence)
  }

  /** Segments that retention would take and somebody still needs. */
  private awaiting(tables: readonly number[], cutoff: bigint): number {
    return tables.reduce((sum, table) => sum + this.dependencies.segments.of(table).filter(({ maxTime }) => BigInt(maxTime) < cutoff).length, 0)
  }

  /** Series whose newest row a move has masked. @param sequence that of the move. */
  private emptySeries({ general, except, own }: Omit<RetentionMove, 'id'>, sequence: number): void {
    const { index, releases } = this.dependencies
    const cutoffs = new Map([...except.map((id) => [id, INT64_MIN] as const), ...own])
    for (const id of index.members.measurements()) {
      const cutoff = cutoffs.get(id) ?? general ?? INT64_MIN
      if (cutoff !== INT64_MIN) releases.expired(id, cutoff, sequence)
    }
  }

  /** What a move masks of each segment and memtable. Rows of a shared table are taken for those of a measurement like most. */
  private *takenBy({ general, except, own }: Omit<RetentionMove, 'id'>): Generator<Taken> {
    const { schema, segments, memtables, tombstones } = this.dependencies
    const cutoffs = new Map([...except.map((id) => [id, INT64_MIN] as const), ...own])
    for (const table of schema.tables) {
      if (table === undefined) continue
      const cutoff = cutoffs.get(table.measurement) ?? general ?? INT64_MIN
      if (this.firstTime(table.id, 0) >= cutoff) continue
      const before = (sequence: number): bigint => cutoffFor(tombstones.cutoffs, table.measurement, { sequence, cleared: 0 })
      for (const { sequence, minTime, maxTime } of segments.of(table.id))
        yield { minTime: BigInt(minTime), maxTime: BigInt(maxTime), before: before(sequence), cutoff }
      for (const { sequence, tables } of memtables.all()) {
        const rows = tables.get(table.id)
        if (rows === undefined || rows.rows === 0) continue
        yield { minTime: rows.summary[Summary.MIN_TIME], maxTime: rows.summary[Summary.MAX_TIME], before: before(sequence), cutoff }
      }
    }
  }

  /** Forgets cutoffs that mask nothing any more. */
  private forgetCutoffs(): void {
    const { tombstones, schema, segments } = this.dependencies
    const oldest = this.oldest()
    const concerns = (one: Cutoff | GeneralCutoff, table: number): boolean => {
      const owner = schema.tables[table]?.measurement
      // The files of a dropped measurement go with it.
      if (owner === undefined || ('except' in one && one.except.has(owner))) return false
      return segments.of(table).some((segment) => masks(one, segment))
    }
    const left = withoutSpent(tombstones.cutoffs, (one, measurement) => {
      if (oldest < one.sequence) return true
      const tables = measurement === undefined ? [...segments.tables.keys()] : (schema.any(measurement)?.tables.map(({ id }) => id) ?? [])
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
    const { schema } = this.dependencies
    const owner = schema.tables[table]
    const has = (measurement: number): boolean => schema.any(measurement)?.tables.some(({ id }) => id === table) === true
    return { id: table, measurement: owner === undefined || owner.measurement < 0 ? undefined : owner.measurement, gone: owner === undefined, has, segments }
  }

  private tablesOf(measurement: number): readonly number[] {
    const { schema } = this.dependencies
    const known = schema.any(measurement)
    if (known !== undefined) return known.tables.map(({ id }) => id)
    return schema.tables.flatMap((table) => (table !== undefined && table.measurement < 0 ? [table.id] : []))
  }

  private oldest(): number {
    return this.dependencies.memtables.oldest().sequence
  }

  private note(id: number): { at: number; sequence: number } {
    let note = this.seen.get(id)
    if (note === undefined) this.seen.set(id, (note = { at: this.dependencies.timers.monotonic(), sequence: this.dependencies.memtables.active.sequence }))
    return note
  }
}
