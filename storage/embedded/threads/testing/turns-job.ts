/** Takes so many turns of its thread, each counted where others see it. @returns how many turns others have taken meanwhile. */
import type { Job } from 'svcdb'
import { Turn } from 'svcdb/lib/event-loop'

interface TurnsArgs {
  turns: number
  /** Shared: turns that jobs have taken. */
  taken: Int32Array
}

const job: Job<TurnsArgs, number> = async (_reader, { turns, taken }, { signal }) => {
  const turn = new Turn(signal)
  const before = Atomics.load(taken, 0)
  for (let i = 0; i < turns; i++) {
    Atomics.add(taken, 0, 1)
    await turn.next()
  }
  return Atomics.load(taken, 0) - before - turns
}

export default job
