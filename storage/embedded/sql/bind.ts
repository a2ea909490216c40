/**
 * Statements checked and bound for an engine that runs them elsewhere. The gate is the same as for the embedded engine's own; DuckDB, which here holds no rows,
 * gives every name its meaning and every value its type, and what it answers is the plan. A statement that reads no measurement, or is only described, is
 * answered by DuckDB itself.
 */
import { type DuckDBConnection, DuckDBInstance } from '@duckdb/node-api'
import type { DeclaredSqlFunction, SqlChunk, SqlColumn, SqlCursor, SqlRequest } from 'svcdb'
import { functionSpec, NATIVE_PREFIX } from '../threads/function-spec.ts'
import { ident, literal, refuse } from './ast.ts'
import { hinted, sqlError } from './errors.ts'
import { duckType, type RelationRequest, type SqlHost, type SqlMeasurement } from './host.ts'
import type { Names } from './names.ts'
import { type OpenedSql, openSql } from './open.ts'
import { type PreparedSql, prepareSql } from './prepare.ts'
import { sqlSetup } from './setup.ts'
import { runnerOn } from './statement.ts'

export { type BucketSpec, bucketingOf } from './bucket-sql.ts'
export { hintText, type RelationRequest, type SqlMeasurement, type SqlMeasurementColumn } from './host.ts'
export { NATIVE_PREFIX }

/** A scan of a measurement in a plan: `table` is the name that the plan has for it. */
export interface BoundScan {
  table: string
  request: RelationRequest
}

// A plan is data of DuckDB's: members are looked at one by one.
// biome-ignore lint/suspicious/noExplicitAny: see above
export type PlanNode = Record<string, any>

type BoundSql =
  | { kind: 'answered'; cursor: SqlCursor }
  | { kind: 'plan'; plan: PlanNode; columns: SqlColumn[]; scans: readonly BoundScan[] }
  /** EXPLAIN: what would be scanned. */
  | { kind: 'explained'; plan: PlanNode; columns: SqlColumn[]; scans: readonly BoundScan[] }

interface BindRequest extends SqlRequest {
  /** Those that the statement may mean. */
  measurements: readonly SqlMeasurement[]
  /** Nanoseconds. */
  now: bigint
  /** Functions, aggregates among them, whose results are hardly longer than their arguments: of these constants are computed here. */
  computes: ReadonlySet<string>
}

/** Statements are small: this is for the parser, and for what reads no measurement. */
const MEMORY = '256MB'
/** Folds constants, and changes nothing else: what it would know of the rows is that there are none. */
const KEPT_OPTIMIZER = 'expression_rewriter'
/** Integers that JSON.parse would round. Within a text the quotes are escaped, so this cannot match there. */
const LONG_INTEGER = /"(value|upper|lower|constant_integer|months|days|micros)":(-?\d{16,})(?=[,}\]])/g

export class Binder {
  private readonly instance: DuckDBInstance
  private readonly setup: Awaited<ReturnType<typeof sqlSetup>>
  private readonly optimizers: string

  private constructor(instance: DuckDBInstance, setup: Awaited<ReturnType<typeof sqlSetup>>, optimizers: string) {
    this.instance = instance
    this.setup = setup
    this.optimizers = optimizers
  }

  static async open(functions: readonly DeclaredSqlFunction[]): Promise<Binder> {
    const instance = await DuckDBInstance.create(':memory:', {
      ...{ threads: '1', memory_limit: MEMORY, temp_directory: '' },
      ...{ autoinstall_known_extensions: 'false', autoload_known_extensions: 'false', allow_community_extensions: 'false' },
    })
    const connection = await instance.connect()
    try {
      const names = (await connection.runAndReadAll('SELECT name FROM duckdb_optimizers()')).getRows().map(([name]) => String(name))
      const setup = await sqlSetup(functions.map(functionSpec))
      setup.register(connection)
      for (const statement of [
        `SET TimeZone = 'UTC'`,
        `SET enable_external_access = false`,
        `SET allowed_configs = ['disabled_optimizers', 'explain_output']`,
        `SET lock_configuration = true`,
      ])
        await connection.run(statement)
      return new Binder(instance, setup, names.filter((name) => name !== KEPT_OPTIMIZER).join(','))
    } finally {
      connection.closeSync()
    }
  }

