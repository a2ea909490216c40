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
    for (const one of segmentFiles(segment)) await moveIfThere(join(dataDir, one), freeName(join(damagedDir, one), fs), fs)
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

interface UnnamedOptions {
  dataDir: string
  damagedDir: string
  segmentsDir: string
  /** Files that the catalog names, relative to the data directory. */
  named: ReadonlySet<string>
  /** As the catalog has it: no segment that it knows, or has known, has this number or a higher one. */
  nextSegment: number
  /** Rows of the log that are in no segment. */
  rowsInLog: number
  log: StorageContext['log']
  fs: FileSystem
}

/** Names of files that become segments, and of those under way. */
const OWN_FILE = /^shard_-?\d+\/(?:tmp_)?(\d+)\.(?:parquet|enc)(\.tmp)?$/

/**
 * Deletes segment files that the catalog does not name: a crash between a file and its entry leaves them, and one before retired files were gone. Call
 * when the log was read: until then the catalog may be another's. Files of other names are somebody else's.
 *
 * What an unfinished flush has written is in the log. So a whole file of a number that the catalog has not given yet, with no row in the log, is of a merge
 * that was cut off between its last two steps, or of a catalog that is newer than this one: such files are set aside.
 */
export async function clearUnnamed({ dataDir, damagedDir, segmentsDir, named, nextSegment, rowsInLog, log, fs }: UnnamedOptions): Promise<void> {
  let removed = 0
  const setAside: string[] = []
  for (const name of fs.filesSync(segmentsDir)) {
    const path = join(segmentsDir, name)
    const file = path.slice(dataDir.length + 1)
    const [, number, unfinished] = OWN_FILE.exec(name) ?? []
    if (number === undefined || named.has(file)) continue
    if (unfinished === undefined && Number(number) >= nextSegment && rowsInLog === 0) {
      await moveIfThere(path, freeName(join(damagedDir, file), fs), fs)
      setAside.push(file)
    } else {
      fs.unlinkSync(path)
      removed++
    }
  }
  if (removed > 0) log.info({ removed }, 'removed segment files of an unfinished flush or merge')
  if (setAside.length > 0)
    log.error(
      { files: setAside.length, first: setAside[0], directory: damagedDir },
      'there are segment files that the catalog does not know yet, and no log that they were written from: set aside. If the catalog was put back from a backup or a copy, their points are missing: stop the node, and put the whole data directory back. Otherwise a merge was cut off at its end, nothing is missing, and they can be removed',
    )
}

/** Numbers are given again by a catalog that was put back. */
function freeName(path: string, fs: FileSystem): string {
  for (let n = 0; ; n++) {
    const free = n === 0 ? path : `${path}.${n}`
    if (!fs.existsSync(free)) return free
  }
}
