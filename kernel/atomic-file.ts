/** Files that are either the old or the new text, whatever happens. */
import { mkdir, open, rename, rm } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'

/**
 * Replaces a file's text, making its directory where there is none: written beside it, synced, renamed, and the directory synced. Readable by the
 * owner only. The caller sees to it that no two run for one file at a time.
 * @throws NodeJS.ErrnoException; the old text is there then, unless only the last sync failed.
 */
export async function replaceFile(path: string, text: string | Uint8Array): Promise<void> {
  const folder = dirname(resolve(path))
  const beside = `${path}.tmp`
  await makeFolder(folder)
  try {
    // What a crash has left may be anybody's to read.
    await rm(beside, { force: true })
    const file = await open(beside, 'wx', 0o600)
    try {
      await file.writeFile(text)
      await file.sync()
    } finally {
      await file.close()
    }
    await rename(beside, path)
  } catch (error) {
    await rm(beside, { force: true }).catch(() => {})
    throw error
  }
  await syncFolder(folder)
}

/**
 * Makes a directory and those above it, for the owner only. New ones are there after a power cut: those above know of them.
 * @throws NodeJS.ErrnoException
 */
export async function makeFolder(path: string): Promise<void> {
  const folder = resolve(path)
  const made = await mkdir(folder, { recursive: true, mode: 0o700 })
  for (let at = folder; made !== undefined && at.length >= made.length; at = dirname(at)) await syncFolder(dirname(at))
}

async function syncFolder(folder: string): Promise<void> {
  const directory = await open(folder, 'r')
  try {
    await directory.sync()
  } finally {
    await directory.close()
  }
}
