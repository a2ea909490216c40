/** Answers of the catalogue commands that do not depend on what measurements there are (FlightSql.proto, schemas as documented there). */
import { Int32, Uint8, Utf8 } from 'apache-arrow'
import type { Command } from './commands.ts'
import { type FlightTable, optional, required, tableOfRows } from './flight-table.ts'
import { likeMatcher } from './like.ts'
import { type SqlInfoValue, sqlInfo } from './sql-info.ts'
import { SCHEMA } from './target.ts'
import { typeInfo } from './type-info.ts'

export const TABLE_TYPE = 'TABLE'
const utf8 = new Utf8()
const int32 = new Int32()

/** The one catalogue of a namespace, as information_schema names it. */
export function catalogOf(namespace: string): string {
  return namespace === '' ? 'svc' : namespace
}

function catalogs(catalog: string): FlightTable {
  return tableOfRows([required('catalog_name', utf8)], [[catalog]])
}

function schemas(catalog: string, filter: { catalog?: string; pattern?: string }): FlightTable {
  const wanted = schemaMatches(catalog, filter.catalog, filter.pattern)
  return tableOfRows([optional('catalog_name', utf8), required('db_schema_name', utf8)], wanted ? [[catalog, SCHEMA]] : [])
}

/** An empty catalogue name asks for what has no catalogue, of which there is nothing. */
export function schemaMatches(catalog: string, wanted: string | undefined, pattern: string | undefined): boolean {
  if (wanted !== undefined && wanted !== catalog) return false
  return pattern === undefined || likeMatcher(pattern)(SCHEMA)
}

const tableTypes = (): FlightTable => tableOfRows([required('table_type', utf8)], [[TABLE_TYPE]])

/** Measurements are also found under the name that SQL's information_schema has for them; an empty list asks for all. */
export function tableTypeMatches(types: readonly string[]): boolean {
  return types.length === 0 || types.some((type) => [TABLE_TYPE, 'BASE TABLE'].includes(type.toUpperCase()))
}

/** A point is found by its series and time, not by declared keys. */
const primaryKeys = (): FlightTable =>
  tableOfRows(
    [
      optional('catalog_name', utf8),
      optional('db_schema_name', utf8),
      required('table_name', utf8),
      required('column_name', utf8),
      optional('key_name', utf8),
      required('key_sequence', int32),
    ],
    [],
  )

/** Of exported keys, imported keys and cross references alike. */
const foreignKeys = (): FlightTable =>
  tableOfRows(
    [
      ...['pk', 'fk'].flatMap((side) => [
        optional(`${side}_catalog_name`, utf8),
        optional(`${side}_db_schema_name`, utf8),
        required(`${side}_table_name`, utf8),
        required(`${side}_column_name`, utf8),
      ]),
      required('key_sequence', int32),
      optional('fk_key_name', utf8),
      optional('pk_key_name', utf8),
      required('update_rule', new Uint8()),
      required('delete_rule', new Uint8()),
    ],
    [],
  )

/** The answer of a command that needs no engine; undefined for others. @param info of CommandGetSqlInfo. */
export function fixedAnswer(command: Command, catalog: string, info: ReadonlyMap<number, SqlInfoValue>): FlightTable | undefined {
  switch (command.kind) {
    case 'catalogs':
      return catalogs(catalog)
    case 'schemas':
      return schemas(catalog, command)
    case 'table_types':
      return tableTypes()
    case 'sql_info':
      return sqlInfo(info, command.info)
    case 'type_info':
      return typeInfo(command.type)
    case 'primary_keys':
      return primaryKeys()
    case 'exported_keys':
    case 'imported_keys':
    case 'cross_reference':
      return foreignKeys()
    default:
      return undefined
  }
}
