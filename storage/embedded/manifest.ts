/**
 * Which segments are part of the database. Every change of it is one catalog transaction, together with everything defined since the last one and the
 * position of the log; readers are told when it is durable, and files go when nobody reads them any more.
 */
import { unlinkSync } from 'node:fs'
import { join } from 'node:path'
import type { StorageContext } from '../../kernel/storage.ts'
import type { Archive } from './archive/archive.ts'
import type { Catalog, CatalogChange, Counters } from './catalog.ts'
import { CatalogAhead } from './catalog-ahead.ts'
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
import { removeSegmentFiles } from './segment-file.ts'
import type { SeriesIndex } from './series-index.ts'
import type { FileSystem } from './wal/file-system.ts'
import { walFiles } from './wal/replay.ts'
import type { WritePath } from './write-path.ts'

export interface ManifestParts {
  dataDir: string
  walDir: string
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
  housekeeping(): Housekeeping
  archive(): Archive
}

export class Manifest {
  /** Segments of each table, ascending by sequence. */
  readonly segments = new Map<number, SegmentMeta[]>()
  nextSegment = 1
  /** Segments replaced but not yet deleted because a reader may have them open. */
  retired = 0
  /** The memtable whose segments are being committed: the log is not needed for it any more. */
  private leaving: Memtable | undefined
  /** Segments that are being merged or archived: nobody else takes them out. */
  private readonly claimed = new Set<number>()
  private readonly ahead: CatalogAhead
  private readonly parts: ManifestParts

  constructor(parts: ManifestParts) {
    this.parts = parts
    this.ahead = new CatalogAhead(parts.catalog, parts.index, parts.lifetime)
  }

  insert(segment: SegmentMeta): void {
    const segments = [...(this.segments.get(segment.table) ?? []), segment]
    this.segments.set(
      segment.table,
      segments.sort((a, b) => a.sequence - b.sequence),
    )
  }

  /** Keeps segments for one owner. @returns what ends that; undefined when somebody has them already or they are not there any more. */
  claim(segments: readonly SegmentMeta[]): (() => void) | undefined {
    const known = (segment: SegmentMeta): boolean => this.segments.get(segment.table)?.includes(segment) === true
    if (segments.some((segment) => this.isTaken(segment.id) || !known(segment))) return undefined
    for (const { id } of segments) this.claimed.add(id)
    return () => {
      for (const { id } of segments) this.claimed.delete(id)
    }
  }

  /** It is being merged or archived: it goes when that has ended. */
  isTaken(segment: number): boolean {
    return this.claimed.has(segment)
  }

  /** A memtable becomes segments. @throws when the catalog does not know of them: their files are gone again. */
  async flushed(memtable: Memtable, added: readonly SegmentMeta[]): Promise<void> {
    const { publisher, pressure, writes, lifetime } = this.parts
    this.leaving = memtable
    try {
      await this.commitAdded(added, [])
    } finally {
      this.leaving = undefined
    }
    lifetime.releases.flushed(memtable)
    // In one turn of the loop: a thread that starts at any time is told of the memtable or of its segments, never of neither.
    writes.frozen = writes.frozen.filter((other) => other !== memtable)
    for (const segment of added) this.insert(segment)
    pressure.measure(this.segments)
    publisher.tell({ kind: 'segments', added: [...added], removed: [], droppedMemtable: memtable.id })
    publisher.flush()
    this.removeOldLogs()
  }

  /** Puts segments with the same rows in place of others of the table, which the caller has claimed. @throws as `flushed`. */
  async replace(table: number, removed: readonly SegmentMeta[], added: readonly SegmentMeta[]): Promise<void> {
    const { publisher, pressure } = this.parts
    const ids = removed.map(({ id }) => id)
    await this.commitAdded(added, ids)
    this.segments.set(
      table,
      (this.segments.get(table) ?? []).filter((segment) => !removed.includes(segment)),
    )
    for (const one of added) this.insert(one)
    this.parts.housekeeping().renewCuts()
    pressure.measure(this.segments)
    publisher.tell({ kind: 'segments', added: [...added], removed: ids, droppedMemtable: -1 })
    publisher.flush()
    this.retire(removed)
  }

  /** Takes segments that nobody has claimed out and stores everything else the catalog does not have yet. */
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

  /** Commits a change with everything defined so far. */
  async commit(change: Pick<CatalogChange, 'segmentsAdded' | 'segmentsRemoved'>): Promise<void> {
    const { catalog, schema, index, writes, metrics, lifetime } = this.parts
    await this.ahead.store()
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
        lifetime.releases,
      )
      metrics.catalogFsyncs.inc()
    } catch (error) {
      for (const id of measurements) writes.changedMeasurements.add(id)
      for (const id of tables) writes.changedTables.add(id)
      lived.putBack()
      throw error
    }
  }

  /** Removes log files below the floor: all their rows are in segments. */
  removeOldLogs(): void {
    const { fs, walDir } = this.parts
    const { walFloor } = this.counters()
    for (const file of walFiles(walDir, fs)) if (file < walFloor) fs.unlinkSync(join(walDir, walFileName(file)))
  }

  /** Files that are not to be part of the database. After a failure of unknown outcome they stay: the catalog may name them. */
  async takeBack(added: readonly SegmentMeta[]): Promise<void> {
    if (this.parts.pressure.fault === undefined) await removeSegmentFiles(added.flatMap(segmentFiles).map((file) => join(this.parts.dataDir, file)))
  }

  private async commitAdded(added: readonly SegmentMeta[], removed: number[]): Promise<void> {
    try {
      await this.commit({ segmentsAdded: [...added], segmentsRemoved: removed })
    } catch (error) {
      await this.takeBack(added)
      throw error
    }
  }

  /** What makes the catalog know what is defined now, the log's position included. */
  private counters(): Counters {
    const { writes, schema, lifetime } = this.parts
    const oldest = writes.frozen.find((memtable) => memtable !== this.leaving) ?? writes.active
    return {
      nextSegment: this.nextSegment,
      nextSequence: writes.nextSequence,
      nextTable: schema.nextTable,
      nextMeasurement: schema.nextMeasurement,
      nextTombstone: lifetime.tombstones.nextId,
      walSequence: writes.applied,
      walFloor: oldest.firstWal,
      newest: Object.fromEntries([...writes.windows].flatMap(([namespace, { newest }]) => (newest === undefined ? [] : [[namespace, String(newest)]]))),
    }
  }

  private retire(segments: readonly SegmentMeta[]): void {
    const { archive, dataDir, log, metrics, pool } = this.parts
    this.retired += segments.length
    metrics.segmentsRetired.inc(segments.length)
    pool.afterReaders(() => {
      this.retired -= segments.length
      archive().discard(segments.flatMap(({ file, archived }) => (archived ? [file] : [])))
      for (const file of segments.flatMap(segmentFiles)) {
        try {
          unlinkSync(join(dataDir, file))
          if (file.endsWith('.parquet')) metrics.segmentsDeleted.inc()
        } catch (error) {
          log.warn({ err: error, file }, 'cannot delete a segment that is not used any more; the next start removes it')
        }
      }
    })
  }
}
