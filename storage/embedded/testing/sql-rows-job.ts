/** For tests: the rows of an SQL query, as JSON. */
import type { Job } from 'svcdb'

const job: Job = async (reader, query, { emit }) => {
  const cursor = await reader.sql({ namespace: '', query: query as string })
  for await (const { rows, columns } of cursor) {
    for (let row = 0; row < rows; row++)
      await emit(Buffer.from(JSON.stringify(columns.map(({ values, validity }) => (validity?.[row] === 0 ? null : values[row])))))
  }
}
export default job
