/**
 * What sockets receive comes in buffers of up to 64 KiB, outside of the heap, that are needed until they have been copied. They are freed when the young generation is
 * collected, and V8 does that when small objects have filled it. Where rows never become objects that is seldom: up to 95 MiB of such buffers waited for it, and each
 * new one was memory that the processor and the system had not seen before. Collected after every 16 MiB, which takes less than a millisecond, they take half of that, and
 * writes less processor time.
 */
import { collect } from './collect.ts'

/** Bytes of buffers between two collections. */
const BETWEEN_BYTES = 16 << 20

let bytes = 0

/** Says that the calling thread was given buffers of so many bytes that it does not keep; now and then it collects its young generation. */
export function countShortLived(length: number): void {
  bytes += length
  if (bytes < BETWEEN_BYTES) return
  bytes = 0
  collect({ type: 'minor' })
}
