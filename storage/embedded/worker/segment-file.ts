/** Makes a segment file appear whole or not at all: written under another name, synced, renamed, and the directory synced. */
import { mkdir, open, rename, rm, stat } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { segmentFile } from '../layout.ts'

const HOUR_NS = 3_600_000_000_000n
const UNFINISHED = '.tmp'

/** The path below the data directory of a segment whose oldest row has this time. */
export function segmentPath(id: number, minTime: bigint): string {
  const shard = minTime >= 0n ? minTime / HOUR_NS : -((-minTime + HOUR_NS - 1n) / HOUR_NS)
  return segmentFile(Number(shard), id)
}

/** @returns the file's size. */
export async function writeSegmentFile(dataDir: string, file: string, write: (path: string) => Promise<void>): Promise<number> {
  const target = join(dataDir, file)
  const directory = dirname(target)
  const unfinished = target + UNFINISHED
  if ((await mkdir(directory, { recursive: true })) !== undefined) await syncPath(dirname(directory))
  try {
    await write(unfinished)
    await syncPath(unfinished)
    await rename(unfinished, target)
  } catch (error) {
    await rm(unfinished, { force: true })
    throw error
  }
  await syncPath(directory)
  return (await stat(target)).size
}

async function syncPath(path: string): Promise<void> {
  const handle = await open(path, 'r')
  try {
    await handle.sync()
  } finally {
    await handle.close()
  }
}
