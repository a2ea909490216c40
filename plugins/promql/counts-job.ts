/** What /status/tsdb tells of the database. */
import type { Job } from 'svcdb'
import { storageDiscovery } from './discover.ts'
import type { DatabaseCounts } from './discovery-contract.ts'

export interface CountsArgs {
  namespace: string
  limit: number
}

const countsJob: Job<CountsArgs, DatabaseCounts> = (reader, { namespace, limit }, io) => storageDiscovery(reader, namespace).counts(limit, io.signal)

export default countsJob
