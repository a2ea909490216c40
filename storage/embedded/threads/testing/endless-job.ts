/** Never ends, and takes no turn in which it could hear that it is to stop. */
import type { Job } from 'svcdb'

const job: Job<undefined, never> = async () => {
  for (;;);
}

export default job
