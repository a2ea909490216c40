/** A SQL statement beside the data: runs it and emits the answer's JSON in pieces. */
import { JsonRowEncoder } from '../../kernel/decode/sql-json.ts'
import type { Job, JobIo, Reader } from '../../kernel/storage.ts'

export interface SqlArgs {
  namespace: string
  query: string
  /** server.sql_max_rows. */
  maxRows: number
}

export interface SqlOutcome {
  rows: number
  truncated: boolean
}

/** Text gathered before it is handed over; a first failure before that still gets a status of its own. */
const EMIT_LENGTH = 65_536

export async function runSql(reader: Reader, { namespace, query, maxRows }: SqlArgs, io: JobIo): Promise<SqlOutcome> {
  const cursor = await reader.sql({ namespace, query })
  const encoder = new JsonRowEncoder(cursor.columns)
  let text = `{"columns":${JSON.stringify(cursor.columns.map(({ name, type }) => ({ name, data_type: type })))},"rows":[`
  let rows = 0
  let truncated = false
  for await (const chunk of cursor) {
    io.signal.throwIfAborted()
    const take = Math.min(chunk.rows, maxRows - rows)
    if (take > 0) text += (rows > 0 ? ',\n' : '') + encoder.rows(chunk, 0, take)
    rows += take
    truncated = take < chunk.rows
    if (truncated) break
    if (text.length >= EMIT_LENGTH) {
      await io.emit(Buffer.from(text))
      text = ''
    }
  }
  await io.emit(Buffer.from(`${text}],"row_count":${rows},"truncated":${truncated}}`))
  return { rows, truncated }
}

export default runSql satisfies Job<SqlArgs, SqlOutcome>
