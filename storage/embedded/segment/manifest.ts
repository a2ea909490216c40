/**
 * Which segments are part of the database. Every change of it is one catalog transaction, together with everything defined since the last one and the
 * position of the log; readers are told when it is durable, and files go when nobody reads them any more.
 *
 * Invariants
 * - What a commit stores is computed when its turn has come, in one turn of the loop: no earlier commit is under way then. What follows from it in
 *   memory follows before the next one is computed; one that fails changes nothing in memory.
 * - The log's floor passes a memtable in the commit that stores its segments, or in one after it, and log files go below a stored floor only.
 */
import { join } from 'node:path'
import type { StorageContext } from 'svcdb'
import type { Archive } from '../archive/archive.ts'
import { CatalogAhead } from '../catalog/ahead.ts'
import type { Catalog, Counters } from '../catalog/catalog.ts'
import { entriesOf } from '../catalog/change.ts'
import type { Schema } from '../catalog/schema.ts'
import type { Marks } from '../catalog/unstored.ts'
import type { Memtable } from '../memtable/memtable.ts'
import type { EngineMetrics } from '../metrics.ts'
import { walFileName } from '../paths.ts'
import type { Lifetime } from '../retention/lifetime.ts'
import type { SeriesIndex } from '../series/series-index.ts'
import { type SegmentMeta, segmentFiles } from '../threads/layout.ts'
import type { WorkerPool } from '../threads/pool.ts'
import type { Publisher } from '../threads/publisher.ts'
import type { FileSystem } from '../wal/file-system.ts'
import { walFiles } from '../wal/replay.ts'
import type { Pressure } from '../write/pressure.ts'
import type { WritePath } from '../write/write-path.ts'
import { removeSegmentFiles } from './segment-file.ts'

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
  archive(): Archive
}

export interface ManifestChange {
  segmentsAdded?: readonly SegmentMeta[]
  segmentsRemoved?: readonly number[]
  /** The memtable whose rows are in the added segments: this commit's alone, the log is not needed for it any more. */
  leaving?: Memtable
}

export class Manifest {
  /** Segments of each table, ascending by sequence. */
  readonly segments = new Map<number, SegmentMeta[]>()
  nextSegment = 1
  /** Segments replaced but not yet deleted because a reader may have them open. */
  retired = 0
  /** First log file that the catalog says is needed; 0 before the first commit. */
  private floor = 0
  /** Segments that are being merged or archived: nobody else takes them out. */
  private readonly claimed = new Set<number>()
  private readonly ahead: CatalogAhead
  private readonly parts: ManifestParts

  constructor(parts: ManifestParts) {
    this.parts = parts
    this.ahead = new CatalogAhead(parts)
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
    await this.commitAdded({ segmentsAdded: added, leaving: memtable }, () => {
      lifetime.releases.flushed(memtable)
      // In one turn of the loop: a thread that starts at any time is told of the memtable or of its segments, never of neither.
      writes.frozen = writes.frozen.filter((other) => other !== memtable)
      for (const segment of added) this.insert(segment)
      pressure.measure(this.segments)
      publisher.tell({ kind: 'segments', added: [...added], removed: [], droppedMemtable: memtable.id })
      publisher.flush()
    })
    this.removeOldLogs()
  }

  /** Puts segments with the same rows in place of others of the table, which the caller has claimed. @throws as `flushed`. */
  async replace(table: number, removed: readonly SegmentMeta[], added: readonly SegmentMeta[]): Promise<void> {
    const { publisher, pressure } = this.parts
    const ids = removed.map(({ id }) => id)
    await this.commitAdded({ segmentsAdded: added, segmentsRemoved: ids }, () => {
      this.segments.set(
        table,
        (this.segments.get(table) ?? []).filter((segment) => !removed.includes(segment)),
      )
      for (const one of added) this.insert(one)
      pressure.measure(this.segments)
      publisher.tell({ kind: 'segments', added: [...added], removed: ids, droppedMemtable: -1 })
      publisher.flush()
    })
    this.retire(removed)
  }

