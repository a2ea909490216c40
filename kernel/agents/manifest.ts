/**
 * The manifest of an agent: what it may do, under which name and version. Its digest is that of its canonical JSON: whoever approved a digest approved all that
 * stands in it.
 */
import { hash } from 'node:crypto'
import { canonical } from '../lib/json/index.ts'
import { SchemaReader, type Static, type TSchema, Type } from '../lib/schema/index.ts'

const API_VERSION = 'svc/v1alpha1'

const closed = { additionalProperties: false }
const WORD = '^[a-z][a-z0-9_]*$'
const CAPABILITY = '^[a-z][a-z0-9_]*(\\.[a-z0-9_]+)*$'
const COUNT = { minimum: 1, maximum: 2 ** 48 }
const DAY_SECS = 86_400
const text = (maxLength: number, options: object = {}) => Type.String({ minLength: 1, maxLength, ...options })
const schemaOf = (description: string) => Type.Record(Type.String(), Type.Unknown(), { description })

const rateLimit = Type.Object(
  { calls: Type.Integer({ minimum: 1, maximum: 1_000_000 }), per_secs: Type.Integer({ minimum: 1, maximum: 31 * DAY_SECS }) },
  closed,
)

const toolSchema = Type.Object(
  {
    ref: Type.String({ pattern: '^tool://[a-z][a-z0-9_-]{0,63}/[a-z][a-z0-9_-]{0,63}$' }),
    mutates: Type.Boolean(),
    description: text(4096),
    arguments: schemaOf('JSON Schema of an object'),
    requires_approval: Type.Optional(Type.Boolean()),
    protected_fields: Type.Optional(Type.Array(text(128), { maxItems: 64 })),
    rate_limit: Type.Optional(rateLimit),
  },
  closed,
)

const budgetsSchema = Type.Object(
  {
    max_steps: Type.Optional(Type.Integer(COUNT)),
    max_effects: Type.Optional(Type.Integer(COUNT)),
    max_replans: Type.Optional(Type.Integer({ minimum: 0, maximum: 100 })),
    max_denials: Type.Optional(Type.Integer(COUNT)),
    max_tokens: Type.Optional(Type.Integer(COUNT)),
    max_minor_units: Type.Optional(Type.Integer(COUNT)),
    max_wallclock_secs: Type.Optional(Type.Integer(COUNT)),
    max_egress_bytes: Type.Optional(Type.Integer(COUNT)),
    max_parallel_steps: Type.Optional(Type.Integer(COUNT)),
  },
  closed,
)

const oversightSchema = Type.Object(
  {
    /** Who holds one of them may decide on calls that require approval; absent = everybody. */
    roles: Type.Optional(Type.Array(text(128), { minItems: 1, maxItems: 64 })),
    priority: Type.Optional(Type.Enum(['low', 'normal', 'high', 'urgent'])),
    within_secs: Type.Optional(Type.Integer({ minimum: 1, maximum: 365 * DAY_SECS })),
    escalate_to: Type.Optional(Type.Array(text(128), { minItems: 1, maxItems: 64 })),
  },
  closed,
)

const securitySchema = Type.Object(
  {
    /** Namespace of svc that its tools read and write; absent = `default`. */
    namespace: Type.Optional(text(64)),
    /** Hosts that its HTTP tools may call, `*.example.com` for those below one; absent = every public one. */
    hosts: Type.Optional(Type.Array(text(253), { maxItems: 256 })),
    /** Agents, by name, that it may commission; absent = none. */
    commissions: Type.Optional(Type.Array(text(64), { maxItems: 64 })),
  },
  closed,
)

