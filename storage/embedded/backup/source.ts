/** What a backup needs of a running engine. */
import { join } from 'node:path'
import { SvcError } from 'svcdb/lib/errors'
import { Catalog } from '../catalog/catalog.ts'
import type { CatalogWriter } from '../catalog/writer.ts'
import type { Environment } from '../environment.ts'
import { slicesOf } from '../slices.ts'
import type { Readers } from '../threads/publishing/readers.ts'
import { type SegmentMeta, segmentFilesWithSums } from '../threads/segment-entry.ts'
import { Shared } from '../threads/shared-header.ts'
import type { WritePath } from '../write/write-path.ts'
import type { BackupSource, SegmentFile } from './create.ts'
import { hex } from './manifest.ts'

/** Entries of the catalog's copy that are looked at in a turn of the main loop: a segment of many columns takes tens of microseconds. */
const ENTRIES_A_TURN = 512

interface BackupSourceDependencies {
  dataDir: string
  now(): number
  /** Resolves when everything acknowledged is in segments. */
  flush(): Promise<void>
  writes: Pick<WritePath, 'applied'>
  catalog: Catalog
  writer: CatalogWriter
  readers: Readers
  isCorrupt(segment: number): boolean
  shared: Int32Array
  environment: Pick<Environment, 'fs' | 'openStore' | 'random' | 'timers'>
}

export function backupSource({
  dataDir,
  now,
  flush,
  writes,
  catalog,
  writer,
  readers,
  isCorrupt,
  shared,
  environment,
}: BackupSourceDependencies): BackupSource {
  return {
    dataDir,
    now,
    async settle() {
      await catalog.identity() // what is restored remembers it
      const sequence = writes.applied
      await flush()
      // A flush without rows commits nothing, but there may be definitions and deletes that only the log has.
      await writer.commit()
      return sequence
    },
    lease: () => readers.lease(Atomics.load(shared, Shared.EVENTS)),
    async copyCatalog(directory) {
      try {
        // Compacting: the other kind of copy holds up all commits until it has ended.
        await catalog.store.db.backup(directory, true)
      } catch (error) {
        // LMDB's errors come as text only.
        throw copyFault(/No space left|quota/i.test((error as Error).message) ? 'ENOSPC' : 'EIO', error as Error)
      }
    },
    async detach(directory) {
      const slices = { ...slicesOf(environment.timers), size: ENTRIES_A_TURN }
      const copy = await Catalog.open(directory, false, environment, slices)
      try {
        // Everything below the floor is in segments, and what came after is not of this backup: no log file may be missed.
        await copy.noteLog({ newest: (copy.counters()?.walFloor ?? 1) - 1, sizes: {} })
        await copy.disown()
        return await copy.eachSegment((segment) => filesOf(isCorrupt(segment.id) ? { ...segment, damaged: true } : segment), slices)
      } catch (error) {
        // A catalog speaks of the data volume, and the copy need not lie there.
        throw error instanceof SvcError && error.code === 'STORAGE_FULL' ? copyFault('ENOSPC', error) : error
      } finally {
        await copy.close()
        await environment.fs.promises.rm(join(directory, 'lock.mdb'), { force: true })
      }
    },
  }
}

function copyFault(code: string, cause: Error): Error {
  return Object.assign(new Error(`cannot copy the catalog: ${cause.message}`, { cause }), { code })
}

function filesOf(segment: SegmentMeta): SegmentFile[] {
  if (segment.damaged) throw new SvcError('DATABASE_ERROR', `cannot back up segment "${segment.file}": it is corrupt; restore it from an older backup`)
  return segmentFilesWithSums(segment).map(({ file, bytes, crc }) => ({ file, bytes, ...(crc === undefined ? {} : { crc32: hex(crc) }) }))
}
