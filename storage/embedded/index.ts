/** Storage engine "embedded": what the kernel loads. */
import type { StorageContext, StorageEngine } from 'svcdb'
import { EmbeddedEngine } from './engine.ts'

export { openState } from './catalog/state-file.ts'
export { check } from './check.ts'
export { configSchema, explain, presets } from './config.ts'
export { capabilities } from './engine.ts'
export { checkSqlFunctions } from './sql/check-functions.ts'

export function createEngine(context: StorageContext): StorageEngine {
  return new EmbeddedEngine(context)
}