/** The schema of an agent's manifest. */
export const manifestSchema = Type.Object(
  {
    apiVersion: Type.Literal(API_VERSION),
    kind: Type.Literal('Agent'),
    metadata: Type.Object({ name: text(64, { pattern: '^[a-z][a-z0-9-]*$' }), version: text(64), description: Type.Optional(text(4096)) }, closed),
    spec: Type.Object(
      {
        execution: Type.Optional(
          Type.Object(
            {
              kind: Type.Enum(['completion', 'tool-calling']),
              max_turns: Type.Optional(Type.Integer({ minimum: 1, maximum: 100 })),
              instructions: Type.Optional(text(65_536)),
            },
            closed,
          ),
        ),
        identity: Type.Optional(Type.Object({ principal: text(256), scope: Type.Optional(Type.Array(text(128), { minItems: 1, maxItems: 64 })) }, closed)),
        capabilities: Type.Object({ provides: Type.Array(Type.String({ pattern: CAPABILITY, maxLength: 128 }), { minItems: 1, maxItems: 64 }) }, closed),
        models: Type.Optional(
          Type.Object({ privileged: Type.Object({ provider: Type.String({ pattern: WORD, maxLength: 64 }), model: text(128) }, closed) }, closed),
        ),
        tools: Type.Optional(Type.Array(toolSchema, { maxItems: 128 })),
        output: Type.Optional(Type.Object({ schema: schemaOf('JSON Schema of what a declared agent gives') }, closed)),
        oversight: Type.Optional(oversightSchema),
        security: Type.Optional(securitySchema),
        budgets: budgetsSchema,
      },
      closed,
    ),
  },
  closed,
)

/** What an agent is, may do and may spend: what `manifestSchema` allows. */
export type AgentManifest = Static<typeof manifestSchema>

/** What a manifest says of one tool. */
export type ToolDeclaration = Static<typeof toolSchema>

/** What a manifest allows a run to spend. */
export type AgentBudgets = Static<typeof budgetsSchema>

/** What is wrong with a manifest: each line says where. Empty = it can be used. */
export function manifestProblems(value: unknown): string[] {
  const { problems } = new SchemaReader(manifestSchema).read(structuredClone(value))
  if (problems.length > 0) return [...new Set(problems.map(({ instancePath, message, params }) => `${instancePath || '/'}: ${message}${named(params)}`))]
  const { spec } = value as AgentManifest
  const found: string[] = []
  const tools = spec.tools ?? []
  const twice = (list: readonly string[]) => list.find((one, i) => list.indexOf(one) !== i)
  const tool = twice(tools.map(({ ref }) => ref))
  if (tool !== undefined) found.push(`/spec/tools: two are called "${tool}"`)
  const capability = twice(spec.capabilities.provides)
  if (capability !== undefined) found.push(`/spec/capabilities/provides: "${capability}" stands there twice`)
  if (spec.execution !== undefined && spec.models === undefined) found.push('/spec/models: what has an execution needs a model; name models.privileged')
  if (spec.execution?.kind === 'completion' && spec.execution.max_turns !== undefined)
    found.push('/spec/execution/max_turns: a completion has one turn; leave it out, or use "tool-calling"')
  for (const [i, { arguments: schema, protected_fields: fields = [] }] of tools.entries()) {
    const at = `/spec/tools/${i}`
    const properties = schema.properties as Record<string, unknown> | undefined
    if (schema.type !== 'object') found.push(`${at}/arguments: the schema is not of an object; give it "type": "object" and properties`)
    for (const field of fields)
      if (properties === undefined || !Object.hasOwn(properties, field)) found.push(`${at}/protected_fields: the arguments have no "${field}"`)
  }
  const { escalate_to: escalation, within_secs: within } = spec.oversight ?? {}
  if (escalation !== undefined && within === undefined) found.push('/spec/oversight/escalate_to: it takes effect after within_secs, which is not there')
  if (found.length === 0) {
    try {
      canonical(value)
    } catch (error) {
      found.push(`/: ${(error as Error).message}`)
    }
  }
  return found
}

function named(params: object): string {
  const extra = (params as { additionalProperties?: string[] }).additionalProperties
  return extra === undefined || extra.length === 0 ? '' : ` (${extra.map((name) => JSON.stringify(name)).join(', ')})`
}

/** @returns the digest, 64 hexadecimal digits: SHA-256 of a domain, a NUL and the canonical JSON. */
export function manifestDigest(manifest: AgentManifest): string {
  return hash('sha256', `svc.agent.manifest.v1\0${canonical(manifest)}`)
}

/** A schema as a manifest has it: JSON alone, without the marks of TypeBox. */
export function plainSchema(schema: TSchema): Record<string, unknown> {
  return JSON.parse(JSON.stringify(schema)) as Record<string, unknown>
}
