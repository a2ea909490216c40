/** A statement beside the data for a tool: few rows, as values of JSON. */
import type { Job } from 'svcdb'
import { JsonRowEncoder } from 'svcdb/lib/sql-result'

export interface SqlToolArgs {
  namespace: string
  query: string
  parameters: readonly (null | boolean | number | string)[]
  maxRows: number
  maxCharacters: number
}

export interface SqlToolRows {
  columns: string[]
  /** Rows of JSON, without the brackets around them. */
  text: string
  truncated: boolean
}

const sqlToolJob: Job<SqlToolArgs, SqlToolRows> = async (reader, { namespace, query, parameters, maxRows, maxCharacters }, io) => {
  const cursor = await reader.sql({ namespace, query, ...(parameters.length === 0 ? {} : { parameters }) })
  const encoder = new JsonRowEncoder(cursor.columns)
  let [text, rows, truncated] = ['', 0, false]
  for await (const chunk of cursor) {
    io.signal.throwIfAborted()
    const take = Math.min(chunk.rows, maxRows - rows)
    const added = take === 0 ? '' : (rows > 0 ? ',' : '') + encoder.rows(chunk, 0, take)
    truncated = take < chunk.rows || text.length + added.length > maxCharacters
    if (text.length + added.length > maxCharacters) break
    text += added
    rows += take
    if (truncated) break
  }
  return { columns: cursor.columns.map(({ name }) => name), text, truncated }
}

export default sqlToolJob
