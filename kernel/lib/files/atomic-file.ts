/** Files that are either the old or the new text, whatever happens. */
import { open, rename, rm } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'
import { makeDirectory } from './make-directory.ts'

/** The calls that are made, so that tests can see their order and put faults in their place. */
export interface FileCalls {
  /** With the directories above it. @returns the first that was made. */
  mkdir(path: string, options: { mode: number }): Promise<string | undefined>
  open(
    path: string,
    flags: string,
    mode?: number,
  ): Promise<{ writeFile(text: string | Uint8Array): Promise<void>; sync(): Promise<void>; close(): Promise<void> }>
  rename(from: string, to: string): Promise<void>
  rm(path: string, options: { force: true }): Promise<void>
}

/** The calls of the file system itself. */
export const realFileCalls: FileCalls = { mkdir: makeDirectory, open, rename, rm }

/**
 * Replaces a file's text, making its directory where there is none: written beside it, synced, renamed, and the directory synced. Readable by the
 * owner only. The caller sees to it that no two run for one file at a time.
 * @throws NodeJS.ErrnoException; the old text is there then, unless only the last sync failed.
 */
export async function replaceFile(path: string, text: string | Uint8Array, calls: FileCalls = realFileCalls): Promise<void> {
  const folder = dirname(resolve(path))
  const beside = `${path}.tmp`
  await makeFolder(folder, calls)
  try {
    // What a crash has left may be anybody's to read.
    await calls.rm(beside, { force: true })
    const file = await calls.open(beside, 'wx', 0o600)
    try {
      await file.writeFile(text)
      await file.sync()
    } finally {
      await file.close()
    }
    await calls.rename(beside, path)
  } catch (error) {
    await calls.rm(beside, { force: true }).catch(() => {})
    throw error
  }
  await syncFolder(folder, calls)
}

/**
 * Makes a directory and those above it, for the owner only unless `mode` says otherwise. New ones are there after a power cut: those above know of them.
 * @throws NodeJS.ErrnoException
 */
export async function makeFolder(path: string, calls: FileCalls = realFileCalls, mode = 0o700): Promise<void> {
  const folder = resolve(path)
  const made = await calls.mkdir(folder, { mode })
  for (let at = folder; made !== undefined && at.length >= made.length; at = dirname(at)) await syncFolder(dirname(at), calls)
}

/** Makes the names in a directory durable: what was made, renamed and removed in it. */
export async function syncFolder(folder: string, calls: FileCalls = realFileCalls): Promise<void> {
  const directory = await calls.open(folder, 'r')
  try {
    await directory.sync()
  } finally {
    await directory.close()
  }
}
