import type { Counter, Histogram, Metrics } from 'svcdb'

/** Seconds; Cedar needs tens of microseconds for a few policies. */
const EVALUATION_BUCKETS = [0.000025, 0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05]

export interface PolicyMetrics {
  decisions: Counter
  cacheHits: Counter
  evaluations: Histogram
  reloads: Counter
}

interface PolicyState {
  policies(): number
  cacheEntries(): number
}

export function policyMetrics(metrics: Metrics, state: PolicyState): PolicyMetrics {
  metrics.gauge('policies_loaded', 'Policies that count now', [], (gauge) => gauge.set(state.policies()))
  metrics.gauge('policy_cache_entries', 'Decisions that are remembered', [], (gauge) => gauge.set(state.cacheEntries()))
  return {
    decisions: metrics.counter('policy_decisions_total', 'Calls that the policies were asked about: allow, deny, malformed or error', ['outcome']),
    cacheHits: metrics.counter('policy_cache_hits_total', 'Decisions that were remembered'),
    evaluations: metrics.histogram('policy_evaluation_seconds', 'Time of decisions that were not remembered', [], EVALUATION_BUCKETS),
    reloads: metrics.counter('policy_reloads_total', 'Sets of policies that were read: applied, refused or failed', ['result']),
  }
}
