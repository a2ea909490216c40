/**
 * Makes a backup while writes go on.
 *
 * Invariants
 * - Flush first, then one snapshot of the catalog: the snapshot names every segment, and all rows acknowledged before the call are in them, so that
 *   no log is needed.
 * - From before the snapshot until every file is in place a lease keeps all files that it can name: neither a merge nor retention unlinks one.
 * - A segment is never changed in place by anybody, so that the backup may share it with the database by a hard link. The catalog is changed in place
 *   and is copied.
 * - A backup is made whole and durable in a folder of its directory. Until then an older one there is not touched: whatever fails, it is left.
 * - Then the old manifest goes first and the new one comes last, each step durable before the next: a manifest in the directory always stands for whole
 *   contents. Where that is cut short, the new one is read where it lies, and the next backup puts it into its place first.
 */
import { dirname, join } from 'node:path'
import { SvcError } from 'svcdb/lib/errors'
import { type BackupDisk, type Check, type Content, eachOf, exists, foldersAbove, link, syncFolders } from './disk.ts'
import { type BackupFile, encodeManifest, MANIFEST_FILE, MANIFEST_VERSION, type StoredManifest, UNFINISHED } from './manifest.ts'
import { isCutShort, PARTS, replace } from './replacement.ts'

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
  /** Writes a consistent copy of the catalog as `data.mdb` into a directory. */
  copyCatalog(directory: string): Promise<void>
  /** Makes a copied catalog one that needs no log. @returns the files of each segment that it names. @throws DATABASE_ERROR for one known to be corrupt. */
  detach(directory: string): Promise<SegmentFile[][]>
  now(): number
}

/** Servers before this one wrote the manifest under this name first. */
const FORMER_TEMPORARY = `${MANIFEST_FILE}.tmp`
/** All that a backup's directory may hold. */
const OWN = new Set<string>([MANIFEST_FILE, FORMER_TEMPORARY, UNFINISHED, ...PARTS])

/** @param known checksums of segments already read; they never change. */
export async function createBackup(
  source: BackupSource,
  disk: BackupDisk,
  directory: string,
  known: Map<string, Content>,
  check: Check,
): Promise<StoredManifest> {
  const { mkdir, rm } = disk.files
  const isNew = !(await refuseForeign(disk, directory))
  // Else what follows would take away the only one that there is.
  if (await isCutShort(directory, disk.files)) await replace(disk, directory)
  const walSequence = await source.settle()
  check()
  const above = await foldersAbove(directory, disk.files)
  const room = join(directory, UNFINISHED)
  const release = source.lease()
  let replaced = false
  try {
    await rm(room, { recursive: true, force: true })
    await mkdir(room, { recursive: true })
    const manifest = await build(source, disk, { directory, room, walSequence }, known, check)
    check()
    replaced = true
    await rm(join(directory, FORMER_TEMPORARY), { force: true })
    await replace(disk, directory)
    for (const folder of above) await disk.sync(folder)
    await rm(room, { recursive: true, force: true })
    return manifest
  } catch (error) {
    // Where even that fails the rest stays; without a manifest nothing takes it for a backup.
    if (isNew) await rm(directory, { recursive: true, force: true }).catch(() => {})
    else if (!replaced) await rm(room, { recursive: true, force: true }).catch(() => {})
    throw error
  } finally {
    release()
  }
}

interface Place {
  directory: string
  /** Where the backup is made. */
  room: string
  walSequence: number
}

/** Makes all of a backup, its manifest last. */
async function build(
  source: BackupSource,
  disk: BackupDisk,
  { directory, room, walSequence }: Place,
  known: Map<string, Content>,
  check: Check,
): Promise<StoredManifest> {
  const { mkdir } = disk.files
  const catalog = join(room, 'catalog')
  await mkdir(catalog)
  await mkdir(join(room, 'segments'))
  await source.copyCatalog(catalog)
  const segments = await source.detach(catalog)
  const data = join(catalog, 'data.mdb')
  await disk.sync(data)
  const named = segments.flat()
  const names = new Set(named.map(({ file }) => file))
  for (const file of known.keys()) if (!names.has(file)) known.delete(file)
  const files: BackupFile[] = [{ path: 'catalog/data.mdb', ...(await disk.content(data, check)) }]
  await eachOf(named, async (segment, i) => {
    check()
    await mkdir(join(room, dirname(segment.file)), { recursive: true })
    files[i + 1] = { path: segment.file, ...(await placeSegment(source.dataDir, disk, { directory, room }, segment, known, check)) }
  })
  const paths = files.map(({ path }) => path)
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
  await disk.write(join(room, MANIFEST_FILE), encodeManifest(manifest))
  await syncFolders(disk, room, [...paths, 'segments/any'])
  return manifest
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

const corruptSegment = (path: string, why: string, cause?: unknown): SvcError =>
  new SvcError('DATABASE_ERROR', `cannot back up segment "${path}": ${why}; restore it from an older backup`, { cause })

/** @throws DATABASE_ERROR for a file that is not there or has another length. */
async function requireFile(dataDir: string, { files }: BackupDisk, { file, bytes }: SegmentFile): Promise<void> {
  const path = join(dataDir, file)
  const own = await files.lstat(path).catch((error: Error) => {
    throw corruptSegment(path, `${error.message}, the catalog says ${bytes} bytes`, error)
  })
  if (own.size !== bytes) throw corruptSegment(path, `it has ${own.size} bytes, the catalog says ${bytes}`)
}

async function placeSegment(
  dataDir: string,
  disk: BackupDisk,
  { directory, room }: Pick<Place, 'directory' | 'room'>,
  { file, bytes, crc32 }: SegmentFile,
  known: Map<string, Content>,
  check: Check,
): Promise<Content> {
  const from = join(dataDir, file)
  const to = join(room, file)
  await requireFile(dataDir, disk, { file, bytes })
  const expected = crc32 ?? known.get(file)?.crc32
  let content: Content | undefined
  if (!(await link(disk, from, to))) {
    // On another file system the older backup may have it: then it takes no space twice.
    content = expected === undefined ? undefined : await linkSame(disk, join(directory, file), to, { bytes, crc32: expected }, check)
    content ??= await disk.copy(from, to, check)
  }
  // A link is not read when its checksum is known from the time it was written: verification reads it.
  content ??= expected === undefined ? await disk.content(from, check) : { bytes, crc32: expected }
  if (content.bytes !== bytes || (crc32 !== undefined && content.crc32 !== crc32))
    throw corruptSegment(from, `its ${content.bytes} bytes have checksum ${content.crc32}, the catalog says ${crc32} of ${bytes} bytes`)
  known.set(file, content)
  return content
}

/** Links a file that has this content. @returns undefined when it has not, or is not there. */
async function linkSame(disk: BackupDisk, from: string, to: string, expected: Content, check: Check): Promise<Content | undefined> {
  const there = await disk.files.lstat(from).catch(() => undefined)
  if (there?.isFile() !== true || there.size !== expected.bytes) return undefined
  const content = await disk.content(from, check)
  return content.crc32 === expected.crc32 && (await link(disk, from, to)) ? content : undefined
}
