/** What SHOW, DESCRIBE and information_schema answer: the namespace's measurements and nothing of DuckDB's own. */
import { literal } from './ast.ts'
import { duckType, type SqlMeasurement, type SqlMeasurementColumn } from './host.ts'
import { foldName } from './names.ts'
import type { Printer } from './printer.ts'
import type { Source } from './scope.ts'

/** Rows that are written as such: DuckDB's parser and its plans take some 50 µs for each. */
const MOST_VALUES = 1000

/** The cells of a column as one text, which DuckDB takes for one constant. */
function listed(cells: readonly (string | number | null)[]): string {
  const type = cells.some((cell) => typeof cell === 'number') ? 'INTEGER' : 'VARCHAR'
  return `unnest(from_json(${literal(JSON.stringify(cells))}, '["${type}"]'))`
}

function values(columns: readonly string[], rows: readonly (string | number | null)[][]): string {
  const cell = (value: string | number | null): string => (value === null ? 'NULL' : typeof value === 'number' ? String(value) : literal(value))
  if (rows.length > MOST_VALUES) return `SELECT ${columns.map((name, i) => `${listed(rows.map((row) => row[i]))} AS "${name}"`).join(', ')}`
  const list = columns.map((name) => `"${name}"`).join(', ')
  if (rows.length === 0) return `SELECT ${columns.map((name) => `NULL::VARCHAR AS "${name}"`).join(', ')} WHERE FALSE`
  return `SELECT * FROM (VALUES ${rows.map((row) => `(${row.map(cell).join(', ')})`).join(', ')}) AS t(${list})`
}

export function showTables(measurements: readonly SqlMeasurement[]): string {
  return values(
    ['name'],
    measurements.map((m) => [m.name]).sort((a, b) => (a[0] < b[0] ? -1 : 1)),
  )
}

export function showColumns(measurement: SqlMeasurement): string {
  return values(
    ['column_name', 'data_type', 'is_nullable', 'role'],
    measurement.columns.map((column) => [column.name, duckType(column), nullable(column.role), roleName(column.role)]),
  )
}

/** As schemas say it on every surface. */
const roleName = (role: SqlMeasurementColumn['role']): string => (role === 'time' ? 'timestamp' : role)

const nullable = (role: string): string => (role === 'time' ? 'NO' : 'YES')

/** The one schema, as information_schema and Flight SQL name it. */
export const SCHEMA = 'main'
/** Names that tools write for it: PostgreSQL's, and the one that means no other. */
const SCHEMA_NAMES = new Set([SCHEMA, 'public', 'default'])

export const isSchema = (name: string): boolean => SCHEMA_NAMES.has(foldName(name))

/** The one database that a namespace sees; without tenants the namespace is empty. */
export function catalogName(namespace: string): string {
  return namespace === '' ? 'svc' : namespace
}

/** The column that tools ask for one table by. */
export const TABLE_NAME = 'table_name'

interface View {
  columns: readonly string[]
  rows: (measurements: readonly SqlMeasurement[], catalog: string) => (string | number | null)[][]
}

/** What there is of information_schema, by name. */
const VIEWS: ReadonlyMap<string, View> = new Map([
  ['schemata', { columns: ['catalog_name', 'schema_name'], rows: (_, catalog) => [[catalog, SCHEMA]] }],
  [
    'tables',
    {
      columns: ['table_catalog', 'table_schema', TABLE_NAME, 'table_type'],
      rows: (measurements, catalog) => measurements.map((m) => [catalog, SCHEMA, m.name, 'BASE TABLE']),
    },
  ],
  [
    'columns',
    {
      columns: ['table_catalog', 'table_schema', TABLE_NAME, 'column_name', 'ordinal_position', 'is_nullable', 'data_type', 'role'],
      rows: (measurements, catalog) =>
        measurements.flatMap((m) =>
          m.columns.map((column, i) => [catalog, SCHEMA, m.name, column.name, i + 1, nullable(column.role), duckType(column), roleName(column.role)]),
        ),
    },
  ],
])

export const informationSchema = (view: string): View | undefined => VIEWS.get(view)

export function listing({ columns, rows }: View, measurements: readonly SqlMeasurement[], namespace: string): string {
  return values(columns, rows(measurements, catalogName(namespace)))
}

/** Those that a listing can be about: the ones that conditions name, else all. By name. */
export function listedMeasurements({ host, namespace }: Pick<Printer, 'host' | 'namespace'>, { tags }: Source): readonly SqlMeasurement[] {
  const [first, ...others] = tags.map(({ values }) => new Set(values))
  if (first === undefined) return host.measurements(namespace)
  const names = [...first].filter((name) => others.every((other) => other.has(name))).sort()
  return names.flatMap((name) => host.measurement(namespace, name) ?? [])
}
