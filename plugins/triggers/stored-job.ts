/** Beside the data: the rows of a measurement from a time on, a series after the other, in frames for the main thread. */
import { serialize } from 'node:v8'
import type { ColumnChunk, Job, SeriesChunk } from 'svcdb'

export interface StoredArgs {
  namespace: string
  measurement: string
  start: bigint
  /** Rows without one of them are not wanted, nor are other fields: they may be large. Absent = all. */
  fields?: string[]
}

/** Of a frame: the main thread reads each in one turn. */
const FRAME_ROWS = 4096
const FRAME_VALUES = 65_536
const LENGTH_BYTES = 4

const storedRows: Job<StoredArgs, number> = async (reader, { namespace, measurement, start, fields }, { signal, emit }) => {
  if (!(await reader.schema(namespace)).some(({ name }) => name === measurement)) return 0
  let sent = 0
  let rows = 0
  let values = 0
  let chunks: SeriesChunk[] = []
  const send = async (): Promise<void> => {
    const body = serialize(chunks)
    const frame = Buffer.alloc(LENGTH_BYTES + body.length)
    frame.writeUInt32LE(body.length)
    frame.set(body, LENGTH_BYTES)
    chunks = []
    sent += rows
    rows = 0
    values = 0
    await emit(frame)
  }
  for await (const chunk of reader.scan({ namespace, measurement, start, ...(fields === undefined ? {} : { fields }) })) {
    signal.throwIfAborted()
    const width = chunk.columns.length + 1
    for (let from = 0; from < chunk.times.length; ) {
      const room = Math.min(FRAME_ROWS - rows, Math.floor((FRAME_VALUES - values) / width))
      const part = partOf(chunk, from, from + Math.max(1, room))
      from += part.times.length
      chunks.push(part)
      rows += part.times.length
      values += part.times.length * width
      if (rows >= FRAME_ROWS || values + width > FRAME_VALUES) await send()
    }
  }
  if (rows > 0) await send()
  return sent
}

/** Rows [from, to) of a chunk. Texts and histograms fulfil no comparison, and may be large: they stay here. */
function partOf({ series, tags, times, columns }: SeriesChunk, from: number, to: number): SeriesChunk {
  return {
    series,
    tags,
    times: times.slice(from, to),
    columns: columns.map((column): ColumnChunk => {
      if (column.type === 'string' || column.type === 'histogram') return { name: column.name, type: column.type, values: [] }
      const { values, validity } = column
      return { ...column, values: values.slice(from, to), ...(validity === undefined ? {} : { validity: validity.slice(from, to) }) }
    }),
  }
}

export default storedRows
