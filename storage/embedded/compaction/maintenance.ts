/**
 * Background work: frozen memtables become segments, segments are merged, files nobody needs go. Each step is one catalog transaction;
 * a failed step is logged, counted and tried again, and nothing is lost meanwhile: the log still has the rows.
 */
import type { StorageContext } from 'svcdb'
import { loopUtilization } from 'svcdb/lib/event-loop'
import { traced } from 'svcdb/lib/trace'
import type { FileSystem } from '../../common/log/file-system.ts'
import type { Timer, Timers } from '../../common/timers.ts'
import type { Schema } from '../catalog/schema.ts'
import type { KeptLogs } from '../changes/kept-logs.ts'
import type { DatabaseConfig } from '../config.ts'
import type { Memtable } from '../memtable/memtable.ts'
import type { Memtables } from '../memtable/memtables.ts'
import { LOOK_MS } from '../memtable/slabs.ts'
import type { EngineMetrics } from '../metrics.ts'
import type { RetentionPass } from '../retention/retention-pass.ts'
import type { Tombstones } from '../retention/tombstones.ts'
import { freeBytes } from '../segment/disk-space.ts'
import type { Manifest } from '../segment/manifest.ts'
import type { SegmentTable } from '../segment/segment-table.ts'
import type { Slices } from '../slices.ts'
import type { WorkerPool } from '../threads/pool/pool.ts'
import type { SegmentMeta } from '../threads/segment-entry.ts'
import type { Pressure } from '../write/pressure.ts'
import { type Merge, planMerge } from './plan.ts'

const RETRY_FIRST_MS = 200
const RETRY_MAX_MS = 10_000
/** How often a full disk is looked at for space. */
const SPACE_POLL_MS = 500
/** Tables that are looked at for merges in one turn of the main loop: some ten microseconds each. */
const TABLES_A_TURN = 128

interface MaintenanceDependencies {
  dataDir: string
  config: DatabaseConfig
  log: StorageContext['log']
  fs: FileSystem
  timers: Timers
  slices: Slices
  segments: SegmentTable
  manifest: Manifest
  schema: Schema
  pool: WorkerPool
  memtables: Memtables
  metrics: EngineMetrics
  tracing: StorageContext['tracing']
  pressure: Pressure
  tombstones: Tombstones
  retention: RetentionPass
  logs: Pick<KeptLogs, 'expire' | 'giveUp'>
  /** Segments that cannot be merged: corrupt, or for want of a key. */
  unreadable(segment: SegmentMeta): boolean
}

export class Maintenance {
  private flushing: Promise<void> | undefined
  private compacting: Promise<void> | undefined
  private tidying: Promise<void> | undefined
  private compactionWanted = false
  /** Segments of merges that failed: tried again when nothing else of their table is due, so that they do not hold up others. */
  private readonly failed = new Set<number>()
  private timer: Timer | undefined
  private lookTimer: Timer | undefined
  private stopped = false
  private waiters: { memtable: number; resolve: () => void; reject: (error: Error) => void }[] = []
  private wake: (() => void) | undefined
  private readonly dependencies: MaintenanceDependencies

  constructor(dependencies: MaintenanceDependencies) {
    this.dependencies = dependencies
  }

  start(): void {
    this.timer = this.dependencies.timers.setInterval(() => this.tidySoon(), this.dependencies.config.maintenance_interval_secs * 1000).unref()
    const utilization = loopUtilization()
    this.lookTimer = this.dependencies.timers.setInterval(() => this.dependencies.memtables.look(utilization()), LOOK_MS).unref()
    this.flushSoon()
    this.tidySoon()
  }

  /** A pass of retention and deletes, and what it makes possible. */
  async tidy(): Promise<void> {
    try {
      await this.dependencies.retention.pass()
    } finally {
      this.dependencies.logs.expire()
      this.compactSoon()
    }
  }

  tidySoon(): void {
    if (this.stopped) return
    this.tidying ??= this.tidy()
      .catch((error) => {
        // Changes are refused from here on; the next start goes on.
        if (this.stopped) return
        this.dependencies.log.error({ err: error }, 'cannot clear away what deletes and retention have freed; trying again with the next pass')
      })
      .finally(() => {
        this.tidying = undefined
      })
  }

