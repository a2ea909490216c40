/**
 * Limits of what callers send, as the OpenAPI description has them: what is at a limit is not refused for it, what is beyond is refused, with an answer that says
 * where it is and what the limit is. Nothing is written here of any route.
 */
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { boot, builtinPlugins } from 'svcdb/testkit'
import t from 'tap'
import { ENDLESS } from './routes.ts'
import { LET_ALONE } from './sections.ts'

const ADMIN = `svc_${'a'.repeat(43)}`
const OPERATOR = 'o'.repeat(43)
/** Certificates need TLS, the archive a place of its own. */
const LEFT_OUT = ['mtls', 'cold_archive']
/** Longer texts and lists are not made. */
const LONGEST = 100_000

interface Schema {
  type?: string
  const?: unknown
  enum?: unknown[]
  default?: unknown
  minimum?: number
  maximum?: number
  minLength?: number
  maxLength?: number
  minItems?: number
  maxItems?: number
  properties?: Record<string, Schema>
  required?: string[]
  items?: Schema
  anyOf?: Schema[]
  oneOf?: Schema[]
}

interface Operation {
  parameters?: { in: string; name: string; schema?: Schema }[]
  requestBody?: { content: Record<string, { schema?: Schema }> }
}

/** A value beside or at a limit, and where in the request it goes. */
interface Case {
  url: string
  payload?: unknown
  where: string
  name: string
  limit: number
  within: boolean
  value: number
}

const folder = await mkdtemp(join(tmpdir(), 'svc-boundaries-'))
await writeFile(join(folder, 'all.cedar'), 'permit (principal, action, resource);')
await writeFile(join(folder, 'tokens.json'), JSON.stringify([{ token: OPERATOR, actor: 'olaf' }]))
const node = await boot({
  plugins: builtinPlugins().filter((id) => !LEFT_OUT.includes(id)),
  storage: 'embedded',
  config: {
    auth: { api_keys: [{ name: 'admin', key: ADMIN, admin: true }], api_key: { max_failures: 0 }, jwt: { secret: 'a secret of more than thirty-two bytes' } },
    authorization: { policy_dir: folder },
    triggers: {},
    agent_plane: {},
    operator_api: { tokens_file: join(folder, 'tokens.json'), policy: join(folder, 'all.cedar'), addr: '127.0.0.1:0' },
    ...LET_ALONE,
    grpc: { addr: '127.0.0.1:0' },
    flight_sql: { addr: '127.0.0.1:0' },
    otlp_grpc: { addr: '127.0.0.1:0' },
  },
})
t.teardown(async () => {
  await node.stop()
  await rm(folder, { recursive: true, force: true })
})

const ask = (method: string, { url, payload }: Pick<Case, 'url' | 'payload'>) =>
  node.inject({
    method: method as 'POST',
    url,
    headers: { authorization: `Bearer ${url.startsWith('/api/v1/plane/') ? OPERATOR : ADMIN}` },
    ...(payload === undefined ? {} : { payload: payload as object }),
  })

const { paths } = (await ask('GET', { url: '/api/v1/openapi.json' })).json() as { paths: Record<string, Record<string, Operation>> }
const operations = Object.entries(paths).flatMap(([path, methods]) =>
  Object.entries(methods).flatMap(([method, operation]) =>
    /^(get|post|put|patch|delete)$/.test(method) ? [{ path, method: method.toUpperCase(), operation }] : [],
  ),
)

let cases = 0
for (const { path, method, operation } of operations) {
  const all = [...ofParameters(path, operation), ...ofBody(path, operation)]
  if (all.length === 0) continue
  t.test(`${method} ${path}`, async (t) => {
    for (const each of all) {
      cases++
      const { statusCode, body } = await ask(method, each)
      const what = `${each.where} with ${each.value}, limit ${each.limit}: ${statusCode} ${body.slice(0, 300)}`
      if (each.within) t.ok(statusCode < 500 && !refusedFor(body, each), what)
      else t.ok(statusCode >= 400 && statusCode < 500 && names(body, each), what)
    }
  })
}
t.test('there are such limits', async (t) => {
  t.ok(cases > 400, `${cases} cases`)
})

/** Whether an answer says where it is and what the limit is; what is below one needs no number. */
function names(body: string, { name, limit, value }: Case): boolean {
  return body.includes(name) && (value < limit || body.includes(String(limit)))
}

