/** Holds its thread and a snapshot until the number in shared memory is no longer 0, and ends then without a turn in which it could hear that it is to stop; its output comes in several parts. */
import type { Job } from 'svcdb'

export interface LateArgs {
  measurement: string
  /** [0]: it may end. [1]: it has begun. */
  gate: Int32Array
  parts: number
}

const job: Job<LateArgs, number> = async (reader, { gate, parts }, { emit }) => {
  await reader.measurements('')
  Atomics.add(gate, 1, 1)
  Atomics.wait(gate, 0, 0, 60_000)
  for (let part = 0; part < parts; part++) await emit(Buffer.from(`${part} `))
  return parts
}

export default job
