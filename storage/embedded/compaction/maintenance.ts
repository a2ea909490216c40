/**
 * Background work: frozen memtables become segments, segments are merged, files nobody needs go. Each step is one catalog transaction;
 * a failed step is logged, counted and tried again, and nothing is lost meanwhile: the log still has the rows.
 */
import { join } from 'node:path'
import type { StorageContext } from 'svcdb'
import type { Schema } from '../catalog/schema.ts'
import type { DatabaseConfig } from '../config.ts'
import type { Memtable } from '../memtable/memtable.ts'
import type { EngineMetrics } from '../metrics.ts'
import type { Housekeeping } from '../retention/housekeeping.ts'
import type { Lifetime } from '../retention/lifetime.ts'
import { freeBytes } from '../segment/disk-space.ts'
import type { Manifest } from '../segment/manifest.ts'
import type { SegmentMeta } from '../threads/layout.ts'
import type { WorkerPool } from '../threads/pool.ts'
import type { Timer, Timers } from '../timers.ts'
import type { FileSystem } from '../wal/file-system.ts'
import type { Pressure } from '../write/pressure.ts'
import type { WritePath } from '../write/write-path.ts'
import { type Merge, planMerge } from './plan.ts'

const RETRY_FIRST_MS = 200
const RETRY_MOST_MS = 10_000
/** How often a full disk is looked at for space. */
const SPACE_POLL_MS = 500

export interface MaintenanceParts {
  dataDir: string
  config: DatabaseConfig
  log: StorageContext['log']
  fs: FileSystem
  timers: Timers
  manifest: Manifest
  schema: Schema
  pool: WorkerPool
  writes: WritePath
  metrics: EngineMetrics
  pressure: Pressure
  lifetime: Lifetime
  /** The regular pass. */
  housekeeping(): Housekeeping
  /** Segments that cannot be merged: damaged, or for want of a key. */
  leaves(segment: SegmentMeta): boolean
}

export class Maintenance {
  private flushing: Promise<void> | undefined
  private compacting: Promise<void> | undefined
  private tidying: Promise<void> | undefined
  private compactionWanted = false
  /** Segments of merges that failed: tried again when nothing else of their table is due, so that they do not hold up others. */
  private readonly failed = new Set<number>()
  private timer: Timer | undefined
  private stopped = false
  private waiters: { memtable: number; resolve: () => void; reject: (error: Error) => void }[] = []
  private wake: (() => void) | undefined
  private readonly parts: MaintenanceParts

  constructor(parts: MaintenanceParts) {
    this.parts = parts
  }

  start(): void {
    this.timer = this.parts.timers.setInterval(() => this.tidySoon(), this.parts.config.maintenance_interval_secs * 1000).unref()
    this.flushSoon()
    this.tidySoon()
  }

  /** A pass of housekeeping, and what it makes possible. */
  async tidy(): Promise<void> {
    await this.parts.housekeeping().pass()
    this.compactSoon()
  }

  tidySoon(): void {
    if (this.stopped) return
    this.tidying ??= this.tidy()
      .catch((error) => {
        // Changes are refused from here on; the next start goes on.
        if (this.stopped) return
        this.parts.log.error({ err: error }, 'cannot clear away what deletes and retention have freed; trying again with the next pass')
      })
      .finally(() => {
        this.tidying = undefined
      })
  }

  flushSoon(): void {
    if (this.flushing === undefined && !this.stopped) {
      this.flushing = this.flushAll().finally(() => {
        this.flushing = undefined
        if (this.parts.writes.frozen.length > 0 && this.parts.pressure.fault === undefined) this.flushSoon()
      })
    }
  }

  /** Resolves when the memtable, and those before it, are segments. */
  flushed(memtable: number): Promise<void> {
    if (!this.parts.writes.frozen.some(({ id }) => id <= memtable)) return Promise.resolve()
    const { fault } = this.parts.pressure
    if (fault !== undefined) return Promise.reject(fault)
    return new Promise((resolve, reject) => {
      this.waiters.push({ memtable, resolve, reject })
      this.flushSoon()
    })
  }

  /** No new work; resolves when the flush under way has ended. A merge under way may take long: its result is not waited for and left unused. */
  async stop(): Promise<void> {
    this.parts.timers.clearInterval(this.timer)
    this.timer = undefined
    this.stopped = true
    this.wake?.()
    await this.flushing
    await this.tidying
  }

  /** Resolves when nothing runs any more; call when the engine threads have ended. */
  async settled(): Promise<void> {
    await this.compacting
  }

  /** One try to write everything frozen out, for the end. @throws what the flush threw. */
  async drain(): Promise<void> {
    await this.flushing
    while (this.parts.writes.frozen.length > 0) await this.flush(this.parts.writes.frozen[0])
  }

  private async flushAll(): Promise<void> {
    const { writes, log, metrics, pressure } = this.parts
    let delay = RETRY_FIRST_MS
    while (writes.frozen.length > 0 && !this.stopped && pressure.fault === undefined) {
      try {
        await this.flush(writes.frozen[0])
        pressure.flushed()
        delay = RETRY_FIRST_MS
      } catch (error) {
        metrics.flushFailures.inc()
        log.error({ err: error }, 'cannot flush the memtable; trying again, the write-ahead log still has its rows')
        const failure = pressure.flushFailed(error)
        for (const { reject } of this.waiters.splice(0)) reject(failure)
        if (pressure.fault !== undefined) {
          log.error({ err: pressure.fault }, 'nothing is flushed any more until a restart')
          return
        }
        if (failure.code === 'STORAGE_FULL') await this.spaceOrPause(RETRY_MOST_MS)
        else await this.pause(delay)
        delay = Math.min(delay * 2, RETRY_MOST_MS)
      }
    }
  }

