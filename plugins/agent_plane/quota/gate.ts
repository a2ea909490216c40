/** What the quota of a tenant says to a run that asks to be admitted, and to an effect that is about to begin. In the transactions that let them begin. */
import type { StateTransaction } from 'svcdb'
import type { BudgetExceeded, Spend } from 'svcdb/agents'
import { SvcError } from 'svcdb/lib/errors'
import { haltFor } from '../halts/store.ts'
import { instant } from '../record/names.ts'
import type { Budgets } from './budgets.ts'
import { periodOf } from './period.ts'
import { type Acting, periodRow, type QuotaLimits, reserve, slots, use, usesOf, whole } from './store.ts'

/** What is asked for may be begun later, as it is: for now a halt stands, or there is no room. */
export class NotNow extends SvcError {}

/**
 * Standing halts, what the period has come to, and how many runs go on. @param parent the run that commissions it: that waits for it, and gives its slot back, so
 * it takes no room from it. @throws NotNow FORBIDDEN, RATE_LIMITED.
 */
export async function checkAdmission(tx: StateTransaction, acting: Acting, limits: QuotaLimits, now: number, parent?: string): Promise<void> {
  const halt = await haltFor(tx, acting)
  if (halt !== undefined)
    throw new NotNow(
      'FORBIDDEN',
      `cannot begin a run: "${halt.scope}" is halted since ${instant(halt.thrown_at * 1000)}: ${halt.reason}; it begins when the halt is lifted`,
    )
  const refuse = (what: string, key: string) => new NotNow('RATE_LIMITED', `cannot begin a run: ${what}; wait, or raise agent_plane.quota.${key}`)
  const { maxConcurrentRuns, maxTokens, maxMinorUnits } = limits
  if (maxTokens > 0 || maxMinorUnits > 0) {
    const period = periodOf(now, limits.period)
    const { settled, reserved } = await periodRow(tx, period)
    if (maxTokens > 0 && settled.tokens + reserved.tokens >= maxTokens)
      throw refuse(`the ${maxTokens} tokens of ${period} are used up`, 'max_tokens_per_period')
    if (maxMinorUnits > 0 && settled.minor_units + reserved.minor_units >= maxMinorUnits)
      throw refuse(`the ${maxMinorUnits} minor units of ${period} are used up`, 'max_minor_units_per_period')
  }
  if (maxConcurrentRuns === 0) return
  const others = (await slots(tx, maxConcurrentRuns + 1)).filter(({ run }) => run !== parent)
  if (others.length >= maxConcurrentRuns) throw refuse(`${maxConcurrentRuns} runs go on already`, 'max_concurrent_runs')
}

interface Beginning {
  run: string
  effectKey: string
  spends?: Spend
  grant?: string
}

/** Reserves what an effect may spend, and counts the use of its grant; or says what it meets, and then nothing is written. */
export async function beginEffect(
  tx: StateTransaction,
  { run, effectKey, spends, grant }: Beginning,
  limits: QuotaLimits,
  budgets: Budgets,
  now: number,
): Promise<BudgetExceeded | undefined> {
  const rates = grant === undefined ? undefined : budgets.rates?.get(grant)
  for (const rate of rates ?? []) {
    const reached = await usesOf(tx, grant as string, rate.windowMs, now, rate.allowed)
    if (reached >= rate.allowed)
      return { limit: 'rate', grant: grant as string, allowed: rate.allowed, window_seconds: Math.ceil(rate.windowMs / 1000), reached }
  }
  if (spends !== undefined) {
    const period = periodOf(now, limits.period)
    const { settled, reserved } = await periodRow(tx, period)
    const { tokens, minor_units } = whole(spends)
    const used = { tokens: settled.tokens + reserved.tokens, minor_units: settled.minor_units + reserved.minor_units }
    if (limits.maxTokens > 0 && tokens > 0 && used.tokens + tokens > limits.maxTokens) return { limit: 'tokens', allowed: limits.maxTokens, used: used.tokens }
    if (limits.maxMinorUnits > 0 && minor_units > 0 && used.minor_units + minor_units > limits.maxMinorUnits)
      return { limit: 'money', allowed: limits.maxMinorUnits, used: used.minor_units }
    await reserve(tx, run, effectKey, period, spends)
  }
  if (grant !== undefined && rates !== undefined) use(tx, grant, run, effectKey, now)
  return undefined
}
