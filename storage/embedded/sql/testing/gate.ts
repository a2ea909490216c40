/**
 * Two tenants in one DuckDB for the gate's tests: tables and a segment file of each. What the one asks must read its own tables only, and where its names
 * are of no meaning to DuckDB, answer what DuckDB itself answers over tables of those names.
 */
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { type DuckDBConnection, DuckDBInstance } from '@duckdb/node-api'
import type { Random } from '../../../conformance/random.ts'
import { sqlText } from '../../duckdb/duckdb.ts'
import { ident, type Node } from '../ast.ts'
import type { SqlHost, SqlMeasurement } from '../host.ts'
import { openSql } from '../open.ts'
import { prepareSql } from '../prepare.ts'
import { sqlSetup } from '../setup.ts'
import { PLAIN_MACROS, TEST_FUNCTIONS } from './functions.ts'
import { StatementGenerator } from './statements.ts'

const KELVIN = '\u212a'
const MINE = ['cpu', 'Mem', 'k']
const COLUMNS = ['v', 'W', 'k']
/** The other tenant's values are above it; no statement computes its way up there from the caller's own. */
const FOREIGN = 1_000_000_000
const PLAIN_NAMES = ['a', 'b', 'c', 'x', 'v', 'w', 'A b', 'Ä', 'ä', 'select', KELVIN, 'say "so"']

const hostileNames = (segments: string): string[] => [
  ...['duckdb_tables', 'duckdb_columns', 'duckdb_views()', 'sqlite_master', 'pragma_database_list', 'pg_tables', 'information_schema.tables', 'tables'],
  ...[`duc${KELVIN}db_tables`, `DUC${KELVIN}DB_COLUMNS`, 'sqlite_master ', '__theirs_cpu', 'main.__theirs_cpu', 'memory.main.__theirs_cpu', 'disk'],
  ...[`${segments}/1.parquet`, `${segments}/*.parquet`, `${segments}/[1-9k].parquet`, `${segments}/[1-9${KELVIN}].parquet`, `${segments}/**`],
  ...[
    `read_parquet('${segments}/1.parquet')`,
    'read_parquet',
    'svc_source',
    '__svc_fn_plus_one',
    'query',
    'query_table',
    'getenv',
    'current_user',
    'current_schema',
  ],
  ...[
    'rowid',
    'filename',
    'file_row_number',
    'excluded',
    'main',
    'memory',
    'system',
    'cte_1',
    'CTE_2',
    'column_0',
    'COLUMN_1',
    '_series',
    '_measurement',
    'p',
    's',
    'k0',
  ],
]

export interface Tried {
  sql: string
  outcome: 'answered' | 'refused'
  /** What must not have been. */
  problem?: string
}

/** Chance makes products of everything with everything: what takes longer is not compared. */
const STATEMENT_MS = 3000

export class GateHarness {
  private readonly instance: DuckDBInstance
  private readonly host: SqlHost
  /** DuckDB with the caller's tables under their own names. */
  private readonly plain: DuckDBConnection
  private readonly hostile: string[]
  private readonly refusals: string[]
  /** Tables that the statement's relations have read. */
  private readonly given: Set<string>

  private constructor(instance: DuckDBInstance, host: SqlHost, plain: DuckDBConnection, hostile: string[], refusals: string[], given: Set<string>) {
    this.instance = instance
    this.host = host
    this.plain = plain
    this.hostile = hostile
    this.refusals = refusals
    this.given = given
  }

