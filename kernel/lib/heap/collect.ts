import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

/** As of V8's `gc`; without options all of the heap. */
export interface Collection {
  type: 'minor' | 'major'
  execution?: 'sync'
  flavor?: 'last-resort'
}

let run: ((options?: Collection) => void) | undefined

/** Collects the heap of the calling thread, and frees the buffers that go with it. */
export function collect(options?: Collection): void {
  if (run === undefined) {
    // The flag is the process's, so it is not taken back: another thread may be between setting it and asking for the function.
    setFlagsFromString('--expose-gc')
    run = runInNewContext('typeof gc === "function" ? gc : () => {}') as (options?: Collection) => void
  }
  // An argument that is undefined is one to V8, which then collects the young generation alone.
  if (options === undefined) run()
  else run(options)
}
