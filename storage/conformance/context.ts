/** What the suite asks of an engine's test file, and the surroundings it gives the engine. */
import type { Metrics, StorageContext, StorageEngine } from 'svcdb'
import { moduleUrl } from 'svcdb/lib/modules'
import { MetricsRegistry } from 'svcdb/testkit'

export interface EngineUnderTest {
  /** Open. */
  engine: StorageEngine
  /** Closes the engine and opens it again over the same data; absent when nothing outlives the engine. */
  reopen?(): Promise<StorageEngine>
  /** Makes an engine that looks after retention and drops now and then do so now. */
  settle?(): Promise<void>
  /** Closes the engine and removes what it left. */
  dispose(): Promise<void>
}

/**
 * Makes an engine with nothing in it.
 * @param config keys of [database] that the test sets; the rest is up to the engine.
 * @param now the wall clock to use.
 */
export type MakeEngine = (config: Record<string, unknown>, now: () => number) => Promise<EngineUnderTest>

const quiet = { debug() {}, info() {}, warn() {}, error() {} }

export function testContext(config: Record<string, unknown>, now: () => number): StorageContext {
  return { config, log: quiet, metrics: testMetrics(), now }
}

function testMetrics(): Metrics {
  return new MetricsRegistry().child('storage')
}

/** A module of the folder `jobs`. */
export const jobModule = (name: string) => moduleUrl(`./jobs/${name}.ts`, import.meta.url)
