/** The space that is left for the database. */
import { statfsSync } from 'node:fs'
import { paths } from './paths.ts'

/** Bytes that may still be written, on all volumes that parts of the data directory are on. */
export function freeBytes(dataDir: string): number {
  const { wal, segments, catalog } = paths(dataDir)
  return [wal, segments, catalog].reduce((sum, directory) => {
    const { bavail, bsize } = statfsSync(directory)
    return sum + bavail * bsize
  }, 0)
}
