/** Runs a caller's statement: gate and rewriting, DuckDB, results as a cursor. */
import { type DuckDBDataChunk, type DuckDBPreparedStatement, DuckDBTypeId } from '@duckdb/node-api'
import { SvcError } from '../../../kernel/errors.ts'
import { storedHistogramJson } from '../../../kernel/histogram/json.ts'
import type { SqlChunk, SqlColumn, SqlCursor, SqlRequest, SqlVector } from '../../../kernel/storage.ts'
import { readVector, resultColumn } from '../worker/vectors.ts'
import { sqlError } from './errors.ts'
import type { SqlHost } from './host.ts'
import type { Names } from './names.ts'
import { guardPlan } from './plan-guard.ts'
import { type PreparedSql, prepareSql } from './prepare.ts'
import type { Scan } from './printer.ts'
import { arrowName } from './types.ts'

export interface OpenedSql extends SqlCursor {
  /** Instead of reading it: the connection is at rest afterwards. */
  discard(): void
}

/**
 * Opens a statement of a namespace on the host's connection, which belongs to the cursor until it is read to its end or left. It runs when the first
 * row is asked for. `signal` interrupts it. @throws SvcError SQL_ERROR, QUERY_TIMEOUT (interrupted), DATABASE_ERROR; so does reading the cursor.
 */
export async function openSql(host: SqlHost, { namespace, query, parameters, textBytes }: SqlRequest, signal?: AbortSignal): Promise<OpenedSql> {
  let names: Names | undefined
  const fail = (error: unknown): unknown => sqlError(error, signal, names)
  const calm = interruptible(host, signal)
  try {
    const prepared = await prepareSql(host, namespace, query, { parameters, enumResults: textBytes })
    names = prepared.names
    await guardPlan(prepared.describes ?? prepared.sql, host.bounds, host.connection, openParameters(prepared, parameters))
    const statement = await host.connection.prepare(prepared.sql)
    if (prepared.parameters.length > 0 && parameters === undefined) return await describeOpen(host, namespace, query, prepared, statement)
    const answer = prepared.explain === 'no' ? answerOf(statement, names, () => readsHistograms(host, namespace, prepared.scans)) : undefined
    if (answer === undefined) statement.destroySync()
    const rows =
      answer === undefined
        ? explained(host, prepared, namespace !== '')
        : rowsOf(statement, answer, textBytes === true, prepared.describes === undefined ? undefined : names)
    const guarded = running(host, rows, fail, signal)
    const discard = (): void => (answer === undefined ? undefined : statement.destroySync())
    return { columns: answer?.columns ?? PLAN_COLUMNS, parameters: [], discard, [Symbol.asyncIterator]: () => guarded }
  } catch (error) {
    throw fail(error)
  } finally {
    calm()
  }
}

function openParameters({ parameters: names }: PreparedSql, values: SqlRequest['parameters']): number {
  return values === undefined ? names.filter((name) => name !== undefined).length : 0
}

/** @returns what to call when the connection is at rest. */
function interruptible(host: SqlHost, signal: AbortSignal | undefined): () => void {
  if (signal?.aborted) throw new SvcError('QUERY_TIMEOUT', 'the query was stopped before it began')
  const interrupt = (): void => host.connection.interrupt()
  signal?.addEventListener('abort', interrupt, { once: true })
  return () => signal?.removeEventListener('abort', interrupt)
}

async function* running(host: SqlHost, rows: AsyncGenerator<SqlChunk>, fail: (error: unknown) => unknown, signal?: AbortSignal): AsyncGenerator<SqlChunk> {
  const calm = interruptible(host, signal)
  try {
    yield* rows
  } catch (error) {
    throw fail(error)
  } finally {
    calm()
  }
}

interface Answer {
  columns: SqlColumn[]
  /** Columns of bytes that are shown as text. */
  shown: boolean[]
}

/** @param histograms whether the statement reads a histogram column: asked only if bytes are among the results. */
function answerOf(statement: DuckDBPreparedStatement, names: Names | undefined, histograms: () => boolean): Answer {
  const ids = Array.from({ length: statement.columnCount }, (_, i) => statement.columnTypeId(i))
  const shows = ids.includes(DuckDBTypeId.BLOB) && histograms()
  const shown = ids.map((id) => shows && id === DuckDBTypeId.BLOB)
  const typeOf = (i: number): string => (ids[i] === DuckDBTypeId.INVALID ? 'Null' : shown[i] ? 'Utf8' : arrowName(statement.columnType(i)))
  const nameOf = (i: number): string => names?.publicColumn(statement.columnName(i)) ?? statement.columnName(i)
  return { columns: ids.map((_, i) => ({ name: nameOf(i), type: typeOf(i) })), shown }
}

