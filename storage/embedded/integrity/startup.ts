/** Looks at the segment files when the database is opened: their presence and size, and those found corrupt before as a whole. */
import { dirname, join } from 'node:path'
import type { StorageContext } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import { type FileSystem, realFileSystem, syncDirectory } from '../../common/log/file-system.ts'
import { MANIFEST_FILE, UNFINISHED } from '../backup/manifest.ts'
import { paths } from '../paths.ts'
import { type SegmentMeta, segmentFiles, segmentFilesWithSums } from '../threads/segment-entry.ts'
import { segmentFault } from './trust.ts'

interface StartupOptions {
  dataDir: string
  /** Where files set aside go. */
  damagedDir: string
  setAside: boolean
  log: StorageContext['log']
  fs?: FileSystem
  catalog: {
    segments(): SegmentMeta[]
    amendSegment(id: number, change: Partial<SegmentMeta>): Promise<void>
    removeSegments(ids: readonly number[]): Promise<void>
  }
}

/** Whether there is something that a catalog would have to know of. */
export function holdsData(walDir: string, segmentsDir: string, fs: FileSystem = realFileSystem): boolean {
  const named = (dir: string, end: string): boolean => fs.filesSync(dir).some((name) => name.endsWith(end))
  return named(walDir, '.wal') || named(segmentsDir, '.parquet')
}

/**
 * Makes the data directory and what lies in it from the first.
 * @throws SvcError DATABASE_ERROR where it cannot be one, where it is a backup, and where it is another's: a start empties its folder for files under way.
 */
export function makeDataDirectory(dataDir: string, fs: Pick<FileSystem, 'existsSync' | 'readdirSync' | 'mkdirSync'>): void {
  const { wal, segments, catalog, temp } = paths(dataDir)
  // What a restore makes has a folder for the log.
  const manifests = [join(dataDir, MANIFEST_FILE), join(dataDir, UNFINISHED, MANIFEST_FILE)]
  if (!fs.existsSync(wal) && manifests.some((file) => fs.existsSync(file))) {
    const cause = 'it is a backup, and a start would make it one no more; restore it (POST /api/v1/admin/restore) and name the folder that this makes'
    throw new SvcError('DATABASE_ERROR', `cannot open data directory "${dataDir}": ${cause}`)
  }
  const made = [wal, segments, catalog].some((dir) => fs.existsSync(dir))
  if (!made && fs.existsSync(temp) && fs.readdirSync(temp).length > 0) {
    const cause = 'it is none yet, and has a folder "tmp" with files, which a start would remove; name another folder'
    throw new SvcError('DATABASE_ERROR', `cannot open data directory "${dataDir}": ${cause}`)
  }
  try {
    for (const dir of [dataDir, wal, segments]) fs.mkdirSync(dir)
  } catch (error) {
    if (!UNMADE.includes((error as NodeJS.ErrnoException).code)) throw error
    const hint = 'make it a folder that the account of the server may write to, or set another data_dir'
    throw new SvcError('DATABASE_ERROR', `cannot make data directory "${dataDir}": ${(error as Error).message}; ${hint}`, { cause: error })
  }
}

/** What opening says where the system does not let it do its work: for the rest the cause stands for itself. */
export function unopened(dataDir: string, error: unknown): unknown {
  const { code } = error as NodeJS.ErrnoException
  // What a commit says of a full disk is for a server that goes on.
  if (FULL.includes(code))
    return new SvcError('STORAGE_FULL', `cannot open data directory "${dataDir}": no space left on its volume; free space, then start again`, { cause: error })
  if (error instanceof SvcError || !DENIED.includes(code)) return error
  const hint = 'see that the account of the server owns the folder and all in it, and that it is not mounted read-only'
  return new SvcError('IO_ERROR', `cannot open data directory "${dataDir}": ${(error as Error).message}; ${hint}`, { cause: error })
}

const FULL: readonly unknown[] = ['STORAGE_FULL', 'ENOSPC', 'EDQUOT']
const DENIED: readonly unknown[] = ['EACCES', 'EPERM', 'EROFS']
const UNMADE: readonly unknown[] = ['EACCES', 'EPERM', 'EROFS', 'ENOENT', 'EEXIST', 'ENOTDIR', 'ELOOP', 'ENAMETOOLONG']

