/** A statement's whole result as JSON text. */
import type { Job, SqlRequest } from 'svcdb'

const run: Job<SqlRequest, string> = async (reader, request) => {
  const cursor = await reader.sql(request)
  const rows: unknown[][] = []
  for await (const { rows: count, columns } of cursor)
    for (let row = 0; row < count; row++) rows.push(columns.map(({ values, validity }) => (validity?.[row] === 0 ? null : values[row])))
  return JSON.stringify({ columns: cursor.columns, rows }, (_, value) => (typeof value === 'bigint' ? String(value) : value))
}

export default run
