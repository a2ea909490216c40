/**
 * Makes a backup while writes go on.
 *
 * Invariants
 * - Flush first, then one snapshot of the catalog: the snapshot names every segment, and all rows acknowledged before the call are in them, so that
 *   no log is needed.
 * - From before the snapshot until every file is in place a lease keeps all files that it can name: neither a merge nor retention unlinks one.
 * - A segment is never changed in place by anybody, so that the backup may share it with the database by a hard link. The catalog is changed in place
 *   and is copied.
 * - The old manifest goes first and the new one comes last, each step durable before the next: a manifest always stands for whole contents.
 */
import { dirname, join } from 'node:path'
import { SvcError } from 'svcdb/lib/errors'
import { type BackupDisk, type Check, type Content, eachOf, exists, filesBelow, place, syncFolders } from './disk.ts'
import { type BackupFile, encodeManifest, MANIFEST_FILE, MANIFEST_VERSION, type StoredManifest } from './manifest.ts'

/** A file as the catalog knows it, relative to the data directory; without a checksum it has to be read. */
export interface SegmentFile {
  file: string
  bytes: number
  crc32?: string
}

export interface BackupSource {
  dataDir: string
  /** Brings everything acknowledged so far into segments and the catalog. @returns the sequence of the newest log record that is in them. */
  settle(): Promise<number>
  /** Keeps segments from being deleted until the returned function is called. */
  lease(): () => void
  /** The files of each segment there is. @throws DATABASE_ERROR for one known to be corrupt. */
  segments(): SegmentFile[][]
  /** Writes a consistent copy of the catalog as `data.mdb` into a directory. */
  copyCatalog(directory: string): Promise<void>
  /** Makes a copied catalog one that needs no log. @returns the files of each segment that it names. @throws DATABASE_ERROR for one known to be corrupt. */
  detach(directory: string): Promise<SegmentFile[][]>
  now(): number
}

const UNFINISHED_MANIFEST = `${MANIFEST_FILE}.tmp`
/** All that a backup's directory may hold. */
const OWN = new Set([MANIFEST_FILE, UNFINISHED_MANIFEST, 'catalog', 'segments'])

/** @param known checksums of segments already read; they never change. */
export async function createBackup(
  source: BackupSource,
  disk: BackupDisk,
  directory: string,
  known: Map<string, Content>,
  check: Check,
): Promise<StoredManifest> {
  const { mkdir, rename, rm } = disk.files
  const isNew = !(await refuseForeign(disk, directory))
  const walSequence = await source.settle()
  check()
  const release = source.lease()
  let begun = isNew
  try {
    // A database that has become corrupt needs the older backup.
    if (!isNew) await eachOf(source.segments().flat(), async (segment) => void (await requireFile(source.dataDir, disk, segment)))
    check()
    begun = true
    const above = await foldersToSync(disk, directory)
    await mkdir(directory, { recursive: true })
    for (const name of [MANIFEST_FILE, UNFINISHED_MANIFEST]) await rm(join(directory, name), { force: true })
    await disk.sync(directory)
    const catalog = join(directory, 'catalog')
    await rm(catalog, { recursive: true, force: true })
    await mkdir(catalog)
    await source.copyCatalog(catalog)
    const segments = await source.detach(catalog)
    const data = join(catalog, 'data.mdb')
    await disk.sync(data)
    const named = segments.flat()
    const names = new Set(named.map(({ file }) => file))
    await removeUnnamed(disk, directory, names)
    for (const file of known.keys()) if (!names.has(file)) known.delete(file)
    const files: BackupFile[] = [{ path: 'catalog/data.mdb', ...(await disk.content(data, check)) }]
    await eachOf(named, async (segment, i) => {
      check()
      await mkdir(join(directory, dirname(segment.file)), { recursive: true })
      files[i + 1] = { path: segment.file, ...(await placeSegment(source.dataDir, disk, directory, segment, known, check)) }
    })
    await syncFolders(
      disk,
      directory,
      files.map(({ path }) => path),
    )
    const manifest: StoredManifest = {
      version: MANIFEST_VERSION,
      created_at: source.now(),
      wal_sequence: walSequence,
      segments: segments.length,
      file_count: files.length,
      total_bytes: files.reduce((sum, { bytes }) => sum + bytes, 0),
      files,
    }
    check()
    await disk.write(join(directory, UNFINISHED_MANIFEST), encodeManifest(manifest))
    await rename(join(directory, UNFINISHED_MANIFEST), join(directory, MANIFEST_FILE))
    await disk.sync(directory)
    for (const folder of above) await disk.sync(folder)
    return manifest
  } catch (error) {
    // Where even that fails the rest stays; without a manifest nothing takes it for a backup.
    if (begun) await clear(disk, directory, isNew).catch(() => {})
    throw error
  } finally {
    release()
  }
}

