/** The other side of a thread of Compute: one task after the other. */
import { parentPort } from 'node:worker_threads'
import { classify, publicText, SvcError } from 'svcdb/lib/errors'
import { UnfitError } from '../forecast/model.ts'
import { compute, type Task, type TaskResult } from './compute.ts'

export type FromWorker = { result: TaskResult } | { unfit: string } | { code: string; text: string }

const port = parentPort as NonNullable<typeof parentPort>

port.on('message', async (task: Task) => {
  let answer: FromWorker
  try {
    answer = { result: await compute(task) }
  } catch (error) {
    if (error instanceof UnfitError) answer = { unfit: error.message }
    else if (error instanceof SvcError) answer = { code: error.code, text: publicText(error) }
    else answer = { code: classify(error).code, text: error instanceof Error ? error.message : String(error) }
  }
  port.postMessage(answer)
})
