/**
 * What agents are written with: skills, what a step may ask of the plane, and the service AGENTS that takes skills and begins runs. The plugin `agent_plane`
 * provides it.
 */
import type { Calendar, CaseChoice, CaseContext } from './cases.ts'
import type { Label, Sensitivity, Trust } from './labels.ts'
import type { BlobContext, Sink } from './outward.ts'
import type { TaskDecision, TaskRequest } from './tasks.ts'

export type { Calendar, CaseChoice, CaseContext, CaseStatus, DeadlineSpec, DeadlineState, RegisteredDeadline } from './cases.ts'

import type { AgentRef, BudgetExceeded, ChainLink, Deliverer, PushConfig } from './control.ts'

export type * from './control.ts'

import type { Agent } from './agent.ts'
import type { Skill } from './skill.ts'

export * from './agent.ts'
export * from './effect-error.ts'
export { joined, type Label, OWN, ownProse, type Prose, SENSITIVITIES, type Sensitivity, type Trust } from './labels.ts'
export { type AgentBudgets, type AgentManifest, manifestDigest, manifestProblems, manifestSchema, type ToolDeclaration } from './manifest.ts'
export * from './models.ts'
export {
  AGENT_PLANES,
  type AgentPlanes,
  type AttentionOperations,
  type AttentionView,
  type CaseAnswer,
  type CaseOperations,
  type CaseView,
  type ConditionView,
  DEFAULT_TENANT,
  type DeadLetterView,
  type DeadlineView,
  type DrillOperations,
  type DrillView,
  type EventOperations,
  type HaltLifted,
  type HaltOperations,
  type HaltPlaced,
  type HaltView,
  type HoldInForce,
  type HoldOperations,
  type HoldReleaseView,
  type HoldView,
  type LiveOperations,
  type LiveRunView,
  type OperatedPlane,
  type Page,
  type ParkedPushView,
  type PushOperations,
  type RecordView,
  type RunOperations,
  type RunView,
  type SuspendReason,
  type WaitingRun,
} from './operator/index.ts'
export type * from './outward.ts'
export * from './ready-tools.ts'
export * from './skill.ts'
export type * from './tasks.ts'
export * from './tools.ts'

/** Name of the service that an `AgentPlane` is provided under. */
export const AGENTS = 'agents'

/** What JSON can hold. */
export type Json = null | boolean | number | string | Json[] | { [member: string]: Json }

/**
 * How an effect is settled of which nobody knows whether it happened. `retry`: it is done again, as another attempt. `idempotent`: likewise, and all attempts
 * bear one key by which the receiver knows it again. `reconcile`: a probe is asked. `requires_operator`: a person says.
 */
export type RecoveryMode = 'retry' | 'idempotent' | 'reconcile' | 'requires_operator'

/** Of an effect: something outside the step, or that is not the same each time. */
export interface EffectDescription {
  /** Such as `http.post`; what begins with `svc.` is the plane's. */
  kind: string
  /** What it is done with. Kind and arguments must be the same whenever the step is run again. */
  args: Json
  /** Whether it changes something outside. */
  mutates: boolean
  /** Default: `requires_operator` where it mutates, else `retry`. */
  recovery?: RecoveryMode
  /** Attempts in all; default 3. */
  maxAttempts?: number
  /** What one attempt costs at most: reserved before it, and settled by what it says with `spend`; all of it where nobody knows how it ended. */
  spends?: Spend
  /** Bytes that one attempt sends out. */
  outboundBytes?: number
  /** What it is done by, such as `tool://server/name`: rates are bound to it. */
  grant?: string
  /** What it gives is to be taken for; default: untrusted, internal. */
  declares?: { trust?: Trust; sensitivity?: Sensitivity }
  /** For `reconcile`: whether the attempt with this key has happened. */
  probe?(call: EffectCall): Promise<ProbeAnswer>
}

/** Whether an attempt has happened, and what it gave; `inconclusive` = a person has to say. */
export type ProbeAnswer = { landed: true; output: Json } | { landed: false } | 'inconclusive'

/** Of one attempt. */
export interface EffectCall {
  /** 64 hexadecimal digits: of this attempt alone. */
  effectKey: string
  /** The same for all attempts. */
  idempotencyKey: string
  /** From 1. */
  attempt: number
  /** Says what it has cost, which counts against the budgets of the run; called several times, it adds up. */
  spend(used: Spend): void
}

/** What effects cost: whole numbers. */
export interface Spend {
  tokens?: number
  /** Of a currency, such as cents. */
  minor_units?: number
}

/** What events and those who wait for them have in common, such as the number of an order. */
export interface CorrelationKey {
  namespace: string
  value: string
}

/** Something that has happened outside: runs wait for it, or begin with it. */
export interface AgentEvent {
  /** Together with `source` its identity: one that comes again is known. */
  id: string
  source: string
  kind: string
  correlation: CorrelationKey[]
  payload: Json
  /** The one run that takes it; absent = whoever waits for it. It begins none. */
  to?: string
  /** Of the payload; absent = untrusted, internal, of its source. */
  label?: Label
}

