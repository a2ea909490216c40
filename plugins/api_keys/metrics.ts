import type { Metrics } from 'svcdb'
import type { KeySource } from './key.ts'

interface KeyState {
  queueDepth(): number
  cached(): number
  count(source: KeySource): number
}

export type KeyMetrics = ReturnType<typeof keyMetrics>

export function keyMetrics(metrics: Metrics, state: KeyState) {
  metrics.gauge('api_key_queue_depth', 'Keys that wait to be hashed', [], (gauge) => gauge.set(state.queueDepth()))
  metrics.gauge('api_key_cache_entries', 'Verified keys that are remembered', [], (gauge) => gauge.set(state.cached()))
  metrics.gauge('api_keys', 'Keys that are known, by where they came from: config, runtime or store', ['source'], (gauge) => {
    for (const source of ['config', 'runtime', 'store'] as const) gauge.set({ source }, state.count(source))
  })
  return {
    verifications: metrics.counter('api_key_verifications_total', 'Tokens that were hashed, by result: accepted, refused, expired or error', ['result']),
    seconds: metrics.histogram('api_key_verification_seconds', 'Time to hash a token and compare it, without its wait'),
    hits: metrics.counter('api_key_cache_hits_total', 'Tokens that were known without hashing them'),
    limited: metrics.counter('api_key_limited_total', 'Tokens that were not looked at: too many failures of their prefix, or a full queue', ['reason']),
  }
}
