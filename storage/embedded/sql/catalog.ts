/** What SHOW, DESCRIBE and information_schema answer: the namespace's measurements and nothing of DuckDB's own. */
import { literal } from './ast.ts'
import { duckType, type SqlMeasurement, type SqlMeasurementColumn, type TagValues } from './host.ts'
import { foldName } from './names.ts'
import type { Printer } from './printer.ts'
import type { Source } from './scope.ts'

/** Rows that are written as such: DuckDB's parser and its plans take some 50 µs for each. */
const MOST_VALUES = 1000

/** A list as one text, which DuckDB takes for one constant. @param type as from_json has it. */
const constantList = (list: readonly unknown[], type: string): string => `from_json(${literal(JSON.stringify(list))}, '${type}')`

/** The cells of a column. */
function listed(cells: readonly (string | number | null)[]): string {
  const type = cells.some((cell) => typeof cell === 'number') ? 'INTEGER' : 'VARCHAR'
  return `unnest(${constantList(cells, `["${type}"]`)})`
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

/** As schemas say it in every protocol. */
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
  sql: (measurements: readonly SqlMeasurement[], catalog: string) => string
}

const COLUMNS = ['table_catalog', 'table_schema', TABLE_NAME, 'column_name', 'ordinal_position', 'is_nullable', 'data_type', 'role']

/** What there is of information_schema, by name. */
const VIEWS: ReadonlyMap<string, View> = new Map([
  ['schemata', { columns: ['catalog_name', 'schema_name'], sql: (_, catalog) => `SELECT ${literal(catalog)} AS catalog_name, '${SCHEMA}' AS schema_name` }],
  ['tables', { columns: ['table_catalog', 'table_schema', TABLE_NAME, 'table_type'], sql: tables }],
  ['columns', { columns: COLUMNS, sql: columns }],
])

export const informationSchema = (view: string): View | undefined => VIEWS.get(view)

/** A row for each of some names, in a column `table_name`. */
const named = (measurements: readonly SqlMeasurement[]): string =>
  values(
    [TABLE_NAME],
    measurements.map(({ name }) => [name]),
  )

const schemaOf = (catalog: string): string => `${literal(catalog)} AS table_catalog, '${SCHEMA}' AS table_schema`

function tables(measurements: readonly SqlMeasurement[], catalog: string): string {
  return `SELECT ${schemaOf(catalog)}, ${TABLE_NAME}, 'BASE TABLE' AS table_type FROM (${named(measurements)})`
}

function columns(measurements: readonly SqlMeasurement[], catalog: string): string {
  if (measurements.reduce((sum, { columns }) => sum + columns.length, 0) > MOST_VALUES) return manyColumns(measurements, catalog)
  const row = (name: string, column: SqlMeasurementColumn, i: number) => [catalog, SCHEMA, name, column.name, i + 1, ...kindOf(column)]
  return values(
    COLUMNS,
    measurements.flatMap(({ name, columns }) => columns.map((column, i) => row(name, column, i))),
  )
}

const kindOf = (column: SqlMeasurementColumn): string[] => [nullable(column.role), duckType(column), roleName(column.role)]

/** Measurements have lists of columns in common, mostly: each is written once, and a measurement refers to it by number. */
function manyColumns(measurements: readonly SqlMeasurement[], catalog: string): string {
  const kinds = new Numbers()
  const lists = new Numbers()
  const names: string[][] = []
  const kindsOf: number[][] = []
  const listOf = measurements.map(({ columns }) => {
    const own = columns.map(({ name }) => name)
    const ownKinds = columns.map((column) => kinds.of(kindOf(column)))
    const list = lists.of([...own, ...ownKinds])
    if (list > names.length) {
      names.push(own)
      kindsOf.push(ownKinds)
    }
    return list
  })
  const kind = (part: number): string =>
    `(${constantList(
      kinds.all.map((kind) => kind[part]),
      '["VARCHAR"]',
    )})[kind]`
  const rows = values(
    [TABLE_NAME, 'list'],
    measurements.map(({ name }, i) => [name, listOf[i]]),
  )
  const constants = `SELECT ${constantList(names, '[["VARCHAR"]]')} AS names, ${constantList(kindsOf, '[["INTEGER"]]')} AS kinds`
  const each = `unnest(names[list]) AS column_name, unnest(kinds[list]) AS kind, unnest(range(1, len(names[list]) + 1)) AS ordinal`
  return `SELECT ${schemaOf(catalog)}, ${TABLE_NAME}, column_name, ordinal::INTEGER AS ordinal_position, ${kind(0)} AS is_nullable, ${kind(1)} AS data_type, ${kind(2)} AS role FROM (SELECT ${TABLE_NAME}, ${each} FROM (${rows}), (${constants}))`
}

/** Numbers different lists from 1 on, as SQL does. */
class Numbers {
  readonly all: (readonly (string | number)[])[] = []
  private readonly known = new Map<string, number>()

  of(list: readonly (string | number)[]): number {
    const key = JSON.stringify(list)
    let number = this.known.get(key)
    if (number === undefined) this.known.set(key, (number = this.all.push(list)))
    return number
  }
}

/** Those that a listing can be about: the ones that conditions name, else all. By name. */
export function listedMeasurements({ host, namespace }: Pick<Printer, 'host' | 'namespace'>, { tags }: Source): readonly SqlMeasurement[] {
  const [first, ...others] = tags.map((hint) => new Set((hint as TagValues).values))
  if (first === undefined) return host.measurements(namespace)
  const names = [...first].filter((name) => others.every((other) => other.has(name))).sort()
  return names.flatMap((name) => host.measurement(namespace, name) ?? [])
}
