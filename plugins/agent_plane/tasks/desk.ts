/** What persons do to tasks: each in one transaction, so that two who act at one time act one after the other. */
import type { StateStore, StateTransaction } from 'svcdb'
import type { Json, Task, TaskCaller, TaskDecision, TaskDesk, Withheld } from 'svcdb/agents'
import { SvcError } from 'svcdb/lib/errors'
import { holdOf } from '../cases/holds.ts'
import { actingOf } from '../quota/store.ts'
import { canonical } from '../record/canonical.ts'
import { requireWhole } from '../record/text.ts'
import { FINAL, statusOf } from '../store/runs.ts'
import { problemOf, withheldOf } from './request.ts'
import { backlogOf, freed, isPending, overdueTasks, putTask, queueFor, settleTask, taskOf } from './store.ts'

const ID = /^(?:task_)?([0-9a-f]{64})$/
const DIGEST = /^[0-9a-f]{64}$/
const MAX_REASON = 4096
const MAX_AMENDMENT_BYTES = 65_536

interface DeskTools {
  state: StateStore
  /** Milliseconds since the Unix epoch. */
  now(): number
  /** JSON Schema of the arguments of a tool, as the agent has it that governs the run, or else all that have it; undefined where nothing here knows it. */
  argumentsOf(tool: string, agent: string | undefined): object | undefined
}

/** @throws SvcError BAD_REQUEST. */
function parseTaskId(text: string): string {
  const id = ID.exec(text)?.[1]
  if (id === undefined) throw new SvcError('BAD_REQUEST', `cannot use task ${JSON.stringify(text.slice(0, 80))}: an id has 64 hexadecimal digits`)
  return id
}

export function mayDecide({ excluded, candidate_roles: wanted }: Task, caller: Pick<TaskCaller, 'actor' | 'roles' | 'acting_as'>): boolean {
  return !isExcluded(excluded, caller) && hasRole(wanted, caller)
}

function isExcluded(excluded: readonly string[], { actor, acting_as: chain = [] }: Pick<TaskCaller, 'actor' | 'acting_as'>): boolean {
  return [actor, ...chain].some((one) => excluded.includes(one))
}

function hasRole(wanted: readonly string[], { roles }: Pick<TaskCaller, 'roles'>): boolean {
  return wanted.length === 0 || wanted.some((role) => roles.includes(role))
}

export class Desk implements TaskDesk {
  private readonly tools: DeskTools

  constructor(tools: DeskTools) {
    this.tools = tools
  }

  async queue({ roles }: Pick<TaskCaller, 'roles'>, limit: number): Promise<{ rows: Task[]; truncated: boolean }> {
    return cut(await queueFor(this.tools.state, roles, limit + 1), limit)
  }

  async overdue(limit: number): Promise<{ rows: string[]; truncated: boolean }> {
    return cut(await overdueTasks(this.tools.state, this.tools.now(), limit + 1), limit)
  }

  backlog(limit: number): Promise<number> {
    return backlogOf(this.tools.state, limit)
  }

  async task(text: string): Promise<Task> {
    const id = parseTaskId(text)
    return known(await taskOf(this.tools.state, id), id)
  }

  async claim(text: string, caller: TaskCaller): Promise<Task> {
    return this.change(text, (tx, task) => {
      checkClaim('claim', task, caller)
      return assign(tx, task, caller.actor)
    })
  }

  async release(text: string, { actor }: TaskCaller): Promise<void> {
    await this.change(text, (tx, task) => {
      if (task.state !== 'claimed' || task.assignee !== actor) throw refused('CONFLICT', 'release', task, `it is ${standing(task)}, and not yours`)
      putTask(tx, task, freed(task))
    })
  }

  async takeOver(text: string, from: string, caller: TaskCaller): Promise<Task> {
    return this.change(text, (tx, task) => {
      checkEligible('take over', task, caller)
      checkPending('take over', task)
      // Asked again after an answer that was lost.
      if (task.assignee === caller.actor && task.taken_from === from) return task
      if (task.assignee !== from) throw refused('CONFLICT', 'take over', task, `it is ${standing(task)}, and not with ${JSON.stringify(from.slice(0, 64))}`)
      return assign(tx, task, caller.actor, from)
    })
  }

  async decide(text: string, said: Parameters<TaskDesk['decide']>[1], caller: TaskCaller): Promise<TaskDecision> {
    return (await this.decided(text, said, caller)).decision
  }

  /** As `decide`. @returns also the runs that go on. */
  async decided(text: string, said: Parameters<TaskDesk['decide']>[1], caller: TaskCaller): Promise<{ decision: TaskDecision; runs: string[] }> {
    const { approved, reason, digest } = said
    const amendment = amendmentOf(said.amendment)
    if (reason.trim() === '' || reason.length > MAX_REASON)
      throw new SvcError('BAD_REQUEST', `cannot decide a task without a reason: it has 1 to ${MAX_REASON} characters`)
    requireWhole(reason, 'reason')
    if (digest !== undefined && !DIGEST.test(digest)) throw new SvcError('BAD_REQUEST', 'cannot decide a task: its digest has 64 hexadecimal digits')
    const decision: TaskDecision = { approved, decided_by: caller.actor, basis: caller.basis, reason, ...(amendment === undefined ? {} : { amendment }) }
    return this.change(text, async (tx, task) => {
      if (digest !== undefined && digest !== task.digest)
        throw refused('PRECONDITION_FAILED', 'decide', task, 'its justification is another one than the digest says; read it again')
      checkEligible('decide', task, caller)
      if (task.decision !== undefined && canonical(task.decision) === canonical(decision)) return { decision, runs: [task.run] }
      checkPending('decide', task)
      checkFree('decide', task, caller)
      const status = await statusOf(tx, task.run)
      if (status !== undefined && FINAL.has(status)) throw refused('CONFLICT', 'decide', task, `its run is ${status}`)
      if (approved) await this.checkApproval(tx, task, amendment)
      return { decision, runs: await settleTask(tx, task, decision) }
    })
  }

