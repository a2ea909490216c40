/** Files of segments that are not part of the database any more: they go when nobody can read them. */
import { join } from 'node:path'
import type { StorageContext } from 'svcdb'
import type { FileSystem } from '../../common/log/file-system.ts'
import type { ArchivedObjects } from '../archive/archived-objects.ts'
import type { EngineMetrics } from '../metrics.ts'
import type { Readers } from '../threads/publishing/readers.ts'
import { type SegmentMeta, segmentFiles } from '../threads/segment-entry.ts'
import { Shared } from '../threads/shared-header.ts'

interface RetiredFilesDependencies {
  dataDir: string
  fs: FileSystem
  log: StorageContext['log']
  readers: Readers
  shared: Int32Array
  archived: ArchivedObjects
  metrics: Pick<EngineMetrics, 'segmentsRetired' | 'segmentsDeleted'>
}

export class RetiredFiles {
  private waiting = 0
  private readonly dependencies: RetiredFilesDependencies

  constructor(dependencies: RetiredFilesDependencies) {
    this.dependencies = dependencies
  }

  /** Segments not yet deleted because a reader may have them open. */
  get count(): number {
    return this.waiting
  }

  /** Call after the event that says that they are gone. */
  add(segments: readonly SegmentMeta[]): void {
    const { readers, shared, archived, metrics } = this.dependencies
    this.waiting += segments.length
    metrics.segmentsRetired.inc(segments.length)
    readers.afterUnread('files', { until: Atomics.load(shared, Shared.EVENTS) }, 0, () => {
      this.waiting -= segments.length
      archived.discard(segments.flatMap(({ file, archived }) => (archived ? [file] : [])))
      for (const file of segments.flatMap(segmentFiles)) this.remove(file)
    })
  }

  private remove(file: string): void {
    const { dataDir, fs, log, metrics } = this.dependencies
    try {
      fs.unlinkSync(join(dataDir, file))
      if (file.endsWith('.parquet')) metrics.segmentsDeleted.inc()
    } catch (error) {
      log.warn({ err: error, file }, 'cannot delete a segment that is not used any more; the next start removes it')
    }
  }
}
