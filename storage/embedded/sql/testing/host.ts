/** A host for tests: measurements are tables of an in-memory DuckDB, the time range and tag hints become a WHERE clause. */
import { DuckDBInstance } from '@duckdb/node-api'
import type { SqlRequest } from 'svcdb'
import { ident, literal } from '../ast.ts'
import type { RelationRequest, SqlHost, SqlMeasurement } from '../host.ts'
import { openSql } from '../open.ts'
import { sqlSetup } from '../setup.ts'
import { TEST_FUNCTIONS } from './functions.ts'

export interface TestHost extends SqlHost {
  requests: RelationRequest[]
  /** What the plan guard has refused. */
  refusals: string[]
  clock: bigint
  close(): void
  /** Columns and rows, times and integers as bigint. */
  query(text: string, options?: Partial<SqlRequest>): Promise<{ columns: string[]; types: string[]; rows: unknown[][] }>
}

export const CPU: SqlMeasurement = {
  name: 'cpu',
  columns: [
    { name: '_time', role: 'time' },
    { name: 'hostname', role: 'tag' },
    { name: 'region', role: 'tag' },
    { name: 'usage_user', role: 'field', type: 'float64' },
    { name: 'usage_idle', role: 'field', type: 'float64' },
    { name: 'procs', role: 'field', type: 'int64' },
    { name: 'price', role: 'field', type: 'decimal', scale: 4 },
  ],
}

/** `tables`: measurement and the SELECT that fills it. */
export async function testHost(tables: [SqlMeasurement, string][]): Promise<TestHost> {
  const instance = await DuckDBInstance.create(':memory:', { threads: '2' })
  const connection = await instance.connect()
  await connection.run("SET TimeZone = 'UTC'")
  await connection.run("SET explain_output = 'all'")
  const { functions, register } = await sqlSetup(TEST_FUNCTIONS)
  register(connection)
  for (const [i, [, select]] of tables.entries()) await connection.run(`CREATE TABLE __m${i} AS ${select}`)
  const host: TestHost = {
    connection,
    functions,
    refusals: [],
    bounds: {
      source: 'svc_source',
      isFile: () => false,
      isSource: () => false,
      tables: new Set(tables.map((_, i) => `memory.main.__m${i}`)),
      refused: (reason) => host.refusals.push(reason),
    },
    requests: [],
    clock: 1_767_225_600_000_000_000n, // 2026-01-01
    now: () => host.clock,
    measurements: (namespace) => (namespace === 'default' ? tables.map(([measurement]) => measurement) : []),
    measurement: (namespace, name) => host.measurements(namespace).find((measurement) => measurement.name === name),
    relation(request) {
      host.requests.push(request)
      const at = tables.findIndex(([measurement]) => measurement.name === request.measurement)
      const conditions = [`epoch_ns(_time) BETWEEN (${request.time[0]}) AND ${request.time[1]}`]
      for (const hint of request.tags)
        if ('values' in hint) conditions.push(`${ident(hint.tag)} IN (${hint.values.map(literal).join(', ')})`)
        else
          conditions.push(
            'like' in hint ? `${ident(hint.tag)} LIKE ${literal(hint.like)}` : `regexp_full_match(${ident(hint.tag)}, ${literal(hint.regex)}, 's')`,
          )
      const tags = new Set(tables[at][0].columns.filter(({ role }) => role === 'tag').map(({ name }) => name))
      const column = (name: string): string => (tags.has(name) && !request.enumTags?.includes(name) ? `${ident(name)}::VARCHAR AS ${ident(name)}` : ident(name))
      return `SELECT ${request.columns.map(column).join(', ')} FROM __m${at} WHERE ${conditions.join(' AND ')}`
    },
    split(request) {
      const { columns } = tables.find(([measurement]) => measurement.name === request.measurement)![0]
      const tags = columns.filter(({ role, name }) => role === 'tag' && request.columns.includes(name)).map(({ name }) => name)
      const key = `concat_ws('|', ${columns.flatMap(({ role, name }) => (role === 'tag' ? [ident(name)] : [])).join(', ')})`
      const all = { ...request, columns: columns.map(({ name }) => name) }
      const rows = request.columns.filter((name) => !tags.includes(name)).map(ident)
      return {
        rows: `SELECT ${[`${key} AS _series`, ...rows].join(', ')} FROM (${host.relation(all)})`,
        tags: `SELECT DISTINCT ${[`${key} AS _series`, ...tags.map(ident)].join(', ')} FROM (${host.relation(all)})`,
      }
    },
    close() {
      connection.closeSync()
      instance.closeSync()
    },
    async query(text, options) {
      host.requests.length = 0
      const cursor = await openSql(host, { namespace: 'default', query: text, ...options })
      const rows: unknown[][] = []
      for await (const chunk of cursor) {
        for (let i = 0; i < chunk.rows; i++) {
          rows.push(chunk.columns.map(({ values, validity }) => (validity?.[i] === 0 ? null : values[i])))
        }
      }
      return { columns: cursor.columns.map(({ name }) => name), types: cursor.columns.map(({ type }) => type), rows }
    },
  }
  return host
}

/** Two hosts, a row a minute from 2024-01-01T00:00:00Z, 120 rows each. */
export const CPU_ROWS = `SELECT make_timestamp_ns(1704067200000000000 + i * 60000000000) AS _time, h::ENUM('a', 'b', 'c') AS hostname, CASE h WHEN 'a' THEN 'eu' ELSE 'us' END AS region,
  i::DOUBLE AS usage_user, (100 - i)::DOUBLE AS usage_idle, i::BIGINT AS procs, (i / 4)::DECIMAL(38,4) AS price
  FROM range(120) r(i), (VALUES ('a'), ('b')) hosts(h) ORDER BY h, i`
