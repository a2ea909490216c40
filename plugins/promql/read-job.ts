import type { Job } from 'svcdb'
import { SAMPLE_BYTES } from './answer-query.ts'
import { answerRead, type ReadArgs } from './remote-read/answer-read.ts'
import { storageSource } from './storage-source.ts'

const readJob: Job<ReadArgs, void> = (reader, args, io) =>
  answerRead(storageSource(reader, args.namespace, io.signal, Math.floor(args.maxBytes / SAMPLE_BYTES)), args, io)

export default readJob
