/** The space that is left for the database. */

import { type FileSystem, realFileSystem } from '../../common/log/file-system.ts'
import { paths } from '../paths.ts'

/** On all volumes that parts of the data directory are on. */
export function freeBytes(dataDir: string, fs: FileSystem = realFileSystem): number {
  const { wal, segments, catalog } = paths(dataDir)
  return [wal, segments, catalog].reduce((sum, directory) => sum + fs.freeSpace(directory), 0)
}
