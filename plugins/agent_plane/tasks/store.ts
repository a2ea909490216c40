/**
 * Tasks, one row each, and where they are found: by role and priority while they are open, by the time when they are due, and by their run while they wait
 * for somebody. A task and what finds it are written in one transaction, which is also the one that hands its decision to whoever waits for it.
 */
import { hash } from 'node:crypto'
import type { StateReader, StateTransaction } from 'svcdb'
import { type AgentEvent, type CorrelationKey, type Expiry, TASK_DECIDED, type Task, type TaskDecision, taskKey } from 'svcdb/agents'
import { instant } from '../record/names.ts'
import { announce } from '../store/events.ts'
import type { SweptEntry } from '../store/sealed-run.ts'
import { newTask, type Opening, taskIdOf, withheldOf } from './request.ts'

const TASK_SOURCE = 'svc.tasks'
/** Who decides where nobody has. */
const NOBODY = 'svc.expiry'
const RANKS = { urgent: 0, high: 1, normal: 2, low: 3 } as const
const PENDING: ReadonlySet<string> = new Set(['open', 'claimed', 'escalated'])
const EVERYBODY = 'everybody'

const taskRow = (id: string): string => `task/${id}`
const number = (ms: number): string => String(Math.max(0, Math.floor(ms))).padStart(16, '0')
/** Roles may have any characters. */
const queueOf = (role: string | undefined): string => `task_queue/${role === undefined ? EVERYBODY : hash('sha256', role).slice(0, 32)}/`

export function isPending({ state }: Task): boolean {
  return PENDING.has(state)
}

/** Keys under which it is found. */
export function indexKeys(task: Task): string[] {
  const { id, run, state, priority, opened, due, candidate_roles: roles, escalated } = task
  if (!isPending(task)) return []
  const place = `${RANKS[priority]}/${number(opened)}/${id}`
  const queues = state === 'claimed' ? [] : (roles.length === 0 ? [undefined] : roles).map((role) => queueOf(role) + place)
  const timed = due === undefined ? [] : [`${escalated === true ? 'task_late' : 'task_due'}/${number(due)}/${id}`]
  return [...queues, ...timed, `task_run/${run}/${id}`]
}

/** @param before as the transaction has read it. */
export function putTask(tx: StateTransaction, before: Task | undefined, after: Task): void {
  const keys = indexKeys(after)
  for (const key of before === undefined ? [] : indexKeys(before)) if (!keys.includes(key)) tx.delete(key)
  for (const key of keys) tx.put(key, after.id)
  tx.put(taskRow(after.id), after)
}

export function taskOf(state: StateReader, id: string): Promise<Task | undefined> {
  return state.get<Task>(taskRow(id))
}

/** The same one again for the same effect of the same run; one that was withdrawn is open again. */
export async function openTask(tx: StateTransaction, opening: Opening): Promise<Task> {
  const known = await taskOf(tx, taskIdOf(opening.run, opening.effect))
  if (known !== undefined && known.state !== 'withdrawn') return known
  const task = known === undefined ? newTask(opening) : freed(known)
  putTask(tx, known, task)
  return task
}

/** As it is when nobody has it. */
export function freed({ assignee: _, taken_from: __, ...rest }: Task): Task {
  return { ...rest, state: rest.escalated === true ? 'escalated' : 'open' }
}

/** @returns tasks that are open or escalated for these roles, by priority and then the oldest first. */
export async function queueFor(state: StateReader, roles: readonly string[], limit: number): Promise<Task[]> {
  const found = new Map<string, string>()
  for (const role of [undefined, ...new Set(roles)]) {
    const prefix = queueOf(role)
    for (const { key, value } of await state.list<string>({ prefix, limit })) found.set(value, key.slice(prefix.length))
  }
  const first = [...found].sort(([, a], [, b]) => (a < b ? -1 : 1)).slice(0, limit)
  return (await Promise.all(first.map(([id]) => taskOf(state, id)))).filter((task) => task !== undefined)
}

