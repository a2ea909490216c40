/** State in PostgreSQL: what the kernel loads for `[state] engine = "postgres"`. */
import type { StateContext, StateEngine } from 'svcdb'
import { PostgresState } from './postgres-state.ts'

export { check, configSchema, explain } from './config.ts'

export function createState(context: StateContext): StateEngine {
  return new PostgresState(context)
}
