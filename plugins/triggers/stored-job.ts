/** Beside the data: the rows of a measurement from a time on, a series after the other, in frames for the main thread. */
import { serialize } from 'node:v8'
import type { Job, SeriesChunk } from 'svcdb'

export interface StoredArgs {
  namespace: string
  measurement: string
  start: bigint
}

/** Rows of a frame: more than that only where one series comes so. */
const FRAME_ROWS = 4096
const LENGTH_BYTES = 4

const storedRows: Job<StoredArgs, number> = async (reader, { namespace, measurement, start }, { signal, emit }) => {
  if (!(await reader.schema(namespace)).some(({ name }) => name === measurement)) return 0
  let sent = 0
  let rows = 0
  let chunks: SeriesChunk[] = []
  const send = async (): Promise<void> => {
    const body = serialize(chunks)
    const frame = Buffer.alloc(LENGTH_BYTES + body.length)
    frame.writeUInt32LE(body.length)
    frame.set(body, LENGTH_BYTES)
    chunks = []
    sent += rows
    rows = 0
    await emit(frame)
  }
  for await (const chunk of reader.scan({ namespace, measurement, start })) {
    signal.throwIfAborted()
    chunks.push(chunk)
    rows += chunk.times.length
    if (rows >= FRAME_ROWS) await send()
  }
  if (rows > 0) await send()
  return sent
}

export default storedRows
