/** One file of the queue as it lies on the disk: what it begins with, where it ends, and what a start makes of its end. Layout: docs/formats/forward-queue.md. */
import { join } from 'node:path'
import { crc32c } from 'svcdb/lib/files'
import { ByteReader } from '../common/log/bytes.ts'
import { type FileSystem, syncDirectory } from '../common/log/file-system.ts'
import { ackedBehind, frameFault, isUnbegun } from '../common/log/frames.ts'
import { FRAME_HEADER, type LogForm } from '../common/log/log.ts'
import { writeAll } from '../common/log/write-all.ts'
import { damagedFileName, queueFileName } from './paths.ts'
import { decodeHead, type RecordHead } from './record.ts'

export const QUEUE_FORM: LogForm = { magic: new TextEncoder().encode('SVCFWD01'), fileName: queueFileName }
const MAGIC = QUEUE_FORM.magic.length
/** Of reads that fail: bytes of a page. */
const BLOCK = 4096
/** Blocks that fail, after which the rest of a file is left for later: each can take a disk seconds. */
const FAILING_BLOCKS = 16
/** Errors of the disk, and of no resource that may be there again. */
const UNREADABLE: ReadonlySet<string | undefined> = new Set(['EIO', 'EBADMSG', 'EUCLEAN'])
/** Bytes of the least record, with its frame. */
const LEAST_RECORD = FRAME_HEADER + 8

export const isUnreadable = (error: unknown): boolean => UNREADABLE.has((error as NodeJS.ErrnoException).code)

export interface QueueFile {
  file: number
  bytes: number
  /** Of its first record; undefined while there is none, or it cannot be read. */
  first: RecordHead | undefined
  /** Its last record, where that is known. */
  newest: Pick<RecordHead, 'sequence' | 'takenMs'> | undefined
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

/** Up to about `most` bytes from a record on; one that is larger comes whole. `cut`: the file has fewer bytes than were written to it. */
export async function recordBytes(fs: FileSystem, path: string, start: number, end: number, most: number): Promise<{ bytes: Uint8Array; cut: boolean }> {
  let to = Math.min(end, start + Math.max(most, FRAME_HEADER))
  let bytes = await bytesOf(fs, path, start, to)
  if (bytes.length >= FRAME_HEADER && to < end) {
    const length = FRAME_HEADER + viewOf(bytes).getUint32(0, true)
    if (length > bytes.length && start + length <= end) {
      to = start + length
      bytes = await bytesOf(fs, path, start, to)
    }
  }
  return { bytes, cut: start + bytes.length < to }
}

/** All of a file, with zeros in place of what the disk does not give back; how many bytes those are. */
async function wholeOf(fs: FileSystem, path: string, size: number): Promise<{ bytes: Uint8Array; unread: number }> {
  const read = async (start: number, end: number): Promise<Uint8Array | undefined> =>
    bytesOf(fs, path, start, end).catch((error) => {
      if (!isUnreadable(error)) throw error
      return undefined
    })
  const whole = await read(0, size)
  if (whole !== undefined) return { bytes: whole, unread: 0 }
  const bytes = new Uint8Array(size)
  let unread = 0
  for (let at = 0, failing = 0; at < size; at += BLOCK) {
    const block = failing < FAILING_BLOCKS ? await read(at, Math.min(size, at + BLOCK)) : undefined
    if (block !== undefined) bytes.set(block, at)
    else {
      failing++
      unread += Math.min(size, at + BLOCK) - at
    }
  }
  return { bytes, unread }
}

/**
 * What a file begins with. The head of a damaged first record counts only where the record behind it agrees with it; undefined is better than a wrong number, for what
 * is lost is told by the numbers. @throws what the disk says of anything but bytes that it does not give back.
 */
export async function firstHead(fs: FileSystem, path: string, size: number): Promise<RecordHead | undefined> {
  const first = await firstRecord(fs, path, size)
  if (first !== undefined && first.length <= FRAME_HEADER) return undefined
  if (first !== undefined && frameFault(first, viewOf(first), 0) === undefined) return headOf(first, FRAME_HEADER, first.length)
  const { bytes } = await wholeOf(fs, path, size)
  const at = nextFrame(bytes, viewOf(bytes), MAGIC)
  const next = at >= bytes.length ? undefined : headOf(bytes, at + FRAME_HEADER, bytes.length)
  // The disk may give the bytes back later; those that are damaged stay so.
  if (first === undefined || next === undefined) return next
  const damaged = headOf(first, FRAME_HEADER, first.length)
  const agree = damaged !== undefined && damaged.sequence + 1 === next.sequence && damaged.before + damaged.points === next.before
  return agree ? damaged : undefined
}

/** The bytes of a file's first frame, as far as they are there; undefined where the disk does not give them back. */
async function firstRecord(fs: FileSystem, path: string, size: number): Promise<Uint8Array | undefined> {
  try {
    const header = await bytesOf(fs, path, MAGIC, Math.min(size, MAGIC + FRAME_HEADER))
    if (header.length < FRAME_HEADER) return header
    const length = FRAME_HEADER + viewOf(header).getUint32(0, true)
    return await bytesOf(fs, path, MAGIC, Math.min(size, MAGIC + length))
  } catch (error) {
    if (!isUnreadable(error)) throw error
    return undefined
  }
}

const viewOf = (bytes: Uint8Array): DataView => new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)

