/**
 * Background work: frozen memtables become segments, segments are merged, files nobody needs go. Each step is one catalog transaction;
 * a failed step is logged, counted and tried again, and nothing is lost meanwhile: the log still has the rows.
 */
import { readdirSync, rmSync, unlinkSync } from 'node:fs'
import { join } from 'node:path'
import type { StorageContext } from '../../kernel/storage.ts'
import type { Archive } from './archive/archive.ts'
import type { Catalog, CatalogChange, Counters } from './catalog.ts'
import { type Merge, planMerge } from './compaction-plan.ts'
import type { DatabaseConfig } from './config.ts'
import { freeBytes } from './disk-space.ts'
import { type SegmentMeta, segmentFiles } from './layout.ts'
import type { Housekeeping } from './lifetime/housekeeping.ts'
import type { Lifetime } from './lifetime/lifetime.ts'
import { takeLifetime } from './lifetime/store.ts'
import type { Memtable } from './memtable.ts'
import type { EngineMetrics } from './metrics.ts'
import { walFileName } from './paths.ts'
import type { WorkerPool } from './pool.ts'
import type { Pressure } from './pressure.ts'
import type { Publisher } from './publisher.ts'
import type { Schema } from './schema.ts'
import type { SeriesIndex } from './series-index.ts'
import type { FileSystem } from './wal/file-system.ts'
import { walFiles } from './wal/replay.ts'
import { removeSegmentFiles } from './worker/segment-file.ts'
import type { WritePath } from './write-path.ts'

const RETRY_FIRST_MS = 200
const RETRY_MOST_MS = 10_000
/** How often a full disk is looked at for space. */
const SPACE_POLL_MS = 500

export interface MaintenanceParts {
  dataDir: string
  walDir: string
  config: DatabaseConfig
  log: StorageContext['log']
  fs: FileSystem
  schema: Schema
  index: SeriesIndex
  catalog: Catalog
  pool: WorkerPool
  publisher: Publisher
  writes: WritePath
  metrics: EngineMetrics
  pressure: Pressure
  lifetime: Lifetime
  /** The regular pass; it takes the manifest from here. */
  housekeeping(): Housekeeping
  /** Segments that cannot be merged, for want of a key. */
  leaves(segment: SegmentMeta): boolean
  archive(): Archive
}

export class Maintenance {
  /** Segments of each table, ascending by sequence. */
  readonly segments = new Map<number, SegmentMeta[]>()
  nextSegment = 1
  /** Segments replaced but not yet deleted because a reader may have them open. */
  retired = 0
  /** The memtable whose segments are being committed: the log is not needed for it any more. */
  private leaving: Memtable | undefined
  private flushing: Promise<void> | undefined
  private compacting: Promise<void> | undefined
  private tidying: Promise<void> | undefined
  private compactionWanted = false
  /** Inputs of the merge under way. */
  merging: ReadonlySet<number> = new Set()
  /** Segments that are being archived: nobody else takes them out of the manifest. */
  private readonly claimed = new Set<number>()
  private timer: NodeJS.Timeout | undefined
  private stopped = false
  private waiters: { memtable: number; resolve: () => void; reject: (error: Error) => void }[] = []
  private wake: (() => void) | undefined
  private readonly parts: MaintenanceParts

  constructor(parts: MaintenanceParts) {
    this.parts = parts
  }

  start(): void {
    this.timer = setInterval(() => this.tidySoon(), this.parts.config.maintenance_interval_secs * 1000).unref()
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
      .catch((error) => this.parts.log.error({ err: error }, 'cannot clear away what deletes and retention have freed; trying again with the next pass'))
      .finally(() => {
        this.tidying = undefined
      })
  }

  /** Takes segments, none of them read by a merge, out of the manifest and stores everything else the catalog does not have yet. */
  async remove(segments: readonly SegmentMeta[]): Promise<void> {
    const gone = new Set(segments)
    const removed = segments.map(({ id }) => id)
    // At once, so that no merge begins with them.
    for (const [table, list] of [...this.segments]) {
      const left = list.filter((segment) => !gone.has(segment))
      if (left.length > 0) this.segments.set(table, left)
      else this.segments.delete(table)
    }
    try {
      await this.parts.archive().unsettle(segments.flatMap(({ file, archived }) => (archived ? [file] : [])))
      await this.commit({ segmentsRemoved: removed })
    } catch (error) {
      for (const segment of segments) this.insert(segment)
      throw error
    }
    if (removed.length === 0) return
    this.parts.pressure.measure(this.segments)
    this.parts.publisher.tell({ kind: 'segments', added: [], removed, droppedMemtable: -1 })
    this.parts.publisher.flush()
    this.retire(segments)
  }

