/** Directories that a power cut cannot take: one is there afterwards only if the one above it was synced since. */
import { existsSync } from 'node:fs'
import { dirname } from 'node:path'
import type { FileSystem } from './wal/file-system.ts'

/** The directories above `folder` that making it changes, the nearest first: always one, since an earlier start may have been killed before its sync. */
export function foldersAbove(folder: string): string[] {
  const above = [dirname(folder)]
  for (let last = above[0]; !existsSync(last); last = above[above.length - 1]) above.push(dirname(last))
  return above
}

/** @throws NodeJS.ErrnoException, but not for a directory that this process may not read: it cannot be synced, and was not made here. */
export function syncFolders(fs: Pick<FileSystem, 'openSync' | 'fsyncSync' | 'closeSync'>, folders: readonly string[]): void {
  for (const folder of folders) {
    let fd: number
    try {
      fd = fs.openSync(folder, 'r')
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'EACCES') continue
      throw error
    }
    try {
      fs.fsyncSync(fd)
    } finally {
      fs.closeSync(fd)
    }
  }
}
