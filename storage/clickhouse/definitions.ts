/**
 * Definitions of databases and tables, where they are not there yet: the servers of a cluster carry one out when each of them has read it, so most starts and
 * first writes ask for none, and those that do wait for no server that is away. It does what it has missed when it is back.
 */
import { SvcError } from 'svcdb/lib/errors'
import type { Client } from './client.ts'
import type { Place } from './statements.ts'

/**
 * @param what its name in an error. @param exists asks the server that is connected to. @returns whether it was not there.
 * @throws OVERLOADED when it has not come into being in time.
 */
export async function define(
  client: Client,
  { cluster }: Place,
  what: string,
  statements: readonly string[],
  exists: () => Promise<boolean>,
): Promise<boolean> {
  if (await exists()) return false
  for (const statement of statements) await client.command(statement)
  if (cluster === undefined || (await exists())) return true
  throw new SvcError(
    'OVERLOADED',
    `cannot define ${what} in ClickHouse: cluster "${cluster}" has not done it in time; try again, and look at system.distributed_ddl_queue`,
  )
}

/** @param tables of one database. */
export async function hasTables(client: Client, database: string, tables: readonly string[]): Promise<boolean> {
  return (await countOf(client, 'system.tables', `database = '${database}' AND name IN (${quoted(tables)})`)) === tables.length
}

/** Whether all of the tables have all of the columns. */
export async function hasColumns(client: Client, database: string, tables: readonly string[], columns: readonly string[]): Promise<boolean> {
  const where = `database = '${database}' AND table IN (${quoted(tables)}) AND name IN (${quoted(columns)})`
  return (await countOf(client, 'system.columns', where)) === tables.length * columns.length
}

async function countOf(client: Client, table: string, where: string): Promise<number> {
  let count = 0
  for await (const { columns } of client.blocks(`SELECT toUInt64(count()) FROM ${table} WHERE ${where}`))
    count += Number(new BigUint64Array(columns[0].bytes.buffer)[0])
  return count
}

const quoted = (names: readonly string[]): string => names.map((name) => `'${name}'`).join(', ')
