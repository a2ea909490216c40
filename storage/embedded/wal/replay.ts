/**
 * Reading the log back. A torn tail (the last frame of the last file is not whole) is what a crash leaves: it was never durable
 * and is cut off. Corruption anywhere else is reported with file and offset and stops the start: nothing is guessed or dropped.
 */
import { join } from 'node:path'
import { SvcError } from 'svcdb/lib/errors'
import type { LogFileSystem } from '../../common/log/file-system.ts'
import { ackedBehind, frameFault, isUnbegun } from '../../common/log/frames.ts'
import { FRAME_HEADER } from '../../common/log/log.ts'
import type { KeyRing } from '../encryption/keys.ts'
import { walFileName, walFileSequence } from '../paths.ts'
import { FILE_MAGIC } from './form.ts'
import { decodeWrite, type WriteRecord } from './record.ts'

export interface ReplayResult {
  /** Highest number of a file that was begun, 0 when there is none. */
  lastFile: number
  records: number
  rows: number
  bytes: number
  /** Bytes of the torn tail that were left out. */
  torn: number
  /** Of the newest record; -1 when there is none. */
  sequence: number
  /** The files read. */
  files: number[]
  /** Of the last of them: what its own frames do not say is durable. */
  unsettled: { at: number; bytes: Uint8Array }
}

/** Files of the log in order. */
export function walFiles(dir: string, fs: LogFileSystem): number[] {
  return fs
    .readdirSync(dir)
    .map(walFileSequence)
    .filter((sequence) => sequence !== undefined)
    .sort((a, b) => a - b)
}

/** @param apply takes each record of the files from `firstFile` on, in order. @throws DATABASE_ERROR, ENCRYPTION_KEY_UNAVAILABLE. */
export function replay(dir: string, firstFile: number, fs: LogFileSystem, apply: (record: WriteRecord, file: number) => void, keys?: KeyRing): ReplayResult {
  const files = walFiles(dir, fs)
  const result: ReplayResult = {
    lastFile: files.at(-1) ?? 0,
    records: 0,
    rows: 0,
    bytes: 0,
    torn: 0,
    sequence: -1,
    files: [],
    unsettled: { at: 0, bytes: new Uint8Array(0) },
  }
  const wanted = files.filter((file) => file >= firstFile)
  for (const [i, file] of wanted.entries()) {
    if (file !== firstFile + i) throw corrupt(walFileName(file), 0, `the file before it, ${walFileName(firstFile + i)}, is missing`)
    replayFile({ dir, file, last: i === wanted.length - 1, fs, keys }, apply, result)
  }
  return result
}

interface LogFile {
  dir: string
  file: number
  last: boolean
  fs: LogFileSystem
  keys: KeyRing | undefined
}

function replayFile({ dir, file, last, fs, keys }: LogFile, apply: (record: WriteRecord, file: number) => void, result: ReplayResult): void {
  const name = walFileName(file)
  const bytes = contentOf(dir, name, fs)
  result.bytes += bytes.length
  if (last && isUnbegun(bytes, FILE_MAGIC)) {
    // It stays: the next file to be begun has its number, and takes it over.
    result.lastFile--
    return
  }
  if (bytes.length < FILE_MAGIC.length) throw corrupt(name, 0, 'the file is shorter than its header')
  result.files.push(file)
  if (FILE_MAGIC.some((byte, i) => bytes[i] !== byte)) throw corrupt(name, 0, 'it does not begin with SVCWAL01')
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  let durable = 0
  let at = FILE_MAGIC.length
  while (at < bytes.length) {
    const fault = frameFault(bytes, view, at)
    if (fault !== undefined) {
      if (!last || !fault.torn || ackedBehind(bytes, view, at)) throw corrupt(name, at, fault.cause)
      result.torn += bytes.length - at
      fs.truncateSync(join(dir, name), at)
      break
    }
    const end = at + FRAME_HEADER + view.getUint32(at, true)
    let record: WriteRecord
    try {
      record = decodeWrite(bytes, at + FRAME_HEADER, end, keys)
    } catch (error) {
      if (error instanceof SvcError) throw new SvcError(error.code, `cannot replay write-ahead log file "${name}": ${error.message}`, { cause: error })
      throw corrupt(name, at, `the record cannot be decoded: ${(error as Error).message}`, error)
    }
    // Also when one file has taken another one's place.
    if (record.sequence <= result.sequence) throw corrupt(name, at, `record ${record.sequence} comes after record ${result.sequence}`)
    result.sequence = record.sequence
    durable = view.getUint32(at + 8, true)
    try {
      apply(record, file)
    } catch (error) {
      // As of a catalog that is another database's, or older than the log.
      throw error instanceof SvcError ? error : corrupt(name, at, `the record does not go with what is stored: ${(error as Error).message}`, error)
    }
    result.records++
    for (const table of record.tables) result.rows += table.rows
    at = end
  }
  result.unsettled = { at: durable, bytes: bytes.subarray(durable, at) }
}

/** @throws IO_ERROR: what a read fails with does not say of which file, as what an open fails with does. */
function contentOf(dir: string, name: string, fs: LogFileSystem): Uint8Array {
  try {
    return fs.readFileSync(join(dir, name))
  } catch (error) {
    const { path, message } = error as NodeJS.ErrnoException
    if (path !== undefined) throw error
    const hint = 'see whether the disk is sound; restore the data directory from a backup if it is not'
    throw new SvcError('IO_ERROR', `cannot read write-ahead log file "${name}": ${message}; ${hint}`, { cause: error })
  }
}

function corrupt(file: string, offset: number, cause: string, error?: unknown): SvcError {
  return new SvcError(
    'DATABASE_ERROR',
    `cannot replay write-ahead log file "${file}" at offset ${offset}: ${cause}; restore the file from a backup, or move it away to start without the writes from there on`,
    { cause: error },
  )
}