/** Whether an answer is the refusal of a schema for what is at its limit. */
function refusedFor(body: string, { name, limit }: Case): boolean {
  return new RegExp(`${name}\\S* must (be|not have) .*\\b${limit}\\b`).test(body)
}

function* ofParameters(path: string, { parameters = [], requestBody }: Operation): Iterable<Case> {
  const body = requestBody?.content['application/json']?.schema
  const payload = body === undefined ? undefined : sample(body)
  for (const { in: place, name, schema = {} } of parameters) {
    if (place !== 'query') continue
    for (const { given, ...bound } of bounds(schema)) {
      if (bound.within && path in ENDLESS) continue
      const query = new URLSearchParams({ [name]: String(given) })
      yield { url: `${urlOf(path)}?${query}`, payload, where: `?${name}`, name, ...bound }
    }
  }
}

function* ofBody(path: string, { requestBody }: Operation): Iterable<Case> {
  const schema = requestBody?.content['application/json']?.schema
  if (schema === undefined) return
  for (const { at, schema: own } of schemasOf(schema, [])) {
    const name = String(at.findLast((key) => key !== 0) ?? '')
    for (const { given, ...bound } of bounds(own)) {
      yield { url: urlOf(path), payload: replaced(schema, sample(schema), at, given), where: at.join('.'), name, ...bound }
    }
  }
}

function urlOf(path: string): string {
  return path.replaceAll(/\{\w+\}/g, 'x')
}

/** All schemas within one, with the way to each. */
function* schemasOf(schema: Schema, at: (string | 0)[]): Iterable<{ at: (string | 0)[]; schema: Schema }> {
  yield { at, schema }
  for (const [key, own] of Object.entries(schema.properties ?? {})) yield* schemasOf(own, [...at, key])
  if (schema.items !== undefined) yield* schemasOf(schema.items, [...at, 0])
}

/** What is at a limit, beside it, and far beyond it. */
function* bounds(schema: Schema): Iterable<Pick<Case, 'limit' | 'within' | 'value'> & { given: unknown }> {
  const { type, minimum, maximum, minLength, maxLength, minItems, maxItems } = schema
  const make = (n: number): unknown => (type === 'string' ? 'x'.repeat(n) : type === 'array' ? Array.from({ length: n }, () => sample(schema.items ?? {})) : n)
  const most = type === 'string' ? maxLength : type === 'array' ? maxItems : maximum
  const least = type === 'string' ? minLength : type === 'array' ? minItems : minimum
  if (most !== undefined && (type === 'integer' || type === 'number' || most <= LONGEST))
    for (const value of new Set([most - 1, most, most + 1, 3 * most + 1])) yield { limit: most, within: value <= most, value, given: make(value) }
  if (least !== undefined && least > (type === 'string' || type === 'array' ? 0 : Number.NEGATIVE_INFINITY))
    for (const value of [least, least - 1]) yield { limit: least, within: value >= least, value, given: make(value) }
}

/** The least that a schema lets in. */
function sample(schema: Schema): unknown {
  const { type, properties = {}, required = [], minItems = 0, minimum = 1, minLength = 1, maxLength = 1, items = {} } = schema
  const [choice] = schema.anyOf ?? schema.oneOf ?? []
  if (schema.const !== undefined) return schema.const
  if (schema.enum !== undefined) return schema.enum[0]
  if (choice !== undefined) return sample(choice)
  switch (type) {
    case 'object':
      return Object.fromEntries(required.map((key) => [key, sample(properties[key] ?? {})]))
    case 'array':
      return Array.from({ length: minItems }, () => sample(items))
    case 'string':
      return 'x'.repeat(Math.max(minLength, Math.min(1, maxLength)))
    case 'boolean':
      return true
    default:
      return minimum
  }
}

/** What is on the way and not there is made. */
function replaced(schema: Schema, base: unknown, [first, ...rest]: readonly (string | 0)[], value: unknown): unknown {
  if (first === undefined) return value
  if (first === 0) return [replaced(schema.items ?? {}, sample(schema.items ?? {}), rest, value)]
  const own = schema.properties?.[first] ?? {}
  const object = (base ?? {}) as Record<string, unknown>
  return { ...object, [first]: replaced(own, object[first] ?? sample(own), rest, value) }
}
