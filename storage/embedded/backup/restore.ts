/**
 * Makes a data directory out of a backup: verified first, built beside the target, renamed into place last. Segments are linked where that is
 * possible: nobody changes them in place. The catalog is changed in place and is copied.
 */
import { dirname, join } from 'node:path'
import { SvcError } from 'svcdb/lib/errors'
import { type Environment, realEnvironment } from '../environment.ts'
import { type BackupDisk, type Check, eachOf, exists, foldersAbove, link, syncFolders } from './disk.ts'
import type { BackupFile, StoredManifest } from './manifest.ts'
import { layoutOf } from './replacement.ts'
import { verifyBackup } from './verify.ts'

/** @throws INVALID_REQUEST when the target exists or the backup is not whole. Whatever fails, nothing is left of the target. */
export async function restoreBackup(
  disk: BackupDisk,
  directory: string,
  target: string,
  check: Check,
  random: Environment['random'] = realEnvironment.random,
): Promise<StoredManifest> {
  const { mkdir, rename, rm } = disk.files
  await refuseExisting(disk, target)
  const manifest = await verifyBackup(disk, directory, check)
  const { folderOf } = await layoutOf(directory, disk.files)
  const above = await foldersAbove(target, disk.files)
  await mkdir(dirname(target), { recursive: true })
  const unfinished = `${target}.restoring-${random(4).toString('hex')}`
  let made = unfinished
  try {
    await mkdir(unfinished)
    await eachOf(manifest.files, async (file) => {
      check()
      await mkdir(join(unfinished, dirname(file.path)), { recursive: true })
      await restoreFile(disk, join(folderOf(file.path), file.path), join(unfinished, file.path), directory, file, check)
    })
    // The places of a data directory that a backup has nothing for; with them nobody takes it for a backup.
    for (const name of ['segments', 'wal']) await mkdir(join(unfinished, name), { recursive: true })
    await syncFolders(disk, unfinished, [...manifest.files.map(({ path }) => path), 'segments/any', 'wal/any'])
    await refuseExisting(disk, target)
    await rename(unfinished, target)
    made = target
    for (const folder of above) await disk.sync(folder)
    return manifest
  } catch (error) {
    // Where even that fails the rest stays; the caller is told what failed first.
    await rm(made, { recursive: true, force: true }).catch(() => {})
    throw error
  }
}

async function restoreFile(disk: BackupDisk, from: string, to: string, directory: string, { path, bytes, crc32 }: BackupFile, check: Check): Promise<void> {
  const linked = path.startsWith('segments/') && (await link(disk, from, to))
  const copied = linked ? undefined : await disk.copy(from, to, check)
  if (copied !== undefined && (copied.bytes !== bytes || copied.crc32 !== crc32))
    throw new SvcError(
      'INVALID_REQUEST',
      `cannot use backup "${directory}": file "${path}" changed while it was copied (${copied.bytes} bytes, expected ${bytes})`,
    )
}

async function refuseExisting({ files }: BackupDisk, target: string): Promise<void> {
  if (await exists(target, files)) throw new SvcError('INVALID_REQUEST', `cannot restore to "${target}": it exists; name a directory that does not`)
}
