/** What runs and operators of the simulation do with cases. */
import type { StateStore } from 'svcdb'
import type { CaseChoice, CaseStatus, CorrelationKey, Json, StepContext } from 'svcdb/agents'
import { caseIds } from '../cases/case-store.ts'
import { placeHold, releaseHold } from '../cases/holds.ts'
import type { Process, World } from './world.ts'

const OPERATOR = { actor: 'eve', basis: 'asserted' } as const
const STATUSES: readonly CaseStatus[] = ['open', 'awaiting_external', 'awaiting_human', 'closed', 'closed', 'closed']
const NAMES = ['answer', 'audit', 'pay']
const KEYS: readonly CorrelationKey[] = ['a', 'b', 'c'].map((value) => ({ namespace: 'n', value }))

export type CaseAct =
  | { do: 'put'; text: string }
  | { do: 'status'; to: CaseStatus }
  | { do: 'deadline'; name: string; minutes: number; warnMinutes: number }
  /** Closed for a while. */
  | { do: 'rest'; ms: number }
  | { do: 'meet' | 'drop' | 'until'; name: string }

const KINDS: ReadonlySet<string> = new Set<CaseAct['do']>(['rest', 'put', 'status', 'deadline', 'meet', 'drop', 'until'])

export function isCaseAct(act: { do: string }): act is CaseAct {
  return KINDS.has(act.do)
}

/** What is refused, because of what others did to the case, is no failure of the step. */
export async function actOnCase(context: StepContext, act: CaseAct): Promise<Json> {
  try {
    if (act.do === 'put') {
      const { state, version } = await context.caseState()
      return await context.putCaseState(version, [...((state as Json[] | null) ?? []), act.text])
    }
    if (act.do === 'rest') {
      await context.setCaseStatus('closed')
      await context.sleep(act.ms)
      await context.setCaseStatus('open')
    } else if (act.do === 'status') await context.setCaseStatus(act.to)
    else if (act.do === 'deadline') await context.deadline(act.name, { unit: 'minutes', n: act.minutes }, { warnBeforeMs: act.warnMinutes * 60_000 })
    else if (act.do === 'meet') await context.meetDeadline(act.name)
    else if (act.do === 'drop') await context.cancelDeadline(act.name)
    else return (await context.awaitEvent({ kind: 'told', obligation: act.name })).id
    return 'done'
  } catch (error) {
    return (error as Error).message
  }
}

const pick = <T>(random: () => number, from: readonly T[]): T => from[Math.floor(random() * from.length)]

export function randomCaseAct(random: () => number): CaseAct {
  const chance = random()
  const name = pick(random, NAMES)
  if (chance < 0.3) return { do: 'put', text: `t${Math.floor(random() * 1e9)}` }
  if (chance < 0.4) return { do: 'rest', ms: Math.floor(random() * 3_600_000) }
  if (chance < 0.5) return { do: 'status', to: pick(random, STATUSES) }
  if (chance < 0.75) return { do: 'deadline', name, minutes: Math.floor(random() * 200), warnMinutes: Math.floor(random() * 60) }
  return { do: pick(random, ['meet', 'drop', 'until'] as const), name }
}

/** Keys that others have as well, or a case that may be closed. */
export async function randomCase(random: () => number, disk: StateStore): Promise<CaseChoice> {
  const known = await caseIds(disk, undefined, 100)
  if (known.length > 0 && random() < 0.2) return { id: pick(random, known) }
  const correlation = KEYS.filter(() => random() < 0.5)
  return { kind: 'sim.matter', correlation: correlation.length === 0 ? [KEYS[0]] : correlation }
}

/** An operator holds a case, or releases it. */
export async function holdOrRelease(
  process: Process,
  random: () => number,
  world: World,
  attempt: (process: Process, act: () => Promise<unknown>) => Promise<unknown>,
): Promise<void> {
  const known = await caseIds(world.disk, undefined, 100)
  if (known.length === 0) return
  const id = pick(random, known)
  const placed = Math.floor(world.now / 1000)
  if (random() < 0.5) await attempt(process, () => process.store.transaction((tx) => placeHold(tx, { case: id, placed, reason: 'a suit', by: OPERATOR })))
  else {
    const run = process.driver.newRun()
    await attempt(process, () => process.store.transaction((tx) => releaseHold(tx, id, OPERATOR, run, world.now)))
  }
}
