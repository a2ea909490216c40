/** The space of the volume a directory lies on. */
import { statfsSync } from 'node:fs'

/** Bytes that an ordinary user may still write. */
export function freeBytes(directory: string): number {
  const { bavail, bsize } = statfsSync(directory)
  return bavail * bsize
}
