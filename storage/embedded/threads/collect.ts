/** Frees dropped shared buffers: a SharedArrayBuffer goes when the last thread has collected it, and V8 does not count them as a reason to collect. */
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

// The flag is the process's, so it is not taken back: another thread may be between setting it and asking for the function.
setFlagsFromString('--expose-gc')
const gc = runInNewContext('typeof gc === "function" ? gc : () => {}') as () => void

/** Some milliseconds in an engine thread, whose own heap is small, some tens of them in the main thread. */
export function collectGarbage(): void {
  gc()
}
