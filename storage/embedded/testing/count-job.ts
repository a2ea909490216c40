/** The number of rows a statement answers. */
import type { Job, SqlRequest } from 'svcdb'

const count: Job<SqlRequest, number> = async (reader, request) => {
  let rows = 0
  for await (const chunk of await reader.sql(request)) rows += chunk.rows
  return rows
}

export default count
