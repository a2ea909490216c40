/** The calls the engine's main thread makes to the file system, so that tests and the simulator can put another in their place. */
import {
  chmodSync,
  close,
  closeSync,
  existsSync,
  fdatasync,
  fsyncSync,
  ftruncate,
  openSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  statfsSync,
  statSync,
  truncateSync,
  unlinkSync,
  write,
  writeSync,
} from 'node:fs'
import { link, lstat, mkdir, open, readdir, readFile, realpath, rename, rm, stat, unlink } from 'node:fs/promises'
import { join } from 'node:path'
import { makeDirectory, makeDirectorySync } from 'svcdb/lib/files'

export interface FileSystem {
  openSync(path: string, flags: string): number
  closeSync(fd: number): void
  writeSync(fd: number, bytes: Uint8Array): number
  fsyncSync(fd: number): void
  readdirSync(path: string): string[]
  readFileSync(path: string): Uint8Array
  unlinkSync(path: string): void
  truncateSync(path: string, length: number): void
  existsSync(path: string): boolean
  /** With the directories above it. */
  mkdirSync(path: string): void
  /** Takes a directory away from other accounts; what lies below it is then out of their reach too. */
  ownerOnlySync(path: string): void
  /** Whether other accounts may do anything with a file or directory. */
  openToOthersSync(path: string): boolean
  realpathSync(path: string): string
  /** A file or a whole directory; nothing when there is none. */
  rmSync(path: string): void
  /** undefined when there is none. */
  sizeSync(path: string): number | undefined
  /** Paths of the plain files below a directory, relative to it. */
  filesSync(path: string): string[]
  /** Bytes that may still be written to the volume a directory is on. */
  freeSpace(path: string): number
  write(fd: number, bytes: Uint8Array, offset: number, length: number, position: number, done: (error: Error | null, written: number) => void): void
  fdatasync(fd: number, done: (error: Error | null) => void): void
  ftruncate(fd: number, length: number, done: (error: Error | null) => void): void
  close(fd: number, done: (error?: Error | null) => void): void
  readonly promises: FilePromises
}

export interface FilePromises {
  /** @param mode of a new file; by default its owner's only. */
  open(path: string, flags: string, mode?: number): Promise<OpenFile>
  /** @returns the first directory made, when `recursive`. */
  mkdir(path: string, options?: { recursive?: boolean }): Promise<string | undefined>
  rename(from: string, to: string): Promise<void>
  rm(path: string, options?: { recursive?: boolean; force?: boolean }): Promise<void>
  unlink(path: string): Promise<void>
  link(from: string, to: string): Promise<void>
  stat(path: string): Promise<FileStatus>
  lstat(path: string): Promise<FileStatus>
  readdir(path: string): Promise<DirectoryEntry[]>
  readFile(path: string): Promise<Uint8Array>
  realpath(path: string): Promise<string>
}

export interface OpenFile {
  read(buffer: Uint8Array, offset: number, length: number, position: number): Promise<{ bytesRead: number }>
  write(bytes: Uint8Array, offset: number, length: number, position: number): Promise<{ bytesWritten: number }>
  writeFile(bytes: Uint8Array): Promise<void>
  sync(): Promise<void>
  stat(): Promise<{ size: number }>
  close(): Promise<void>
}

export interface FileStatus {
  size: number
  ino: number
  dev: number
  isFile(): boolean
  isDirectory(): boolean
}

export interface DirectoryEntry {
  name: string
  isDirectory(): boolean
}

/** What the log itself needs. */
export type LogFileSystem = Pick<
  FileSystem,
  'openSync' | 'closeSync' | 'writeSync' | 'fsyncSync' | 'readdirSync' | 'readFileSync' | 'unlinkSync' | 'truncateSync' | 'write' | 'fdatasync' | 'ftruncate'
>

/** Makes the entries of a directory durable: files made, renamed and removed. */
export function syncDirectory(path: string, fs: Pick<FileSystem, 'openSync' | 'fsyncSync' | 'closeSync'>): void {
  const fd = fs.openSync(path, 'r')
  try {
    fs.fsyncSync(fd)
  } finally {
    fs.closeSync(fd)
  }
}

/** What is stored is its owner's only, whatever the umask. */
const OWN_FILE = 0o600
const OWN_DIRECTORY = 0o700

function ownerOnlySync(path: string): void {
  try {
    chmodSync(path, OWN_DIRECTORY)
  } catch (error) {
    // Somebody else's, who has let us write: it is for them to say.
    if ((error as NodeJS.ErrnoException).code !== 'EPERM') throw error
  }
}

export const realFileSystem: FileSystem = {
  openSync: (path, flags) => openSync(path, flags, OWN_FILE),
  closeSync,
  writeSync: (fd, bytes) => writeSync(fd, bytes),
  fsyncSync,
  readdirSync: (path) => readdirSync(path),
  readFileSync: (path) => readFileSync(path),
  unlinkSync,
  truncateSync,
  existsSync,
  mkdirSync: (path) => makeDirectorySync(path, { mode: OWN_DIRECTORY }),
  ownerOnlySync,
  openToOthersSync: (path) => (statSync(path).mode & 0o077) !== 0,
  realpathSync: (path) => realpathSync(path),
  rmSync: (path) => rmSync(path, { recursive: true, force: true }),
  sizeSync: (path) => statSync(path, { throwIfNoEntry: false })?.size,
  filesSync: (path) =>
    readdirSync(path, { recursive: true, withFileTypes: true }).flatMap((entry) =>
      entry.isFile() ? [join(entry.parentPath, entry.name).slice(path.length + 1)] : [],
    ),
  freeSpace(path) {
    const { bavail, bsize } = statfsSync(path)
    return bavail * bsize
  },
  write: (fd, bytes, offset, length, position, done) => write(fd, bytes, offset, length, position, done),
  fdatasync,
  ftruncate: (fd, length, done) => ftruncate(fd, length, done),
  close: (fd, done) => close(fd, done),
  promises: {
    open: (path, flags, mode = OWN_FILE) => open(path, flags, mode),
    async mkdir(path, options) {
      if (options?.recursive) return await makeDirectory(path, { mode: OWN_DIRECTORY })
      await mkdir(path, { mode: OWN_DIRECTORY })
      return undefined
    },
    rename,
    rm,
    unlink,
    link,
    stat: (path) => stat(path),
    lstat: (path) => lstat(path),
    readdir: (path) => readdir(path, { withFileTypes: true }),
    readFile: (path) => readFile(path),
    realpath: (path) => realpath(path),
  },
}
