/** The calls the WAL makes, so that tests can put faults in their place. */
import { close, closeSync, fdatasync, fsyncSync, ftruncate, openSync, readdirSync, readFileSync, truncateSync, unlinkSync, write, writeSync } from 'node:fs'

export interface FileSystem {
  openSync(path: string, flags: string): number
  closeSync(fd: number): void
  writeSync(fd: number, bytes: Uint8Array): number
  fsyncSync(fd: number): void
  readdirSync(path: string): string[]
  readFileSync(path: string): Uint8Array
  unlinkSync(path: string): void
  truncateSync(path: string, length: number): void
  write(fd: number, bytes: Uint8Array, offset: number, length: number, position: number, done: (error: Error | null, written: number) => void): void
  fdatasync(fd: number, done: (error: Error | null) => void): void
  ftruncate(fd: number, length: number, done: (error: Error | null) => void): void
  close(fd: number, done: (error?: Error | null) => void): void
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

export const realFileSystem: FileSystem = {
  openSync: (path, flags) => openSync(path, flags),
  closeSync,
  writeSync: (fd, bytes) => writeSync(fd, bytes),
  fsyncSync,
  readdirSync: (path) => readdirSync(path),
  readFileSync: (path) => readFileSync(path),
  unlinkSync,
  truncateSync,
  write: (fd, bytes, offset, length, position, done) => write(fd, bytes, offset, length, position, done),
  fdatasync,
  ftruncate: (fd, length, done) => ftruncate(fd, length, done),
  close: (fd, done) => close(fd, done),
}
