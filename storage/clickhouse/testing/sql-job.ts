/** All rows of a statement, cells as they come. */
import type { Job, SqlParameter } from 'svcdb'

interface Args {
  namespace: string
  query: string
  parameters?: readonly SqlParameter[]
  textBytes?: boolean
}

const decoder = new TextDecoder()

const job: Job<Args> = async (reader, args) => {
  const cursor = await reader.sql(args)
  const rows: unknown[][] = []
  for await (const { rows: count, columns } of cursor)
    for (let row = 0; row < count; row++)
      rows.push(
        columns.map(({ values, validity, dictionary, bytes }) => {
          if (validity?.[row] === 0) return null
          if (bytes !== undefined) return decoder.decode(bytes.subarray(Number(values[row]), Number(values[row + 1])))
          return dictionary === undefined ? values[row] : dictionary[Number(values[row])]
        }),
      )
  return { columns: cursor.columns.map(({ name, type }) => [name, type]), rows }
}

export default job
