/**
 * Replay, and what makes its result one that later records may build on. A process that was killed leaves records in the page cache that no sync has
 * confirmed. Replay sees them as any others; a power cut after new records were acknowledged would take the old ones away and leave the new.
 *
 * What the last file's own frames do not call durable is written once more before it is synced: a sync that failed in the process before has marked
 * the pages clean, so that another one alone would succeed over what the disk never got. Earlier files were synced before the next one was made; they
 * are synced all the same, since a copied data directory may never have been.
 */
import { join } from 'node:path'
import { SvcError } from 'svcdb/lib/errors'
import { type LogFileSystem, syncDirectory } from '../../common/log/file-system.ts'
import { writeAll } from '../../common/log/write-all.ts'
import type { KeyRing } from '../encryption/keys.ts'
import { walFileName } from '../paths.ts'
import type { WriteRecord } from './record.ts'
import { type ReplayResult, replay } from './replay.ts'

/**
 * Reads the log from `firstFile` on and makes all of it durable: the records, the truncation of a torn tail, the directory.
 * @throws as `replay`; DATABASE_ERROR when the disk does not take it: what was read may not be on it.
 */
export async function recover(
  dir: string,
  firstFile: number,
  fs: LogFileSystem,
  apply: (record: WriteRecord, file: number) => void,
  keys?: KeyRing,
): Promise<ReplayResult> {
  const result = replay(dir, firstFile, fs, apply, keys)
  for (const file of result.files) {
    const name = walFileName(file)
    await orRefuse(`write-ahead log file "${name}"`, () => makeDurable(join(dir, name), fs, file === result.files.at(-1) ? result.unsettled : undefined))
  }
  await orRefuse(`directory "${dir}"`, () => syncDirectory(dir, fs))
  return result
}

async function makeDurable(path: string, fs: LogFileSystem, again: ReplayResult['unsettled'] | undefined): Promise<void> {
  const fd = fs.openSync(path, 'r+')
  try {
    if (again !== undefined && again.bytes.length > 0)
      await new Promise<void>((resolve, reject) => writeAll(fs, fd, again.bytes, again.at, (error) => (error === null ? resolve() : reject(error))))
    fs.fsyncSync(fd)
  } finally {
    fs.closeSync(fd)
  }
}

async function orRefuse(what: string, body: () => void | Promise<void>): Promise<void> {
  try {
    await body()
  } catch (error) {
    const { message } = error as Error
    throw new SvcError('DATABASE_ERROR', `cannot make ${what} durable: ${message}; what was read may not be on the disk: check it, then start again`, {
      cause: error,
    })
  }
}
