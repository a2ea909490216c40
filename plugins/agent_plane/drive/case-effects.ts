/** What a step asks of its case, each in the transaction that journals it: what the store is asked, and the records that belong to it. */
import type { StateTransaction } from 'svcdb'
import type { Calendar, CaseStatus, DeadlineSpec, Json } from 'svcdb/agents'
import { SvcError } from 'svcdb/lib/errors'
import { CASE_STATUSES, knownCase, putState } from '../cases/case-store.ts'
import { changeStatus, registerDeadline, transition } from '../cases/obligations.ts'
import { instant } from '../record/names.ts'
import type { NewRecord } from '../record/record.ts'

/** Answered in a transaction. A refusal that it throws as SvcError, before it has written anything, is the failure of the effect. */
export interface StoreEffect {
  kind: string
  args: Json
  /** Refused where the budget of effects is used up. */
  metered?: true
  /** Refused where the budget of plans is used up. */
  replans?: true
  /** @param effect its key. */
  act(tx: StateTransaction, effect: string): Promise<{ output: Json; records?: Pick<NewRecord, 'kind' | 'payload'>[] }>
}

export function readState(id: string): StoreEffect {
  return {
    kind: 'svc.case_state',
    args: null,
    async act(tx) {
      const { state, version } = await knownCase(tx, id)
      return { output: { state, version } }
    },
  }
}

export function writeState(id: string, version: number, state: Json): StoreEffect {
  return { kind: 'svc.put_case_state', args: { version, state }, act: async (tx) => ({ output: await putState(tx, id, version, state) }) }
}

export function moveCase(id: string, status: CaseStatus): StoreEffect {
  return {
    kind: 'svc.set_case_status',
    args: status,
    async act(tx) {
      if (!CASE_STATUSES.includes(status))
        throw new SvcError('BAD_REQUEST', `cannot set status ${JSON.stringify(status)}: a case has one of ${CASE_STATUSES.join(', ')}`)
      const { status: from } = await knownCase(tx, id)
      return { output: { from, version: (await changeStatus(tx, id, status)).version } }
    },
  }
}

interface DeadlineAsked {
  name: string
  spec: DeadlineSpec
  calendar: string
  warnBeforeMs?: number
}

/** @param now milliseconds since the Unix epoch: what the calendar counts from. */
export function register(
  id: string,
  { name, spec, calendar, warnBeforeMs }: DeadlineAsked,
  calendars: ReadonlyMap<string, Calendar>,
  now: () => number,
): StoreEffect {
  return {
    kind: 'svc.deadline',
    args: { name, spec, calendar, ...(warnBeforeMs === undefined ? {} : { warn_before_ms: warnBeforeMs }) },
    async act(tx) {
      const rules = calendars.get(calendar)
      if (rules === undefined) throw new SvcError('BAD_REQUEST', `cannot resolve a deadline: there is no calendar ${JSON.stringify(calendar)} here`)
      if (warnBeforeMs !== undefined && !(warnBeforeMs >= 0)) throw new SvcError('BAD_REQUEST', 'cannot register an obligation: warnBeforeMs is 0 or more')
      const resolved = resolvedBy(rules, now(), spec)
      const warn = warnBeforeMs === undefined ? {} : { warn: Math.max(0, Math.floor(resolved - warnBeforeMs)) }
      const row = await registerDeadline(tx, { case: id, name, resolved, calendar_digest: rules.digest, ...warn })
      const payload = { name, resolved_at: instant(row.resolved), calendar_digest: row.calendar_digest }
      const output = { name, resolvedAt: row.resolved, calendarDigest: row.calendar_digest }
      return { output, records: [{ kind: 'DeadlineRegistered', payload }] }
    },
  }
}

function resolvedBy(rules: Calendar, from: number, spec: DeadlineSpec): number {
  let at: number
  try {
    at = rules.resolve(from, spec)
  } catch (error) {
    throw new SvcError('BAD_REQUEST', (error as Error).message)
  }
  if (!(Math.abs(at) <= 8.64e15)) throw new SvcError('BAD_REQUEST', `cannot resolve a deadline: calendar "${rules.name}" gave ${at}, which is no instant`)
  return Math.floor(at)
}

export function settleDeadline(id: string, name: string, to: 'met' | 'cancelled'): StoreEffect {
  return {
    kind: to === 'met' ? 'svc.meet_deadline' : 'svc.cancel_deadline',
    args: name,
    async act(tx) {
      const from = await transition(tx, id, name, to)
      return { output: from, records: from === to ? [] : [{ kind: 'DeadlineTransition', payload: { name, from, to } }] }
    },
  }
}
