/** For tests of the plugin. */
import type { Test } from 'tap'
import { lookUntil } from '../../test/support/until.ts'

/** Waits until it is as wanted, and compares it with that; an error counts as its text. */
export async function becomes(t: Test, what: () => Promise<unknown>, wanted: unknown, name: string): Promise<void> {
  const look = (): Promise<unknown> => what().catch((error: Error) => error.message)
  const text = JSON.stringify(wanted)
  t.same(await lookUntil(look, (seen) => JSON.stringify(seen) === text), wanted, name)
}
