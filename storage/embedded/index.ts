/** Storage engine "embedded": what the kernel loads. */
import type { DeclaredSqlFunction, StorageContext, StorageEngine } from 'svcdb'
import { EmbeddedEngine } from './engine.ts'

export { openState, ownState } from './catalog/state-file.ts'
export { check } from './check.ts'
export { configSchema, explain, presets } from './config.ts'
export { capabilities } from './engine.ts'

export function createEngine(context: StorageContext): StorageEngine {
  return new EmbeddedEngine(context)
}

/** The names are a module of SQL, which a node without functions does not load. */
export async function checkSqlFunctions(functions: readonly DeclaredSqlFunction[]): Promise<void> {
  if (functions.length === 0) return
  const { checkNames } = await import('./sql/check-functions.ts')
  checkNames(functions)
}
