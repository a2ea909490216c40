/** The native query beside the data: scans, merges the series by time, emits a JSON array of rows. */
import type { Job, JobIo, Reader, ScanRequest } from 'svcdb'
import { heldRows, type RowHold, TimeMerge } from 'svcdb/lib/columns'
import { SvcError } from 'svcdb/lib/errors'
import { traced } from 'svcdb/lib/trace'
import { RowWriter } from './row-json.ts'

export interface QueryArgs {
  request: ScanRequest
  limit?: number
  offset: number
  /** Rows an answer may have: server.sql_max_rows. */
  maxRows: number
  /** What rows that are held for their order may take in memory; 0 = what all queries of the thread may hold. */
  maxBytes: number
  /** What all queries of the thread may hold: server.max_held_memory. */
  maxHeldBytes: number
}

const EMIT_BYTES = 65_536

async function runQuery(reader: Reader, args: QueryArgs, io: JobIo): Promise<number> {
  const options = { namespace: args.request.namespace, limit: args.maxHeldBytes, engineLimit: reader.memoryLimit, signal: io.signal }
  return heldRows.during(options, (hold) => answer(reader, args, io, hold))
}

async function answer(reader: Reader, args: QueryArgs, io: JobIo, hold: RowHold): Promise<number> {
  const { request, limit, offset, maxRows } = args
  const maxBytes = args.maxBytes || hold.limit
  // Without a limit one row too many is enough to know that the answer is refused.
  const earliest = offset + (limit ?? maxRows + 1)
  const merge = new TimeMerge(earliest, maxBytes)
  await traced('scan', async () => {
    for await (const chunk of hold.chunks(reader.scan({ ...request, earliest }), () => merge.bytes)) {
      io.signal.throwIfAborted()
      if (!merge.add(chunk)) throw tooLarge(maxBytes, args.maxBytes === 0 ? 'server.max_held_memory' : 'native.max_query_memory_bytes')
    }
  })
  hold.gathered()
  if (limit === undefined && merge.held > offset + maxRows) {
    throw new SvcError(
      'BAD_REQUEST',
      `cannot answer query: it has more than ${maxRows} rows, and server.sql_max_rows is ${maxRows}; name a limit or narrow the range`,
    )
  }
  const writer = new RowWriter()
  let text = '['
  let place = 0
  let written = 0
  await merge.each((chunk, index) => {
    if (written === limit) return false
    if (place++ < offset) return true
    text += (written++ === 0 ? '' : ',\n') + writer.row(chunk, index)
    if (text.length < EMIT_BYTES) return true
    const bytes = Buffer.from(text)
    text = ''
    return hold.taken(io.emit(bytes)).then(() => true)
  })
  await hold.taken(io.emit(Buffer.from(`${text}]`)))
  return written
}

function tooLarge(maxBytes: number, setting: string): SvcError {
  return new SvcError(
    'BAD_REQUEST',
    `cannot answer query: its rows take more than ${maxBytes} bytes of memory, which is ${setting}; lower offset, narrow the range or name fewer fields, or raise it`,
  )
}

export default runQuery satisfies Job<QueryArgs, number>
