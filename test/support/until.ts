/** Waiting for a condition: success is as quick as it comes, and a slow machine only fails later. */
import { setTimeout as sleep } from 'node:timers/promises'

const LOOK_MS = 10
const LIMIT_MS = 120_000

/** What a look has not found. */
type Nothing = undefined | null | false | 0 | ''

/** Looks until it finds something. @returns that. @throws Error with what did not come. */
export async function until<T>(what: string, look: () => T | Nothing | Promise<T | Nothing>, limitMs = LIMIT_MS): Promise<T> {
  for (const end = performance.now() + limitMs; ; ) {
    const found = await look()
    if (found) return found
    if (performance.now() > end) throw new Error(`not within ${limitMs} ms: ${what}`)
    await sleep(LOOK_MS)
  }
}

/** As `until`, where the condition says itself what is waited for. */
export const eventually = <T>(look: () => T | Nothing | Promise<T | Nothing>, limitMs?: number): Promise<T> => until(String(look), look, limitMs)

/** Looks until what it sees is as it should be. @returns what it has seen last, which need not be so: for a test that compares it and shows the difference. */
export async function lookUntil<T>(look: () => Promise<T>, isSo: (seen: T) => boolean, limitMs = LIMIT_MS): Promise<T> {
  for (const end = performance.now() + limitMs; ; await sleep(LOOK_MS)) {
    const seen = await look()
    if (isSo(seen) || performance.now() > end) return seen
  }
}
