/** Counts itself among those that have begun, holds the thread, comes back some times, and says how many had begun by then. */
import { setImmediate as turn } from 'node:timers/promises'
import type { Job } from 'svcdb'

interface Args {
  begun: Int32Array
  /** Milliseconds. */
  holds: number
  comesBack: number
}

const run: Job<Args, number> = async (_reader, { begun, holds, comesBack }) => {
  Atomics.add(begun, 0, 1)
  const until = performance.now() + holds
  while (performance.now() < until);
  for (let i = 0; i < comesBack; i++) await turn()
  return Atomics.load(begun, 0)
}

export default run
