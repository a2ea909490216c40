import type { Job } from 'svcdb'
import { answerFederate, type FederateArgs } from './answer-federate.ts'
import { SAMPLE_BYTES } from './answer-query.ts'
import { type HeldArgs, holding } from './held.ts'
import { storageSource } from './storage-source.ts'

export type FederateJobArgs = FederateArgs & HeldArgs

const federateJob: Job<FederateJobArgs, void> = (reader, args, io) =>
  holding(reader, args, io, (hold, held) => {
    let gathered = 0
    const room = (bytes: number) => hold.has((gathered = bytes))
    const source = storageSource(reader, args.namespace, io.signal, Math.floor(hold.limit / SAMPLE_BYTES), () => hold.has(gathered))
    return answerFederate(source, args, held, room)
  })

export default federateJob
