/**
 * Reading the log back. A torn tail (the last frame of the last file is not whole) is what a crash leaves: it was never durable
 * and is cut off. Corruption anywhere else is reported with file and offset and stops the start: nothing is guessed or dropped.
 */
import { join } from 'node:path'
import { SvcError } from 'svcdb/lib/errors'
import { crc32c } from 'svcdb/lib/files'
import type { KeyRing } from '../encryption/keys.ts'
import { walFileName, walFileSequence } from '../paths.ts'
import type { LogFileSystem } from './file-system.ts'
import { decodeWrite, type WriteRecord } from './record.ts'
import { BOUNDS, FILE_MAGIC, FRAME_HEADER } from './wal.ts'

/** The least unit a disk writes whole. */
const SECTOR = 512

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
  const bytes = fs.readFileSync(join(dir, name))
  result.bytes += bytes.length
  if (last && isUnbegun(bytes)) {
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
    apply(record, file)
    result.records++
    for (const table of record.tables) result.rows += table.rows
    at = end
  }
  result.unsettled = { at: durable, bytes: bytes.subarray(durable, at) }
}

/**
 * What is wrong with the frame at `at`. `torn`: it may be what a crash leaves of a write that was never acknowledged: the file ends
 * inside it, or sectors of it were never written and read as zeros. Anything else is corruption.
 */
export function frameFault(bytes: Uint8Array, view: DataView, at: number): { torn: boolean; cause: string } | undefined {
  if (bytes.length - at < FRAME_HEADER) return { torn: true, cause: 'the file ends inside a record header' }
  if (crc32c(bytes, at, at + 12) !== view.getUint32(at + 12, true))
    return { torn: hasZeroSector(bytes, at, at + FRAME_HEADER), cause: 'the checksum of a record header does not match' }
  const length = view.getUint32(at, true)
  const end = at + FRAME_HEADER + length
  if (length > BOUNDS.record) return { torn: false, cause: `a record of ${length} bytes is not possible` }
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

/** A file that was made, but whose header was not durable yet: no record can be in it. */
function isUnbegun(bytes: Uint8Array): boolean {
  return bytes.length < FILE_MAGIC.length || (bytes.length === FILE_MAGIC.length && bytes.every((byte) => byte === 0))
}

/**
 * Whether a frame after `at` was written when the bytes at `at` were durable already: then they are corrupt and not torn. From a header that is whole
 * the frames behind it are found by their lengths, so that nothing inside a record is taken for one; behind a header that is not, at any offset.
 */
function ackedBehind(bytes: Uint8Array, view: DataView, at: number): boolean {
  let from = at
  for (let chained = true; from + FRAME_HEADER <= bytes.length; ) {
    const durable = view.getUint32(from + 8, true)
    const telling = durable > at && durable <= from
    if ((chained || telling) && crc32c(bytes, from, from + 12) === view.getUint32(from + 12, true)) {
      if (telling) return true
      from += FRAME_HEADER + view.getUint32(from, true)
    } else {
      chained = false
      from++
    }
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
