/** Runs one statement and hands its rows out chunk by chunk, as they are made. */
import type { DuckDBConnection, DuckDBResult } from '@duckdb/node-api'
import type { SqlChunk } from '../../../kernel/storage.ts'
import { type Duck, engineError } from './duck.ts'
import { type ResultColumn, readVector, resultColumn } from './vectors.ts'

export async function* streamSql(duck: Duck, sql: string, signal: AbortSignal | undefined): AsyncGenerator<SqlChunk> {
  signal?.throwIfAborted()
  const connection = await duck.connect()
  yield* streamOn(duck, connection, sql, signal)
}

/** Takes the connection over: it goes back when the stream ends, however it ends. */
export async function* streamOn(duck: Duck, connection: DuckDBConnection, sql: string, signal: AbortSignal | undefined): AsyncGenerator<SqlChunk> {
  const interrupt = () => connection.interrupt()
  signal?.addEventListener('abort', interrupt)
  let finished = false
  try {
    signal?.throwIfAborted()
    const result = await connection.stream(sql)
    const columns = resultColumns(result)
    for (;;) {
      const chunk = await result.fetchChunk()
      signal?.throwIfAborted()
      if (chunk === null || chunk.rowCount === 0) break
      yield { rows: chunk.rowCount, columns: columns.map((column, i) => readVector(chunk, i, column)) }
    }
    finished = true
  } catch (error) {
    throw engineError(error, signal)
  } finally {
    signal?.removeEventListener('abort', interrupt)
    duck.release(connection, finished)
  }
}

function resultColumns(result: DuckDBResult): ResultColumn[] {
  return Array.from({ length: result.columnCount }, (_, i) => resultColumn(result.columnLogicalType(i).logical_type))
}
