/** The space that is left for the database. */
import { statfsSync } from 'node:fs'
import { paths } from './paths.ts'

/** Bytes that may still be written to the volume a directory is on. */
export function freeSpace(directory: string): number {
  const { bavail, bsize } = statfsSync(directory)
  return bavail * bsize
}

/** On all volumes that parts of the data directory are on. */
export function freeBytes(dataDir: string): number {
  const { wal, segments, catalog } = paths(dataDir)
  return [wal, segments, catalog].reduce((sum, directory) => sum + freeSpace(directory), 0)
}