  flushSoon(): void {
    if (this.flushing === undefined && !this.stopped) {
      this.flushing = this.flushAll().finally(() => {
        this.flushing = undefined
        if (this.dependencies.memtables.frozen.length > 0 && this.dependencies.pressure.fault === undefined) this.flushSoon()
      })
    }
  }

  /** Resolves when the memtable, and those before it, are segments. */
  flushed(memtable: number): Promise<void> {
    if (!this.dependencies.memtables.frozen.some(({ id }) => id <= memtable)) return Promise.resolve()
    const { fault } = this.dependencies.pressure
    if (fault !== undefined) return Promise.reject(fault)
    return new Promise((resolve, reject) => {
      this.waiters.push({ memtable, resolve, reject })
      this.flushSoon()
    })
  }

  /** No new work; resolves when the flush under way has ended. A merge under way may take long: its result is not waited for and left unused. */
  async stop(): Promise<void> {
    this.dependencies.timers.clearInterval(this.timer)
    this.dependencies.timers.clearInterval(this.lookTimer)
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
    try {
      while (this.dependencies.memtables.frozen.length > 0) await this.flushTraced(this.dependencies.memtables.frozen[0])
    } catch (error) {
      this.giveUpWaiting(error as Error)
      throw error
    }
  }

  private async flushAll(): Promise<void> {
    const { memtables, log, metrics, pressure } = this.dependencies
    let delay = RETRY_FIRST_MS
    while (memtables.frozen.length > 0 && !this.stopped && pressure.fault === undefined) {
      try {
        await this.flushTraced(memtables.frozen[0])
        pressure.flushed()
        delay = RETRY_FIRST_MS
      } catch (error) {
        metrics.flushFailures.inc()
        log.error({ err: error }, 'cannot flush the memtable; trying again, the write-ahead log still has its rows')
        const failure = pressure.flushFailed(error)
        this.giveUpWaiting(failure)
        if (pressure.fault !== undefined) break
        if (failure.code === 'STORAGE_FULL') await this.spaceOrPause(RETRY_MAX_MS)
        else await this.pause(delay)
        delay = Math.min(delay * 2, RETRY_MAX_MS)
      }
    }
    const { fault } = pressure
    if (fault === undefined) return
    log.error({ err: fault }, 'nothing is flushed any more until a restart')
    // The thread may have died during a pause, of something else: nobody has told those who began to wait since.
    this.giveUpWaiting(fault)
  }

  private giveUpWaiting(error: Error): void {
    for (const { reject } of this.waiters.splice(0)) reject(error)
  }

  private flushTraced(memtable: Memtable): Promise<void> {
    const { tracing } = this.dependencies
    if (tracing === undefined) return this.flush(memtable)
    return tracing.operation('flush', (span) => {
      span?.set('svc.rows', memtable.rows)
      return this.flush(memtable)
    })
  }

