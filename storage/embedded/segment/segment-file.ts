/**
 * Makes a segment file appear whole or not at all: written under another name, synced, renamed, and the directory synced. A file whose sync
 * failed is never used: the pages may be gone although a second sync would succeed. Whoever tries again writes a new one.
 */
import { dirname, join } from 'node:path'
import { type FileSystem, realFileSystem } from '../../common/log/file-system.ts'
import { segmentFile } from '../threads/segment-entry.ts'

const HOUR_NS = 3_600_000_000_000n
const UNFINISHED = '.tmp'

/** The path below the data directory of a segment whose oldest row has this time. */
export function segmentPath(id: number, minTime: bigint): string {
  const shard = minTime >= 0n ? minTime / HOUR_NS : -((-minTime + HOUR_NS - 1n) / HOUR_NS)
  return segmentFile(Number(shard), id)
}

/** @returns the file's size. */
export async function writeSegmentFile(
  dataDir: string,
  file: string,
  write: (path: string) => Promise<void>,
  fs: FileSystem = realFileSystem,
): Promise<number> {
  const { mkdir, rename, stat } = fs.promises
  const target = join(dataDir, file)
  const directory = dirname(target)
  const unfinished = target + UNFINISHED
  // Also when the directory is there: whoever made it may have been killed before this sync.
  await mkdir(directory, { recursive: true })
  await syncPath(dirname(directory), fs)
  try {
    await write(unfinished)
    await syncPath(unfinished, fs)
    await rename(unfinished, target)
    await syncPath(directory, fs)
    return (await stat(target)).size
  } catch (error) {
    await removeSegmentFiles([unfinished, target], fs)
    throw error
  }
}

/** Takes back files that no catalog entry names; what cannot be removed, the next start removes. */
export async function removeSegmentFiles(paths: readonly string[], fs: FileSystem = realFileSystem): Promise<void> {
  for (const path of paths) await fs.promises.rm(path, { force: true }).catch(() => {})
}

async function syncPath(path: string, fs: FileSystem): Promise<void> {
  const handle = await fs.promises.open(path, 'r')
  try {
    await handle.sync()
  } finally {
    await handle.close()
  }
}
