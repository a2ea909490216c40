/** Says what priority its thread has. */
import { getPriority } from 'node:os'
import type { Job } from 'svcdb'

const job: Job<undefined, number> = async () => getPriority()

export default job
