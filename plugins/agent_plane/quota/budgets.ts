/** What a run may use up, and what it has. Pure. */
import type { BudgetExceeded, Spend } from 'svcdb/agents'
import type { RunJournal } from '../drive/run-journal.ts'

/** Absent = no bound. */
export interface Budgets {
  maxSteps: number
  maxEffects: number
  maxReplans?: number
  maxDenials?: number
  maxTokens?: number
  maxMinorUnits?: number
  /** Since its admission, waits included. */
  maxWallclockMs?: number
  maxEgressBytes?: number
  /** Of its records: whoever looks at a run has all of them in memory. */
  maxJournalBytes?: number
  /** Steps under way at one time. */
  maxParallelSteps?: number
  /** By grant, over all runs of the tenant; all of a grant hold. */
  rates?: Rates
}

export interface Rate {
  allowed: number
  windowMs: number
}

type Rates = ReadonlyMap<string, readonly Rate[]>

/** @param each of a grant, which may be there several times. */
export function ratesOf(each: Iterable<readonly [grant: string, rates: readonly Rate[]]>): Rates {
  const all = new Map<string, readonly Rate[]>()
  for (const [grant, rates] of each) all.set(grant, [...(all.get(grant) ?? []), ...rates])
  return all
}

/** What is about to be begun. */
interface Asking {
  spends?: Spend
  outboundBytes?: number
}

/** The lesser of each, and the rates of both. */
export function least(one: Budgets, other: Partial<Budgets>): Budgets {
  const bounds = { ...one } as Record<string, unknown>
  for (const [name, bound] of Object.entries(other)) {
    const own = bounds[name]
    bounds[name] = typeof own === 'number' && typeof bound === 'number' ? Math.min(own, bound) : bound
  }
  bounds.rates = ratesOf([...(one.rates ?? []), ...(other.rates ?? [])])
  return bounds as unknown as Budgets
}

const secs = (ms: number): number => Math.floor(ms / 1000)

/** Which bound a step meets before it begins. @param now milliseconds since the Unix epoch. */
export function stepExceeds(budgets: Budgets, journal: RunJournal, now: number): BudgetExceeded | undefined {
  if (journal.steps.size >= budgets.maxSteps) return { limit: 'steps', allowed: budgets.maxSteps }
  return general(budgets, journal, now)
}

/** Which bound another plan meets. */
export function replanExceeds({ maxReplans }: Budgets, journal: RunJournal): BudgetExceeded | undefined {
  return maxReplans !== undefined && journal.used.plans > maxReplans ? { limit: 'replans', allowed: maxReplans } : undefined
}

export function denials({ maxDenials }: Budgets, journal: RunJournal): BudgetExceeded | undefined {
  return maxDenials !== undefined && journal.used.denials > maxDenials ? { limit: 'denials', allowed: maxDenials } : undefined
}

function wallclock({ maxWallclockMs: allowed }: Budgets, journal: RunJournal, now: number): BudgetExceeded | undefined {
  const used = Math.max(0, now - journal.admittedAt)
  return allowed !== undefined && used >= allowed ? { limit: 'wallclock', allowed: secs(allowed), used: secs(used) } : undefined
}

function journalSize({ maxJournalBytes: allowed }: Budgets, { bytes }: RunJournal): BudgetExceeded | undefined {
  return allowed !== undefined && bytes >= allowed ? { limit: 'recorded', recorded_limit: 'journal_bytes', used: String(bytes) } : undefined
}

/** Which bound whatever is begun meets. */
function general(budgets: Budgets, journal: RunJournal, now: number): BudgetExceeded | undefined {
  return denials(budgets, journal) ?? recordExceeds(budgets, journal, now)
}

/** Which bound whatever makes a record meets. */
export function recordExceeds(budgets: Budgets, journal: RunJournal, now: number): BudgetExceeded | undefined {
  return wallclock(budgets, journal, now) ?? journalSize(budgets, journal)
}

/** Which bound an attempt of an effect meets before it begins. What is metered may go over by what is under way. */
export function effectExceeds(budgets: Budgets, journal: RunJournal, { spends, outboundBytes = 0 }: Asking, now: number): BudgetExceeded | undefined {
  const { maxEffects, maxTokens, maxMinorUnits, maxEgressBytes } = budgets
  const { used } = journal
  if (journal.effects >= maxEffects) return { limit: 'effects', allowed: maxEffects, used: journal.effects }
  const early = general(budgets, journal, now)
  if (early !== undefined) return early
  if (maxTokens !== undefined && spends?.tokens !== undefined && used.tokens >= maxTokens) return { limit: 'tokens', allowed: maxTokens, used: used.tokens }
  if (maxMinorUnits !== undefined && spends?.minor_units !== undefined && used.minor_units >= maxMinorUnits)
    return { limit: 'money', allowed: maxMinorUnits, used: used.minor_units }
  if (maxEgressBytes !== undefined && outboundBytes > 0 && used.egress + outboundBytes > maxEgressBytes)
    return { limit: 'egress', allowed: maxEgressBytes, used: used.egress, attempted: outboundBytes }
  return undefined
}

/** What the bound is called in a record. */
export function limitOf(exceeded: BudgetExceeded): string {
  return exceeded.limit === 'recorded' ? exceeded.recorded_limit : exceeded.limit
}

/** What is written of it: the figure at which it was refused. */
export function usedOf(exceeded: BudgetExceeded): string {
  if (exceeded.limit === 'rate') return String(exceeded.reached)
  if (exceeded.limit === 'recorded') return exceeded.used
  return 'used' in exceeded ? String(exceeded.used) : String(exceeded.allowed)
}

/** What the journal can say: the limit and the figure, as they were written. */
export function recordedExhaustion(journal: RunJournal): BudgetExceeded | undefined {
  const refused = journal.last('BudgetRefused', 'BudgetReadmitted')
  if (refused?.kind !== 'BudgetRefused') return undefined
  return { limit: 'recorded', recorded_limit: refused.payload.limit as string, used: refused.payload.used as string }
}
