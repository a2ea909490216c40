/** ExecuteSql beside the data: runs the statement and emits SqlResponse in parts that are the message when joined. */
import type { Job, JobIo, Reader } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import { ProtobufWriter } from 'svcdb/lib/protobuf'
import { SqlRows } from './sql-values.ts'

export interface SqlArgs {
  namespace: string
  query: string
  /** server.sql_max_rows. */
  maxRows: number
  /** Bytes that the answer may have: grpc.max_send_bytes. */
  maxBytes: number
}

export interface SqlOutcome {
  rows: number
  truncated: boolean
}

const EMIT_BYTES = 1 << 18

async function runSql(reader: Reader, { namespace, query, maxRows, maxBytes }: SqlArgs, io: JobIo): Promise<SqlOutcome> {
  const cursor = await reader.sql({ namespace, query, limit: maxRows + 1 })
  const rowWriter = new SqlRows(cursor.columns)
  const writer = new ProtobufWriter(EMIT_BYTES)
  let emitted = 0
  const emit = async (): Promise<void> => {
    emitted += writer.at
    if (emitted > maxBytes) {
      throw new SvcError(
        'PAYLOAD_TOO_LARGE',
        `cannot answer the statement: its rows take more than ${maxBytes} bytes and are sent as one message; select less, use Query or Flight SQL, or raise grpc.max_send_bytes`,
      )
    }
    await io.emit(writer.take())
  }
  for (const { name, type } of cursor.columns) {
    const mark = writer.open(1)
    writer.string(1, name)
    writer.string(2, type)
    writer.close(mark)
  }
  let rows = 0
  let truncated = false
  for await (const chunk of cursor) {
    io.signal.throwIfAborted()
    const take = Math.min(chunk.rows, maxRows - rows)
    rowWriter.write(writer, chunk, take)
    rows += take
    truncated = take < chunk.rows
    if (truncated) break
    if (writer.at >= EMIT_BYTES) await emit()
  }
  writer.int(3, rows)
  writer.int(4, truncated ? 1 : 0)
  await emit()
  return { rows, truncated }
}

export default runSql satisfies Job<SqlArgs, SqlOutcome>
