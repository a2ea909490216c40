/** One file of the queue as it lies on the disk: what it begins with, where it ends, and what a start makes of its end. Layout: docs/formats/forward-queue.md. */
import { join } from 'node:path'
import { ByteReader } from '../common/log/bytes.ts'
import { type FileSystem, syncDirectory } from '../common/log/file-system.ts'
import { ackedBehind, frameFault, isUnbegun } from '../common/log/frames.ts'
import { FRAME_HEADER, type LogForm } from '../common/log/log.ts'
import { writeAll } from '../common/log/write-all.ts'
import { queueFileName } from './paths.ts'
import { decodeHead, type RecordHead } from './record.ts'

export const QUEUE_FORM: LogForm = { magic: new TextEncoder().encode('SVCFWD01'), fileName: queueFileName }
const MAGIC = QUEUE_FORM.magic.length
/** Of a file, read at the start to know what it begins with; a namespace has 255 bytes at most. */
const FIRST_BYTES = 512

export interface QueueFile {
  file: number
  bytes: number
  /** Of its first record; undefined while there is none, or it cannot be read. */
  first: RecordHead | undefined
  /** When its last record was taken, where that is known. */
  newestMs: number | undefined
}

/** Fewer bytes where the file ends, none where it is gone. */
export async function bytesOf(fs: FileSystem, path: string, start: number, end: number): Promise<Uint8Array> {
  const buffer = Buffer.alloc(Math.max(0, end - start))
  const handle = await fs.promises.open(path, 'r').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return undefined
    throw error
  })
  if (handle === undefined) return buffer.subarray(0, 0)
  try {
    let length = 0
    while (length < buffer.length) {
      const { bytesRead } = await handle.read(buffer, length, buffer.length - length, start + length)
      if (bytesRead === 0) break
      length += bytesRead
    }
    return buffer.subarray(0, length)
  } finally {
    await handle.close()
  }
}

export async function firstHead(fs: FileSystem, path: string): Promise<RecordHead | undefined> {
  const bytes = await bytesOf(fs, path, 0, FIRST_BYTES)
  return bytes.length <= MAGIC + FRAME_HEADER ? undefined : headOf(bytes, MAGIC + FRAME_HEADER, bytes.length)
}

/**
 * Finds where the count stands behind a file. Of the newest one the torn tail is cut, and what is before it made durable, for what comes will build on it.
 * @returns undefined for a file without a record. @throws what the disk says.
 */
export async function settle(fs: FileSystem, dir: string, file: QueueFile, newest: boolean): Promise<{ sequence: number; points: number } | undefined> {
  const path = join(dir, queueFileName(file.file))
  const bytes = await bytesOf(fs, path, 0, file.bytes)
  if (isUnbegun(bytes, QUEUE_FORM.magic)) return undefined
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  let end: { sequence: number; points: number } | undefined
  let durable = 0
  let at = MAGIC
  while (at < bytes.length) {
    const fault = frameFault(bytes, view, at)
    if (fault !== undefined) {
      if (newest && fault.torn && !ackedBehind(bytes, view, at)) {
        fs.truncateSync(path, at)
        file.bytes = at
        break
      }
      at = nextFrame(bytes, view, at + 1) // set aside when a sender gets there
      continue
    }
    const next = at + FRAME_HEADER + view.getUint32(at, true)
    const head = headOf(bytes, at + FRAME_HEADER, next)
    file.newestMs = head?.takenMs ?? file.newestMs
    if (head !== undefined) end = { sequence: head.sequence + 1, points: head.before + head.points }
    durable = view.getUint32(at + 8, true)
    at = next
  }
  if (newest) await makeDurable(fs, path, bytes.subarray(durable, file.bytes), durable, dir)
  return end
}

/** Written once more before it is synced: a sync that failed in the process before has marked the pages clean. */
async function makeDurable(fs: FileSystem, path: string, again: Uint8Array, at: number, dir: string): Promise<void> {
  const fd = fs.openSync(path, 'r+')
  try {
    if (again.length > 0) await new Promise<void>((resolve, reject) => writeAll(fs, fd, again, at, (error) => (error === null ? resolve() : reject(error))))
    fs.fsyncSync(fd)
  } finally {
    fs.closeSync(fd)
  }
  syncDirectory(dir, fs)
}

function headOf(bytes: Uint8Array, start: number, end: number): RecordHead | undefined {
  try {
    return decodeHead(new ByteReader(bytes, start, end))
  } catch {
    return undefined
  }
}

/** Where the next frame that is whole begins, or the end. */
export function nextFrame(bytes: Uint8Array, view: DataView, from: number): number {
  for (let at = from; at + FRAME_HEADER < bytes.length; at++) {
    // A look at the length spares most of the checksums.
    if (view.getUint32(at, true) <= bytes.length - at - FRAME_HEADER && frameFault(bytes, view, at) === undefined) return at
  }
  return bytes.length
}
