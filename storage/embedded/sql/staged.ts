/**
 * Answers that go by way of a temporary table. A UNION whose rows are handed out while they are made can stop for good in DuckDB: where a part waits for its
 * reader, and another has a join or groups to work out first, the executor takes neither for the last one and waits for both (duckdb#22215, up to 1.5 and there
 * for large parts only). A table takes rows without waiting for a reader; it counts against the memory limit and goes to the scratch space beyond it.
 */
import type { DuckDBConnection, DuckDBPreparedStatement } from '@duckdb/node-api'
import type { SqlChunk } from 'svcdb'
import { SERIES_COLUMN, TIME_COLUMN } from '../memtable/memtable-source.ts'
import type { Place } from './place.ts'

const TABLE = 'temp.main.svc_answer'
const WORD = /\bunion\b/i

/** Whether a caller's text may have a UNION: the word may as well be a name, or in a text. */
export const unites = (text: string): boolean => WORD.test(text)

/** Whether a printed statement has a relation of which some rows are merged, and others joined: with a list of series, or to see that they are no duplicates. */
export const stalls = (sql: string): boolean =>
  sql.includes(`) GROUP BY ${SERIES_COLUMN}, ${TIME_COLUMN}`) && (sql.includes(' IN (FROM ') || sql.includes(' SEMI JOIN '))

/** The rows of a statement. @param statement which is destroyed. @param rowsOf destroys what it is given. */
export async function* staged(
  connection: DuckDBConnection,
  place: Place,
  statement: DuckDBPreparedStatement,
  sql: string,
  rowsOf: (statement: DuckDBPreparedStatement) => AsyncGenerator<SqlChunk>,
): AsyncGenerator<SqlChunk> {
  statement.destroySync()
  try {
    await place.during(() => connection.run(`CREATE OR REPLACE TEMP TABLE ${TABLE} AS ${sql}`))
    yield* rowsOf(await connection.prepare(`FROM ${TABLE}`))
  } finally {
    await connection.run(`DROP TABLE IF EXISTS ${TABLE}`).catch(() => {})
  }
}
