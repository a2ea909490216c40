import type { Job } from '../../kernel/storage.ts'
import { answerRead, type ReadArgs } from './remote-read/answer-read.ts'
import { storageSource } from './storage-source.ts'

const readJob: Job<ReadArgs, void> = (reader, args, io) => answerRead(storageSource(reader, args.namespace), args, io)

export default readJob
