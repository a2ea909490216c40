/** The storage engine "clickhouse": points are kept in ClickHouse, and nothing here. Several nodes may share one server or cluster. */
import type { StorageContext, StorageEngine } from 'svcdb'
import { ClickHouseEngine } from './engine.ts'

export { check, configSchema, explain } from './config.ts'
export { capabilities } from './engine.ts'

export function createEngine(context: StorageContext): StorageEngine {
  return new ClickHouseEngine(context)
}