/** @param described generated names that the first column has, for a statement that describes another. */
async function* rowsOf(statement: DuckDBPreparedStatement, { shown }: Answer, textBytes: boolean, described: Names | undefined): AsyncGenerator<SqlChunk> {
  const result = await statement.stream().finally(() => statement.destroySync())
  const readers = shown.map((_, i) => resultColumn(result.columnLogicalType(i).logical_type))
  const read = (chunk: DuckDBDataChunk, i: number): SqlVector => {
    const vector = readVector(chunk, i, readers[i], textBytes)
    if (described !== undefined && i === 0) return { ...vector, values: (vector.values as string[]).map((name) => described.publicColumn(name)) }
    return shown[i] ? { ...vector, values: (vector.values as (Uint8Array | null)[]).map(shownBytes) } : vector
  }
  for (;;) {
    const chunk = await result.fetchChunk()
    if (chunk === null || chunk.rowCount === 0) return
    yield { rows: chunk.rowCount, columns: readers.map((_, i) => read(chunk, i)) }
  }
}

/** A query whose parameters have no values: what it will answer, and what it asks for. */
async function describeOpen(
  host: SqlHost,
  namespace: string,
  query: string,
  { parameters: names, names: generated, explain, scans }: PreparedSql,
  statement: DuckDBPreparedStatement,
): Promise<OpenedSql> {
  const used = names.filter((name) => name !== undefined)
  const types = names.map((name) => (name === undefined ? 'Null' : parameterType(statement, used.indexOf(name) + 1)))
  let describing = statement
  // Where DuckDB cannot infer a parameter's type, it says nothing of the columns either: asked again with NULL in its place, it mostly does.
  for (const parameters of [types.map((type) => (type === 'Null' ? null : undefined)), types.map(() => null)]) {
    if (explain !== 'no' || describing.columnTypeId(0) !== DuckDBTypeId.INVALID) break
    const { sql } = await prepareSql(host, namespace, query, { parameters })
    describing.destroySync()
    describing = await host.connection.prepare(sql)
  }
  const { columns } = explain === 'no' ? answerOf(describing, generated, () => readsHistograms(host, namespace, scans)) : { columns: PLAN_COLUMNS }
  describing.destroySync()
  return {
    columns,
    parameters: types,
    discard: () => {},
    [Symbol.asyncIterator]: () => ({
      next: () =>
        Promise.reject(
          new SvcError('SQL_ERROR', `cannot run the query: no values were given for its ${names.length === 1 ? 'parameter' : `${names.length} parameters`}`),
        ),
    }),
  }
}

function parameterType(statement: DuckDBPreparedStatement, place: number): string {
  return statement.parameterTypeId(place) === DuckDBTypeId.INVALID ? 'Null' : arrowName(statement.parameterType(place))
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

const PLAN_COLUMNS: SqlColumn[] = ['plan_type', 'plan'].map((name) => ({ name, type: 'Utf8' }))

/**
 * Rows (plan_type, plan): a row `scan` for each measurement read, with its time range, then DuckDB's own plans. @param blank without their numbers: rows
 * of several namespaces lie in one file, and its size, or a series' number, tells of what others hold.
 */
async function* explained(host: SqlHost, prepared: PreparedSql, blank: boolean): AsyncGenerator<SqlChunk> {
  const statement = `EXPLAIN ${prepared.explain === 'analyze' ? 'ANALYZE ' : ''}${prepared.sql}`
  const reader = await host.connection.runAndReadAll(statement)
  // EXPLAIN ANALYZE repeats the statement, as it was rewritten.
  const plans = reader
    .getRows()
    .filter(([kind]) => !String(kind).startsWith('logical_'))
    .map((row) => {
      const plan = withPublicNames(withoutPaths(String(row[1]).replaceAll(statement, '')), prepared.names)
      return [String(row[0]), blank ? plan.replace(/\d/g, '#') : plan]
    })
  const rows = [...prepared.scans.map((scan) => ['scan', scanLine(scan)]), ...plans]
  yield { rows: rows.length, columns: PLAN_COLUMNS.map((_, i) => ({ values: rows.map((row) => row[i]) })) }
}

function scanLine(scan: Scan): string {
  const tags = scan.tags.map(({ tag, values }) => ` ${tag} in [${values.join(', ')}]`).join('')
  return `Scan: ${scan.measurement} time=[${scan.time[0]}..${scan.time[1]}] columns=[${scan.columns.join(', ')}]${tags}`
}

/** DuckDB draws plans as boxes: a name takes the room of its own box, and is cut where it would need more. */
function withPublicNames(plan: string, names: Names | undefined): string {
  if (names === undefined) return plan
  return plan.replace(/(?<=│)[^│\n]*(?=│)/g, (cell) => {
    const text = names.publicText(cell)
    if (text === cell) return cell
    const words = text.trim().slice(0, cell.length)
    return words.padStart((cell.length + words.length) >> 1).padEnd(cell.length)
  })
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
