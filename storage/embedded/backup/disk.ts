/** The file operations of backups, so that tests can put faults in their place, and what their failures are to a caller. */
import { basename, dirname, isAbsolute, join, relative } from 'node:path'
import { crc32 } from 'node:zlib'
import { classify, SvcError } from 'svcdb/lib/errors'
import { type FilePromises, realFileSystem } from '../../common/log/file-system.ts'
import { hex } from './manifest.ts'

/** A read of this size and its checksum hold the main loop for well under a millisecond. */
const CHUNK = 1 << 20
/** Files under way together: one is read while another is synced (1.7 times one alone), and the log keeps half of libuv's threads. */
const AT_ONCE = 2

export interface Content {
  bytes: number
  crc32: string
}

/** `check` is called now and then and throws when the work is to end. */
export type Check = () => void

export interface BackupDisk {
  /** For what needs no faults of its own. */
  readonly files: FilePromises
  /** @throws EEXIST: nothing is overwritten. */
  link(from: string, to: string): Promise<void>
  /** Copies and syncs. */
  copy(from: string, to: string, check: Check): Promise<Content>
  content(path: string, check: Check): Promise<Content>
  /** Makes a file, or the names in a directory, durable. */
  sync(path: string): Promise<void>
  /** Writes a new file and syncs it. */
  write(path: string, bytes: Uint8Array): Promise<void>
}

export const backupDisk = (files: FilePromises): BackupDisk => ({
  files,
  link: (from, to) => files.link(from, to),
  copy: (from, to, check) => read(files, from, check, to),
  content: (path, check) => read(files, path, check),
  async sync(path) {
    const handle = await files.open(path, 'r')
    try {
      await handle.sync()
    } finally {
      await handle.close()
    }
  },
  async write(path, bytes) {
    const handle = await files.open(path, 'wx', 0o600)
    try {
      await handle.writeFile(bytes)
      await handle.sync()
    } finally {
      await handle.close()
    }
  },
})

export const realDisk: BackupDisk = backupDisk(realFileSystem.promises)

async function read(files: FilePromises, path: string, check: Check, copyTo?: string): Promise<Content> {
  const from = await files.open(path, 'r')
  try {
    const to = copyTo === undefined ? undefined : await files.open(copyTo, 'wx', 0o600)
    try {
      const buffer = Buffer.allocUnsafe(CHUNK)
      let bytes = 0
      let crc = 0
      for (;;) {
        check()
        const { bytesRead } = await from.read(buffer, 0, CHUNK, bytes)
        if (bytesRead === 0) break
        crc = crc32(buffer.subarray(0, bytesRead), crc)
        for (let at = 0; to !== undefined && at < bytesRead; ) at += (await to.write(buffer, at, bytesRead - at, bytes + at)).bytesWritten
        bytes += bytesRead
      }
      await to?.sync()
      return { bytes, crc32: hex(crc) }
    } finally {
      await to?.close()
    }
  } finally {
    await from.close()
  }
}

const NO_LINK = new Set(['EXDEV', 'EPERM', 'EMLINK', 'ENOTSUP', 'EOPNOTSUPP', 'ENOSYS'])

/** Links a file that nobody will ever change. @returns false where the file systems cannot. */
export async function link(disk: BackupDisk, from: string, to: string): Promise<boolean> {
  try {
    await disk.link(from, to)
    return true
  } catch (error) {
    if (!NO_LINK.has((error as NodeJS.ErrnoException).code ?? '')) throw error
    return false
  }
}

/** Works on a few items at a time; when it returns or throws, nothing of it runs any more. */
export async function eachOf<T>(items: readonly T[], work: (item: T, index: number) => Promise<void>): Promise<void> {
  let next = 0
  const worker = async (): Promise<void> => {
    while (next < items.length) {
      const index = next++
      try {
        await work(items[index], index)
      } catch (error) {
        next = items.length
        throw error
      }
    }
  }
  for (const end of await Promise.allSettled(Array.from({ length: AT_ONCE }, worker))) if (end.status === 'rejected') throw end.reason
}

/** Files below a directory, relative to it; a link to elsewhere counts as a file and is not followed. */
export async function filesBelow(directory: string, prefix = '', disk: FilePromises = realFileSystem.promises): Promise<string[]> {
  const files: string[] = []
  const folders = [prefix]
  for (let folder = folders.pop(); folder !== undefined; folder = folders.pop()) {
    for (const entry of await disk.readdir(join(directory, folder))) {
      const path = folder === '' ? entry.name : `${folder}/${entry.name}`
      const list = entry.isDirectory() ? folders : files
      list.push(path)
    }
  }
  return files
}

/** Makes the names of all these files durable: their directories, up to and with `root`. */
export async function syncFolders(disk: BackupDisk, root: string, files: readonly string[]): Promise<void> {
  const folders = new Set<string>()
  for (const file of files) for (let folder = dirname(file); folder !== '.'; folder = dirname(folder)) folders.add(folder)
  for (const folder of folders) await disk.sync(join(root, folder))
  await disk.sync(root)
}

/** Those that name a directory to be made, or a folder above it that is made with it: unless all are synced, a power cut takes it away. */
export async function foldersAbove(directory: string, disk: FilePromises): Promise<string[]> {
  const folders = [dirname(directory)]
  for (let at = dirname(directory); !(await exists(at, disk)); at = dirname(at)) folders.push(dirname(at))
  return folders
}

export async function exists(path: string, disk: FilePromises): Promise<boolean> {
  return disk.lstat(path).then(
    () => true,
    (error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT' || error.code === 'ENOTDIR') return false
      throw error
    },
  )
}

/** The path with every symbolic link in its existing part resolved. */
export async function resolved(path: string, disk: FilePromises): Promise<string> {
  try {
    return await disk.realpath(path)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT' || dirname(path) === path) throw error
    return join(await resolved(dirname(path), disk), basename(path))
  }
}

/** Whether `path` is `folder` or lies in it; both resolved. */
export function within(folder: string, path: string): boolean {
  const way = relative(folder, path)
  return way === '' || !(way === '..' || way.startsWith('../') || isAbsolute(way))
}

/** What the caller of the service can put right by choosing another directory. */
const CALLERS = new Set(['EACCES', 'EPERM', 'EROFS', 'ENOTDIR', 'ENAMETOOLONG', 'ELOOP', 'ENOENT'])

/** @param what "make backup "/x"". @param where what is made lies. */
export function backupFault(what: string, where: string, error: unknown): SvcError {
  const known = classify(error)
  const { code = '', message } = error as NodeJS.ErrnoException
  if (error instanceof SvcError) return known
  // Backups lie on another volume than the data, where they are any good.
  if (known.code === 'STORAGE_FULL')
    return new SvcError('STORAGE_FULL', `cannot ${what}: no space left on the volume of "${where}"; free space there and retry`, { cause: error })
  if (code === '') return known
  if (CALLERS.has(code)) return new SvcError('INVALID_REQUEST', `cannot ${what}: ${message}; choose a directory that the server may write`, { cause: error })
  return new SvcError('IO_ERROR', `cannot ${what}: ${message}; see whether the disk is sound`, { cause: error })
}
