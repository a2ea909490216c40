/**
 * Reading the log back. A torn tail (the last frame of the last file is not whole) is what a crash leaves: it was never acknowledged
 * and is cut off. Damage anywhere else is reported with file and offset and stops the start: nothing is guessed or dropped.
 */
import { join } from 'node:path'
import { SvcError } from '../../../kernel/errors.ts'
import type { KeyRing } from '../encryption/keys.ts'
import { walFileName, walFileSequence } from '../paths.ts'
import { crc32c } from './crc32c.ts'
import type { FileSystem } from './file-system.ts'
import { decodeWrite, type WriteRecord } from './record.ts'
import { FILE_MAGIC, FRAME_HEADER, MAX_RECORD } from './wal.ts'

/** The least unit a disk writes whole. */
const SECTOR = 512

export interface ReplayResult {
  /** Highest file number present, 0 when there is none. */
  lastFile: number
  records: number
  rows: number
  bytes: number
  /** Bytes of the torn tail that were left out. */
  torn: number
  /** Of the newest record; -1 when there is none. */
  sequence: number
}

/** Files of the log in order. */
export function walFiles(dir: string, fs: FileSystem): number[] {
  return fs
    .readdirSync(dir)
    .map(walFileSequence)
    .filter((sequence) => sequence !== undefined)
    .sort((a, b) => a - b)
}

/** @param apply takes each record of the files from `firstFile` on, in order. @throws DATABASE_ERROR, ENCRYPTION_KEY_UNAVAILABLE. */
export function replay(dir: string, firstFile: number, fs: FileSystem, apply: (record: WriteRecord, file: number) => void, keys?: KeyRing): ReplayResult {
  const files = walFiles(dir, fs)
  const result: ReplayResult = { lastFile: files.at(-1) ?? 0, records: 0, rows: 0, bytes: 0, torn: 0, sequence: -1 }
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
  fs: FileSystem
  keys: KeyRing | undefined
}

function replayFile({ dir, file, last, fs, keys }: LogFile, apply: (record: WriteRecord, file: number) => void, result: ReplayResult): void {
  const name = walFileName(file)
  const bytes = fs.readFileSync(join(dir, name))
  result.bytes += bytes.length
  const cut = (at: number): void => {
    result.torn += bytes.length - at
    if (at === 0) fs.unlinkSync(join(dir, name))
    else fs.truncateSync(join(dir, name), at)
  }
  if (bytes.length < FILE_MAGIC.length) {
    if (!last) throw corrupt(name, 0, 'the file is shorter than its header')
    result.lastFile--
    return cut(0)
  }
  if (FILE_MAGIC.some((byte, i) => bytes[i] !== byte)) throw corrupt(name, 0, 'it does not begin with SVCWAL01')
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  for (let at = FILE_MAGIC.length; at < bytes.length; ) {
    const fault = frameFault(bytes, view, at)
    if (fault !== undefined) {
      if (last && fault.torn && !ackedBehind(bytes, view, at)) return cut(at)
      throw corrupt(name, at, fault.cause)
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
    apply(record, file)
    result.records++
    for (const table of record.tables) result.rows += table.rows
    at = end
  }
}

/**
 * What is wrong with the frame at `at`. `torn`: it may be what a crash leaves of a write that was never acknowledged: the file ends
 * inside it, or sectors of it were never written and read as zeros. Anything else is damage.
 */
export function frameFault(bytes: Uint8Array, view: DataView, at: number): { torn: boolean; cause: string } | undefined {
  if (bytes.length - at < FRAME_HEADER) return { torn: true, cause: 'the file ends inside a record header' }
  if (crc32c(bytes, at, at + 12) !== view.getUint32(at + 12, true))
    return { torn: hasZeroSector(bytes, at, at + FRAME_HEADER), cause: 'the checksum of a record header does not match' }
  const length = view.getUint32(at, true)
  const end = at + FRAME_HEADER + length
  if (length > MAX_RECORD) return { torn: false, cause: `a record of ${length} bytes is not possible` }
  if (end > bytes.length) return { torn: true, cause: 'the file ends inside a record' }
  if (crc32c(bytes, at + FRAME_HEADER, end) !== view.getUint32(at + 4, true))
    return { torn: hasZeroSector(bytes, at, end), cause: 'the checksum of a record does not match' }
  return undefined
}

/** Whether a disk sector that overlaps [start, end) is all zeros within the file. */
function hasZeroSector(bytes: Uint8Array, start: number, end: number): boolean {
  for (let sector = start - (start % SECTOR); sector < end; sector += SECTOR) {
    const from = Math.max(sector, start)
    const to = Math.min(sector + SECTOR, bytes.length)
    let zero = true
    for (let i = from; i < to && zero; i++) zero = bytes[i] === 0
    if (zero) return true
  }
  return false
}

/** Whether a whole frame after `at` was committed when the bytes at `at` were durable already: then they were acknowledged, and are damaged. */
function ackedBehind(bytes: Uint8Array, view: DataView, at: number): boolean {
  for (let from = at + 1; from + FRAME_HEADER <= bytes.length; from++) {
    const length = view.getUint32(from, true)
    if (length === 0 || length > bytes.length - from - FRAME_HEADER || view.getUint32(from + 8, true) <= at) continue
    if (crc32c(bytes, from, from + 12) === view.getUint32(from + 12, true)) return true
  }
  return false
}

function corrupt(file: string, offset: number, cause: string, error?: unknown): SvcError {
  return new SvcError(
    'DATABASE_ERROR',
    `cannot replay write-ahead log file "${file}" at offset ${offset}: ${cause}; restore the file from a backup, or move it away to start without the writes from there on`,
    { cause: error },
  )
}
