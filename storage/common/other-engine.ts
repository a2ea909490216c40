/** What another engine has left in a data directory: its points are not served by the one that opens it, and whoever changed the engine should know. */
import { join } from 'node:path'
import type { StorageContext } from 'svcdb'
import type { FileSystem } from './log/file-system.ts'

/** Of log files: they begin with so many bytes, whether or not records follow. */
const MAGIC_BYTES = 8

const ENGINES = [
  { engine: 'embedded', holds: 'points', folders: ['wal', 'segments'] },
  { engine: 'forward', holds: 'points that its upstream may not have yet', folders: ['queue'] },
]

/** @param own the engine that opens the directory. */
export function warnOfOtherEngine(
  own: string,
  dataDir: string,
  fs: Pick<FileSystem, 'existsSync' | 'filesSync' | 'sizeSync'>,
  log: StorageContext['log'],
): void {
  const holdsRecords = (folder: string): boolean =>
    fs.existsSync(folder) && fs.filesSync(folder).some((name) => (fs.sizeSync(join(folder, name)) ?? 0) > MAGIC_BYTES)
  for (const { engine, holds, folders } of ENGINES) {
    if (engine === own || !folders.some((folder) => holdsRecords(join(dataDir, folder)))) continue
    log.warn(
      { data_dir: dataDir },
      `the data directory holds ${holds}, of the engine "${engine}": "${own}" leaves them as they are; start with [database] engine = "${engine}" to have them`,
    )
  }
}
