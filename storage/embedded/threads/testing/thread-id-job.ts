/** Says on which thread it ran. */
import { threadId } from 'node:worker_threads'
import type { Job } from 'svcdb'

const job: Job<undefined, number> = async () => threadId

export default job