/** Those that name the backup, or a folder above it that is made with it: without one of these names a power cut takes the backup away. */
async function foldersToSync(disk: BackupDisk, directory: string): Promise<string[]> {
  const folders = [dirname(directory)]
  for (let at = dirname(directory); !(await exists(at, disk.files)); at = dirname(at)) folders.push(dirname(at))
  return folders
}

/** @returns whether there is something at the path. @throws INVALID_REQUEST when it is neither empty nor a backup. */
async function refuseForeign({ files }: BackupDisk, directory: string): Promise<boolean> {
  if (!(await exists(directory, files))) return false
  const refused = (why: string) =>
    new SvcError('INVALID_REQUEST', `cannot make backup "${directory}": ${why}; choose a directory that is empty, absent or an older backup`)
  if (!(await files.lstat(directory)).isDirectory()) throw refused('it is not a directory')
  for (const entry of await files.readdir(directory)) {
    if (!OWN.has(entry.name)) throw refused(`it holds "${entry.name}", which is not of a backup`)
    if (entry.isDirectory() !== !entry.name.startsWith(MANIFEST_FILE)) throw refused(`"${entry.name}" in it is not of a backup`)
  }
  return true
}

async function removeUnnamed({ files }: BackupDisk, directory: string, named: ReadonlySet<string>): Promise<void> {
  const { mkdir, readdir, rm, unlink } = files
  await mkdir(join(directory, 'segments'), { recursive: true })
  for (const file of await filesBelow(directory, 'segments', files)) if (!named.has(file)) await unlink(join(directory, file))
  // Folders that are empty now.
  for (const folder of await readdir(join(directory, 'segments'))) {
    const path = join(directory, 'segments', folder.name)
    if (folder.isDirectory() && (await readdir(path)).length === 0) await rm(path, { recursive: true })
  }
}

const corruptSegment = (path: string, why: string, cause?: unknown): SvcError =>
  new SvcError('DATABASE_ERROR', `cannot back up segment "${path}": ${why}; restore it from an older backup`, { cause })

/** @throws DATABASE_ERROR for a file that is not there or has another length. */
async function requireFile(dataDir: string, { files }: BackupDisk, { file, bytes }: SegmentFile): Promise<{ dev: number; ino: number }> {
  const path = join(dataDir, file)
  const own = await files.lstat(path).catch((error: Error) => {
    throw corruptSegment(path, `${error.message}, the catalog says ${bytes} bytes`, error)
  })
  if (own.size !== bytes) throw corruptSegment(path, `it has ${own.size} bytes, the catalog says ${bytes}`)
  return own
}

async function placeSegment(
  dataDir: string,
  disk: BackupDisk,
  directory: string,
  segment: SegmentFile,
  known: Map<string, Content>,
  check: Check,
): Promise<Content> {
  const { file, bytes, crc32 } = segment
  const { lstat, unlink } = disk.files
  const from = join(dataDir, file)
  const to = join(directory, file)
  const there = await lstat(to).catch(() => undefined)
  const own = await requireFile(dataDir, disk, segment)
  const linked = there?.isFile() === true && there.ino === own.ino && there.dev === own.dev
  if (there !== undefined && !linked) await unlink(to)
  const copied = linked ? undefined : await place(disk, from, to, check)
  // A link is not read when its checksum is known from the time it was written: verification reads it.
  const content = copied ?? (crc32 === undefined ? (known.get(file) ?? (await disk.content(from, check))) : { bytes, crc32 })
  if (content.bytes !== bytes || (crc32 !== undefined && content.crc32 !== crc32))
    throw corruptSegment(from, `its ${content.bytes} bytes have checksum ${content.crc32}, the catalog says ${crc32} of ${bytes} bytes`)
  known.set(file, content)
  return content
}

/** Removes what a failed attempt has made. */
async function clear({ files: { rm } }: BackupDisk, directory: string, withDirectory: boolean): Promise<void> {
  if (withDirectory) return rm(directory, { recursive: true, force: true })
  for (const name of OWN) await rm(join(directory, name), { recursive: true, force: true })
}
