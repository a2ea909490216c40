/** The other side of SnappyThread: decodes blocks where they lie in shared memory. */
import { parentPort } from 'node:worker_threads'
import { fill } from './fill.ts'
import type { SlotMemory, ToSnappyWorker } from './thread.ts'

const port = parentPort as NonNullable<typeof parentPort>
const slots: { input: Uint8Array; output: Uint8Array; view: DataView }[] = []

port.on('message', (message: ToSnappyWorker) => {
  if ('input' in message) return take(message)
  const { slot, size, length } = message
  const { input, output, view } = slots[slot]
  let good = true
  try {
    fill(input.subarray(0, size), output, view, length)
  } catch {
    good = false // the main thread finds out what is wrong, and says it
  }
  port.postMessage({ slot, good })
})
port.postMessage('ready')

function take({ slot, input, output }: SlotMemory): void {
  slots[slot] = { input: new Uint8Array(input), output: new Uint8Array(output), view: new DataView(output) }
}
