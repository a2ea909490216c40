/** Frees dropped shared buffers: a SharedArrayBuffer goes when the last thread has collected it, and V8 does not count them as a reason to collect. */
import { collect } from 'svcdb/lib/heap'

/** Some milliseconds in an engine thread, whose own heap is small, some tens of them in the main thread. */
export function collectGarbage(): void {
  collect()
}