  close(): void {
    this.instance.closeSync()
  }

  /** @throws SvcError as the embedded engine's reader would. */
  async bind(request: BindRequest, signal?: AbortSignal): Promise<BoundSql> {
    const connection = await this.instance.connect()
    let names: Names | undefined
    let kept = false
    const interrupt = (): void => connection.interrupt()
    signal?.addEventListener('abort', interrupt, { once: true })
    const close = (): void => {
      signal?.removeEventListener('abort', interrupt)
      connection.closeSync()
    }
    try {
      await connection.run("SET explain_output = 'all'")
      const host = new EmptyHost(connection, request, this.setup.functions)
      const { namespace, query, parameters, textBytes } = request
      const prepared = await prepareSql(host, namespace, query, { parameters })
      names = prepared.names
      await host.makeTables()
      const open = parameters === undefined && prepared.parameters.length > 0
      const described = await this.columnsOf(connection, host, prepared)
      const plan = open || prepared.describes !== undefined ? undefined : await this.planOf(connection, prepared.sql, false)
      const computed = plan !== undefined && isComputed(plan, request.computes)
      if (plan === undefined || (host.scans.length === 0 && prepared.explain === 'no')) {
        if (plan !== undefined && host.unbounded && !computed)
          throw refuse('cannot run this query here: it reads no measurement, and how long it would take is not known before; read from a measurement')
        const cursor = await openSql(host.again(), { namespace, query, ...(parameters === undefined ? {} : { parameters }), textBytes }, signal)
        kept = true
        return { kind: 'answered', cursor: ended(cursor, close, signal) }
      }
      const columns = described.map((column) => ({ ...column, name: names?.publicColumn(column.name) ?? column.name }))
      const folded = computed ? await this.planOf(connection, prepared.sql, true) : plan
      return { kind: prepared.explain === 'no' ? 'plan' : 'explained', plan: folded, columns, scans: host.scans }
    } catch (error) {
      throw sqlError(error, signal, names)
    } finally {
      if (!kept) close()
    }
  }

  private async columnsOf(connection: DuckDBConnection, host: EmptyHost, { sql }: PreparedSql): Promise<SqlColumn[]> {
    const statement = await runnerOn(connection).open(sql, { textBytes: false, histograms: () => host.readsHistograms() })
    statement.destroy()
    return statement.columns
  }

  /** @param fold constants are computed: only where none can take long. */
  private async planOf(connection: DuckDBConnection, sql: string, fold: boolean): Promise<PlanNode> {
    if (fold) await connection.run(`SET disabled_optimizers = ${literal(this.optimizers)}`)
    const reader = await connection.runAndReadAll(
      `SELECT json_serialize_plan(${literal(sql)}, optimize := ${fold}, skip_default := true, skip_null := true, skip_empty := false)`,
    )
    const result = JSON.parse(String(reader.getRows()[0][0]).replace(LONG_INTEGER, '"$1":"$2"')) as PlanNode
    if (result.error === true) throw refuse(`cannot run this query: ${hinted(String(result.error_message))}`)
    return (result.plans as PlanNode[])[0]
  }
}

const SCANS = new Set(['LOGICAL_GET', 'LOGICAL_DUMMY_SCAN', 'LOGICAL_EXPRESSION_GET', 'LOGICAL_CTE_REF'])
const STEPS = new Set(
  'PROJECTION FILTER AGGREGATE_AND_GROUP_BY WINDOW ORDER_BY LIMIT DISTINCT UNION EXCEPT INTERSECT COMPARISON_JOIN MATERIALIZED_CTE CROSS_PRODUCT'
    .split(' ')
    .map((name) => `LOGICAL_${name}`),
)

