/**
 * Makes segment files appear whole or not at all: written under another name, synced, renamed, and the directory synced. A file whose sync
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

/** Files that become part of the database together: a directory is synced once for all that lie in it. Several may be written at the same time. */
export class SegmentFiles {
  private readonly dataDir: string
  private readonly fs: FileSystem
  /** Resolve when their own names are durable. */
  private readonly directories = new Map<string, Promise<void>>()
  private readonly paths: string[] = []

  constructor(dataDir: string, fs: FileSystem = realFileSystem) {
    this.dataDir = dataDir
    this.fs = fs
  }

  /** What it holds is durable when it resolves, its name once `named` has resolved. @returns the file's size. */
  async write(file: string, write: (path: string) => Promise<void>): Promise<number> {
    const { rename, stat } = this.fs.promises
    const target = join(this.dataDir, file)
    const directory = dirname(target)
    const unfinished = target + UNFINISHED
    let made = this.directories.get(directory)
    if (made === undefined) this.directories.set(directory, (made = this.makeDirectory(directory)))
    await made
    this.paths.push(unfinished, target)
    await write(unfinished)
    await syncPath(unfinished, this.fs)
    await rename(unfinished, target)
    return (await stat(target)).size
  }

  /** Makes the names of all files durable. Call when all are written. */
  async named(): Promise<void> {
    for (const directory of this.directories.keys()) await syncPath(directory, this.fs)
  }

  /** Takes all files back. Call when none is being written. */
  async remove(): Promise<void> {
    await removeSegmentFiles(this.paths, this.fs)
  }

  private async makeDirectory(directory: string): Promise<void> {
    // Also when the directory is there: whoever made it may have been killed before this sync.
    await this.fs.promises.mkdir(directory, { recursive: true })
    await syncPath(dirname(directory), this.fs)
  }
}

/** One file alone: durable, with its name, when it resolves. @returns the file's size. */
export async function writeSegmentFile(
  dataDir: string,
  file: string,
  write: (path: string) => Promise<void>,
  fs: FileSystem = realFileSystem,
): Promise<number> {
  const files = new SegmentFiles(dataDir, fs)
  try {
    const bytes = await files.write(file, write)
    await files.named()
    return bytes
  } catch (error) {
    await files.remove()
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