/** The directories above `dir` that making it changes, the nearest first: always one, since an earlier start may have been killed before its sync. */
export function directoriesAbove(dir: string, fs: Pick<FileSystem, 'existsSync'>): string[] {
  const above = [dirname(dir)]
  for (let last = above[0]; !fs.existsSync(last); last = above[above.length - 1]) above.push(dirname(last))
  return above
}

/**
 * What is written below the data directory is there after a power cut only if the directories above know of it: syncs the catalog's, the data
 * directory and those that name it. Others may keep the last from us; then whoever made the data directory answers for its name.
 * @param above of the data directory.
 */
export function syncAbove(catalogDir: string, fs: Pick<FileSystem, 'openSync' | 'fsyncSync' | 'closeSync'>, above: readonly string[]): void {
  const dataDir = dirname(catalogDir)
  syncDirectory(catalogDir, fs)
  syncDirectory(dataDir, fs)
  for (const directory of above) {
    try {
      syncDirectory(directory, fs)
    } catch (error) {
      if (!NOT_OURS.includes((error as NodeJS.ErrnoException).code)) throw error
    }
  }
}

const NOT_OURS: readonly unknown[] = ['EACCES', 'EPERM', 'EROFS', 'EINVAL']

interface Fault {
  segment: SegmentMeta
  file: string
  cause: string
}

/** The segments to serve. @throws DATABASE_ERROR naming the first file that is not as the catalog says, unless they are set aside. */
export async function segmentsToServe(options: StartupOptions): Promise<SegmentMeta[]> {
  const { dataDir, catalog, fs = realFileSystem } = options
  const sound: SegmentMeta[] = []
  const faults: Fault[] = []
  for (const segment of catalog.segments()) {
    const fault = (await wrongFile(dataDir, segment, fs)) ?? (await stillCorrupt(dataDir, segment, fs))
    if (fault !== undefined) {
      faults.push({ segment, ...fault })
      continue
    }
    if (segment.damaged) await catalog.amendSegment(segment.id, { damaged: undefined })
    const { damaged: _, ...whole } = segment
    sound.push(whole)
  }
  if (faults.length > 0) await settle(options, faults)
  return sound
}

async function wrongFile(dataDir: string, segment: SegmentMeta, fs: FileSystem): Promise<{ file: string; cause: string } | undefined> {
  for (const { file, bytes } of segmentFilesWithSums(segment)) {
    const found = await fs.promises.stat(join(dataDir, file)).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'ENOENT') throw error
    })
    if (found === undefined) return { file, cause: 'is missing' }
    if (found.size !== bytes) return { file, cause: `has ${found.size} bytes, the catalog says ${bytes}` }
  }
  return undefined
}

/** A segment that was found corrupt while the server ran may have been restored since. */
async function stillCorrupt(dataDir: string, segment: SegmentMeta, fs: FileSystem): Promise<{ file: string; cause: string } | undefined> {
  if (!segment.damaged) return undefined
  const fault = await segmentFault(dataDir, segment, undefined, fs)
  return fault === undefined ? undefined : { file: segment.file, cause: `is corrupt: ${fault}` }
}

async function settle({ dataDir, damagedDir, setAside, log, catalog, fs = realFileSystem }: StartupOptions, faults: readonly Fault[]): Promise<void> {
  if (!setAside) {
    const [{ file, cause }] = faults
    const more = faults.length > 1 ? ` and ${faults.length - 1} more are not as they were written` : ''
    throw new SvcError(
      'DATABASE_ERROR',
      `cannot open data directory "${dataDir}": segment file "${file}" ${cause}${more}; restore it from a backup, or set database.damaged_segments to "set_aside" to go on without its points`,
    )
  }
  for (const { segment, file, cause } of faults) {
    // Files first: after a crash in between, the entry's file is missing, and this is done again.
    for (const one of segmentFiles(segment)) await moveIfThere(join(dataDir, one), join(damagedDir, one), fs)
    log.error(
      { file, rows: segment.rows, minTime: segment.minTime, maxTime: segment.maxTime },
      `segment file ${cause}; it is set aside, its points are missing`,
    )
  }
  await catalog.removeSegments(faults.map(({ segment }) => segment.id))
}

async function moveIfThere(from: string, to: string, fs: FileSystem): Promise<void> {
  await fs.promises.mkdir(dirname(to), { recursive: true })
  await fs.promises.rename(from, to).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'ENOENT') throw error
  })
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
