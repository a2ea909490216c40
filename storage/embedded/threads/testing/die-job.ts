/** Ends its thread. */
import type { Job } from 'svcdb'

const job: Job<undefined, never> = async () => process.exit(3)

export default job
