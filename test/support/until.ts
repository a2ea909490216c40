/** Waiting for a condition: success is as quick as it comes, and a slow machine only fails later. */
import { setTimeout as sleep } from 'node:timers/promises'

const LOOK_MS = 10

/** What a look has not found. */
type Nothing = undefined | null | false | 0 | ''

/** Looks until it finds something. @returns that. @throws Error with what did not come. */
export async function until<T>(what: string, look: () => T | Nothing | Promise<T | Nothing>, limitMs = 60_000): Promise<T> {
  for (const end = performance.now() + limitMs; ; ) {
    const found = await look()
    if (found) return found
    if (performance.now() > end) throw new Error(`not within ${limitMs} ms: ${what}`)
    await sleep(LOOK_MS)
  }
}