  /** @param dir an empty directory. */
  static async open(dir: string): Promise<GateHarness> {
    const segments = join(dir, 'segments')
    mkdirSync(segments, { recursive: true })
    const instance = await DuckDBInstance.create(':memory:', { threads: '1' })
    const connection = await instance.connect()
    const { functions, register } = await sqlSetup(TEST_FUNCTIONS)
    register(connection)
    const plainInstance = await DuckDBInstance.create(':memory:', { threads: '1' })
    const plain = await plainInstance.connect()
    for (const macro of PLAIN_MACROS) await plain.run(macro)
    const rows = (from: number): string =>
      `SELECT make_timestamp_ns(i) AS _time, ${COLUMNS.map((name, n) => `(i * ${n + 1} % 7 + ${from})::BIGINT AS ${name}`).join(', ')} FROM range(4) r(i)`
    for (const name of MINE) {
      await connection.run(`CREATE TABLE __mine_${name} AS ${rows(0)}`)
      await connection.run(`CREATE TABLE __theirs_${name} AS ${rows(FOREIGN * 10)}`)
      await plain.run(`CREATE TABLE ${name} AS ${rows(0)}`)
    }
    for (const file of [1, 2]) await connection.run(`COPY (${rows(FOREIGN * 10)}) TO ${sqlText(join(segments, `${file}.parquet`))}`)
    for (const setting of [`allowed_directories = [${sqlText(segments)}]`, 'enable_external_access = false', "explain_output = 'all'"])
      await connection.run(`SET ${setting}`)
    const measurement = (name: string): SqlMeasurement => ({
      name,
      columns: [{ name: '_time', role: 'time' }, ...COLUMNS.map((column) => ({ name: column, role: 'field' as const, type: 'int64' as const }))],
    })
    const refusals: string[] = []
    const given = new Set<string>()
    const host: SqlHost = {
      connection,
      functions,
      bounds: { source: 'svc_source', isFile: () => false, isSource: () => false, tables: given, refused: (reason) => refusals.push(reason) },
      measurements: (namespace) => [...MINE, ...(namespace === 'mine' ? [] : ['disk'])].map(measurement),
      measurement: (namespace, name) => host.measurements(namespace).find((each) => each.name === name),
      relation({ measurement, columns }) {
        given.add(`memory.main.__mine_${measurement}`)
        return `SELECT ${columns.map(ident).join(', ')} FROM __mine_${measurement}`
      },
      now: () => 0n,
    }
    return new GateHarness(instance, host, plain, hostileNames(segments), refusals, given)
  }

  close(): void {
    this.host.connection.closeSync()
    this.instance.closeSync()
    this.plain.closeSync()
  }

  /** A statement by chance. @param hostile with names that DuckDB knows. */
  async tryOne(random: Random, hostile: boolean): Promise<Tried> {
    const pool = [...PLAIN_NAMES, ...MINE, ...COLUMNS, ...(hostile ? this.hostile : [])]
    const sql = new StatementGenerator(random, { measurements: new Map(MINE.map((name) => [name, COLUMNS])), pool }).statement()
    return this.try(sql, hostile)
  }

  async try(sql: string, hostile: boolean): Promise<Tried> {
    this.given.clear()
    const own = await this.answer(sql)
    const outcome = own instanceof Error ? 'refused' : 'answered'
    const late = own instanceof Error && 'code' in own && own.code === 'QUERY_TIMEOUT'
    const problem = (await this.stray(sql)) ?? leak(own) ?? (hostile || late ? undefined : await this.difference(sql, own))
    return { sql, outcome, ...(problem === undefined ? {} : { problem }) }
  }

  private async answer(query: string): Promise<Rows | Error> {
    try {
      const cursor = await openSql(this.host, { namespace: 'mine', query }, AbortSignal.timeout(STATEMENT_MS))
      const rows: unknown[][] = []
      for await (const chunk of cursor) {
        for (let i = 0; i < chunk.rows; i++) rows.push(chunk.columns.map(({ values, validity }) => (validity?.[i] === 0 ? null : values[i])))
      }
      return { names: cursor.columns.map(({ name }) => name), rows }
    } catch (error) {
      return error as Error
    }
  }

