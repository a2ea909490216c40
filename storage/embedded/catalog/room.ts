/**
 * Room in the catalog's file for the next commit, taken before LMDB writes: the file is kept longer than its pages, by zeros that LMDB overwrites.
 * LMDB must not meet the end of the disk itself: lmdb 3.5 then writes its message past the end of a buffer, which can kill the process. File systems
 * that copy on write may still refuse; commit.ts takes that as it comes.
 *
 * Call between commits only.
 */
import { type FileSystem, realFileSystem } from '../../common/log/file-system.ts'

/** Of the tree's pages a change rewrites: those from its leaf to the root, of the tree of free pages too, and halves of split ones. */
const PAGES_PER_CHANGE = 12
/** Room beyond what is asked for, so that the file grows seldom, and small commits go on for a while on a full disk. */
const SLACK = 512 << 10
const ZEROS = new Uint8Array(64 << 10)

interface PagesInUse {
  pageSize: number
  pages: number
}

/** The most bytes that a commit of values of these lengths adds. */
function bytesNeeded(lengths: readonly number[], { pageSize, pages }: PagesInUse): number {
  const values = lengths.reduce((sum, length) => sum + Math.ceil(length / pageSize) + 1, 0)
  return (values + Math.min(lengths.length * PAGES_PER_CHANGE, pages + values)) * pageSize
}

/** Bytes that the file has to have for the next commit. */
export function roomFor(lengths: readonly number[], inUse: PagesInUse): number {
  return inUse.pages * inUse.pageSize + bytesNeeded(lengths, inUse)
}

/** @returns how long the file is then. LMDB makes it no shorter. @throws ENOSPC, EDQUOT: the file has what was left, and LMDB nothing to undo. */
export async function takeRoom(file: string, end: number, fs: FileSystem = realFileSystem): Promise<number> {
  const handle = await fs.promises.open(file, 'r+')
  try {
    let { size } = await handle.stat()
    if (size >= end) return size
    while (size < end + SLACK) size += (await handle.write(ZEROS, 0, Math.min(ZEROS.length, end + SLACK - size), size)).bytesWritten
    return size
  } finally {
    await handle.close()
  }
}