/** Ids of those that should have been decided by now, the longest due first. @param now milliseconds since the Unix epoch. */
export async function overdueTasks(state: StateReader, now: number, limit: number): Promise<string[]> {
  const of = (index: string) => state.list<string>({ prefix: `${index}/`, end: `${index}/${number(now + 1)}`, limit })
  const all = [...(await of('task_due')), ...(await of('task_late'))].map(({ key, value }) => ({ due: key.slice(key.indexOf('/')), value }))
  return all
    .sort((a, b) => (a.due < b.due ? -1 : 1))
    .slice(0, limit)
    .map(({ value }) => value)
}

/** How many wait for somebody, up to a limit. */
export async function backlogOf(state: StateReader, limit: number): Promise<number> {
  return (await state.list({ prefix: 'task_run/', limit })).length
}

/** Puts a decision on record, and wakes who waits for it. @returns the runs that go on. */
export async function settleTask(tx: StateTransaction, task: Task, decision: TaskDecision): Promise<string[]> {
  const { assignee: _, taken_from: __, ...rest } = task
  const settled: Task = { ...rest, state: decision.expired === true ? 'expired' : 'completed', decision }
  putTask(tx, task, settled)
  return announce(tx, eventOf(settled))
}

/** What a wait for a task gets; undefined while there is no decision. The task says so, and nothing else. */
export async function decisionFor(state: StateReader, [named]: readonly CorrelationKey[]): Promise<AgentEvent | undefined> {
  const task = await taskOf(state, named.value)
  return task?.decision === undefined ? undefined : eventOf(task)
}

function eventOf({ id, decision }: Task): AgentEvent {
  const label = { provenance: [`person:${decision?.decided_by}`], trust: 'trusted', sensitivity: 'internal' } as const
  return {
    id,
    source: TASK_SOURCE,
    kind: TASK_DECIDED,
    correlation: [taskKey(id)],
    payload: decision as never,
    label: { ...label, provenance: [...label.provenance] },
  }
}

/** A run is over for good: nobody needs what it has asked. */
export async function withdrawTasks(tx: StateTransaction, run: string): Promise<void> {
  for (const { value: id } of await tx.list<string>({ prefix: `task_run/${run}/` })) {
    const task = await taskOf(tx, id)
    if (task === undefined) continue
    const { assignee: _, taken_from: __, ...rest } = task
    putTask(tx, task, { ...rest, state: 'withdrawn' })
  }
}

/** Does what tasks say for their end. @param now milliseconds since the Unix epoch. */
export async function sweepTasks(tx: StateTransaction, now: number, limit: number): Promise<SweptEntry[]> {
  const due = await tx.list<string>({ prefix: 'task_due/', end: `task_due/${number(now + 1)}`, limit: limit + 1 })
  const swept: SweptEntry[] = []
  for (const { value: id } of due.slice(0, limit)) {
    const task = (await taskOf(tx, id)) as Task
    const about = { subject: id, detail: `it was due at ${instant(task.due ?? now)}`, ...(task.case === undefined ? {} : { case: task.case }) }
    if (task.on_expiry.policy === 'escalate') {
      escalate(tx, task, task.on_expiry)
      swept.push({ ...about, action: 'task_escalated' })
      continue
    }
    const proceeds = task.on_expiry.policy === 'proceed'
    const withheld = proceeds ? withheldOf(task) : undefined
    // As for persons.
    const approved = proceeds && withheld === undefined
    const reason = `nobody has decided by ${instant(task.due ?? now)}${withheld === undefined ? '' : `, and its proposal is ${withheld}`}`
    await settleTask(tx, task, { approved, decided_by: NOBODY, basis: 'asserted', reason, expired: true })
    swept.push({ ...about, action: 'task_expired' })
  }
  if (due.length > limit) swept.push({ subject: 'tasks', action: 'not_applied', detail: `${limit} were taken; there are more, and the next sweep takes them` })
  return swept
}

/** Who had it has it no more, and more roles may decide. Where everybody may, that stays. */
function escalate(tx: StateTransaction, task: Task, { escalate_to: more }: Extract<Expiry, { policy: 'escalate' }>): void {
  const { assignee: _, taken_from: __, candidate_roles: roles, ...rest } = task
  putTask(tx, task, { ...rest, state: 'escalated', escalated: true, candidate_roles: roles.length === 0 ? [] : [...new Set([...roles, ...more])] })
}