  private async flush(memtable: Memtable): Promise<void> {
    const { pool, segments, manifest, memtables, log, metrics } = this.dependencies
    const began = this.dependencies.timers.monotonic()
    const first = segments.reserve(memtable.tables.size)
    const added = await traced('write segments', () => pool.flush(memtable.id, first))
    await traced('catalog', () => manifest.flushed(memtable, added))
    metrics.flushes.inc()
    metrics.flushedBytes.inc(added.reduce((sum, { bytes }) => sum + bytes, 0))
    metrics.flushSeconds.observe((this.dependencies.timers.monotonic() - began) / 1000)
    log.debug({ rows: memtable.rows, segments: added.length, ms: Math.round(this.dependencies.timers.monotonic() - began) }, 'flushed a memtable')
    this.waiters = this.waiters.filter((waiter) => {
      if (memtables.frozen.some(({ id }) => id <= waiter.memtable)) return true
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
    const { log, metrics, segments, slices } = this.dependencies
    while (this.compactionWanted && !this.stopped) {
      this.compactionWanted = false
      let looked = 0
      for (const table of segments.tables.keys()) {
        if (++looked % TABLES_A_TURN === 0) await slices.next()
        if (this.stopped) return
        const merge = this.plan(table, segments.of(table))
        if (merge === undefined) continue
        try {
          await this.compact(table, merge)
          this.compactionWanted = true
        } catch (error) {
          if (this.stopped) return
          metrics.compactionFailures.inc()
          if (this.dependencies.pressure.mergeFailed(table, error).code === 'STORAGE_FULL') this.dependencies.logs.giveUp()
          this.dependencies.pressure.measure(segments.tables, [table])
          log.error({ err: error, table }, 'cannot merge segments; they stay as they are until the next pass')
          for (const { id } of merge.segments) this.failed.add(id)
        }
      }
    }
  }

  private plan(table: number, segments: readonly SegmentMeta[]): Merge | undefined {
    const { config, schema } = this.dependencies
    const owner = schema.tables[table]?.measurement
    if (owner === undefined) return undefined // of a dropped measurement: the next pass removes them
    // Rows of a series may lie in a shared table and in its measurement's own.
    const alone = owner < 0 || (schema.any(owner)?.tables.length ?? 1) === 1
    const leaves = (segment: SegmentMeta): boolean =>
      this.dependencies.segments.isClaimed(segment.id) || this.failed.has(segment.id) || this.dependencies.unreadable(segment)
    const planned = (): Merge | undefined =>
      planMerge(segments, { fanIn: config.compaction_fan_in, maxRows: config.compaction_max_segment_rows, leaves }, alone) ??
      this.dependencies.retention.rewrite(table, leaves)
    const merge = planned()
    const rested = segments.filter(({ id }) => this.failed.has(id))
    if (merge !== undefined || rested.length === 0) return merge
    for (const { id } of rested) this.failed.delete(id)
    return planned()
  }

  private async compact(table: number, merge: Merge): Promise<void> {
    const release = this.dependencies.segments.claim(merge.segments)
    if (release === undefined) return
    try {
      const { tracing } = this.dependencies
      if (tracing === undefined) await this.merge(table, merge)
      else
        await tracing.operation('compaction', (span) => {
          span?.set('svc.segments', merge.segments.length)
          return this.merge(table, merge)
        })
    } finally {
      release()
    }
  }

  private async merge(table: number, { segments, level, deduplicate, dirty }: Merge): Promise<void> {
    const { pool, segments: all, manifest, metrics, schema, tombstones, pressure } = this.dependencies
    const began = this.dependencies.timers.monotonic()
    const made = await pool.compact({
      table,
      segments: segments.map(({ id }) => id),
      segment: all.reserve(),
      sequence: (segments.at(-1) as SegmentMeta).sequence,
      level,
      deduplicate,
      dirty,
      cleared: tombstones.newest,
    })
    if (this.stopped) return // the file has no entry: the next start removes it
    const added = made === null ? [] : [made]
    if (schema.tables[table] === undefined) return manifest.takeBack(added) // dropped meanwhile
    await manifest.replace(segments, added)
    pressure.merged(table)
    pressure.measure(all.tables, [table])
    metrics.compactions.inc()
    metrics.mergedBytes.inc(made?.bytes ?? 0)
    metrics.compactedBytes.inc(segments.reduce((sum, { bytes }) => sum + bytes, 0))
    metrics.compactionSeconds.observe((this.dependencies.timers.monotonic() - began) / 1000)
  }

  /** Until somebody has made space on the volume, or what is kept for readers of changes has. */
  private async spaceOrPause(maxMs: number): Promise<void> {
    const before = freeBytes(this.dependencies.dataDir, this.dependencies.fs)
    this.dependencies.logs.giveUp()
    const gained = (): boolean => freeBytes(this.dependencies.dataDir, this.dependencies.fs) > before
    for (let waited = 0; waited < maxMs && !this.stopped && !gained(); waited += SPACE_POLL_MS) await this.pause(SPACE_POLL_MS)
  }

  private pause(ms: number): Promise<void> {
    if (this.stopped) return Promise.resolve()
    return new Promise((resolve) => {
      const timer = this.dependencies.timers.setTimeout(resolve, ms)
      this.wake = () => {
        this.dependencies.timers.clearTimeout(timer)
        resolve()
      }
    })
  }
}
