/** For tests: a state store over a PostgreSQL of the test's own. */
import { Secret, type StateContext, type StateUse } from 'svcdb'
import { MetricsRegistry } from 'svcdb/testkit'
import type { PostgresConfig } from './config.ts'
import { PostgresState } from './postgres-state.ts'

const quiet = { debug() {}, info() {}, warn() {}, error() {} }

export function contextOf(url: string, more: Partial<Omit<PostgresConfig, 'url'>> = {}): StateContext {
  const config = { url: new Secret(url), schema: 'svc', max_connections: 8, connect_timeout_secs: 5, statement_timeout_secs: 10, retry_secs: 10, ...more }
  return { config, log: quiet, metrics: new MetricsRegistry().child('storage/postgres'), now: Date.now }
}

export async function openState(url: string, more: Partial<Omit<PostgresConfig, 'url'>> = {}, use?: StateUse): Promise<PostgresState> {
  const state = new PostgresState(contextOf(url, more))
  try {
    await state.open(use)
    return state
  } catch (error) {
    await state.close()
    throw error
  }
}
