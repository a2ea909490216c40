/** The other side of JsonThread. */
import { parentPort } from 'node:worker_threads'
import { classify, publicText } from 'svcdb/lib/errors'
import { messageOfJson } from './json-request.ts'
import type { FromJsonWorker } from './json-thread.ts'

const port = parentPort as NonNullable<typeof parentPort>

port.on('message', (body: ArrayBuffer) => {
  try {
    const message = messageOfJson(Buffer.from(body)) as Uint8Array<ArrayBuffer>
    port.postMessage({ message } satisfies FromJsonWorker, [message.buffer])
  } catch (error) {
    const { code } = classify(error)
    port.postMessage({ code, text: publicText(classify(error)) } satisfies FromJsonWorker)
  }
})
