/** For tests: columns and rows of an SQL query, text decoded however it came. */
import type { Job, SqlColumn, SqlRequest, SqlVector } from 'svcdb'

export interface Decoded {
  columns: SqlColumn[]
  parameters: readonly string[]
  rows: unknown[][]
}

/** Without `parameters` where the query has some: what it would answer. */
const decoded: Job<SqlRequest & { describe?: true }, Decoded> = async (reader, { describe, ...request }) => {
  const cursor = await reader.sql(request)
  const rows: unknown[][] = []
  if (!describe) for await (const chunk of cursor) for (let row = 0; row < chunk.rows; row++) rows.push(chunk.columns.map((vector) => valueAt(vector, row)))
  return { columns: cursor.columns, parameters: cursor.parameters, rows }
}

function valueAt({ values, validity, dictionary, bytes }: SqlVector, row: number): unknown {
  if (validity?.[row] === 0) return null
  if (dictionary !== undefined) return dictionary[values[row] as number]
  return bytes === undefined ? values[row] : Buffer.from(bytes.subarray(values[row] as number, values[row + 1] as number)).toString()
}

export default decoded
