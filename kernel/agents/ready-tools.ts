/** Tools that need no code: of svc itself, and of HTTP. */
import { type TInteger, type TObject, type TSchema, type TUnsafe, Type } from '../lib/schema/index.ts'
import { EffectError } from './effect-error.ts'
import type { Json, ProbeAnswer } from './index.ts'
import { defineTool, type HttpAnswer, type Tool, type ToolDefinition, type ToolServices } from './tools.ts'

const closed = { additionalProperties: false }
const anything = Type.Unsafe<Json>({})
type Governing = Pick<ToolDefinition, 'requires_approval' | 'rate_limit'>

/** `tool://svc/sql`: read-only SQL over the namespace of the agent. At most 1000 rows. What comes from outside belongs into `parameters`. */
export function sqlTool(more: Governing = {}) {
  return defineTool({
    ref: 'tool://svc/sql',
    description:
      'Runs one read-only SQL query over the measurements of the time-series database: tags and fields are columns, the time is "_time", and ? stands for the next of the parameters. Answers columns and rows.',
    arguments: Type.Object(
      {
        query: Type.String({ minLength: 1, maxLength: 65_536 }),
        parameters: Type.Optional(Type.Array(Type.Union([Type.Null(), Type.Boolean(), Type.Number(), Type.String()]), { maxItems: 100 })),
      },
      closed,
    ),
    output: Type.Object({ columns: Type.Array(Type.String()), rows: Type.Array(Type.Array(anything)), truncated: Type.Boolean() }),
    mutates: false,
    ...more,
    call: ({ query, parameters }, { services }) => services.sql(query, parameters),
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

/** A tool that is one request to an HTTP server. Its arguments are in the URL and the body. */
export interface HttpToolDefinition<R extends string, A extends TSchema, B extends TSchema>
  extends Pick<
    ToolDefinition<R, A>,
    'ref' | 'description' | 'arguments' | 'mutates' | 'requires_approval' | 'protected_fields' | 'rate_limit' | 'maxAttempts' | 'timeoutMs'
  > {
  method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  /**
   * `{name}` stands for an argument, which is escaped, and refused where a segment of the path would be empty, `.` or `..` with it; at its beginning `$NAME` for a
   * variable of the node's environment.
   */
  url: string
  /** `$NAME` alone is a variable of the node's environment. */
  headers?: Record<string, string>
  /** The receiver knows a repeated call by the header `Idempotency-Key`; then a call whose answer was lost is made again. */
  idempotent?: boolean
  /**
   * URL that says what became of a call whose answer was lost: `{idempotency_key}` stands for the header `Idempotency-Key` of the call, and the rest as in `url`.
   * With 200 it has happened, and the body is what it answered; with 404 it has not; with anything else a person has to say.
   */
  probe?: string
  /** Of the body of the answer; default: anything. */
  body?: B
}

type HttpOutput<B extends TSchema> = TObject<{ status: TInteger; body: B }>

/** A call of a service by HTTP: arguments that the URL does not name are the body, JSON. It answers the status and the body. */
export function httpTool<const R extends string, A extends TSchema, B extends TSchema = TUnsafe<Json>>(
  definition: HttpToolDefinition<R, A, B>,
): Tool<R, A, HttpOutput<B>> {
  const { method, url, headers = {}, idempotent, probe, body: answer = anything as unknown as B, ...rest } = definition
  const refuse = (why: string) => new Error(`cannot define tool "${rest.ref}": ${why}`)
  if (idempotent === true && probe !== undefined) throw refuse('what is idempotent is made again, and needs no probe; leave one of them out')
  if (probe !== undefined && !rest.mutates) throw refuse('what does not mutate is made again, and needs no probe')
  const headersOf = (services: ToolServices) =>
    Object.entries(headers).map(([name, value]) => [name, /^\$[A-Z_][A-Z0-9_]*$/.test(value) ? services.env(value.slice(1)) : value])
  const recovery = probe !== undefined ? 'reconcile' : idempotent === true && rest.mutates ? 'idempotent' : undefined
  return defineTool<R, A, HttpOutput<B>>({
    ...rest,
    ...(recovery === undefined ? {} : { recovery }),
    output: Type.Object({ status: Type.Integer(), body: answer }),
    async call(args, { services, idempotencyKey }) {
      const { filled, left } = fill(url, args as Record<string, Json>, services)
      const body = method === 'GET' || method === 'DELETE' ? {} : { body: JSON.stringify(left) }
      const own = { ...('body' in body ? { 'content-type': 'application/json' } : {}), ...(rest.mutates ? { 'idempotency-key': idempotencyKey } : {}) }
      return outcomeOf(
        rest.ref,
        await services.http({ method, url: filled, headers: { ...own, ...Object.fromEntries(headersOf(services)) }, ...body }),
      ) as never
    },
    ...(probe === undefined
      ? {}
      : {
          async probe(args, { services, idempotencyKey }): Promise<ProbeAnswer> {
            const { filled } = fill(probe, { ...(args as Record<string, Json>), idempotency_key: idempotencyKey }, services)
            const { status, body } = await services.http({ method: 'GET', url: filled, headers: Object.fromEntries(headersOf(services)) })
            if (status === 404) return { landed: false }
            return status === 200 ? { landed: true, output: { status, body: parsed(body) } } : 'inconclusive'
          },
        }),
  })
}

/** What a URL leaves out, or takes the segment before it away for. */
const NO_SEGMENT = /^(?:\.|%2e){0,2}$/i

/** @returns the URL, and the arguments that it does not name. @throws EffectError for arguments that would make it that of something else. */
function fill(template: string, args: Record<string, Json>, services: ToolServices): { filled: string; left: Record<string, Json> } {
  const left = { ...args }
  const variable = /^\$([A-Z_][A-Z0-9_]*)/.exec(template)
  const refuse = (why: string) => new EffectError(`cannot call it: ${why}`, { disposition: 'did_not_happen', permanent: true })
  const withArguments = (text: string, isPath = false): string =>
    text.replace(/\{(\w+)\}/g, (_, name: string) => {
      const { [name]: value = null } = args
      delete left[name]
      if (value === null && isPath) throw refuse(`its URL names the argument "${name}", which is not given`)
      const written = typeof value === 'string' ? value : value === null ? '' : JSON.stringify(value)
      if (!written.isWellFormed()) throw refuse(`the argument "${name}" is not of whole characters`)
      return encodeURIComponent(written)
    })
  const text = template.slice(variable?.[0].length ?? 0)
  const end = text.search(/[?#]|$/)
  const path = text.slice(0, end).replace(/[^/]+/g, (segment) => {
    const filled = withArguments(segment, true)
    if (filled !== segment && NO_SEGMENT.test(filled)) throw refuse(`"${filled}" is no segment of a path`)
    return filled
  })
  const base = variable === null ? '' : services.env(variable[1]).replace(/\/+$/, '')
  return { filled: base + path + withArguments(text.slice(end)), left }
}

/** 4xx says that nothing was done; of 5xx nobody knows, but of those that say that nothing was. */
function outcomeOf(ref: string, { status, headers, body }: HttpAnswer): { status: number; body: Json } {
  if (status < 400) return { status, body: parsed(body) }
  const wait = Number(headers['retry-after'])
  const again = status === 429 || status === 503
  const disposition = status < 500 || status === 503 ? 'did_not_happen' : 'in_doubt'
  throw new EffectError(`tool "${ref}": it answered ${status}: ${body.slice(0, 300)}`, {
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
