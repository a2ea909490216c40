/** Runs one statement and hands its rows out chunk by chunk, as they are made. */
import type { SqlChunk } from 'svcdb'
import { type Duck, engineError, interruptOn } from './duckdb.ts'

export async function* streamSql(duck: Duck, sql: string, signal: AbortSignal | undefined): AsyncGenerator<SqlChunk> {
  signal?.throwIfAborted()
  const connection = await duck.connect()
  const place = duck.place(signal)
  const calm = interruptOn(signal, connection)
  let finished = false
  try {
    signal?.throwIfAborted()
    // Before there is a place, which is left while they are loaded.
    const [{ resultColumn }, { readParts }] = await Promise.all([import('./vectors.ts'), import('./row-parts.ts')])
    const statement = await connection.prepare(sql)
    const result = await place.during(() => statement.stream()).finally(() => statement.destroySync())
    const columns = Array.from({ length: result.columnCount }, (_, i) => resultColumn(result.columnLogicalType(i).logical_type))
    for (;;) {
      const chunk = await place.during(() => result.fetchChunk())
      signal?.throwIfAborted()
      if (chunk === null || chunk.rowCount === 0) break
      yield* readParts(chunk, columns)
    }
    finished = true
  } catch (error) {
    throw engineError(error, signal)
  } finally {
    place.leave()
    calm()
    duck.release(connection, finished)
  }
}
