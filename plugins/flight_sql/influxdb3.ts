/**
 * Queries of InfluxDB 3's clients: no command of Flight SQL, and no flight info before it. Their ticket is a JSON object with `database`, `sql_query`,
 * `query_type` and, where the query has parameters, `params` with their values by name.
 */
import type { CallContext, SqlParameter } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import { jsonProblem } from 'svcdb/lib/json'
import type { Statement } from './queries.ts'

const OPENING_BRACE = 0x7b
const INTEGER = /^-?\d+$/

/** As protobuf a brace would begin a group, which no command has. */
export const isJson = (bytes: Uint8Array): boolean => bytes[0] === OPENING_BRACE

/** @throws BAD_REQUEST for what is no such ticket, for InfluxQL, and for a database that is not the caller's namespace where there are several. */
export function influxStatement(ticket: Uint8Array, { dataNamespace }: CallContext): Omit<Statement, 'dictionaries'> {
  const { database, sql_query: query, query_type: type, params } = objectOf(ticket)
  if (typeof query !== 'string') throw wrong('it has no text "sql_query"')
  if (type !== undefined && type !== 'sql') throw wrong(`its "query_type" is ${shown(type)}, and only "sql" is answered; write the query in SQL`)
  // Else what is written to one database and read from another of the name would look like an empty answer, or be another tenant's.
  if (dataNamespace !== '' && typeof database === 'string' && database !== '' && database !== dataNamespace)
    throw wrong(
      `its database is ${shown(database)}, and the namespace of the call "${dataNamespace}"; make the database "${dataNamespace}", or name the namespace by the header x-namespace`,
    )
  return { query, parameters: params === undefined || params === null ? undefined : valuesOf(params) }
}

function objectOf(ticket: Uint8Array): Record<string, unknown> {
  // Whole numbers keep all their digits.
  const exact = (_: string, value: unknown, context: { source: string }): unknown =>
    typeof value === 'number' && INTEGER.test(context.source) ? BigInt(context.source) : value
  try {
    return JSON.parse(Buffer.from(ticket).toString('utf8'), exact as (key: string, value: unknown) => unknown)
  } catch (error) {
    throw wrong(`it is not JSON: ${jsonProblem(error as Error)}`)
  }
}

function valuesOf(params: unknown): ReadonlyMap<string, SqlParameter> | undefined {
  if (typeof params !== 'object' || Array.isArray(params)) throw wrong('its "params" is no object')
  const values = Object.entries(params as object)
  for (const [name, value] of values)
    if (value !== null && typeof value === 'object') throw wrong(`its parameter ${shown(name)} is neither a text, a number, a boolean nor null`)
  // Without any, a query that has some is told that it has no values.
  return values.length === 0 ? undefined : new Map(values)
}

const shown = (value: unknown): string => JSON.stringify(String(value).slice(0, 64))

function wrong(reason: string): SvcError {
  return new SvcError('BAD_REQUEST', `cannot read the ticket, a query as clients of InfluxDB 3 send it: ${reason}`)
}
