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

/** Buffers that are kept free for what may come: they go before a heap at rest is collected, or would stay until the next time, which may never come. */
const kept = new Set<() => void>()

/** @param giveUp lets go of what the calling thread keeps free. @returns ends it. */
export function whenAtRest(giveUp: () => void): () => void {
  kept.add(giveUp)
  return () => void kept.delete(giveUp)
}

/** Call when the thread rests: two or more collections of all of its heap, after which its young generation is small again. Some tens of milliseconds. */
export function collectAtRest(): void {
  for (const giveUp of kept) giveUp()
  collect({ type: 'major', execution: 'sync', flavor: 'last-resort' })
}
