/** A printed statement in DuckDB, and what it answers. Runs on an engine thread and in an engine process alike. */
import { type DuckDBConnection, type DuckDBPreparedStatement, DuckDBTypeId } from '@duckdb/node-api'
import type { SqlChunk, SqlColumn, SqlVector } from 'svcdb'
import { storedHistogramJson } from 'svcdb/lib/histogram'
import { MAX_ROW_BYTES, readParts } from '../duckdb/row-parts.ts'
import { resultColumn } from '../duckdb/vectors.ts'
import { ALONE, type Place } from './place.ts'
import { staged, stalls } from './staged.ts'
import { arrowName } from './types.ts'

export interface Statement {
  readonly columns: SqlColumn[]
  /** Columns of whose texts DuckDB makes a copy for each row that waits to be read, and counts none; absent where that does not matter. */
  readonly copied?: number
  /** False where DuckDB says nothing of the columns, for want of a parameter's type. */
  readonly columnsKnown: boolean
  /** By their numbers in the printed text, from 1; `Null` = any. */
  readonly parameterTypes: readonly string[]
  /** Once. Whoever does not read it calls `destroy`. */
  rows(): AsyncGenerator<SqlChunk>
  destroy(): void
}

export interface StatementOptions {
  textBytes: boolean
  /** The caller's text has a UNION: its rows come by way of a table (`staged.ts`). */
  unites?: boolean | undefined
  /** Rows that are read at most. */
  limit?: number | undefined
  /** Whether the statement reads a histogram column: asked only if bytes are among the results. */
  histograms(): boolean
}

/** Where a statement runs. */
export interface StatementRunner {
  /** @throws what DuckDB throws, or an SvcError. */
  open(sql: string, options: StatementOptions): Promise<Statement>
  /** Rows (name, plan) of EXPLAIN. */
  plans(sql: string, analyze: boolean): Promise<[string, string][]>
}

/** @param place absent: nothing else is at work beside it. */
export function runnerOn(connection: DuckDBConnection, place: Place = ALONE): StatementRunner {
  return {
    open: (sql, options) => openStatement(connection, place, sql, options),
    plans: (sql, analyze) => place.during(() => plansOf(connection, sql, analyze)),
  }
}

async function openStatement(
  connection: DuckDBConnection,
  place: Place,
  sql: string,
  { textBytes, unites, limit, histograms }: StatementOptions,
): Promise<Statement> {
  const statement = await place.planning(() => connection.prepare(sql))
  const ids = Array.from({ length: statement.columnCount }, (_, i) => statement.columnTypeId(i))
  const shows = ids.includes(DuckDBTypeId.BLOB) && histograms()
  /** Columns of bytes that are shown as text. */
  const shown = ids.map((id) => shows && id === DuckDBTypeId.BLOB)
  const typeOf = (i: number): string => (ids[i] === DuckDBTypeId.INVALID ? 'Null' : shown[i] ? 'Utf8' : arrowName(statement.columnType(i)))
  return {
    columns: ids.map((_, i) => ({ name: statement.columnName(i), type: typeOf(i), ...(shown[i] && { histogram: true }) })),
    copied: ids.filter((id) => id === DuckDBTypeId.VARCHAR || id === DuckDBTypeId.BLOB).length,
    columnsKnown: ids[0] !== DuckDBTypeId.INVALID,
    parameterTypes: Array.from({ length: statement.parameterCount }, (_, i) => parameterType(statement, i + 1)),
    rows: () =>
      unites || stalls(sql)
        ? staged(connection, place, statement, limit === undefined ? sql : `FROM (${sql}) LIMIT ${limit}`, (from) => rowsOf(from, place, shown, textBytes))
        : rowsOf(statement, place, shown, textBytes),
    destroy: () => statement.destroySync(),
  }
}

function parameterType(statement: DuckDBPreparedStatement, number: number): string {
  return statement.parameterTypeId(number) === DuckDBTypeId.INVALID ? 'Null' : arrowName(statement.parameterType(number))
}

async function* rowsOf(statement: DuckDBPreparedStatement, place: Place, shown: readonly boolean[], textBytes: boolean): AsyncGenerator<SqlChunk> {
  const result = await place.during(() => statement.stream()).finally(() => statement.destroySync())
  const readers = shown.map((_, i) => resultColumn(result.columnLogicalType(i).logical_type))
  const show = (vector: SqlVector, i: number): SqlVector =>
    shown[i] ? { ...vector, values: (vector.values as (Uint8Array | null)[]).map(shownBytes) } : vector
  for (;;) {
    const chunk = await place.during(() => result.fetchChunk())
    if (chunk === null || chunk.rowCount === 0) return
    for (const part of readParts(chunk, readers, textBytes, MAX_ROW_BYTES)) yield shown.includes(true) ? { ...part, columns: part.columns.map(show) } : part
  }
}

/** A histogram as JSON; other bytes, which a cast can make, in base64, as they are answered elsewhere. */
function shownBytes(bytes: Uint8Array | null): string | null {
  if (bytes === null) return null
  try {
    return storedHistogramJson(bytes)
  } catch (error) {
    if (!(error instanceof RangeError)) throw error
    return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('base64')
  }
}

async function plansOf(connection: DuckDBConnection, sql: string, analyze: boolean): Promise<[string, string][]> {
  const statement = `EXPLAIN ${analyze ? 'ANALYZE ' : ''}${sql}`
  const reader = await connection.runAndReadAll(statement)
  // EXPLAIN ANALYZE repeats the statement, as it was rewritten.
  return reader
    .getRows()
    .filter(([kind]) => !String(kind).startsWith('logical_'))
    .map((row) => [String(row[0]), withoutPaths(String(row[1]).replaceAll(statement, ''))])
}

/** Blanks the boxes' lists of file names: DuckDB draws plans as boxes and breaks long names over lines. */
function withoutPaths(plan: string): string {
  const lines = plan.split('\n')
  for (let i = 0; i < lines.length; i++) {
    const at = lines[i].indexOf('Filename(s):')
    if (at < 0) continue
    const [from, to] = [lines[i].lastIndexOf('│', at) + 1, lines[i].indexOf('│', at)]
    for (let j = i; j < lines.length && lines[j].slice(from, to).trim() !== '' && !lines[j].slice(from, to).includes('─'); j++) {
      lines[j] = lines[j].slice(0, from) + ' '.repeat(to - from) + lines[j].slice(to)
    }
    i-- // another box on the same line may have a list as well
  }
  return lines.join('\n')
}
