/** Work that persons do: a step asks, somebody decides, the run goes on. */
import type { Json, Operator } from './index.ts'
import type { Prose } from './labels.ts'

/** From the least to the most urgent. */
export type TaskPriority = 'low' | 'normal' | 'high' | 'urgent'

/** How a task stands.. */
export type TaskState = 'open' | 'claimed' | 'completed' | 'expired' | 'escalated' | 'withdrawn'
/** Why a proposal is not shown. */
export type Withheld = 'sealed' | 'erased' | 'undecodable'

/** What becomes of a task that nobody has decided in time. */
export type Expiry =
  /** It is taken for a rejection. */
  | { policy: 'deny' }
  /** Holders of these roles may decide it as well, and it waits on. */
  | { policy: 'escalate'; escalate_to: string[] }
  /** It is taken for an approval; for a rejection while its proposal is withheld. */
  | { policy: 'proceed'; allow_unattended: true }

/** What a step asks a person. It must be the same whenever the step is run again; a text without a label bears that of all that the step has read. */
export interface TaskRequest {
  /** Such as `refund.approval`, 1 to 128 characters. */
  kind: string
  summary: string | Prose
  /** What would be done: for a call of a tool its arguments. */
  proposed_action: Json
  /** In [0, 1]. */
  confidence?: number
  cost?: string | Prose
  evidence?: (string | Prose)[]
  /** What is consulted, and what that may do. */
  reach?: Json
  /** Default: normal. */
  priority?: TaskPriority
  /** Who holds one of them may decide; default: everybody. */
  candidate_roles?: string[]
  /** Who may not, beside who asked for the run and those in whose name it was asked for. */
  excluded?: string[]
  /** Milliseconds from now; default: it has no end. */
  withinMs?: number
  /** Default: deny. */
  on_expiry?: Expiry
  /** JSON Schema of what an approval may put in the place of the proposed action; with `tool` and without it the tool's arguments. */
  schema?: object
  /** The proposed action is the arguments of a call of this tool. */
  tool?: string
}

/** What a person has decided, or what the task says for its end. */
export interface TaskDecision {
  approved: boolean
  decided_by: string
  basis: Operator['basis']
  reason: string
  /** Of an approval: what is to be done in place of what was proposed. Of a rejection: advice. */
  amendment?: Json
  /** Nobody has decided in time, and this is what the task says for that. */
  expired?: true
}

/** What a person is shown to decide by. */
export interface Justification {
  summary: Prose
  /** null when it is withheld. */
  proposed_action: Json
  confidence?: number
  cost?: Prose
  evidence: Prose[]
  reach?: Json
}

/** A task as it is stored. */
export interface Task {
  /** 64 hexadecimal digits; follows from the run and the effect by which it was opened. */
  id: string
  run: string
  effect: string
  case?: string
  kind: string
  justification: Justification
  /** SHA-256 of the justification as it was opened, 64 hexadecimal digits. */
  digest: string
  priority: TaskPriority
  state: TaskState
  /** Empty = everybody. */
  candidate_roles: string[]
  excluded: string[]
  assignee?: string
  /** From whom the assignee has taken it over. */
  taken_from?: string
  /** Milliseconds since the Unix epoch. */
  opened: number
  /** Milliseconds since the Unix epoch. */
  due?: number
  on_expiry: Expiry
  /** It was, and is not again. */
  escalated?: true
  tool?: string
  schema?: object
  withheld?: Withheld
  decision?: TaskDecision
}

/** Who acts on tasks. */
export interface TaskCaller extends Operator {
  roles: readonly string[]
  /** In whose name, outermost first. */
  acting_as?: readonly string[]
}

/** All that is done to a task is durable when it resolves, and may be asked for again when its answer was lost. */
export interface TaskDesk {
  /** Those that are open or escalated and that the caller's roles may decide: by priority, the oldest first. */
  queue(caller: Pick<TaskCaller, 'roles'>, limit: number): Promise<{ rows: Task[]; truncated: boolean }>
  /** Those that should have been decided by now, the longest due first. */
  overdue(limit: number): Promise<{ rows: string[]; truncated: boolean }>
  /** How many wait for somebody, up to `limit`. */
  backlog(limit: number): Promise<number>
  /** @throws SvcError NOT_FOUND. */
  task(id: string): Promise<Task>
  /** @throws SvcError NOT_FOUND; FORBIDDEN for who is excluded or has none of its roles; CONFLICT when it is decided, or somebody else has it. */
  claim(id: string, caller: TaskCaller): Promise<Task>
  /** @throws SvcError NOT_FOUND, CONFLICT when the caller does not have it. */
  release(id: string, caller: TaskCaller): Promise<void>
  /** @param from who is believed to have it. @throws SvcError as `claim`, and CONFLICT when somebody else has it. */
  takeOver(id: string, from: string, caller: TaskCaller): Promise<Task>
  /**
   * @param said with `digest`, only if the justification is still that one.
   * @throws SvcError as `claim`; PRECONDITION_FAILED for another digest; INVALID_BODY for an approval of what is withheld, and an amendment that is not valid.
   */
  decide(id: string, said: { approved: boolean; reason: string; digest?: string; amendment?: Json }, caller: TaskCaller): Promise<TaskDecision>
  /** Takes the proposal and its schema away from the task, which can only be rejected from then on; the journal of its run keeps them. @throws SvcError NOT_FOUND, CONFLICT. */
  withhold(id: string, why: Withheld): Promise<void>
}

/** A task as it may be shown: what cannot be seen is written out, such as \u{202E}. */
export interface TaskRendering {
  summary: string
  cost?: string
  evidence?: string[]
  /** null when it is withheld. */
  proposed_action: Json
  reach?: Json
  /** Something was written out. */
  escaped: boolean
  /** Words of several scripts; `at` is summary, cost, evidence/0 or proposed_action/<path>. */
  mixed_script?: { at: string; word: string; scripts: string[] }[]
  withheld?: Withheld
}

/** A task as the operator API shows it. */
export interface TaskView {
  id: string
  run: string
  kind: string
  justification: Justification
  priority: TaskPriority
  state: TaskState
  decidable_by_you: boolean
  /** Of summary, cost and evidence. */
  has_untrusted_prose: boolean
  rendering: TaskRendering
  digest: string
  assignee?: string
  case?: string
  /** RFC 3339. */
  due_at?: string
  withheld?: Withheld
}

/** As `TaskDesk`, for operators; a decision has its run go on. */
export interface TaskOperations extends Pick<TaskDesk, 'overdue' | 'backlog' | 'release' | 'decide' | 'withhold'> {
  list(caller: TaskCaller, limit: number): Promise<{ rows: TaskView[]; truncated: boolean }>
  view(id: string, caller: TaskCaller): Promise<TaskView>
  claim(id: string, caller: TaskCaller): Promise<TaskView>
  takeOver(id: string, from: string, caller: TaskCaller): Promise<TaskView>
}
