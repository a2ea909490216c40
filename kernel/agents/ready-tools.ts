/** Tools that need no code: of svc itself, and of HTTP. */
import { type Static, type TSchema, Type } from '../lib/schema/index.ts'
import { EffectError } from './effect-error.ts'
import type { HttpAnswer, Json } from './index.ts'
import { defineTool, type Tool, type ToolDefinition } from './tools.ts'

const closed = { additionalProperties: false }
const anything = Type.Unsafe<Json>({})
type Governing = Pick<ToolDefinition, 'requires_approval' | 'rate_limit'>

/** `tool://svc/sql`: read-only SQL over the namespace of the agent. At most 1000 rows. */
export function sqlTool(more: Governing = {}) {
  return defineTool({
    ref: 'tool://svc/sql',
    description: 'Runs one read-only SQL query over the measurements of the time-series database. Answers columns and rows.',
    arguments: Type.Object({ query: Type.String({ minLength: 1, maxLength: 65_536 }) }, closed),
    output: Type.Object({ columns: Type.Array(Type.String()), rows: Type.Array(Type.Array(anything)), truncated: Type.Boolean() }),
    mutates: false,
    ...more,
    call: ({ query }, { services }) => services.sql(query),
  })
}

/** `tool://svc/promql`: PromQL over the namespace of the agent; times are seconds since the Unix epoch. */
export function promqlTool(more: Governing = {}) {
  return defineTool({
    ref: 'tool://svc/promql',
    description: 'Answers a PromQL query now, or at every step of a range: start, end and step in seconds.',
    arguments: Type.Object(
      {
        query: Type.String({ minLength: 1, maxLength: 65_536 }),
        time: Type.Optional(Type.Number()),
        range: Type.Optional(Type.Object({ start: Type.Number(), end: Type.Number(), step: Type.Number({ minimum: 0.001 }) }, closed)),
      },
      closed,
    ),
    output: anything,
    mutates: false,
    ...more,
    call: ({ query, time, range }, { services }) => services.promql(query, range ?? (time === undefined ? {} : { time })),
  })
}

/** `tool://svc/write`: points into the namespace of the agent. Written again they are the same points, so that it may be repeated. */
export function writeTool(more: Governing = {}) {
  return defineTool({
    ref: 'tool://svc/write',
    description: 'Writes points into the time-series database; time in milliseconds since the Unix epoch.',
    arguments: Type.Object(
      {
        points: Type.Array(
          Type.Object(
            {
              measurement: Type.String({ minLength: 1 }),
              tags: Type.Optional(Type.Record(Type.String(), Type.String())),
              fields: Type.Record(Type.String(), Type.Union([Type.Number(), Type.String(), Type.Boolean()])),
              time: Type.Integer(),
            },
            closed,
          ),
          { minItems: 1, maxItems: 1000 },
        ),
      },
      closed,
    ),
    output: Type.Object({ written: Type.Integer() }),
    mutates: true,
    recovery: 'idempotent',
    ...more,
    call: ({ points }, { services }) => services.write(points),
  })
}

export interface HttpToolDefinition<R extends string, A extends TSchema>
  extends Pick<
    ToolDefinition<R, A>,
    'ref' | 'description' | 'arguments' | 'mutates' | 'requires_approval' | 'protected_fields' | 'rate_limit' | 'maxAttempts' | 'timeoutMs'
  > {
  method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  /** `{name}` stands for an argument, which is escaped. */
  url: string
  /** `$NAME` alone is a variable of the node's environment. */
  headers?: Record<string, string>
  /** The receiver knows a repeated call by the header `Idempotency-Key`; then a call whose answer was lost is made again. */
  idempotent?: boolean
}

/** A call of a service by HTTP: arguments that the URL does not name are the body, JSON. It answers the status and the body. */
export function httpTool<const R extends string, A extends TSchema>(definition: HttpToolDefinition<R, A>): Tool<R, A> {
  const { method, url, headers = {}, idempotent, ...rest } = definition
  return defineTool<R, A>({
    ...rest,
    ...(idempotent === true && rest.mutates ? { recovery: 'idempotent' as const } : {}),
    async call(args, { services, idempotencyKey }) {
      const given = { ...(args as Record<string, Json>) }
      const filled = url.replace(/\{(\w+)\}/g, (_, name: string) => {
        const { [name]: value } = given
        delete given[name]
        return encodeURIComponent(typeof value === 'string' ? value : JSON.stringify(value ?? ''))
      })
      const sent = Object.entries(headers).map(([name, value]) => [name, /^\$[A-Z_][A-Z0-9_]*$/.test(value) ? services.env(value.slice(1)) : value])
      const body = method === 'GET' || method === 'DELETE' ? {} : { body: JSON.stringify(given) }
      const own = { ...('body' in body ? { 'content-type': 'application/json' } : {}), ...(rest.mutates ? { 'idempotency-key': idempotencyKey } : {}) }
      return outcomeOf(await services.http({ method, url: filled, headers: { ...own, ...Object.fromEntries(sent) }, ...body })) as Static<TSchema>
    },
  })
}

/** 4xx says that nothing was done; of 5xx nobody knows, but of those that say that nothing was. */
function outcomeOf({ status, headers, body }: HttpAnswer): { status: number; body: Json } {
  if (status < 400) return { status, body: parsed(body) }
  const wait = Number(headers['retry-after'])
  const again = status === 429 || status === 503
  const disposition = status < 500 || status === 503 ? 'did_not_happen' : 'in_doubt'
  throw new EffectError(`it answered ${status}: ${body.slice(0, 300)}`, {
    disposition,
    permanent: status < 500 && !again,
    ...(again && Number.isFinite(wait) ? { retryAfterMs: wait * 1000 } : {}),
  })
}

function parsed(body: string): Json {
  try {
    return JSON.parse(body) as Json
  } catch {
    return body
  }
}