  private async flush(memtable: Memtable): Promise<void> {
    const { pool, manifest, writes, log, metrics } = this.parts
    const began = this.parts.timers.monotonic()
    const first = manifest.nextSegment
    manifest.nextSegment += memtable.tables.size
    const added = await pool.flush(memtable.id, first)
    await manifest.flushed(memtable, added)
    metrics.flushes.inc()
    metrics.flushedBytes.inc(added.reduce((sum, { bytes }) => sum + bytes, 0))
    metrics.flushSeconds.observe((this.parts.timers.monotonic() - began) / 1000)
    log.debug({ rows: memtable.rows, segments: added.length, ms: Math.round(this.parts.timers.monotonic() - began) }, 'flushed a memtable')
    this.waiters = this.waiters.filter((waiter) => {
      if (writes.frozen.some(({ id }) => id <= waiter.memtable)) return true
      waiter.resolve()
      return false
    })
    this.compactSoon()
  }

  private compactSoon(): void {
    this.compactionWanted = true
    if (this.compacting !== undefined || this.stopped) return
    this.compacting = this.compactAll().finally(() => {
      this.compacting = undefined
    })
  }

  private async compactAll(): Promise<void> {
    const { log, metrics } = this.parts
    while (this.compactionWanted && !this.stopped) {
      this.compactionWanted = false
      for (const [table, segments] of this.parts.manifest.segments) {
        if (this.stopped) return
        const merge = this.plan(table, segments)
        if (merge === undefined) continue
        try {
          await this.compact(table, merge)
          this.compactionWanted = true
        } catch (error) {
          if (this.stopped) return
          metrics.compactionFailures.inc()
          this.parts.pressure.mergeFailed(table, error)
          this.parts.pressure.measure(this.parts.manifest.segments)
          log.error({ err: error, table }, 'cannot merge segments; they stay as they are until the next pass')
          for (const { id } of merge.segments) this.failed.add(id)
        }
      }
    }
  }

  private plan(table: number, segments: SegmentMeta[]): Merge | undefined {
    const { config, schema } = this.parts
    const owner = schema.tables[table]?.measurement
    if (owner === undefined) return undefined // of a dropped measurement: the next pass removes them
    // Rows of a series may lie in a shared table and in its measurement's own.
    const alone = owner < 0 || (schema.any(owner)?.tables.length ?? 1) === 1
    const leaves = (segment: SegmentMeta): boolean => this.parts.manifest.isTaken(segment.id) || this.failed.has(segment.id) || this.parts.leaves(segment)
    const planned = (): Merge | undefined =>
      planMerge(segments, { fanIn: config.compaction_fan_in, maxRows: config.compaction_max_segment_rows, leaves }, alone) ??
      this.parts.housekeeping().rewrite(table, leaves)
    const merge = planned()
    const rested = segments.filter(({ id }) => this.failed.has(id))
    if (merge !== undefined || rested.length === 0) return merge
    for (const { id } of rested) this.failed.delete(id)
    return planned()
  }

  private async compact(table: number, merge: Merge): Promise<void> {
    const release = this.parts.manifest.claim(merge.segments)
    if (release === undefined) return
    try {
      await this.merge(table, merge)
    } finally {
      release()
    }
  }

  private async merge(table: number, { segments, level, deduplicate, dirty }: Merge): Promise<void> {
    const { pool, manifest, metrics, schema, lifetime, pressure } = this.parts
    const began = this.parts.timers.monotonic()
    const made = await pool.compact({
      table,
      segments: segments.map(({ id }) => id),
      segment: manifest.nextSegment++,
      sequence: (segments.at(-1) as SegmentMeta).sequence,
      level,
      deduplicate,
      dirty,
      cleared: lifetime.tombstones.newest,
    })
    if (this.stopped) return // the file has no entry: the next start removes it
    const added = made === null ? [] : [made]
    if (schema.tables[table] === undefined) return manifest.takeBack(added) // dropped meanwhile
    await manifest.replace(table, segments, added)
    pressure.merged(table)
    pressure.measure(manifest.segments)
    metrics.compactions.inc()
    metrics.mergedBytes.inc(made?.bytes ?? 0)
    metrics.compactedBytes.inc(segments.reduce((sum, { bytes }) => sum + bytes, 0))
    metrics.compactionSeconds.observe((this.parts.timers.monotonic() - began) / 1000)
  }

  /** Until somebody has made space on the volume. */
  private async spaceOrPause(mostMs: number): Promise<void> {
    const before = freeBytes(this.parts.dataDir, this.parts.fs)
    const gained = (): boolean => freeBytes(this.parts.dataDir, this.parts.fs) > before
    for (let waited = 0; waited < mostMs && !this.stopped && !gained(); waited += SPACE_POLL_MS) await this.pause(SPACE_POLL_MS)
  }

  private pause(ms: number): Promise<void> {
    if (this.stopped) return Promise.resolve()
    return new Promise((resolve) => {
      const timer = this.parts.timers.setTimeout(resolve, ms)
      this.wake = () => {
        this.parts.timers.clearTimeout(timer)
        resolve()
      }
    })
  }
}

/** Deletes files below segments/ that the manifest does not name: left by a crash between writing a file and its catalog entry. */
export function removeOrphans(dir: string, dataDir: string, known: ReadonlySet<string>, fs: FileSystem): number {
  let removed = 0
  for (const file of fs.filesSync(dir)) {
    const path = join(dir, file)
    if (known.has(path.slice(dataDir.length + 1))) continue
    fs.unlinkSync(path)
    removed++
  }
  return removed
}
