import type { Job } from 'svcdb'
import { answerDiscovery, type DiscoveryArgs, type DiscoveryOutcome } from './answer-discovery.ts'
import { storageDiscovery } from './discover.ts'
import { type HeldArgs, holding } from './held.ts'

export type DiscoveryJobArgs = DiscoveryArgs & HeldArgs

const discoveryJob: Job<DiscoveryJobArgs, DiscoveryOutcome> = (reader, args, io) =>
  holding(reader, args, io, (hold, held) =>
    answerDiscovery(
      storageDiscovery(reader, args.namespace, (bytes) => hold.reserve(bytes)),
      args,
      held,
    ),
  )

export default discoveryJob
