import type { Job } from 'svcdb'
import { answerQuery, type QueryArgs, type QueryOutcome, SAMPLE_BYTES } from './answer-query.ts'
import { storageSource } from './storage-source.ts'

const queryJob: Job<QueryArgs, QueryOutcome> = (reader, args, io) =>
  answerQuery(storageSource(reader, args.namespace, io.signal, Math.floor(args.memoryBytes / SAMPLE_BYTES)), args, io)

export default queryJob
