/** Begins a statement, and does something to its thread while DuckDB is at work. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Job } from 'svcdb'

export interface StatementArgs {
  query: string
  /** [0]: it may go on. [1]: it has begun. */
  gate: Int32Array
  /** `hold`: takes the thread's turn until it may go on. `throw`: an error that nobody catches. */
  then: 'hold' | 'throw'
}

const job: Job<StatementArgs, void> = async (reader, { query, gate, then }) => {
  const cursor = await reader.sql({ namespace: '', query })
  const rows = cursor[Symbol.asyncIterator]().next()
  rows.catch(() => {})
  // The call goes out in a microtask; its result would come in a later turn.
  for (let i = 0; i < 100; i++) await undefined
  Atomics.store(gate, 1, 1)
  Atomics.notify(gate, 1)
  if (then === 'hold') Atomics.wait(gate, 0, 0, 60_000)
  else
    queueMicrotask(() => {
      throw new Error('struck dead')
    })
  await rows
  await sleep(60_000, undefined, { ref: false })
}

export default job