interface Settled {
  /** Behind the last record that can be read; undefined without one. */
  end: { sequence: number; points: number } | undefined
  /** How many records there may be behind it, which the disk does not give back now and may later. */
  unread: number
}

/**
 * Finds where the count stands behind a file. Of the newest one the torn tail is cut, and what is before it made durable, for what comes will build on it; where the
 * disk fails to do so, the file is read as it is.
 * @throws what the disk says of anything but bytes that it does not give back.
 */
export async function settle(fs: FileSystem, dir: string, file: QueueFile, newest: boolean, warn: (error: unknown, text: string) => void): Promise<Settled> {
  const path = join(dir, queueFileName(file.file))
  const { bytes, unread } = await wholeOf(fs, path, file.bytes)
  if (unread === 0 && isUnbegun(bytes, QUEUE_FORM.magic)) return { end: undefined, unread: 0 }
  const view = viewOf(bytes)
  let end: { sequence: number; points: number } | undefined
  let durable = 0
  let at = MAGIC
  let behind = MAGIC
  const mend = async (what: string, body: () => unknown): Promise<void> => {
    try {
      await body()
    } catch (error) {
      warn(error, `cannot ${what} ${queueFileName(file.file)} of the queue; what can be read of it is sent`)
    }
  }
  while (at < bytes.length) {
    const fault = frameFault(bytes, view, at)
    if (fault !== undefined) {
      if (newest && unread === 0 && fault.torn && !ackedBehind(bytes, view, at)) {
        await mend('cut the torn end of', () => {
          fs.truncateSync(path, at)
          file.bytes = at
        })
        break
      }
      at = nextFrame(bytes, view, at + 1) // set aside when a sender gets there
      continue
    }
    const next = at + FRAME_HEADER + view.getUint32(at, true)
    const head = headOf(bytes, at + FRAME_HEADER, next)
    file.newest = head ?? file.newest
    if (head !== undefined) end = { sequence: head.sequence + 1, points: head.before + head.points }
    durable = view.getUint32(at + 8, true)
    at = next
    behind = next
  }
  if (newest && unread === 0) await mend('make durable', () => makeDurable(fs, path, bytes.subarray(durable, file.bytes), durable, dir))
  return { end, unread: unread === 0 ? 0 : Math.ceil((bytes.length - behind) / LEAST_RECORD) }
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
    // A look at the length and the header's own checksum spares most of the others.
    const possible = view.getUint32(at, true) <= bytes.length - at - FRAME_HEADER && crc32c(bytes, at, at + 12) === view.getUint32(at + 12, true)
    if (possible && frameFault(bytes, view, at) === undefined) return at
  }
  return bytes.length
}

interface DamagedPlace {
  fs: FileSystem
  damagedDir: string
  events: { damaged(file: string, at: number, bytes: number, cause: string): void; warning(error: unknown, text: string): void }
}

/** Keeps bytes of a file that do not check beside the queue, and tells of them. */
export async function keepDamaged({ fs, damagedDir, events }: DamagedPlace, file: number, offset: number, bytes: Uint8Array, cause: string): Promise<void> {
  try {
    fs.mkdirSync(damagedDir)
    const path = join(damagedDir, damagedFileName(file, offset))
    // Looked at again by another sender, or after a restart: once is enough.
    if (fs.sizeSync(path) !== undefined) return
    const kept = await fs.promises.open(path, 'w')
    await kept.writeFile(bytes).finally(() => kept.close())
    events.damaged(queueFileName(file), offset, bytes.length, cause)
  } catch (error) {
    events.warning(error, 'cannot keep what could not be read of the queue')
  }
}