/** Kind of the event that says that a task was decided; its payload is the `TaskDecision`. */
export const TASK_DECIDED = 'svc.task.decided'

/** What a wait for the decision of a task names. */
export function taskKey(task: string): CorrelationKey {
  return { namespace: 'svc.task', value: task }
}

/** What a step waits for: an event of this kind that has all of these keys, for so many milliseconds or until an obligation of the case is due. */
export type EventWait = { kind: string; correlation?: CorrelationKey[] } & ({ withinMs: number } | { obligation: string })

/** Effects of a step that are settled together. */
export interface EffectGroup {
  /**
   * What undoes what has just been done, should the group be aborted: called newest first, with effects of its own. If one fails, nothing further is undone,
   * and the run is quarantined.
   */
  undo(act: () => Promise<unknown>): void
}

/**
 * What a step may ask. All answers are in the journal: a step that is run again, after a crash or a wait, gets the same ones. A step that waits, or that is
 * stopped, is left where it stands, and begun anew later: nothing after the call is run, `finally` included.
 */
export interface StepContext extends CaseContext, BlobContext {
  readonly run: string
  readonly step: string
  /** Of all that the step has read so far: its input, and what its effects gave. */
  readonly label: Label
  /** Milliseconds since the Unix epoch. */
  now(): Promise<number>
  /** In [0, 1). */
  random(): Promise<number>
  /** Puts a text into the journal, for whoever reads the run's history. */
  note(text: string): Promise<void>
  /**
   * Has something done at most once: that it begins is durable before `perform` is called, and what it gave before anything else is begun or the run rests.
   * @throws EffectError when it failed for good.
   */
  effect<T extends Json>(effect: EffectDescription, perform: (call: EffectCall) => Promise<T>): Promise<T>
  /**
   * An effect that takes a value out, under a bound: what is more sensitive than the other side may have, or comes from outside where that may not go, does
   * not leave. The refusal is on record, and counts as one of the policies. The journal says what label the value had.
   * @throws EffectError as `effect`, and for what may not go there.
   */
  sink<T extends Json>(sink: Sink, perform: (call: EffectCall) => Promise<T>): Promise<T>
  /**
   * Does several effects that are settled together: where `act` throws, what it has registered is undone, and the error goes on. A run that is cancelled, or
   * fails elsewhere, while the group is open is undone so, too: what `act` waits for or begins then throws.
   * @param resources what the group is about, for whoever reads the journal.
   */
  group<V>(name: string, resources: readonly string[], act: (group: EffectGroup) => Promise<V>): Promise<V>
  /**
   * Replaces the rest of the plan, on record: the step goes on, and when it is done the run goes by the new one. What has begun stays as it is, or is left out,
   * and is undone like anything else should the run fail.
   * @param nodes of the whole plan; a text is the id of one that stays. @returns the version. @throws EffectError for a plan that cannot be used: then the
   * one in force stays.
   */
  replan(nodes: readonly (PlanNode | string)[], reason: string, topology?: Topology): Promise<number>
  sleep(ms: number): Promise<void>
  /** @param time milliseconds since the Unix epoch. */
  sleepUntil(time: number): Promise<void>
  /**
   * Waits for an event of this kind that has all of these keys, one that has come before included; without keys, in a case, for one that has any key of the
   * case. It waits for so many milliseconds, or until the obligation of this name is due, and does not meet it.
   * @throws EffectError when there was none by then, and when there is no such obligation.
   */
  awaitEvent(wait: EventWait): Promise<AgentEvent>
  /** Asks a person, and waits until it is decided, by one of those who may or by what the task says for its end. */
  task(request: TaskRequest): Promise<TaskDecision>
  /** Asks a person, and does not wait. @returns the task: `awaitEvent` with TASK_DECIDED and its `taskKey` waits for it, whenever it is decided. */
  openTask(request: TaskRequest): Promise<string>
}

/** Where a member of a node's input comes from; `field` takes a member of what is there. */
export type ArgumentSource = { from: 'run_input'; field?: string } | { from: 'node'; node: string; field?: string } | { from: 'const'; value: Json }

/** `collaborative`: several work together in it, so that a node has to verify what they give. */
export type Topology = 'dag' | 'collaborative'

/** What is looked at from several sides: the skill is invoked for each, with the lens as the member `lens` of its input. */
export interface Quorum {
  /** How many must say that it has passed, more than half; as many who say that it has not fail it. Between the two a person decides. */
  need: number
  /** Up to 16, no two the same. */
  lenses: string[]
}

/** One step of a plan. */
export interface PlanNode {
  /** snake_case, within the plan. */
  id: string
  capability: string
  /** Ids of nodes that must be done before. */
  depends_on?: string[]
  /** The input by member; without it the input of the run. */
  args?: Record<string, ArgumentSource>
  /** What it gives is what the run gives. */
  terminal?: boolean
  /** It looks at what those gave on which it depends, and gives `{"passed": boolean, "reason"?: string}`: what has not passed fails the run. */
  verifies?: boolean
  /** Of a node that verifies. */
  quorum?: Quorum
}

