import type { Counter, Metrics } from 'svcdb'
import { LAYERS, type Layer } from './limits.ts'

interface Incremented {
  inc(by?: number): void
}

export interface RateLimitMetrics {
  refused: Record<Layer | 'ban', Incremented>
  bans: Counter
}

interface RateLimitState {
  banned(): number
  tracked(): Record<string, number>
}

export function rateLimitMetrics(metrics: Metrics, state: RateLimitState): RateLimitMetrics {
  const refused = metrics.counter('rate_limited_total', 'Requests refused, by what refused them: ban, address, global, namespace or principal', ['layer'])
  metrics.gauge('rate_limit_banned_addresses', 'Addresses that are shut out after failed authentications', [], (gauge) => gauge.set(state.banned()))
  metrics.gauge('rate_limit_tracked_keys', 'Addresses, namespaces, principals and failing addresses remembered', ['kind'], (gauge) => {
    for (const [kind, count] of Object.entries(state.tracked())) gauge.set({ kind }, count)
  })
  const child = (layer: string): Incremented => {
    const one = refused.labels(layer)
    one.inc(0)
    return one
  }
  return {
    refused: { ban: child('ban'), ...(Object.fromEntries(LAYERS.map((layer) => [layer, child(layer)])) as Record<Layer, Incremented>) },
    bans: metrics.counter('auth_bans_total', 'Addresses shut out after failed authentications'),
  }
}
