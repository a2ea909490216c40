/**
 * Keeps the catalog informed of the log's files, so that the next start misses one that is gone or too short. The note of a file follows its
 * opening by the time of a catalog commit; what it says was durable before.
 */
import { join } from 'node:path'
import type { StorageContext } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import { type FileSystem, realFileSystem } from '../../common/log/file-system.ts'
import type { Catalog, LogNote } from '../catalog/catalog.ts'
import { walFileName } from '../paths.ts'
import { FILE_MAGIC } from '../wal/form.ts'

export class LogNotes {
  private readonly dir: string
  private readonly catalog: Pick<Catalog, 'noteLog' | 'logNote' | 'counters'>
  private readonly log: StorageContext['log']
  private readonly fs: FileSystem
  private sizes: LogNote['sizes'] = {}

  constructor(dir: string, catalog: Pick<Catalog, 'noteLog' | 'logNote' | 'counters'>, log: StorageContext['log'], fs: FileSystem = realFileSystem) {
    this.fs = fs
    this.dir = dir
    this.catalog = catalog
    this.log = log
  }

  /** Compares the files with the note. @param floor the first one needed. @throws DATABASE_ERROR naming the file. */
  check(floor: number): void {
    const note = this.catalog.logNote()
    if (note === undefined) return
    for (const [number, size] of Object.entries(note.sizes)) {
      if (Number(number) < floor) continue
      const found = this.sizeOf(Number(number))
      if (found !== size) throw wrongLog(Number(number), found, `${size} bytes`)
      this.sizes[number] = size
    }
    if (note.newest < floor) return
    const found = this.sizeOf(note.newest)
    if (found === undefined || found < FILE_MAGIC.length) throw wrongLog(note.newest, found, 'a header at least')
  }

  /** A new file was opened; the one before it is not written any more. */
  opened(newest: number): void {
    const before = this.sizeOf(newest - 1)
    if (before !== undefined) this.sizes[newest - 1] = before
    const floor = this.catalog.counters()?.walFloor ?? 1
    this.sizes = Object.fromEntries(Object.entries(this.sizes).filter(([number]) => Number(number) >= floor && Number(number) < newest))
    this.catalog
      .noteLog({ newest, sizes: this.sizes })
      .catch((error: unknown) => this.log.warn({ err: error, file: walFileName(newest) }, 'cannot note a new log file in the catalog'))
  }

  private sizeOf(file: number): number | undefined {
    return this.fs.sizeSync(join(this.dir, walFileName(file)))
  }
}

function wrongLog(file: number, found: number | undefined, expected: string): SvcError {
  const cause = found === undefined ? 'it is missing' : `it has ${found} bytes, the catalog says ${expected}`
  return new SvcError(
    'DATABASE_ERROR',
    `cannot replay write-ahead log file "${walFileName(file)}" at offset ${found ?? 0}: ${cause}; restore the file or the data directory from a backup`,
  )
}