  /** Keeps segments for one owner. @returns what ends that; undefined when they are being merged or are not there any more. */
  claim(segments: readonly SegmentMeta[]): (() => void) | undefined {
    const known = (segment: SegmentMeta): boolean => this.segments.get(segment.table)?.includes(segment) === true
    if (segments.some((segment) => this.isTaken(segment.id) || !known(segment))) return undefined
    for (const { id } of segments) this.claimed.add(id)
    return () => {
      for (const { id } of segments) this.claimed.delete(id)
    }
  }

  /** Puts segments with the same rows in place of others of the table, which the caller has claimed. @throws when the catalog does not know it. */
  async replace(table: number, removed: readonly SegmentMeta[], added: readonly SegmentMeta[]): Promise<void> {
    const ids = removed.map(({ id }) => id)
    await this.commit({ segmentsAdded: [...added], segmentsRemoved: ids })
    this.segments.set(
      table,
      (this.segments.get(table) ?? []).filter((segment) => !removed.includes(segment)),
    )
    for (const one of added) this.insert(one)
    this.parts.housekeeping().renewCuts()
    this.parts.pressure.measure(this.segments)
    this.parts.publisher.tell({ kind: 'segments', added: [...added], removed: ids, droppedMemtable: -1 })
    this.parts.publisher.flush()
    this.retire(removed)
  }

