/** Whether a backup is whole: the manifest, then every file by size and checksum, then that nothing else is there. Changes nothing. */
import { join } from 'node:path'
import { SvcError } from 'svcdb/lib/errors'
import { type BackupDisk, type Check, filesBelow } from './disk.ts'
import { decodeManifest, MANIFEST_FILE, type StoredManifest, UNFINISHED } from './manifest.ts'
import { layoutOf, PARTS } from './replacement.ts'

/**
 * One that was cut short in the middle of taking the place of an older one is read where it lies.
 * @throws INVALID_REQUEST naming the file that is missing, wrong or too many.
 */
export async function verifyBackup(disk: BackupDisk, directory: string, check: Check): Promise<StoredManifest> {
  const { lstat, readFile } = disk.files
  const bad = (why: string) => new SvcError('INVALID_REQUEST', `cannot use backup "${directory}": ${why}`)
  const found = await lstat(directory).catch(() => undefined)
  if (found === undefined) throw bad('there is no such directory; list the directories of the backup root')
  if (!found.isDirectory()) throw bad('it is not a directory; name the directory that the backup was made in')
  const { manifest: manifestFile, folderOf } = await layoutOf(directory, disk.files)
  const bytes = await readFile(manifestFile).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') throw bad(`it has no ${MANIFEST_FILE}: it is not a backup, or one that was never finished; use another`)
    throw error
  })
  const manifest = decodeManifest(bytes, manifestFile)
  // In the folder of another that was to replace it, or that it was made in, are parts of this one at most.
  const there = new Set((await filesBelow(directory, '', disk.files)).filter((file) => !file.startsWith(`${UNFINISHED}/`) && folderOf(file) === directory))
  there.delete(MANIFEST_FILE)
  for (const part of PARTS) if (folderOf(`${part}/`) !== directory) for (const file of await filesBelow(folderOf(`${part}/`), part, disk.files)) there.add(file)
  for (const { path, bytes: expected, crc32 } of manifest.files) {
    check()
    const stat = there.delete(path) ? await lstat(join(folderOf(path), path)) : undefined
    if (stat === undefined) throw bad(`file "${path}" of ${expected} bytes is missing; use another backup`)
    if (!stat.isFile()) throw bad(`"${path}" is not a plain file; use another backup`)
    if (stat.size !== expected) throw bad(`file "${path}" has ${stat.size} bytes, the manifest says ${expected}; use another backup`)
    const content = await disk.content(join(folderOf(path), path), check)
    if (content.crc32 !== crc32 || content.bytes !== expected)
      throw bad(`file "${path}" of ${content.bytes} bytes (expected ${expected}) has checksum ${content.crc32}, the manifest says ${crc32}; use another backup`)
  }
  const [extra] = there
  if (extra !== undefined)
    throw bad(`file "${extra}" of ${(await lstat(join(folderOf(extra), extra))).size} bytes is not in the manifest (expected none); move it away and try again`)
  return manifest
}
