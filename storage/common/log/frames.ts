/** Frames of a log as they lie in a file: which are whole, and whether one that is not may be torn. Layout: docs/formats/wal.md. */
import { crc32c } from 'svcdb/lib/files'
import { BOUNDS, FRAME_HEADER } from './log.ts'

/** The least unit a disk writes whole. */
const SECTOR = 512

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
export function isUnbegun(bytes: Uint8Array, magic: Uint8Array): boolean {
  return bytes.length < magic.length || (bytes.length === magic.length && bytes.every((byte) => byte === 0))
}

/**
 * Whether a frame after `at` was written when the bytes at `at` were durable already: then they are corrupt and not torn. From a header that is whole
 * the frames behind it are found by their lengths, so that nothing inside a record is taken for one; behind a header that is not, at any offset.
 */
export function ackedBehind(bytes: Uint8Array, view: DataView, at: number): boolean {
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
