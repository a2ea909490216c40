import type { Job } from 'svcdb'
import { answerDiscovery, type DiscoveryArgs, type DiscoveryOutcome } from './answer-discovery.ts'
import { storageDiscovery } from './discover.ts'

const discoveryJob: Job<DiscoveryArgs, DiscoveryOutcome> = (reader, args, io) => answerDiscovery(storageDiscovery(reader, args.namespace), args, io)

export default discoveryJob
