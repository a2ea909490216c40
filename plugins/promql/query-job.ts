import type { Job } from '../../kernel/storage.ts'
import { answerQuery, type QueryArgs, type QueryOutcome } from './answer-query.ts'
import { storageSource } from './storage-source.ts'

const queryJob: Job<QueryArgs, QueryOutcome> = (reader, args, io) => answerQuery(storageSource(reader, args.namespace), args, io)

export default queryJob