  private async checkApproval(tx: StateTransaction, task: Task, amendment: Json | undefined): Promise<void> {
    const withheld = withheldOf(task)
    if (withheld !== undefined) throw refused('INVALID_BODY', 'approve', task, `its proposal is ${withheld}, so nobody can say what would be done; reject it`)
    if (amendment === undefined) return
    const schema = task.schema ?? (task.tool === undefined ? undefined : this.tools.argumentsOf(task.tool, (await actingOf(tx, task.run)).agent?.name))
    if (schema === undefined && task.tool === undefined) return
    const problem = schema === undefined ? `nothing here knows the arguments of tool ${JSON.stringify(task.tool)}` : problemOf(schema, amendment)
    if (problem !== undefined) throw refused('INVALID_BODY', 'approve', task, `the amendment cannot be used: ${problem}`)
  }

  async withhold(text: string, why: Withheld): Promise<void> {
    await this.change(text, async (tx, task) => {
      if (task.case !== undefined && (await holdOf(tx, task.case)) !== undefined)
        throw refused('CONFLICT', 'withhold', task, `its case "${task.case}" is held, and what is held is not erased; release the hold first`)
      // A schema may say what the proposal is, as that of a release does.
      const { schema: _, ...rest } = task
      putTask(tx, task, { ...rest, withheld: why, justification: { ...task.justification, proposed_action: null } })
    })
  }

  private async change<T>(text: string, act: (tx: StateTransaction, task: Task) => T | Promise<T>): Promise<T> {
    const id = parseTaskId(text)
    return this.tools.state.transaction(async (tx) => act(tx, known(await taskOf(tx, id), id)))
  }
}

function cut<T>(rows: T[], limit: number): { rows: T[]; truncated: boolean } {
  return { rows: rows.slice(0, limit), truncated: rows.length > limit }
}

function known(task: Task | undefined, id: string): Task {
  if (task === undefined) throw new SvcError('NOT_FOUND', `cannot find task "${id.slice(0, 12)}…": there is none of this id; check it, and whose tenant it is`)
  return task
}

function refused(code: ConstructorParameters<typeof SvcError>[0], verb: string, { id }: Task, why: string): SvcError {
  return new SvcError(code, `cannot ${verb} task "${id.slice(0, 12)}…": ${why}`)
}

function standing({ state, assignee }: Task): string {
  return assignee === undefined ? state : `${state} by ${JSON.stringify(assignee)}`
}

/** What stays as it is first: who may not now may not later. */
function checkEligible(verb: string, task: Task, caller: TaskCaller): void {
  if (isExcluded(task.excluded, caller)) throw refused('FORBIDDEN', verb, task, 'who asked for it, or is named by it, does not decide it')
  if (!hasRole(task.candidate_roles, caller)) throw refused('FORBIDDEN', verb, task, `it is for holders of ${task.candidate_roles.join(', ')}`)
}

function checkPending(verb: string, task: Task): void {
  if (!isPending(task)) throw refused('CONFLICT', verb, task, `it is ${standing(task)}`)
}

function checkFree(verb: string, task: Task, { actor }: TaskCaller): void {
  if (task.assignee !== undefined && task.assignee !== actor)
    throw refused('CONFLICT', verb, task, `it is ${standing(task)}; take it over, or wait until it is given back`)
}

function checkClaim(verb: string, task: Task, caller: TaskCaller): void {
  checkEligible(verb, task, caller)
  checkPending(verb, task)
  checkFree(verb, task, caller)
}

function assign(tx: StateTransaction, task: Task, actor: string, from?: string): Task {
  if (task.assignee === actor && from === undefined) return task
  const taken: Task = { ...task, state: 'claimed', assignee: actor, ...(from === undefined ? {} : { taken_from: from }) }
  putTask(tx, task, taken)
  return taken
}

/** @throws SvcError INVALID_BODY. */
function amendmentOf(given: Json | undefined): Json | undefined {
  if (given === undefined || given === null) return undefined
  let text: string
  try {
    // As deep as it is within the event that tells its run.
    text = canonical([[given]]).slice(2, -2)
  } catch (error) {
    throw new SvcError('INVALID_BODY', `cannot use the amendment: ${(error as Error).message}`)
  }
  if (Buffer.byteLength(text) > MAX_AMENDMENT_BYTES)
    throw new SvcError('INVALID_BODY', `cannot use the amendment: it has more than ${MAX_AMENDMENT_BYTES} bytes`)
  return JSON.parse(text) as Json
}
