/** For tests: the rows of an SQL query, as arrays of values. */
import type { Job, SqlRequest } from 'svcdb'

const table: Job<SqlRequest, unknown[][]> = async (reader, request) => {
  const out: unknown[][] = []
  for await (const { rows, columns } of await reader.sql(request))
    for (let row = 0; row < rows; row++) out.push(columns.map(({ values, validity }) => (validity?.[row] === 0 ? null : values[row])))
  return out
}

export default table
