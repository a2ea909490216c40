import type { Clock, StorageContext } from 'svcdb'
import { type BootOptions, boot, systemClock, type TestNode } from 'svcdb/testkit'
import type { Test } from 'tap'
import { testContext } from '../conformance/context.ts'
import { NOW_MS } from '../conformance/points.ts'
import { check, configSchema } from './config.ts'
import { ForwardEngine, type ForwardEnvironment } from './engine.ts'
import type { ForwardMetrics } from './metrics.ts'

interface Described {
  type?: string
  default?: unknown
  properties?: Record<string, Described>
}

/** Defaults of a schema, with what is given in place of them. */
function withDefaults({ properties = {} }: Described, given: Record<string, unknown>): Record<string, unknown> {
  const all = Object.entries(properties).map(([key, member]): [string, unknown] => {
    if (member.type === 'object') return [key, withDefaults(member, (given[key] ?? {}) as Record<string, unknown>)]
    return [key, given[key] ?? member.default]
  })
  return Object.fromEntries(all.filter(([, value]) => value !== undefined))
}

export function sectionOf(given: Record<string, unknown>): Record<string, unknown> {
  const section = withDefaults(configSchema as unknown as Described, {
    ...given,
    forward: { batch_interval_ms: 0, max_pause_secs: 1, ...(given.forward as object) },
  })
  check(section)
  return section
}

export const CLOCK: Clock = { ...systemClock, now: () => NOW_MS, nowNanos: () => BigInt(NOW_MS) * 1_000_000n }

export async function upstream(t: Test | undefined, options: BootOptions = {}): Promise<{ node: TestNode; url: string }> {
  const node = await boot({
    clock: CLOCK,
    ...options,
    plugins: ['grpc', ...(options.plugins ?? [])],
    config: { ...options.config, grpc: { addr: '127.0.0.1:0', ...(options.config?.grpc as object) } },
  })
  t?.teardown(() => node.stop())
  return { node, url: `http://127.0.0.1:${node.port('grpc')}` }
}

interface EdgeOptions {
  now?(): number
  environment?: ForwardEnvironment
  log?: StorageContext['log']
}

export function edgeOf(config: Record<string, unknown>, { now = () => NOW_MS, environment, log }: EdgeOptions = {}): ForwardEngine {
  const context = testContext(sectionOf(config), now)
  return new ForwardEngine(log === undefined ? context : { ...context, log }, environment)
}

export const metricsOf = (edge: ForwardEngine): ForwardMetrics => (edge as unknown as { metrics: ForwardMetrics }).metrics
