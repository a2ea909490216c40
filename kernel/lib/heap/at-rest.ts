/**
 * Buffers that are kept for what may come go before the heap of a thread at rest is collected as far as it goes: else they would stay until the next time, which
 * may never come.
 */
import { collect } from './collect.ts'

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
