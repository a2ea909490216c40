/**
 * The regular pass over what lives: ends drops whose time has come, moves the cuts of retention, takes freed files out of the manifest, gives series
 * without rows back and forgets tombstones that hide nothing any more.
 */

import type { RetentionHold } from '../../../kernel/storage.ts'
import { type Lifetimes, measurementCutoff, retentionCutoff } from '../../common/lifetime.ts'
import type { Limits } from '../../common/limits.ts'
import { INT64_MIN } from '../../common/time.ts'
import type { Merge } from '../compaction-plan.ts'
import { type Cut, type Cuts, type SegmentMeta, Summary } from '../layout.ts'
import type { EngineMetrics } from '../metrics.ts'
import type { Schema } from '../schema.ts'
import type { SeriesIndex } from '../series-index.ts'
import type { WritePath } from '../write-path.ts'
import { cutOf } from './cuts.ts'
import type { Lifetime } from './lifetime.ts'
import { freed, planRewrite, spent, type TableView } from './reclaim.ts'
import { type Kept, nextCuts } from './retention.ts'

const GENERAL = -1

export interface HousekeepingParts {
  lifetime: Lifetime
  lifetimes: Lifetimes
  limits: Limits
  schema: Schema
  index: SeriesIndex
  writes: WritePath
  metrics: EngineMetrics
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

  /**
   * Hides again what cuts had hidden and what now lies in pieces of a higher sequence: rows read back from the log, which knows no cuts, and rows
   * that a merge put together with newer ones of other measurements. The cuts stay at their times.
   */
  renewCuts(): void {
    const { tombstones } = this.parts.lifetime
    const { cuts } = tombstones
    const late = this.lateBelow(cuts)
    if (late.size === 0) return
    this.freezeBelow((id) => cutOf(cuts, id)?.cutoff)
    const { sequence } = this.parts.writes.active
    const renewed = (id: number, cut: Cut): Cut => (late.has(id) ? { ...cut, sequence } : cut)
    tombstones.setCuts({
      all: cuts.all === null ? null : renewed(GENERAL, cuts.all),
      own: new Map([...cuts.own].map(([id, cut]) => [id, renewed(id, cut)])),
    })
  }

  /** A file of the table that is worth writing again. */
  rewrite(table: number): Merge | undefined {
    const now = performance.now()
    const ripe = (id: number): boolean => now - this.note(id).at >= this.parts.rewriteAfterSecs * 1000
    return planRewrite(this.view(table, this.parts.segments.get(table) ?? []), this.parts.lifetime.tombstones, ripe)
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
    const moved = this.moveCuts()
    for (const id of lifetime.tombstones.byId.keys()) this.note(id)
    await lifetime.releases.run()
    // What a merge is reading stays until the next pass, and its tombstones with it: the merge may have begun before them.
    const removed = [...segments].flatMap(([table, list]) => freed(this.view(table, list), lifetime.tombstones)).filter(({ id }) => !this.parts.merging(id))
    if (moved || removed.length > 0 || lifetime.waiting) await remove(removed)
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
  }

  /** @returns whether they moved. */
  private moveCuts(): boolean {
    const { lifetime, lifetimes, limits, schema, writes, metrics } = this.parts
    const { cuts } = lifetime.tombstones
    if (lifetimes.retentionSecs === 0 && lifetimes.retention.size === 0 && cuts.all === null && cuts.own.size === 0) return false
    const { clock } = lifetime
    const general = retentionCutoff(clock, lifetimes.retentionSecs, limits)
    const kept: Kept[] = [...schema.byId, ...schema.pending.values()].flatMap((measurement) => {
      if (measurement === undefined || !measurement.kept) return []
      const { id, namespace, name } = measurement
      const cutoff = measurementCutoff(lifetimes, limits, clock, namespace, name, this.parts.holds)
      const pending = schema.pending.has(id)
      if (cutoff < general && !lifetimes.retention.has(name) && !pending)
        this.awaiting(
          measurement.tables.map((table) => table.id),
          general,
        )
      return [{ id, cutoff, ownPeriod: lifetimes.retention.has(name), pending }]
    })
    const cutoffs = new Map(kept.flatMap(({ id, cutoff, pending }) => (pending ? [] : [[id, cutoff] as const])))
    this.freezeBelow((id) => cutoffs.get(id))
    const next = nextCuts(cuts, general, kept, writes.active.sequence, this.lateBelow(cuts))
    if (next === undefined) return false
    const width = BigInt(limits.shardDurationSecs) * 1_000_000_000n
    const from = cuts.all?.cutoff ?? this.firstTime()
    if (next.all !== null && from !== undefined && next.all.cutoff > from) metrics.shardsDropped.inc(Number((next.all.cutoff - from + width - 1n) / width))
    lifetime.tombstones.setCuts(next)
    this.emptySeries(next)
    return true
  }

