import type { Job } from 'svcdb'
import { answerQuery, type QueryArgs, type QueryOutcome, SAMPLE_BYTES } from './answer-query.ts'
import { Budget } from './eval/context.ts'
import { type HeldArgs, holding } from './held.ts'
import { storageSource } from './storage-source.ts'

export type QueryJobArgs = QueryArgs & HeldArgs

const queryJob: Job<QueryJobArgs, QueryOutcome> = (reader, args, io) =>
  holding(reader, args, io, (hold, held) => {
    const budget = new Budget(args.memoryBytes || hold.limit)
    const source = storageSource(reader, args.namespace, io.signal, Math.floor(budget.limit / SAMPLE_BYTES), () => hold.has(budget.bytes))
    return answerQuery(source, args, held, budget)
  })

export default queryJob
