/** Runs a caller's statement: gate and rewriting, DuckDB, results as a cursor. */
import { type DuckDBDataChunk, type DuckDBResult, DuckDBTypeId } from '@duckdb/node-api'
import { SvcError } from '../../../kernel/errors.ts'
import { storedHistogramJson } from '../../../kernel/histogram/json.ts'
import type { SqlChunk, SqlColumn, SqlCursor, SqlVector } from '../../../kernel/storage.ts'
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
    return cursorOf(result, () => readsHistograms(host, namespace, prepared.scans), fail, release)
  } catch (error) {
    release()
    throw fail(error)
  }
}

/** @param histograms whether the statement reads a histogram column: asked only if bytes are among the results. */
function cursorOf(result: DuckDBResult, histograms: () => boolean, fail: (error: unknown) => unknown, release: () => void): SqlCursor {
  const types = result.columnTypes()
  const bytes = types.map(({ typeId }) => typeId === DuckDBTypeId.BLOB)
  const shown = bytes.includes(true) && histograms()
  const columns = result.columnNames().map((name, i): SqlColumn => ({ name, type: shown && bytes[i] ? 'Utf8' : arrowName(types[i]) }))
  const readers = columns.map((_, i) => resultColumn(result.columnLogicalType(i).logical_type))
  const read = (chunk: DuckDBDataChunk, i: number): SqlVector => {
    const vector = readVector(chunk, i, readers[i])
    return shown && bytes[i] ? { ...vector, values: (vector.values as (Uint8Array | null)[]).map(shownBytes) } : vector
  }
  async function* chunks(): AsyncGenerator<SqlChunk> {
    try {
      for (;;) {
        const chunk = await result.fetchChunk()
        if (chunk === null || chunk.rowCount === 0) return
        yield { rows: chunk.rowCount, columns: readers.map((_, i) => read(chunk, i)) }
      }
    } catch (error) {
      throw fail(error)
    } finally {
      release()
    }
  }
  const iterable = chunks()
  return { columns, parameters: [], [Symbol.asyncIterator]: () => iterable }
}

function readsHistograms(host: SqlHost, namespace: string, scans: readonly Scan[]): boolean {
  const known = new Map(host.measurements(namespace).map((measurement) => [measurement.name, measurement]))
  return scans.some(({ measurement, columns }) => known.get(measurement)?.columns.some(({ name, type }) => type === 'histogram' && columns.includes(name)))
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
    parameters: [],
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
