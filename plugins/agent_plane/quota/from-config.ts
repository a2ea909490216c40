/** Bounds as the config says them. */
import type { AgentPlaneConfig } from '../config.ts'
import { type Budgets, ratesOf } from './budgets.ts'
import type { QuotaLimits } from './store.ts'

const MB = 1 << 20

export function budgetsOf(config: AgentPlaneConfig): Budgets {
  const bounds = {
    maxReplans: config.max_replans,
    maxDenials: config.max_denials,
    maxTokens: config.max_tokens,
    maxMinorUnits: config.max_minor_units,
    maxWallclockMs: config.max_wallclock_secs * 1000,
    maxEgressBytes: config.max_egress_bytes,
    maxParallelSteps: config.max_parallel_steps,
    maxJournalBytes: config.max_journal_mb * MB,
  }
  return {
    maxSteps: config.max_steps,
    maxEffects: config.max_effects,
    ...Object.fromEntries(Object.entries(bounds).filter(([, bound]) => bound > 0)),
    rates: ratesOf(config.rates.map(({ grant, allowed, window_secs: window }) => [grant, [{ allowed, windowMs: window * 1000 }]])),
  }
}

export function quotaOf({ quota }: AgentPlaneConfig): QuotaLimits {
  return {
    maxConcurrentRuns: quota.max_concurrent_runs,
    maxTokens: quota.max_tokens_per_period,
    maxMinorUnits: quota.max_minor_units_per_period,
    period: quota.period,
  }
}