/** Whether a plan has nothing but steps over the rows that it is given, and calls no other function. */
function isComputed(part: unknown, functions: ReadonlySet<string>): boolean {
  if (typeof part !== 'object' || part === null) return true
  if (Array.isArray(part)) return part.every((each) => isComputed(each, functions))
  const node = part as PlanNode
  if (typeof node.type === 'string' && node.type.startsWith('LOGICAL_')) {
    if (!STEPS.has(node.type) && !SCANS.has(node.type)) return false
    if (node.type === 'LOGICAL_GET' && node.name !== 'seq_scan') return false
  }
  // What refers to a column is not computed before it is read.
  const call = node.expression_class === 'BOUND_FUNCTION' || node.expression_class === 'BOUND_AGGREGATE'
  if (call && !functions.has(String(node.name)) && !refers(node)) return false
  return Object.values(node).every((each) => isComputed(each, functions))
}

function refers(part: unknown): boolean {
  if (typeof part !== 'object' || part === null) return false
  return (part as PlanNode).expression_class === 'BOUND_REF' || Object.values(part).some(refers)
}

/** Measurements as empty tables, one for each scan, so that a plan says which one it means. */
class EmptyHost implements SqlHost {
  readonly connection: DuckDBConnection
  readonly functions: SqlHost['functions']
  readonly scans: BoundScan[] = []
  readonly bounds: SqlHost['bounds']
  unbounded = false
  private readonly request: BindRequest
  private readonly tables = new Set<string>()
  private made = 0

  constructor(connection: DuckDBConnection, request: BindRequest, functions: SqlHost['functions']) {
    this.connection = connection
    this.request = request
    this.functions = functions
    this.bounds = { source: 'svc_source', isFile: () => false, isSource: () => false, tables: this.tables, refused: () => {} }
  }

  /** For the same statement once more. */
  again(): this {
    this.scans.length = 0
    return this
  }

  apart(): ReturnType<NonNullable<SqlHost['apart']>> {
    this.unbounded = true
    return { host: this, runner: runnerOn(this.connection) }
  }

  measurements(): SqlMeasurement[] {
    return [...this.request.measurements]
  }

  measurement(_: string, name: string): SqlMeasurement | undefined {
    return this.request.measurements.find((measurement) => measurement.name === name)
  }

  relation(request: RelationRequest): string {
    const table = `scan_${this.scans.length}`
    this.scans.push({ table, request })
    return `SELECT ${request.columns.map(ident).join(', ')} FROM temp.main.${table}`
  }

  now(): bigint {
    return this.request.now
  }

  async makeTables(): Promise<void> {
    for (; this.made < this.scans.length; this.made++) {
      const { table, request } = this.scans[this.made]
      const { columns } = this.asked(request)
      const wanted = columns.filter(({ name }) => request.columns.includes(name))
      await this.connection.run(`CREATE TEMP TABLE ${table} (${wanted.map((column) => `${ident(column.name)} ${duckType(column)}`).join(', ')})`)
      this.tables.add(`"temp".main.${table}`)
    }
  }

  readsHistograms(): boolean {
    return this.scans.some(({ request }) => this.asked(request).columns.some(({ name, type }) => type === 'histogram' && request.columns.includes(name)))
  }

  private asked({ measurement }: RelationRequest): SqlMeasurement {
    return this.measurement('', measurement) as SqlMeasurement
  }
}

/** @param close called once the cursor has been read, or left, or the signal has ended what would read it. */
function ended(cursor: OpenedSql, close: () => void, signal: AbortSignal | undefined): SqlCursor {
  const { columns, parameters } = cursor
  let begun = false
  const abandon = (): void => {
    if (begun) return
    begun = true
    cursor.discard()
    close()
  }
  signal?.addEventListener('abort', abandon, { once: true })
  async function* rows(): AsyncGenerator<SqlChunk> {
    begun = true
    try {
      yield* cursor
    } finally {
      signal?.removeEventListener('abort', abandon)
      close()
    }
  }
  return { columns, parameters, [Symbol.asyncIterator]: () => rows() }
}
