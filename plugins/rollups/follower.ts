/** Follows the changes of all sources, and marks what they make dirty. There is a cursor only while there are rollups. */
import { setImmediate as turn } from 'node:timers/promises'
import type { Change, ChangeCursor, ChangePosition, Storage } from 'svcdb'
import type { RollupMetrics } from './metrics.ts'
import type { Registry } from './registry.ts'
import { MAX_MARKS, type Rollup } from './rollup.ts'

export interface FollowerDependencies {
  storage(): Storage
  registry: Registry
  metrics: RollupMetrics
  /** A rollup has become dirty, or its source has data. */
  marked(rollup: Rollup): void
  failed(error: Error): void
}

export class Follower {
  private readonly dependencies: FollowerDependencies
  private cursor: ChangeCursor | undefined
  private running: Promise<void> | undefined
  private closed = false
  /** The place of the newest change when the cursor was opened. */
  private newest: ChangePosition | undefined
  /** Since the start, all that had changed before has been seen. */
  caughtUp = false

  constructor(dependencies: FollowerDependencies) {
    this.dependencies = dependencies
  }

  /** Opens the cursor if there are rollups, closes it if there are none; call when rollups come or go, and now and then, for one that has failed is opened again. */
  follow(): void {
    const { registry, storage } = this.dependencies
    if (registry.size === 0 || this.closed) {
      this.cursor?.close()
      this.cursor = undefined
      registry.position = undefined
      this.caughtUp = true
      return
    }
    const wanted = (measurement: string, namespace: string): boolean => registry.of(namespace, measurement).length > 0
    if (this.cursor !== undefined) {
      this.cursor.select(wanted)
      return
    }
    const after = registry.position
    if (after === undefined) for (const rollup of registry.all()) this.markAll(rollup)
    const cursor = storage().changes({ measurements: wanted, ...(after === undefined ? {} : { after }) })
    this.cursor = cursor
    if (after === undefined) this.caughtUp = true
    else if (!this.caughtUp) void this.aim()
    this.running = this.run(cursor)
  }

  /** Up to where all changes were seen; undefined without a cursor. */
  async position(): Promise<ChangePosition | undefined> {
    const { cursor } = this
    if (cursor === undefined) return undefined
    const position = await cursor.position()
    // What was handed out before has been seen when other work has had its turn.
    await turn()
    if (cursor !== this.cursor) return undefined
    if (this.newest !== undefined && position >= this.newest) this.caughtUp = true
    return position
  }

  get following(): boolean {
    return this.cursor !== undefined
  }

  get behind(): number {
    return this.cursor?.behind ?? 0
  }

  async close(): Promise<void> {
    this.closed = true
    this.cursor?.close()
    await this.running
  }

  /** Finds out up to where all has to be seen before it is known what is dirty. */
  private async aim(): Promise<void> {
    const probe = this.dependencies.storage().changes({ measurements: [] })
    try {
      this.newest ??= await probe.position()
    } catch (error) {
      if (!this.closed) this.dependencies.failed(error as Error)
    } finally {
      probe.close()
    }
  }

  private async run(cursor: ChangeCursor): Promise<void> {
    try {
      for (let next = await cursor.next(); !next.done; next = await cursor.next()) if (cursor === this.cursor) this.see(next.value)
    } catch (error) {
      if (!this.closed) this.dependencies.failed(error as Error)
    } finally {
      cursor.close()
      if (this.cursor === cursor) this.cursor = undefined
    }
  }

  private see(change: Change): void {
    const { registry } = this.dependencies
    if (change.kind === 'gap') {
      for (const rollup of registry.all()) this.markAll(rollup)
      return
    }
    // Live rows are behind every watermark: one look at their times is enough for all rollups.
    const first = change.kind === 'rows' ? firstOf(change.times, change.rows) : undefined
    const rollups = registry.of(change.namespace, change.measurement)
    // Lookups in time zones are dear: the rollups that need them share what one has alone.
    const sharing = rollups.reduce((count, { buckets }) => count + Number(buckets.kind !== 'fixed'), 0)
    for (const rollup of rollups) {
      const before = rollup.version
      const most = rollup.buckets.kind === 'fixed' ? MAX_MARKS : Math.ceil(MAX_MARKS / sharing)
      let marked: boolean
      if (change.kind === 'rows') marked = rollup.reach !== undefined && (first as bigint) < rollup.reach && rollup.markTimes(change.times, change.rows, most)
      else if (change.kind === 'series_deleted') marked = rollup.mark(change.start, change.end)
      else marked = rollup.mark(undefined, undefined)
      if (marked && before !== rollup.version) this.invalidated(rollup)
      else if (rollup.until === undefined && change.kind === 'rows') this.dependencies.marked(rollup)
    }
  }

  private markAll(rollup: Rollup): void {
    if (rollup.markAll()) this.invalidated(rollup)
  }

  /** What is dirty is dirty in all tiers above. */
  private invalidated(rollup: Rollup): void {
    const { registry, metrics, marked } = this.dependencies
    metrics.invalidations.inc()
    marked(rollup)
    for (const tier of registry.above(rollup)) {
      let any = false
      for (const [start, end] of rollup.dirty) any = tier.mark(start, end) || any
      if (any) marked(tier)
    }
  }
}

/** The earliest of times in halves, low first. */
function firstOf(times: Int32Array, rows: number): bigint {
  let low = 0xffffffff
  let high = 0x7fffffff
  for (let at = 0; at < rows * 2; at += 2) {
    const h = times[at + 1]
    if (h > high) continue
    const l = times[at] >>> 0
    if (h < high || l < low) {
      high = h
      low = l
    }
  }
  return (BigInt(high) << 32n) | BigInt(low)
}