  /** Counts segments that retention would take and somebody still needs. */
  private awaiting(tables: readonly number[], cutoff: bigint): void {
    const count = tables.reduce((sum, table) => sum + (this.parts.segments.get(table) ?? []).filter(({ maxTime }) => BigInt(maxTime) < cutoff).length, 0)
    if (count > 0) this.parts.metrics.segmentsAwaitingRollup.inc(count)
  }

  /** Rows in the active memtable that a cut is about to hide: they must lie in an older piece than those to come. */
  private freezeBelow(cutoffOf: (measurement: number) => bigint | undefined): void {
    const { schema, writes } = this.parts
    if (writes.active.rows === 0) return
    for (const measurement of [...schema.byId, ...schema.pending.values()]) {
      const cutoff = measurement === undefined ? undefined : cutoffOf(measurement.id)
      if (measurement === undefined || cutoff === undefined) continue
      const below = ({ id }: { id: number }): boolean => {
        const table = writes.active.tables.get(id)
        return table !== undefined && table.rows > 0 && table.summary[Summary.MIN_TIME] < cutoff
      }
      if (measurement.tables.some(below)) return writes.freeze(writes.wal.file)
    }
  }

  /** Whose cut has segments or memtables from after it with rows below it. */
  private lateBelow(cuts: Cuts): Set<number> {
    const { schema, segments, writes } = this.parts
    const late = new Set<number>()
    const look = (table: number, sequence: number, minTime: bigint): void => {
      const owner = schema.tables[table]?.measurement
      if (owner === undefined) return
      const ids = owner >= 0 ? [owner] : [GENERAL, ...cuts.own.keys()]
      for (const id of ids) {
        const cut = id === GENERAL ? cuts.all : cutOf(cuts, id)
        if (cut !== null && sequence >= cut.sequence && minTime < cut.cutoff) late.add(cuts.own.has(id) ? id : GENERAL)
      }
    }
    if (cuts.all === null && cuts.own.size === 0) return late
    for (const [table, list] of segments) for (const { sequence, minTime } of list) look(table, sequence, BigInt(minTime))
    for (const { sequence, tables } of [...writes.frozen, writes.active])
      for (const [table, { rows, summary }] of tables) if (rows > 0) look(table, sequence, summary[Summary.MIN_TIME])
    return late
  }

  /** Series whose newest row is behind their cut. */
  private emptySeries(cuts: Cuts): void {
    const { index, lifetime } = this.parts
    for (const id of index.members.measurements()) {
      const cut = cutOf(cuts, id)
      if (cut !== null && cut.cutoff !== INT64_MIN) lifetime.releases.expired(id, cut)
    }
  }

  private firstTime(): bigint | undefined {
    let first: bigint | undefined
    for (const list of this.parts.segments.values()) for (const { minTime } of list) if (first === undefined || BigInt(minTime) < first) first = BigInt(minTime)
    return first
  }

  private view(table: number, segments: readonly SegmentMeta[]): TableView {
    const owner = this.parts.schema.tables[table]
    return { id: table, measurement: owner === undefined || owner.measurement < 0 ? undefined : owner.measurement, gone: owner === undefined, segments }
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
    if (note === undefined) this.seen.set(id, (note = { at: performance.now(), sequence: this.parts.writes.active.sequence }))
    return note
  }
}