  /** Takes segments that nobody has claimed out and stores everything else the catalog does not have yet. */
  async remove(segments: readonly SegmentMeta[]): Promise<void> {
    const release = this.claim(segments)
    if (release === undefined) throw new Error('cannot remove segments: somebody reads them, or they are gone')
    const removed = segments.map(({ id }) => id)
    const archived = segments.flatMap(({ file, archived }) => (archived ? [file] : []))
    try {
      await this.parts.archive().unsettle(archived)
      await this.commit({ segmentsRemoved: removed }, () => {
        if (removed.length === 0) return
        const gone = new Set(segments)
        for (const [table, list] of [...this.segments]) {
          const left = list.filter((segment) => !gone.has(segment))
          if (left.length > 0) this.segments.set(table, left)
          else this.segments.delete(table)
        }
        this.parts.pressure.measure(this.segments)
        this.parts.publisher.tell({ kind: 'segments', added: [], removed, droppedMemtable: -1 })
        this.parts.publisher.flush()
      })
    } catch (error) {
      this.parts.archive().settle(archived)
      throw error
    } finally {
      release()
    }
    if (removed.length > 0) this.retire(segments)
  }

  /** Commits a change with everything defined so far. @param stored called when it is durable, before any other commit begins; must not throw. */
  async commit(change: ManifestChange = {}, stored: () => void = () => {}): Promise<void> {
    const { catalog, schema, index, writes, lifetime, metrics } = this.parts
    let marks: Marks = new Map()
    let floor = 0
    let forgotten: number[] = []
    await this.ahead.store()
    await catalog.commit(
      () => {
        const counters = this.counters(change.leaving)
        marks = writes.unstored.copy()
        const found = entriesOf(marks, { schema, lifetime }, counters.walFloor)
        floor = counters.walFloor
        forgotten = found.forgotten
        return { ...change, counters, ...found }
      },
      index,
      lifetime.releases,
      () => {
        this.floor = floor
        writes.unstored.settle(marks)
        for (const table of forgotten) schema.goneTables.delete(table)
        stored()
        metrics.catalogFsyncs.inc()
      },
      // Under a periodic policy changes take effect before the log has them: a catalog ahead of the log would keep half of what a power cut takes.
      () => writes.wal.settled(),
    )
  }

  /** Removes log files below the floor that the catalog has: all their rows are in segments. What cannot be removed is tried again with the next flush. */
  removeOldLogs(): void {
    const { fs, walDir, log } = this.parts
    try {
      for (const file of walFiles(walDir, fs)) if (file < this.floor) fs.unlinkSync(join(walDir, walFileName(file)))
    } catch (error) {
      log.warn({ err: error }, 'cannot remove log files that are not needed any more')
    }
  }

  /** Files that are not to be part of the database. After a failure of unknown outcome they stay: the catalog may name them. */
  async takeBack(added: readonly SegmentMeta[]): Promise<void> {
    if (this.parts.pressure.fault === undefined)
      await removeSegmentFiles(
        added.flatMap(segmentFiles).map((file) => join(this.parts.dataDir, file)),
        this.parts.fs,
      )
  }

  private async commitAdded(change: ManifestChange & { segmentsAdded: readonly SegmentMeta[] }, stored: () => void): Promise<void> {
    try {
      await this.commit(change, stored)
    } catch (error) {
      await this.takeBack(change.segmentsAdded)
      throw error
    }
  }

  /** What makes the catalog know what is defined now, the log's position included. @param leaving its segments are part of the same commit. */
  private counters(leaving: Memtable | undefined): Counters {
    const { writes, schema, lifetime } = this.parts
    const oldest = writes.frozen.find((memtable) => memtable !== leaving) ?? writes.active
    return {
      nextSegment: this.nextSegment,
      nextSequence: writes.nextSequence,
      nextTable: schema.nextTable,
      nextMeasurement: schema.nextMeasurement,
      nextTombstone: lifetime.tombstones.nextId,
      walSequence: writes.applied,
      walFloor: oldest.firstWal,
      newest: Object.fromEntries([...writes.newestTimes()].map(([namespace, time]) => [namespace, String(time)])),
    }
  }

  private retire(segments: readonly SegmentMeta[]): void {
    const { archive, dataDir, fs, log, metrics, pool } = this.parts
    this.retired += segments.length
    metrics.segmentsRetired.inc(segments.length)
    pool.afterReaders(() => {
      this.retired -= segments.length
      archive().discard(segments.flatMap(({ file, archived }) => (archived ? [file] : [])))
      for (const file of segments.flatMap(segmentFiles)) {
        try {
          fs.unlinkSync(join(dataDir, file))
          if (file.endsWith('.parquet')) metrics.segmentsDeleted.inc()
        } catch (error) {
          log.warn({ err: error, file }, 'cannot delete a segment that is not used any more; the next start removes it')
        }
      }
    })
  }
}
