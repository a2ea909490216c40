/** Waits until it is told to stop. */
import { once } from 'node:events'
import type { Job } from 'svcdb'

const job: Job<undefined, void> = async (_reader, _args, { signal }) => {
  await once(signal, 'abort')
}

export default job
