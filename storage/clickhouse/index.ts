/** The storage engine "clickhouse": points are kept in ClickHouse, and nothing here. Several nodes may share one server or cluster. */
import type { DeclaredSqlFunction, StorageContext, StorageEngine } from 'svcdb'
import { ClickHouseEngine } from './engine.ts'

export { check, configSchema, explain, lacking } from './config.ts'
export { capabilities } from './engine.ts'

export function createEngine(context: StorageContext): StorageEngine {
  return new ClickHouseEngine(context)
}

/** The names are a module of SQL, which a node without functions does not load. */
export async function checkSqlFunctions(functions: readonly DeclaredSqlFunction[]): Promise<void> {
  if (functions.length === 0) return
  const { checkNames } = await import('../embedded/sql/check-functions.ts')
  checkNames(functions)
}
