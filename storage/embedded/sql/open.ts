/** Runs a caller's statement: gate and rewriting, DuckDB, results as a cursor. */
import type { DuckDBResult } from '@duckdb/node-api'
import { SvcError } from '../../../kernel/errors.ts'
import type { SqlChunk, SqlColumn, SqlCursor } from '../../../kernel/storage.ts'
import { readVector, resultColumn } from '../worker/vectors.ts'
import { sqlError } from './errors.ts'
import type { SqlHost } from './host.ts'
import { type PreparedSql, prepareSql } from './prepare.ts'
import type { Scan } from './printer.ts'
import { arrowName } from './types.ts'

/**
 * Opens a statement of a namespace on the host's connection, which belongs to the cursor until it is read to its end or left.
 * `signal` interrupts it. @throws SvcError SQL_ERROR, QUERY_TIMEOUT (interrupted), DATABASE_ERROR; so does reading the cursor.
 */
export async function openSql(host: SqlHost, namespace: string, text: string, signal?: AbortSignal): Promise<SqlCursor> {
  const interrupt = (): void => host.connection.interrupt()
  const fail = (error: unknown): unknown => sqlError(error, signal)
  if (signal?.aborted) throw new SvcError('QUERY_TIMEOUT', 'the query was stopped before it began')
  signal?.addEventListener('abort', interrupt, { once: true })
  const release = (): void => signal?.removeEventListener('abort', interrupt)
  try {
    const prepared = await prepareSql(host, namespace, text)
    if (prepared.explain !== 'no') {
      const cursor = await explained(host, prepared)
      release()
      return cursor
    }
    const statement = await host.connection.prepare(prepared.sql)
    const result = await statement.stream().finally(() => statement.destroySync())
    return cursorOf(result, fail, release)
  } catch (error) {
    release()
    throw fail(error)
  }
}

function cursorOf(result: DuckDBResult, fail: (error: unknown) => unknown, release: () => void): SqlCursor {
  const types = result.columnTypes()
  const columns = result.columnNames().map((name, i): SqlColumn => ({ name, type: arrowName(types[i]) }))
  const readers = columns.map((_, i) => resultColumn(result.columnLogicalType(i).logical_type))
  async function* chunks(): AsyncGenerator<SqlChunk> {
    try {
      for (;;) {
        const chunk = await result.fetchChunk()
        if (chunk === null || chunk.rowCount === 0) return
        yield { rows: chunk.rowCount, columns: readers.map((reader, i) => readVector(chunk, i, reader)) }
      }
    } catch (error) {
      throw fail(error)
    } finally {
      release()
    }
  }
  const iterable = chunks()
  return { columns, [Symbol.asyncIterator]: () => iterable }
}

/** Rows (plan_type, plan): a row `scan` for each measurement read, with its time range, then DuckDB's own plans. */
async function explained(host: SqlHost, prepared: PreparedSql): Promise<SqlCursor> {
  const statement = `EXPLAIN ${prepared.explain === 'analyze' ? 'ANALYZE ' : ''}${prepared.sql}`
  const reader = await host.connection.runAndReadAll(statement)
  // EXPLAIN ANALYZE repeats the statement, as it was rewritten.
  const plans = reader.getRows().map((row) => [String(row[0]), withoutPaths(String(row[1]).replaceAll(statement, ''))])
  const rows = [...prepared.scans.map((scan) => ['scan', scanLine(scan)]), ...plans]
  const columns = ['plan_type', 'plan'].map((name) => ({ name, type: 'Utf8' }))
  const chunk: SqlChunk = { rows: rows.length, columns: [0, 1].map((i) => ({ values: rows.map((row) => row[i]) })) }
  return {
    columns,
    async *[Symbol.asyncIterator]() {
      yield chunk
    },
  }
}

function scanLine(scan: Scan): string {
  const tags = scan.tags.map(({ tag, values }) => ` ${tag} in [${values.join(', ')}]`).join('')
  return `Scan: ${scan.measurement} time=[${scan.time[0]}..${scan.time[1]}] columns=[${scan.columns.join(', ')}]${tags}`
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
