/** The other side of SnappyThread: decodes blocks where they lie in shared memory. */
import { parentPort, workerData } from 'node:worker_threads'
import { fillIn } from './fill-module.ts'
import type { FromSnappyWorker, SlotMemory, ToSnappyWorker } from './thread.ts'

const port = parentPort as NonNullable<typeof parentPort>
const { memory, maxPages } = workerData as SlotMemory
const fill = fillIn(memory, maxPages)
const post = (message: FromSnappyWorker): void => port.postMessage(message)

// What is wrong with a block the main thread finds out, and says it.
if (fill !== undefined) port.on('message', ({ slot, at, end, out, length }: ToSnappyWorker) => post({ slot, good: fill(at, end, out, length) }))
post(fill === undefined ? 'unable' : 'ready')