/** A run that is asked for. */
export interface RunRequest {
  /** A plan of one step. */
  capability?: string
  /** A plan of several; instead of `capability`. */
  plan?: PlanNode[]
  /** Of the plan; default: dag. */
  topology?: Topology
  input: Json
  /** Of the input; default: untrusted, internal, of the actor. */
  label?: Label
  /** A run that was begun with the same key is the answer: CONFLICT where that was of another capability, or with another input. At most 512 bytes. */
  idempotencyKey?: string
  /** Refused when the case is closed. */
  case?: CaseChoice
  /** Who asks, at most 256 characters. */
  actor: string
  /** Those for whom the actor acts, the first for whom all is done; at most three. Their scopes must cover all that the plan does. */
  chain?: ChainLink[]
  /** Milliseconds since the Unix epoch at which their right ends: refused after that. */
  notAfter?: number
  /** The declaration that is to govern it: refused where that of the capability is another one, or none. Default: whichever it is. */
  agent?: AgentRef
  /** Whom to tell what becomes of it. */
  push?: PushConfig[]
}

/** Who acts on runs from outside, and how that is known. */
export interface Operator {
  actor: string
  basis: 'authenticated' | 'asserted' | 'connected'
}

/** An effect of which nobody knows whether it happened. */
export interface Undecided {
  effect: string
  step: number
  phase: 'forward' | 'compensating'
  kind: string
  /** `announced`: it was begun, and nothing follows. `inconclusive`: what was reported or probed did not settle it. */
  doubt: 'announced' | 'inconclusive'
}

/** How a run stands. */
export interface RunStanding {
  run: string
  /** `running`, `suspended`, or how it was concluded. */
  status: string
  /** Whether nothing can change it any more. */
  concluded: boolean
  records: number
  reason?: string
  /** A sentence. */
  waiting_for?: string
  cancellation_requested_by?: Operator
  undecided: Undecided[]
  /** Which budget has run out. */
  exhaustion?: BudgetExceeded
}

/** What a replay of a run's journal by the code of now came to. */
export interface ReplayReport {
  status: string
  /** Where the code of now does something else than the journal has; empty = the same. */
  divergences: string[]
  /** What the run gave, when it succeeded. */
  output?: Json
  /** Which budget had run out, as far as the journal can say. */
  exhaustion?: BudgetExceeded
}

/** The service AGENTS. What acts on a run is there from the ready phase on. */
export interface AgentPlane {
  /** In setup. @throws Error when another skill has the capability. */
  skill(skill: Skill): void
  /** In setup. @throws Error when there is another one of this name. */
  calendar(calendar: Calendar): void
  /** In setup: all its skills. @throws Error when another agent has the name, or another skill one of its capabilities. */
  agent(agent: Agent): void
  /** Begins a run. Durable when it resolves; it goes on by itself. @throws SvcError BAD_REQUEST, CONFLICT: nothing was kept. */
  run(request: RunRequest): Promise<{ run: string; existing: boolean }>
  /** Resolves when the run suspends or concludes; at once when it has. @throws SvcError NOT_FOUND. */
  settled(run: string): Promise<string>
  standing(run: string): Promise<RunStanding>
  /** Runs the steps against the journal without doing anything. @throws SvcError NOT_FOUND. */
  replay(run: string): Promise<ReplayReport>
  /** Goes on with a run that waits, has failed before anything was undone, or has used up its budget. @returns the status that it got to. @throws SvcError CONFLICT. */
  resume(run: string): Promise<string>
  /** Has somebody told what becomes of a run, from its beginning on. @throws SvcError BAD_REQUEST, NOT_FOUND. */
  push(run: string, receiver: PushConfig): Promise<void>
  /**
   * Hands an event to the run that waits for it; one that does not go on now, as it is quarantined, has it `buffered`, and is `run`. If none waits, it begins the
   * runs that `agent_plane.on_event` has for it, and `run` is the first; or it is kept.
   * @param by for whom those runs act, in place of the rule. @throws SvcError NOT_FOUND and CONFLICT for one that is for a run that is not there or over.
   */
  deliver(
    event: Omit<AgentEvent, 'correlation'> & { correlation?: CorrelationKey[] },
    by?: Deliverer,
  ): Promise<{ delivery: 'resumed' | 'buffered' | 'duplicate'; run?: string }>
  /** Has a run stop at its next step and undo what it did. @throws SvcError CONFLICT when it is over or quarantined. */
  cancel(run: string, by: Operator, reason: string): Promise<{ requested_by: string; recorded: boolean }>
  /** What happens to a quarantined run: one more pass, or the end. @returns the status that it got to. @throws SvcError CONFLICT when it is not quarantined. */
  decide(run: string, decision: 'reopen' | 'abandon', by: Operator, reason: string): Promise<string>
  /**
   * Says what became of an effect in doubt; the run stays quarantined until it is reopened. @param output what the run then reads as the effect's; with
   * `landed`, and only then. @throws SvcError BAD_REQUEST, CONFLICT when it is not in doubt.
   */
  reconcile(run: string, effect: string, said: { disposition: 'landed' | 'did_not_happen'; output?: Json; note: string }, by: Operator): Promise<void>
}
