/**
 * Changes which segments are part of the database: each change is one catalog transaction; readers are notified when it is durable, and files go when
 * nobody reads them any more.
 *
 * Invariant: log files go below a floor that the catalog has stored only.
 */
import { join } from 'node:path'
import type { FileSystem } from '../../common/log/file-system.ts'
import type { ArchivedObjects } from '../archive/archived-objects.ts'
import type { CatalogWriter, SegmentChange } from '../catalog/writer.ts'
import type { KeptLogs } from '../changes/kept-logs.ts'
import type { Memtable } from '../memtable/memtable.ts'
import type { Memtables } from '../memtable/memtables.ts'
import type { Releases } from '../retention/releases.ts'
import type { Publisher } from '../threads/publishing/publisher.ts'
import { type SegmentMeta, segmentFiles } from '../threads/segment-entry.ts'
import type { Pressure } from '../write/pressure.ts'
import type { RetiredFiles } from './retired-files.ts'
import { removeSegmentFiles } from './segment-file.ts'
import type { SegmentTable } from './segment-table.ts'

interface ManifestDependencies {
  dataDir: string
  fs: FileSystem
  writer: CatalogWriter
  segments: SegmentTable
  memtables: Memtables
  releases: Releases
  pressure: Pressure
  publisher: Publisher
  archived: ArchivedObjects
  retired: RetiredFiles
  logs: Pick<KeptLogs, 'tidy'>
}

export class Manifest {
  private readonly dependencies: ManifestDependencies

  constructor(dependencies: ManifestDependencies) {
    this.dependencies = dependencies
  }

  /** A memtable becomes segments. @throws when the catalog does not know of them: their files are gone again. */
  async flushed(memtable: Memtable, added: readonly SegmentMeta[]): Promise<void> {
    const { memtables, releases } = this.dependencies
    await this.commitAdded({ segmentsAdded: added, leaving: memtable }, () => {
      releases.flushed(memtable)
      // In one turn of the loop: a thread that starts at any time knows of the memtable or of its segments, never of neither.
      this.changed([], added, memtable.id)
      memtables.drop(memtable)
    })
    this.removeOldLogs()
  }

  /** Puts segments with the same rows in place of others, which the caller has claimed. @throws as `flushed`. */
  async replace(removed: readonly SegmentMeta[], added: readonly SegmentMeta[]): Promise<void> {
    await this.commitAdded({ segmentsAdded: added, segmentsRemoved: removed.map(({ id }) => id) }, () => this.changed(removed, added))
    this.dependencies.retired.add(removed)
  }

  /** Takes segments that nobody has claimed out and stores everything else the catalog does not have yet. */
  async remove(removed: readonly SegmentMeta[]): Promise<void> {
    const { writer, segments, archived, retired } = this.dependencies
    const release = segments.claim(removed)
    if (release === undefined) throw new Error('cannot remove segments: somebody reads them, or they are gone')
    const objects = removed.flatMap(({ file, archived }) => (archived ? [file] : []))
    try {
      await archived.leaving(objects)
      await writer.commit({ segmentsRemoved: removed.map(({ id }) => id) }, () => {
        if (removed.length > 0) this.changed(removed, [])
      })
    } catch (error) {
      archived.stay(objects)
      throw error
    } finally {
      release()
    }
    if (removed.length > 0) retired.add(removed)
    this.removeOldLogs()
  }

  /** Removes log files below the floor that the catalog has, whose rows are all in segments, unless readers of changes need them. */
  removeOldLogs(): void {
    this.dependencies.logs.tidy()
  }

  /** Files that are not to be part of the database. After a failure of unknown outcome they stay: the catalog may name them. */
  async takeBack(added: readonly SegmentMeta[]): Promise<void> {
    const { pressure, dataDir, fs } = this.dependencies
    if (pressure.fault === undefined)
      await removeSegmentFiles(
        added.flatMap(segmentFiles).map((file) => join(dataDir, file)),
        fs,
      )
  }

  private async commitAdded(change: SegmentChange & { segmentsAdded: readonly SegmentMeta[] }, stored: () => void): Promise<void> {
    try {
      await this.dependencies.writer.commit(change, stored)
    } catch (error) {
      await this.takeBack(change.segmentsAdded)
      throw error
    }
  }

  /** The catalog has the change. @param droppedMemtable -1 = none. */
  private changed(removed: readonly SegmentMeta[], added: readonly SegmentMeta[], droppedMemtable = -1): void {
    const { segments, pressure, publisher } = this.dependencies
    segments.replace(removed, added)
    pressure.measure(segments.tables, new Set([...removed, ...added].map(({ table }) => table)))
    publisher.publish({ kind: 'segments', added: [...added], removed: removed.map(({ id }) => id), droppedMemtable })
    publisher.flush()
  }
}
