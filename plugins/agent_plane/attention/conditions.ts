/** What needs a person. Each condition is looked for in one page of an index, so that asking costs the same however much there is. */
import type { StateReader } from 'svcdb'
import type { AttentionView, ConditionView } from 'svcdb/agents'
import { lastVerdict } from '../cases/drill.ts'
import { unacknowledged } from '../cases/obligations.ts'
import { parkedPushes } from '../push/store.ts'
import { type Slot, slots } from '../quota/store.ts'
import { deadLetters } from '../store/events.ts'
import { leaseOf } from '../store/leases.ts'
import { failedWithLandedWork, runsOf, type Status, statusOf } from '../store/runs.ts'
import { suspendedBy } from '../store/waits.ts'
import { overdueTasks } from '../tasks/store.ts'

const PAGE = 100
const MAX_SUBJECTS = 10

const REMEDIES = {
  'run.quarantined': 'reconcile the effects that are in doubt, then reopen or abandon the run',
  'run.exhausted': 'raise the bound and resume the run (svc plane replay RUN --resume), or cancel it; when it is a rate, wait and resume it',
  'run.withheld': 'lift the halt and resume the run (svc plane replay RUN --resume), or cancel it',
  'run.failed_with_landed_work': 'resume the run (svc plane replay RUN --resume), or cancel it so that it is undone',
  'quota.held_by_stopped_run': 'conclude the run, so that its slot is free',
  'run.abandoned': 'nothing by hand: its process is gone, and the recovery sweep takes it up',
  'run.wait_expired': 'resume the run (svc plane replay RUN --resume): it waits anew, or goes on',
  'obligation.breached': 'acknowledge the breach',
  'drill.failed': 'read what the drill has found, repair it, and run it again',
  'task.overdue': 'decide the task',
  'event.dead_lettered': 'no verb clears it: compare its correlation keys with what runs wait for',
  'push.parked': 'repair the receiver, then rearm the registration',
} as const

type Condition = keyof typeof REMEDIES
export const CONDITIONS = Object.keys(REMEDIES) as readonly Condition[]

interface Found {
  /** Up to a page. */
  subjects: string[]
  /** How many there are, where they have no names. */
  count?: number
  /** The page was full: there may be more. */
  isFull: boolean
}

/** Looks for one condition. */
type Check = (state: StateReader, now: number) => Promise<Found>

const page = (subjects: string[]): Found => ({ subjects, isFull: subjects.length >= PAGE })
const byStatus =
  (status: Status): Check =>
  async (state) =>
    page(await runsOf(state, status, PAGE))

/** Of the runs that hold a slot, those that it should not have. */
async function ofSlots(state: StateReader, is: (slot: Slot) => Promise<boolean>): Promise<Found> {
  const held = await slots(state, PAGE)
  const marks = await Promise.all(held.map(is))
  return { subjects: held.filter((_, index) => marks[index]).map(({ run }) => run), isFull: held.length >= PAGE }
}

const CHECKS: Readonly<Record<Condition, Check>> = {
  'run.quarantined': byStatus('quarantined'),
  'run.exhausted': byStatus('exhausted'),
  'run.withheld': byStatus('withheld'),
  'run.failed_with_landed_work': async (state) => page(await failedWithLandedWork(state, PAGE)),
  'quota.held_by_stopped_run': (state) => ofSlots(state, async ({ run }) => (await statusOf(state, run)) !== 'running'),
  'run.abandoned': (state, now) => ofSlots(state, async ({ run }) => hasLapsed(await leaseOf(state, run), now)),
  'run.wait_expired': async (state, now) => page((await suspendedBy(state, now, PAGE)).map(({ run }) => run)),
  'obligation.breached': async (state) => page((await unacknowledged(state, PAGE)).map((row) => `${row.case}/${row.name}`)),
  'drill.failed': async (state) => {
    const verdict = await lastVerdict(state)
    return { subjects: [], count: verdict !== undefined && verdict.findings > 0 ? 1 : 0, isFull: false }
  },
  'task.overdue': async (state, now) => page(await overdueTasks(state, now, PAGE)),
  'event.dead_lettered': async (state) => page((await deadLetters(state, PAGE)).map(({ source, id }) => `${source} ${id}`)),
  'push.parked': async (state) => page((await parkedPushes(state, PAGE)).map(({ run, row }) => `${run}/${row.config.id}`)),
}

function hasLapsed(lease: { holder?: string; until: number } | undefined, now: number): boolean {
  return lease?.holder !== undefined && lease.until <= now
}

const NO_PUSH = 'push registrations were not looked at: the plane has no push store, as nothing here sends; select the plugin webhooks'

/** @param now milliseconds since the Unix epoch. @param sends whether the plane has pushes: the other stores are there on every node. */
export async function attention(state: StateReader, now: number, sends: boolean): Promise<AttentionView> {
  const conditions: ConditionView[] = []
  for (const condition of CONDITIONS) {
    if (condition === 'push.parked' && !sends) continue
    const { subjects, count, isFull } = await CHECKS[condition](state, now)
    const found = count ?? subjects.length
    if (found === 0) continue
    const listed = subjects.slice(0, MAX_SUBJECTS)
    conditions.push({ condition, found, at_least: isFull, subjects: listed, unlisted: subjects.length - listed.length, remedy: REMEDIES[condition] })
  }
  return { needs_attention: conditions.length > 0, conditions, not_checked: sends ? [] : [NO_PUSH] }
}
