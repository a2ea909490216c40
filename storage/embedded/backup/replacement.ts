/**
 * How a new backup takes the place of an older one in its directory, and what is read where that was cut short.
 *
 * Invariant: from when there is a `former` until the new manifest is in the directory, the new backup is whole and durable, each part of it in the directory
 * or still in the folder that it was made in. Layout: docs/formats/backup.md.
 */
import { join } from 'node:path'
import type { FilePromises } from '../../common/log/file-system.ts'
import { type BackupDisk, exists } from './disk.ts'
import { MANIFEST_FILE, UNFINISHED } from './manifest.ts'

/** In the folder in which a backup is made: where an older one goes. */
const FORMER = 'former'
export const PARTS = ['catalog', 'segments'] as const

interface Layout {
  manifest: string
  /** Where a part lies: the directory, or the folder in which the backup was made. */
  folderOf(path: string): string
}

/** Where what a directory has of a backup lies; where it has none, where it would. */
export async function layoutOf(directory: string, files: FilePromises): Promise<Layout> {
  if (!(await isCutShort(directory, files))) return { manifest: join(directory, MANIFEST_FILE), folderOf: () => directory }
  const room = join(directory, UNFINISHED)
  const inRoom = new Set<string>()
  for (const name of PARTS) if (await exists(join(room, name), files)) inRoom.add(name)
  return { manifest: join(room, MANIFEST_FILE), folderOf: (path) => (inRoom.has(path.slice(0, path.indexOf('/'))) ? room : directory) }
}

/** Whether a new backup is whole and not in its place yet, and no older one is there any more. */
export async function isCutShort(directory: string, files: FilePromises): Promise<boolean> {
  const room = join(directory, UNFINISHED)
  for (const path of [join(room, FORMER), join(room, MANIFEST_FILE)]) if (!(await exists(path, files))) return false
  return !(await exists(join(directory, MANIFEST_FILE), files))
}

/** Moves what was made into its place, each step durable before the next. Nothing is read or written, and no space is needed: names change. */
export async function replace(disk: BackupDisk, directory: string): Promise<void> {
  const { mkdir, rename } = disk.files
  const room = join(directory, UNFINISHED)
  const former = join(room, FORMER)
  const setAside = async (name: string): Promise<void> => {
    if (await exists(join(directory, name), disk.files)) await rename(join(directory, name), join(former, name))
  }
  await mkdir(former, { recursive: true })
  await disk.sync(room)
  await disk.sync(directory)
  await setAside(MANIFEST_FILE)
  await disk.sync(directory)
  for (const name of PARTS) {
    // Not there where this was cut short before.
    if (!(await exists(join(room, name), disk.files))) continue
    await setAside(name)
    await rename(join(room, name), join(directory, name))
  }
  await disk.sync(directory)
  await rename(join(room, MANIFEST_FILE), join(directory, MANIFEST_FILE))
  await disk.sync(directory)
}
