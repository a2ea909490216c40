/**
 * What this process knows of each segment, in memory that all threads share. A segment that has no entry is trusted, so that only one that was there at the
 * start, or was found corrupt, needs one. Numbers of segments only go up, and a database with many tables gives millions a day: entries are found by number,
 * and there are as many as segments.
 */

import { join } from 'node:path'
import { SvcError } from 'svcdb/lib/errors'
import { type FileSystem, realFileSystem } from '../../common/log/file-system.ts'
import { type FileOfSegment, type FilesOfSegment, filesWithSums } from '../threads/segment-entry.ts'
import { fileCrc } from './file-crc.ts'

export const Trust = {
  /** Written by this process, or not to be checked. */
  TRUSTED: 0,
  UNVERIFIED: 1,
  CHECKING: 2,
  VERIFIED: 3,
  CORRUPT: 4,
} as const

/** Segments that may be found corrupt of those that came since the start; the memory is taken as it is needed. */
const MAX_LATER = 1 << 20

export interface TrustTable {
  /** Numbers of segments: ascending up to `sorted`, then in the order in which they were found. */
  ids: Float64Array
  /** Of each, what is known. As many as count. */
  states: Int32Array
  sorted: number
}

/** @param ids of the segments there are. */
export function trustTable(ids: Iterable<number>): TrustTable {
  const sorted = Float64Array.from(ids).sort()
  const count = sorted.length
  const shared = (width: number): SharedArrayBuffer => new SharedArrayBuffer(count * width, { maxByteLength: (count + MAX_LATER) * width })
  const table = { ids: new Float64Array(shared(8)), states: new Int32Array(shared(4)), sorted: count }
  table.ids.set(sorted)
  return table
}

/** Where the segment's state is among `states`; -1 = it has none. */
export function trustPlace({ ids, states, sorted }: TrustTable, segment: number): number {
  let low = 0
  for (let high = sorted; low < high; ) {
    const middle = (low + high) >> 1
    if (ids[middle] < segment) low = middle + 1
    else high = middle
  }
  if (low < sorted && ids[low] === segment) return low
  for (let place = sorted; place < states.length; place++) if (ids[place] === segment) return place
  return -1
}

export function trustOf(table: TrustTable, segment: number): number {
  const place = trustPlace(table, segment)
  return place < 0 ? Trust.TRUSTED : Atomics.load(table.states, place)
}

/** Main thread only. */
export function setTrust(table: TrustTable, segment: number, value: number): void {
  const { ids, states } = table
  let place = trustPlace(table, segment)
  if (place < 0) {
    place = states.length
    ;(ids.buffer as SharedArrayBuffer).grow((place + 1) * 8)
    ids[place] = segment
    // Who sees the state sees the number.
    ;(states.buffer as SharedArrayBuffer).grow((place + 1) * 4)
  }
  Atomics.store(states, place, value)
}

export function corruptSegment(file: string, cause: string): SvcError {
  return new SvcError('DATABASE_ERROR', `cannot read segment file "${file}": ${cause}; stop the server, restore the file from a backup, and start again`)
}

/** What is wrong with a segment's files, if anything. @throws what has to do with the machine rather than the files, such as too many open ones. */
export async function segmentFault(
  dataDir: string,
  segment: FilesOfSegment,
  pause?: (bytes: number) => Promise<void> | undefined,
  fs: FileSystem = realFileSystem,
): Promise<string | undefined> {
  for (const file of filesWithSums(segment)) {
    const fault = await fileFault(dataDir, file, pause, fs)
    if (fault !== undefined) return file.file === segment.file ? fault : `of its encrypted columns in "${file.file}": ${fault}`
  }
  return undefined
}

async function fileFault(
  dataDir: string,
  wanted: FileOfSegment,
  pause: ((bytes: number) => Promise<void> | undefined) | undefined,
  fs: FileSystem,
): Promise<string | undefined> {
  try {
    const { crc, bytes } = await fileCrc(join(dataDir, wanted.file), pause, fs)
    if (bytes !== wanted.bytes) return `it has ${bytes} bytes, the catalog says ${wanted.bytes}`
    return wanted.crc === undefined || crc === wanted.crc ? undefined : `its checksum is ${hex(crc)}, the catalog says ${hex(wanted.crc)}`
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'ENOENT') return 'it is missing'
    if (code === 'EIO' || code === 'EISDIR') return `the disk cannot read it (${code})`
    throw error
  }
}

const hex = (crc: number): string => crc.toString(16).padStart(8, '0')
