/** Emergency stops by scope, and those that were lifted. */
import type { StateReader, StateTransaction } from 'svcdb'
import type { HaltLiftView, HaltRow, Operator } from 'svcdb/agents'
import type { Acting } from '../quota/store.ts'
import { digest, timeOfRun } from '../record/names.ts'

const MAX_PRINCIPAL = 256
const AGENT = /^agent:[^\s\p{Cc}\p{Cs}]{1,128}$/u
const REVISION = /^revision:[0-9a-f]{64}$/
const SUBJECT = /^subject:[^\p{Cc}\p{Cs}]+$/u

const haltKey = (scope: string): string => `halt/standing/${digest('svc.halt.v1', scope)}`
/** In milliseconds: those of one second have an order. What was kept in seconds lies behind. */
const liftedKey = (record: string): string => `halt/lifted/${String(Number.MAX_SAFE_INTEGER - timeOfRun(record)).padStart(16, '0')}/${record}`

export function isScope(scope: string): boolean {
  if (scope === 'tenant' || AGENT.test(scope) || REVISION.test(scope)) return true
  return SUBJECT.test(scope) && scope.length <= 'subject:'.length + MAX_PRINCIPAL && scope.trim() !== 'subject:'
}

/** What a scope covers, for people. */
export function coversOf(scope: string): string {
  const [kind] = scope.split(':', 1)
  const name = scope.slice(kind.length + 1)
  if (kind === 'agent') return `every revision of the agent ${name}`
  if (kind === 'revision') return `the agent whose manifest has the digest ${name}`
  if (kind === 'subject') return `everything that acts for ${name}`
  return 'the whole tenant'
}

/** How far a halt of a scope reaches, for people. */
export function reachOf(scope: string): string {
  if (scope.startsWith('subject:'))
    return 'no run that acts for this principal is admitted; those that are under way, or that go on after a wait, stop at their next step boundary with the status withheld, and go on when the halt is lifted and they are resumed'
  return 'no run that it covers is admitted; runs that are under way and suspended ones that go on are not touched: cancel them'
}

/** Overwrites the reason and the instant of one that stands. @param now Unix seconds. */
export function place(tx: StateTransaction, scope: string, reason: string, { actor: by, basis }: Operator, now: number): HaltRow {
  const row: HaltRow = { scope, reason, by, basis, thrown_at: now }
  tx.put(haltKey(scope), row)
  return row
}

export function haltOf(state: StateReader, scope: string): Promise<HaltRow | undefined> {
  return state.get<HaltRow>(haltKey(scope))
}

export function remove(tx: StateTransaction, scope: string, lifted: HaltLiftView): void {
  tx.delete(haltKey(scope))
  tx.put(liftedKey(lifted.record), lifted)
}

/** All of them, oldest first. */
export async function standingHalts(state: StateReader): Promise<HaltRow[]> {
  const rows = (await state.list<HaltRow>({ prefix: 'halt/standing/' })).map(({ value }) => value)
  return rows.sort((a, b) => a.thrown_at - b.thrown_at || (a.scope < b.scope ? -1 : 1))
}

/** Newest first. */
export async function liftedHalts(state: StateReader, limit: number): Promise<HaltLiftView[]> {
  return (await state.list<HaltLiftView>({ prefix: 'halt/lifted/', limit })).map(({ value }) => value)
}

/** The narrowest one that keeps a run from being admitted: a principal, then a revision, an agent, the tenant. */
export async function haltFor(state: StateReader, { agent, subjects }: Acting): Promise<HaltRow | undefined> {
  const scopes = [
    ...subjects.map((subject) => `subject:${subject}`),
    ...(agent === undefined ? [] : [`revision:${agent.digest}`, `agent:${agent.name}`]),
    'tenant',
  ]
  for (const scope of scopes) {
    const halt = await haltOf(state, scope)
    if (halt !== undefined) return halt
  }
  return undefined
}

/** The one that pauses a run that is under way. */
export async function pausing(state: StateReader, subjects: readonly string[]): Promise<HaltRow | undefined> {
  for (const subject of subjects) {
    const halt = await haltOf(state, `subject:${subject}`)
    if (halt !== undefined) return halt
  }
  return undefined
}
