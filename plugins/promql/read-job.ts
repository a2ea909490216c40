import type { Job } from 'svcdb'
import { SAMPLE_BYTES } from './answer-query.ts'
import { type HeldArgs, holding } from './held.ts'
import { answerRead, type ReadArgs } from './remote-read/answer-read.ts'
import { storageSource } from './storage-source.ts'

export type ReadJobArgs = ReadArgs & HeldArgs

const readJob: Job<ReadJobArgs, void> = (reader, args, io) =>
  holding(reader, args, io, (hold, held) =>
    answerRead(storageSource(reader, args.namespace, io.signal, Math.floor(args.maxBytes / SAMPLE_BYTES)), args, held, (bytes) => hold.reserve(bytes)),
  )

export default readJob
