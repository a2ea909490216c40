/** The human worklist. */
import type { Json, TaskCaller, TaskOperations } from 'svcdb/agents'
import { type Call, LIST_LIMIT, nonBlank, type Operation, operation, type StoreNeed } from '../operation.ts'
import { anything, closed, digest, listOf, named, orNull, Type, timestamp } from '../schema.ts'

const TASK_STORE: StoreNeed<TaskOperations> = { name: 'task', of: (plane) => plane.tasks }

const Withheld = named('Withheld', Type.Enum(['sealed', 'erased', 'undecodable']))
const MixedScript = named('MixedScript', closed({ at: Type.String(), word: Type.String(), scripts: Type.Array(Type.String()) }))
const Rendering = named(
  'Rendering',
  closed({
    summary: Type.String(),
    proposed_action: anything('the action under review, with what cannot be seen written out; null when it is withheld'),
    escaped: Type.Boolean({ description: 'Something was written out, such as \\u{202E}' }),
    cost: Type.Optional(orNull(Type.String())),
    evidence: Type.Optional(Type.Array(Type.String())),
    mixed_script: Type.Optional(Type.Array(MixedScript)),
    reach: Type.Optional(anything('what is consulted, and what that may do')),
    withheld: Type.Optional(orNull(Withheld)),
  }),
)
const TaskView = named(
  'TaskView',
  closed({
    id: Type.String(),
    run: Type.String(),
    kind: Type.String(),
    justification: anything('summary, proposed action and evidence, each text with its label'),
    priority: Type.String({ description: 'low, normal, high or urgent' }),
    state: Type.String({ description: 'open, claimed, completed, expired, escalated or withdrawn' }),
    decidable_by_you: Type.Boolean(),
    has_untrusted_prose: Type.Boolean({ description: 'Summary, cost or evidence is from outside' }),
    rendering: Rendering,
    digest: digest(),
    assignee: Type.Optional(orNull(Type.String())),
    case: Type.Optional(orNull(Type.String())),
    due_at: Type.Optional(orNull(timestamp())),
    withheld: Type.Optional(orNull(Withheld)),
  }),
)
const TakeOverBody = named('TakeOverBody', closed({ from: Type.String({ description: 'Who is believed to have it' }) }))
const DecisionRequest = named(
  'DecisionRequest',
  closed({
    approved: Type.Boolean(),
    reason: Type.String({ maxLength: 4096 }),
    digest: Type.Optional({ ...orNull(digest()), default: null }),
    amendment: Type.Optional(anything('what replaces the arguments of an approved call; of a rejection advice', { default: null })),
  }),
)
const DecideAnswer = named('DecideAnswer', closed({ decided_by: Type.String(), approved: Type.Boolean() }))

function by({ caller, operator }: Pick<Call, 'caller' | 'operator'>): TaskCaller {
  const { acting_as: chain } = caller as { acting_as?: readonly string[] }
  return { ...operator, roles: caller.roles, ...(chain === undefined ? {} : { acting_as: chain }) }
}

const resource = { path: 'task' }

export const tasks: readonly Operation[] = [
  operation({
    method: 'GET',
    path: '/tasks',
    operationId: 'list_tasks',
    action: 'api:task.list',
    summary: 'What waits for a person whose roles the caller has, by priority, the oldest first',
    resource: '*',
    store: TASK_STORE,
    answer: listOf('Worklist', 'tasks', TaskView),
    async handle(call) {
      const { rows, truncated } = await call.store.list(by(call), LIST_LIMIT)
      return { tasks: rows, truncated }
    },
  }),
  operation({
    method: 'GET',
    path: '/tasks/{task}',
    operationId: 'get_task',
    action: 'api:task.read',
    summary: 'A task, whether or not the caller may decide it',
    resource,
    store: TASK_STORE,
    answer: TaskView,
    statuses: [404],
    handle: (call) => call.store.view(call.params.task, by(call)),
  }),
  operation({
    method: 'POST',
    path: '/tasks/{task}/claim',
    operationId: 'claim_task',
    action: 'api:task.claim',
    summary: 'Takes a task, so that nobody else decides it',
    resource,
    store: TASK_STORE,
    answer: TaskView,
    statuses: [404, 409],
    handle: (call) => call.store.claim(call.params.task, by(call)),
  }),
  operation({
    method: 'POST',
    path: '/tasks/{task}/release',
    operationId: 'release_task',
    action: 'api:task.release',
    summary: 'Gives a task back that the caller has taken',
    resource,
    store: TASK_STORE,
    status: 204,
    statuses: [404, 409],
    handle: (call) => call.store.release(call.params.task, by(call)),
  }),
  operation({
    method: 'POST',
    path: '/tasks/{task}/takeover',
    operationId: 'take_over_task',
    action: 'api:task.takeover',
    summary: 'Takes a task from the one who has it',
    resource,
    body: TakeOverBody,
    store: TASK_STORE,
    answer: TaskView,
    statuses: [404, 409],
    handle: (call) => call.store.takeOver(call.params.task, nonBlank(call.body.from, 'from'), by(call)),
  }),
  operation({
    method: 'POST',
    path: '/tasks/{task}/decide',
    operationId: 'decide_task',
    action: 'api:task.decide',
    summary: 'Approves or rejects what is proposed; the run goes on',
    resource,
    body: DecisionRequest,
    store: TASK_STORE,
    answer: DecideAnswer,
    statuses: [404, 409, 412],
    async handle(call) {
      const { approved, reason, digest: seen, amendment } = call.body as { approved: boolean; reason: string; digest?: string | null; amendment?: Json }
      const said = {
        approved,
        reason: nonBlank(reason),
        ...(typeof seen === 'string' ? { digest: seen } : {}),
        ...(amendment === undefined ? {} : { amendment }),
      }
      const { decided_by: actor } = await call.store.decide(call.params.task, said, by(call))
      return { decided_by: actor, approved }
    },
  }),
]