  /** It is being merged or archived: it goes when that has ended. */
  isTaken(segment: number): boolean {
    return this.merging.has(segment) || this.claimed.has(segment)
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
    clearInterval(this.timer)
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

  /** The change that makes the catalog know what is defined now, the WAL position included. */
  counters(): Counters {
    const { writes, schema } = this.parts
    const oldest = writes.frozen.find((memtable) => memtable !== this.leaving) ?? writes.active
    return {
      nextSegment: this.nextSegment,
      nextSequence: writes.nextSequence,
      nextTable: schema.nextTable,
      nextMeasurement: schema.nextMeasurement,
      nextTombstone: this.parts.lifetime.tombstones.nextId,
      walSequence: writes.applied,
      walFloor: oldest.firstWal,
      newest: Object.fromEntries([...writes.windows].flatMap(([namespace, { newest }]) => (newest === undefined ? [] : [[namespace, String(newest)]]))),
    }
  }

  /** Removes log files below the floor: all their rows are in segments. */
  removeOldLogs(): void {
    const { fs, walDir } = this.parts
    const { walFloor } = this.counters()
    for (const file of walFiles(walDir, fs)) if (file < walFloor) fs.unlinkSync(join(walDir, walFileName(file)))
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
    const { pool, publisher, writes, log, metrics } = this.parts
    const began = performance.now()
    const first = this.nextSegment
    this.nextSegment += memtable.tables.size
    const added = await pool.flush(memtable.id, first)
    this.leaving = memtable
    try {
      await this.commit({ segmentsAdded: added })
    } catch (error) {
      await this.takeBack(added)
      throw error
    } finally {
      this.leaving = undefined
    }
    // In one turn of the loop: a thread that starts at any time is told of the memtable or of its segments, never of neither.
    writes.frozen = writes.frozen.filter((other) => other !== memtable)
    for (const segment of added) this.insert(segment)
    this.parts.pressure.measure(this.segments)
    publisher.tell({ kind: 'segments', added, removed: [], droppedMemtable: memtable.id })
    publisher.flush()
    this.removeOldLogs()
    metrics.flushes.inc()
    metrics.flushedBytes.inc(added.reduce((sum, { bytes }) => sum + bytes, 0))
    metrics.flushSeconds.observe((performance.now() - began) / 1000)
    log.debug({ rows: memtable.rows, segments: added.length, ms: Math.round(performance.now() - began) }, 'flushed a memtable')
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
      for (const [table, segments] of this.segments) {
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
          this.parts.pressure.measure(this.segments)
          log.error({ err: error, table }, 'cannot merge segments; they stay as they are until the next pass')
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
    const leaves = (segment: SegmentMeta): boolean => this.claimed.has(segment.id) || this.parts.leaves(segment)
    const limits = { fanIn: config.compaction_fan_in, maxRows: config.compaction_max_segment_rows, leaves }
    const merge = planMerge(segments, limits, alone) ?? this.parts.housekeeping().rewrite(table)
    return merge?.segments.some(leaves) ? undefined : merge
  }

  private async compact(table: number, merge: Merge): Promise<void> {
    try {
      await this.merge(table, merge)
    } finally {
      this.merging = new Set()
    }
  }

  private async merge(table: number, merge: Merge): Promise<void> {
    const { pool, publisher, metrics } = this.parts
    const began = performance.now()
    const removed = merge.segments.map(({ id }) => id)
    const last = merge.segments.at(-1) as SegmentMeta
    const segment = this.nextSegment++
    this.merging = new Set(removed)
    const made = await pool.compact({
      table,
      segments: removed,
      segment,
      sequence: last.sequence,
      level: merge.level,
      deduplicate: merge.deduplicate,
      dirty: merge.dirty,
      cleared: this.parts.lifetime.tombstones.newest,
    })
    if (this.stopped) return // the file has no entry: the next start removes it
    const added = made === null ? [] : [made]
    if (this.parts.schema.tables[table] === undefined) return this.takeBack(added) // dropped meanwhile
    try {
      await this.commit({ segmentsAdded: added, segmentsRemoved: removed })
    } catch (error) {
      await this.takeBack(added)
      throw error
    }
    this.segments.set(
      table,
      (this.segments.get(table) ?? []).filter(({ id }) => !removed.includes(id)),
    )
    for (const one of added) this.insert(one)
    this.parts.housekeeping().renewCuts()
    this.parts.pressure.merged(table)
    this.parts.pressure.measure(this.segments)
    publisher.tell({ kind: 'segments', added, removed, droppedMemtable: -1 })
    publisher.flush()
    metrics.compactions.inc()
    metrics.mergedBytes.inc(made?.bytes ?? 0)
    metrics.compactedBytes.inc(merge.segments.reduce((sum, { bytes }) => sum + bytes, 0))
    metrics.compactionSeconds.observe((performance.now() - began) / 1000)
    this.retire(merge.segments)
  }

  private retire(segments: readonly SegmentMeta[]): void {
    this.retired += segments.length
    this.parts.metrics.segmentsRetired.inc(segments.length)
    this.parts.pool.afterReaders(() => {
      this.retired -= segments.length
      this.parts.archive().discard(segments.flatMap(({ file, archived }) => (archived ? [file] : [])))
      for (const file of segments.flatMap(segmentFiles)) {
        try {
          unlinkSync(join(this.parts.dataDir, file))
          if (file.endsWith('.parquet')) this.parts.metrics.segmentsDeleted.inc()
        } catch (error) {
          this.parts.log.warn({ err: error, file }, 'cannot delete a merged segment; the next start removes it')
        }
      }
    })
  }

  /** Commits a change with everything defined so far. */
  async commit(change: Pick<CatalogChange, 'segmentsAdded' | 'segmentsRemoved'>): Promise<void> {
    const { catalog, schema, index, writes, metrics, lifetime } = this.parts
    const counters = this.counters()
    const lived = takeLifetime(lifetime, schema, counters.walFloor)
    const measurements = [...writes.changedMeasurements]
    const tables = [...writes.changedTables]
    writes.changedMeasurements.clear()
    writes.changedTables.clear()
    try {
      await catalog.commit(
        {
          ...change,
          counters,
          lifetime: lived.change,
          measurements: measurements.flatMap((id) => schema.any(id)?.def() ?? []),
          tables: tables.flatMap((id) => (schema.tables[id] === undefined ? [] : [schema.tables[id].def()])),
        },
        index,
        index.publishedCount,
      )
      metrics.catalogFsyncs.inc()
    } catch (error) {
      for (const id of measurements) writes.changedMeasurements.add(id)
      for (const id of tables) writes.changedTables.add(id)
      lived.putBack()
      throw error
    }
  }

  insert(segment: SegmentMeta): void {
    const segments = [...(this.segments.get(segment.table) ?? []), segment]
    this.segments.set(
      segment.table,
      segments.sort((a, b) => a.sequence - b.sequence),
    )
  }

  /** Files of a commit that did not happen. After a failure of unknown outcome they stay: the catalog may name them. */
  private async takeBack(added: readonly SegmentMeta[]): Promise<void> {
    if (this.parts.pressure.fault === undefined) await removeSegmentFiles(added.flatMap(segmentFiles).map((file) => join(this.parts.dataDir, file)))
  }

  /** Until somebody has made space on the volume. */
  private async spaceOrPause(mostMs: number): Promise<void> {
    const before = freeBytes(this.parts.dataDir)
    const gained = (): boolean => freeBytes(this.parts.dataDir) > before
    for (let waited = 0; waited < mostMs && !this.stopped && !gained(); waited += SPACE_POLL_MS) await this.pause(SPACE_POLL_MS)
  }

  private pause(ms: number): Promise<void> {
    if (this.stopped) return Promise.resolve()
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, ms)
      this.wake = () => {
        clearTimeout(timer)
        resolve()
      }
    })
  }
}

/** Deletes files below segments/ that the manifest does not name: left by a crash between writing a file and its catalog entry. */
export function removeOrphans(dir: string, dataDir: string, known: ReadonlySet<string>): number {
  let removed = 0
  for (const entry of readdirSync(dir, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile()) continue
    const path = join(entry.parentPath, entry.name)
    const relative = path.slice(dataDir.length + 1)
    if (known.has(relative)) continue
    rmSync(path)
    removed++
  }
  return removed
}
