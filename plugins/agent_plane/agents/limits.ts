/** What the manifest of an agent bounds. */
import type { Agent } from 'svcdb/agents'
import { type Budgets, type Rate, ratesOf } from '../quota/budgets.ts'

const SECOND = 1000

/** What is not said is not bounded by the manifest. */
export function limitsOf(agent: Agent | undefined): Partial<Budgets> {
  const { budgets = {}, tools = [] } = agent?.manifest.spec ?? {}
  const bounds = {
    maxSteps: budgets.max_steps,
    maxEffects: budgets.max_effects,
    maxReplans: budgets.max_replans,
    maxDenials: budgets.max_denials,
    maxTokens: budgets.max_tokens,
    maxMinorUnits: budgets.max_minor_units,
    maxWallclockMs: budgets.max_wallclock_secs === undefined ? undefined : budgets.max_wallclock_secs * SECOND,
    maxEgressBytes: budgets.max_egress_bytes,
    maxParallelSteps: budgets.max_parallel_steps,
  }
  const rates = tools.flatMap(({ ref, rate_limit: limit }): [string, Rate[]][] =>
    limit === undefined ? [] : [[ref, [{ allowed: limit.calls, windowMs: limit.per_secs * SECOND }]]],
  )
  return { ...Object.fromEntries(Object.entries(bounds).filter(([, bound]) => bound !== undefined)), rates: ratesOf(rates) }
}
