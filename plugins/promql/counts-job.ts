/** What /status/tsdb tells of the database. */
import type { Job } from 'svcdb'
import { storageDiscovery } from './discover.ts'
import type { DatabaseCounts } from './discovery-contract.ts'
import { type HeldArgs, holding } from './held.ts'

export interface CountsArgs extends HeldArgs {
  limit: number
}

const countsJob: Job<CountsArgs, DatabaseCounts> = (reader, args, io) =>
  holding(reader, args, io, (hold) => storageDiscovery(reader, args.namespace, (bytes) => hold.reserve(bytes)).counts(args.limit, io.signal))

export default countsJob
