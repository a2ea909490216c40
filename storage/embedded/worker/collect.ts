/**
 * Frees dropped shared buffers. A SharedArrayBuffer goes when the last thread has collected it, and an engine thread with nothing to do
 * would not collect garbage for hours: a flushed memtable would stay in memory as long.
 */
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

setFlagsFromString('--expose-gc')
const gc = runInNewContext('gc') as () => void
setFlagsFromString('--no-expose-gc')

/** Some milliseconds, as an engine thread's own heap is small. */
export function collectGarbage(): void {
  gc()
}
