/** Holds its thread for so many milliseconds, without a turn for others. */
import type { Job } from 'svcdb'

const job: Job<number, void> = async (_reader, ms) => {
  const end = performance.now() + ms
  while (performance.now() < end);
}

export default job
