/** What a step asks a person, checked, and the task that it becomes. */
import type { Expiry, Justification, Label, Prose, Task, TaskPriority, TaskRequest, Withheld } from 'svcdb/agents'
import { SchemaReader, Type } from 'svcdb/lib/schema'
import { canonical } from '../record/canonical.ts'
import { digest } from '../record/names.ts'

const MAX_BYTES = 65_536
const closed = { additionalProperties: false }
const text = (maxLength: number) => Type.String({ minLength: 1, maxLength })
const names = (maxItems: number) => Type.Array(text(256), { maxItems })
const label = Type.Object(
  {
    provenance: names(100),
    trust: Type.Enum(['trusted', 'untrusted']),
    sensitivity: Type.Enum(['public', 'internal', 'confidential', 'secret']),
    data_subjects: Type.Optional(names(100)),
  },
  closed,
)
const prose = (maxLength: number) => Type.Union([text(maxLength), Type.Object({ value: text(maxLength), label }, closed)])
const policy = <P extends string>(name: P) => ({ policy: Type.Enum([name]) })
const schema = Type.Object(
  {
    kind: text(128),
    summary: prose(4096),
    proposed_action: Type.Unknown(),
    confidence: Type.Optional(Type.Number({ minimum: 0, maximum: 1 })),
    cost: Type.Optional(prose(1024)),
    evidence: Type.Optional(Type.Array(prose(16_384), { maxItems: 100 })),
    reach: Type.Optional(Type.Unknown()),
    priority: Type.Optional(Type.Enum(['low', 'normal', 'high', 'urgent'])),
    candidate_roles: Type.Optional(names(64)),
    excluded: Type.Optional(names(256)),
    withinMs: Type.Optional(Type.Number({ minimum: 0, maximum: 1e13 })),
    on_expiry: Type.Optional(
      Type.Union([
        Type.Object(policy('deny'), closed),
        Type.Object({ ...policy('escalate'), escalate_to: Type.Array(text(256), { minItems: 1, maxItems: 64 }) }, closed),
        Type.Object({ ...policy('proceed'), allow_unattended: Type.Boolean() }, closed),
      ]),
    ),
    schema: Type.Optional(Type.Record(Type.String(), Type.Unknown())),
    tool: Type.Optional(text(256)),
  },
  closed,
)
const reader = new SchemaReader(schema)

/** @returns it as it goes into the journal. @throws Error naming what is wrong. */
export function checkedRequest(request: TaskRequest): TaskRequest {
  const refuse = (why: string) => new Error(`cannot open a task: ${why}`)
  let whole: string
  try {
    whole = canonical(request)
  } catch (error) {
    throw refuse((error as Error).message)
  }
  const bytes = Buffer.byteLength(whole)
  if (bytes > MAX_BYTES) throw refuse(`it has ${bytes} bytes, and ${MAX_BYTES} is the limit; name what is large instead of giving it`)
  const { on_expiry: expiry, withinMs } = request
  if (expiry?.policy === 'escalate' && !((expiry.escalate_to?.length ?? 0) > 0)) throw refuse('a task that is escalated says to which roles, in escalate_to')
  if (expiry?.policy === 'proceed' && expiry.allow_unattended !== true) throw refuse('an approval that nobody gave needs allow_unattended: true')
  if (expiry !== undefined && withinMs === undefined) throw refuse('on_expiry goes with withinMs: without it there is no end')
  const [problem] = reader.read(JSON.parse(whole)).problems
  if (problem !== undefined) throw refuse(`${problem.instancePath === '' ? 'it' : problem.instancePath} ${problem.message}`)
  if (request.schema !== undefined) {
    const wrong = problemOf(request.schema, request.proposed_action)
    if (wrong !== undefined) throw refuse(`the proposed action is not as its schema says: ${wrong}`)
  }
  return JSON.parse(whole) as TaskRequest
}

/** What is wrong with a value, by JSON Schema; undefined = nothing. */
export function problemOf(schema: object, value: unknown): string | undefined {
  try {
    const [problem] = new SchemaReader(schema).read(structuredClone(value)).problems
    return problem === undefined ? undefined : `${problem.instancePath === '' ? 'it' : problem.instancePath} ${problem.message}`
  } catch (error) {
    return `its schema cannot be read: ${(error as Error).message}`
  }
}

export interface Opening {
  run: string
  effect: string
  case?: string
  request: TaskRequest
  /** Who asked for the run, and those in whose name. */
  requesters: readonly string[]
  /** Of what the step has read. */
  label: Label
  /** Milliseconds since the Unix epoch. */
  now: number
}

const DOMAIN = 'svc.task.justification.v1'

export function digestOf(justification: Justification): string {
  return digest(DOMAIN, justification)
}

/** Why the proposal is not shown, and so not approved; undefined = it is. */
export function withheldOf(task: Task): Withheld | undefined {
  return task.withheld ?? (digestOf(task.justification) === task.digest ? undefined : 'undecodable')
}

export function taskIdOf(run: string, effect: string): string {
  return digest('svc.task.id.v1', [run, effect])
}

export function newTask({ run, effect, case: matter, request, requesters, label, now }: Opening): Task {
  const { kind, confidence, cost, evidence = [], reach, priority = 'normal' satisfies TaskPriority, withinMs, tool } = request
  const labelled = (said: string | Prose): Prose => (typeof said === 'string' ? { value: said, label } : said)
  const justification: Justification = {
    summary: labelled(request.summary),
    proposed_action: request.proposed_action,
    evidence: evidence.map(labelled),
    ...(confidence === undefined ? {} : { confidence }),
    ...(cost === undefined ? {} : { cost: labelled(cost) }),
    ...(reach === undefined ? {} : { reach }),
  }
  const onExpiry: Expiry = request.on_expiry ?? { policy: 'deny' }
  return {
    id: taskIdOf(run, effect),
    run,
    effect,
    kind,
    justification,
    digest: digestOf(justification),
    priority,
    state: 'open',
    candidate_roles: [...new Set(request.candidate_roles ?? [])],
    excluded: [...new Set([...(request.excluded ?? []), ...requesters])],
    opened: now,
    on_expiry: onExpiry,
    ...(matter === undefined ? {} : { case: matter }),
    ...(withinMs === undefined ? {} : { due: Math.floor(now + withinMs) }),
    ...(tool === undefined ? {} : { tool }),
    ...(request.schema === undefined ? {} : { schema: request.schema }),
  }
}