  /** What the printed statement reads beyond its relations: by the guard, and by a look at the plan of its own. */
  private async stray(query: string): Promise<string | undefined> {
    if (this.refusals.length > 0) return `the guard had to refuse it: ${this.refusals.splice(0).join(', ')}`
    const printed = await prepareSql(this.host, 'mine', query).catch(() => undefined)
    if (printed === undefined) return undefined
    // Texts of values and keys of structs are the caller's, and are no names.
    const outside = printed.sql.replace(/'(?:[^']|'')*'|"(?:[^"]|"")*" :=|\)\."(?:[^"]|"")*"/g, '')
    if (/[^\x20-\x7e]|parquet|duckdb|sqlite|pragma|__theirs|filename|rowid/i.test(outside))
      return `a name of the caller's is in what DuckDB reads: ${printed.sql}`
    const rows = await this.host.connection.runAndReadAll(`EXPLAIN (FORMAT JSON) ${printed.sql}`).catch(() => undefined)
    for (const [, plan] of rows?.getRows() ?? []) {
      const foreign = scans(JSON.parse(String(plan))).find((scan) => !this.given.has(scan))
      if (foreign !== undefined) return `it scans ${foreign}: ${printed.sql}`
    }
    return undefined
  }

  private async difference(sql: string, own: Rows | Error): Promise<string | undefined> {
    const timer = setTimeout(() => this.plain.interrupt(), STATEMENT_MS)
    const direct = await this.plain.runAndReadAll(sql).catch((error: Error) => error)
    clearTimeout(timer)
    if (direct instanceof Error && /interrupt/i.test(direct.message)) return undefined
    if (own instanceof Error || direct instanceof Error) {
      // DuckDB does not look into a CTE that nothing reads, knows which columns have no fields before it looks for a relation further out, and tells a
      // table's own name from an alias of the same spelling, also where two relations of a semi join have one alias.
      if (
        own instanceof Error === direct instanceof Error ||
        /there is none of that name|Cannot extract field|duplicate alias|Referenced table|raise \[database\]/.test(String(own))
      )
        return undefined
      // Whether a column that nothing reads is converted depends on the plan, of either; and a field of a row that the select list has given a name (`SELECT cpu AS b … WHERE
      // b.v = 1`) is one here, and a relation that is not there to DuckDB.
      if (direct instanceof Error && /Referenced table/.test(direct.message)) return undefined
      if (/Unimplemented type for cast/.test(String(own instanceof Error ? own : direct))) return undefined
      return own instanceof Error ? `refused, and DuckDB answers: ${own.message}` : `answered, and DuckDB refuses: ${(direct as Error).message}`
    }
    const [got, wanted] = [sorted(own.rows), sorted(direct.getRows())]
    // A whole row of a relation whose columns only DuckDB knows has generated keys.
    if (got !== wanted && /\{column_\d+:/i.test(got)) return undefined
    if (got !== wanted) return `answers ${got}, DuckDB ${wanted}`
    const names = direct.columnNames()
    return String(own.names) === String(names) ? undefined : `its columns are ${own.names}, those of DuckDB ${names}`
  }
}

interface Rows {
  names: string[]
  rows: unknown[][]
}

const sorted = (rows: unknown[][]): string =>
  rows
    .map((row) => row.map(shown).join('|'))
    .sort()
    .join('\n')

/** A value of either reader. */
function shown(value: unknown): string {
  if (typeof value !== 'object' || value === null) return String(value)
  if ('nanos' in value) return String(value.nanos)
  const entries = 'entries' in value ? (value.entries as object) : value
  return `{${Object.entries(entries)
    .map(([key, entry]) => `${key}: ${shown(entry)}`)
    .join(', ')}}`
}

/** Values, or texts of errors, that only the other tenant has. */
function leak(own: Rows | Error): string | undefined {
  if (own instanceof Error) return /__mine|1000000000\d/.test(own.message) ? `its error says "${own.message}"` : undefined
  for (const row of own.rows)
    for (const value of row)
      if ((typeof value === 'bigint' || typeof value === 'number') && value > FOREIGN) return `it answers ${value}, which is not the caller's`
  return undefined
}

/** Tables and table functions of a plan. */
function scans(plan: unknown): string[] {
  const found: string[] = []
  const look = ({ name, children = [], extra_info: info = {} }: Node): void => {
    if (info.Table !== undefined) found.push(String(info.Table))
    else if (/PARQUET|DUCKDB|PRAGMA|GLOB|CSV|TEXT|BLOB|JSON|SOURCE|SEQ_SCAN|TABLE_SCAN/.test(String(info.Function ?? name))) found.push(String(name))
    children.forEach(look)
  }
  for (const root of [plan].flat() as Node[]) look(root)
  return found
}
