/** Runs a caller's statement: gate and rewriting, DuckDB, results as a cursor. */
import type { SqlChunk, SqlColumn, SqlCursor, SqlRequest } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import { sqlError } from './errors.ts'
import { hintText, type SqlHost } from './host.ts'
import type { Names } from './names.ts'
import { guardPlan } from './plan-guard.ts'
import { type PreparedSql, prepareSql } from './prepare.ts'
import type { Scan } from './printer.ts'
import { runnerOn, type Statement, type StatementRunner } from './statement.ts'

export interface OpenedSql extends SqlCursor {
  /** Instead of reading it: the connection is at rest afterwards. */
  discard(): void
}

/** Columns of texts that an answer may have beyond those that are read. */
const MORE_TEXTS = 8

/**
 * Opens a statement of a namespace on the host's connection, which belongs to the cursor until it is read to its end or left. It runs when the first
 * row is asked for. `signal` interrupts it. @throws SvcError SQL_ERROR, QUERY_TIMEOUT (interrupted), DATABASE_ERROR; so does reading the cursor.
 * @param firstRows see `prepareSql`.
 */
export async function openSql(
  host: SqlHost,
  { namespace, query, parameters, textBytes, limit }: SqlRequest,
  signal?: AbortSignal,
  firstRows?: number,
): Promise<OpenedSql> {
  let names: Names | undefined
  const fail = (error: unknown): unknown => sqlError(error, signal, names)
  const calm = interruptible(host, signal)
  try {
    const openIt = async (apart: boolean): Promise<[PreparedSql, Statement]> => {
      const prepared = await prepareSql(host, namespace, query, { parameters, enumResults: textBytes, apart, firstRows })
      names = prepared.names
      return [prepared, await open(host, namespace, prepared, textBytes === true, limit)]
    }
    let [prepared, statement] = await openIt(false)
    if (prepared.runner === undefined && prepared.explain === 'no' && copiesTexts(host, namespace, prepared, statement)) {
      statement.destroy()
      ;[prepared, statement] = await openIt(true)
    }
    if (prepared.parameters.length > 0 && parameters === undefined) return await describeOpen(host, namespace, query, prepared, statement)
    const explains = prepared.explain !== 'no'
    if (explains) statement.destroy()
    const guarded = running(host, explains ? explained(host, prepared, namespace !== '') : statement.rows(), fail, signal)
    const discard = (): void => (explains ? undefined : statement.destroy())
    return { columns: explains ? PLAN_COLUMNS : statement.columns, parameters: [], discard, [Symbol.asyncIterator]: () => guarded }
  } catch (error) {
    throw fail(error)
  } finally {
    calm()
  }
}

const runnerOf = (host: SqlHost, { runner }: PreparedSql): StatementRunner => runner ?? runnerOn(host.connection, host.place)

async function open(host: SqlHost, namespace: string, prepared: PreparedSql, textBytes: boolean, limit?: number): Promise<Statement> {
  const { sql, scans, names, describes, unites } = prepared
  // An engine process has a DuckDB of its own, and the guard beside it.
  if (prepared.runner === undefined) await guardPlan(describes ?? sql, host.bounds, host.connection, host.place)
  const statement = await runnerOf(host, prepared).open(sql, {
    textBytes: textBytes && describes === undefined,
    ...(describes === undefined ? { unites, limit } : {}),
    histograms: () => readsHistograms(host, namespace, scans),
  })
  if (names === undefined) return statement
  const columns = statement.columns.map((column) => ({ ...column, name: names.publicColumn(column.name) }))
  return { ...statement, columns, ...(describes === undefined ? {} : { rows: () => withPublicColumns(statement.rows(), names) }) }
}

/** @param rows of a statement that describes another: names are what its first column has. */
async function* withPublicColumns(rows: AsyncGenerator<SqlChunk>, names: Names): AsyncGenerator<SqlChunk> {
  for await (const { rows: count, columns } of rows) {
    const [first, ...others] = columns
    const values = (first.values as string[]).map((name) => names.publicColumn(name))
    yield { rows: count, columns: [{ ...first, values }, ...others] }
  }
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

/** A query whose parameters have no values: what it will answer, and what it asks for. */
async function describeOpen(host: SqlHost, namespace: string, query: string, prepared: PreparedSql, statement: Statement): Promise<OpenedSql> {
  const { parameters: names, explain } = prepared
  const used = names.filter((name) => name !== undefined)
  const types = names.map((name) => (name === undefined ? 'Null' : (statement.parameterTypes[used.indexOf(name)] ?? 'Null')))
  let describing = statement
  // Where DuckDB cannot infer a parameter's type, it says nothing of the columns either: asked again with NULL in its place, it mostly does.
  for (const parameters of [types.map((type) => (type === 'Null' ? null : undefined)), types.map(() => null)]) {
    if (explain !== 'no' || describing.columnsKnown) break
    const again = await prepareSql(host, namespace, query, { parameters })
    describing.destroy()
    describing = await open(host, namespace, again, false)
  }
  const columns = explain === 'no' ? describing.columns : PLAN_COLUMNS
  describing.destroy()
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

function readsHistograms(host: SqlHost, namespace: string, scans: readonly Scan[]): boolean {
  return scans.some(({ measurement, columns }) =>
    host.measurement(namespace, measurement)?.columns.some(({ name, type }) => type === 'histogram' && columns.includes(name)),
  )
}

/** Whether an answer shows texts in many more columns than are read. */
function copiesTexts(host: SqlHost, namespace: string, { scans }: PreparedSql, { copied = 0 }: Statement): boolean {
  if (copied <= MORE_TEXTS) return false
  const read = new Set<unknown>()
  for (const { measurement, columns } of scans)
    for (const column of host.measurement(namespace, measurement)?.columns ?? [])
      if ((column.role === 'tag' || column.type === 'string' || column.type === 'histogram') && columns.includes(column.name)) read.add(column)
  return copied > MORE_TEXTS + read.size
}

const PLAN_COLUMNS: SqlColumn[] = ['plan_type', 'plan'].map((name) => ({ name, type: 'Utf8' }))

/**
 * Rows (plan_type, plan): a row `scan` for each measurement read, with its time range, then DuckDB's own plans. @param blank without their numbers: rows
 * of several namespaces lie in one file, and its size, or a series' number, tells of what others hold.
 */
async function* explained(host: SqlHost, prepared: PreparedSql, blank: boolean): AsyncGenerator<SqlChunk> {
  const found = await runnerOf(host, prepared).plans(prepared.sql, prepared.explain === 'analyze')
  const plans = found.map(([name, text]) => {
    const plan = withPublicNames(text, prepared.names)
    return [name, blank ? plan.replace(/\d/g, '#') : plan]
  })
  const rows = [...prepared.scans.map((scan) => ['scan', scanLine(scan)]), ...plans]
  yield { rows: rows.length, columns: PLAN_COLUMNS.map((_, i) => ({ values: rows.map((row) => row[i]) })) }
}

function scanLine(scan: Scan): string {
  const tags = scan.tags.map(hintText).join('')
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
