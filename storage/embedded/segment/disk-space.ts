/** The space that is left for the database. */
import { paths } from '../paths.ts'
import { type FileSystem, realFileSystem } from '../wal/file-system.ts'

/** On all volumes that parts of the data directory are on. */
export function freeBytes(dataDir: string, fs: FileSystem = realFileSystem): number {
  const { wal, segments, catalog } = paths(dataDir)
  return [wal, segments, catalog].reduce((sum, directory) => sum + fs.freeSpace(directory), 0)
}
