/**
 * What this process knows of each segment, in memory that all threads share: an Int32 a segment number. Numbers beyond the end are trusted, so
 * that only a segment that was there at the start, or one found corrupt, needs an entry.
 */

import { join } from 'node:path'
import { SvcError } from 'svcdb/lib/errors'
import { type FileSystem, realFileSystem } from '../../common/log/file-system.ts'
import type { SegmentMeta } from '../threads/segment-entry.ts'
import { fileCrc } from './file-crc.ts'

export const Trust = {
  /** Written by this process, or not to be checked. */
  TRUSTED: 0,
  UNVERIFIED: 1,
  CHECKING: 2,
  VERIFIED: 3,
  CORRUPT: 4,
} as const

/** Segment numbers that can have an entry; the memory is taken as it is needed. */
const MAX_SEGMENTS = 1 << 26

export function trustArray(segments: number): Int32Array {
  return new Int32Array(new SharedArrayBuffer(segments * 4, { maxByteLength: MAX_SEGMENTS * 4 }))
}

export function trustOf(trust: Int32Array, segment: number): number {
  return segment < trust.length ? Atomics.load(trust, segment) : Trust.TRUSTED
}

/** Main thread only. */
export function setTrust(trust: Int32Array, segment: number, value: number): void {
  if (segment >= trust.length) (trust.buffer as SharedArrayBuffer).grow((segment + 1) * 4)
  Atomics.store(trust, segment, value)
}

export function corruptSegment(file: string, cause: string): SvcError {
  return new SvcError('DATABASE_ERROR', `cannot read segment file "${file}": ${cause}; stop the server, restore the file from a backup, and start again`)
}

/** What is wrong with a segment's file, if anything. @throws what has to do with the machine rather than the file, such as too many open files. */
export async function segmentFault(
  dataDir: string,
  segment: Pick<SegmentMeta, 'file' | 'bytes' | 'crc'>,
  pause?: (bytes: number) => Promise<void> | undefined,
  fs: FileSystem = realFileSystem,
): Promise<string | undefined> {
  try {
    const { crc, bytes } = await fileCrc(join(dataDir, segment.file), pause, fs)
    if (bytes !== segment.bytes) return `it has ${bytes} bytes, the catalog says ${segment.bytes}`
    return segment.crc === undefined || crc === segment.crc ? undefined : `its checksum is ${hex(crc)}, the catalog says ${hex(segment.crc)}`
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'ENOENT') return 'it is missing'
    if (code === 'EIO' || code === 'EISDIR') return `the disk cannot read it (${code})`
    throw error
  }
}

const hex = (crc: number): string => crc.toString(16).padStart(8, '0')
