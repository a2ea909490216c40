/**
 * Frees dropped shared buffers. A SharedArrayBuffer goes when the last thread has collected it, and an engine thread with nothing to do
 * would not collect garbage for hours: a flushed memtable would stay in memory as long.
 */
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

// The flag is the process's, so it is not taken back: another thread may be between setting it and asking for the function.
setFlagsFromString('--expose-gc')
const gc = runInNewContext('typeof gc === "function" ? gc : () => {}') as () => void

/** Some milliseconds, as an engine thread's own heap is small. */
export function collectGarbage(): void {
  gc()
}
