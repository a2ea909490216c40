/** Holds its thread, without a turn for others, until the number in shared memory is no longer 0. */
import type { Job } from 'svcdb'

const job: Job<Int32Array, void> = async (_reader, gate) => {
  Atomics.wait(gate, 0, 0, 60_000)
}

export default job
