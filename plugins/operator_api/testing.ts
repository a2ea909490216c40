/**
 * For tests of routes: a node with the plane, the operator API, and callers of different roles. Each answer that is given is checked against the OpenAPI document:
 * its status has to be listed there for the operation, and its body has to be of the shape.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { definePlugin } from 'svcdb'
import { AGENT_PLANES, AGENTS, type Agent, type AgentPlane, type AgentPlanes, type OperatedPlane, type Skill } from 'svcdb/agents'
import { type BootOptions, boot, type TestNode } from 'svcdb/testkit'
import type { Test } from 'tap'
import { Value } from 'typebox/value'
import { openapiDocument } from './openapi.ts'
import { Router } from './router.ts'
import { OPERATIONS } from './routes/index.ts'

const BASE = '/api/v1/plane'

/** Of each, `tokenOf(name)` is the token. */
export interface Actor {
  roles?: string[]
  tenant?: string
  scope?: string[]
  not_after?: string
}

/** Ann may do everything, rita only reads, nobody nothing; zoe is of another tenant. */
export const ACTORS: Readonly<Record<string, Actor>> = {
  ann: { roles: ['admin'] },
  bob: { roles: ['admin'] },
  rita: { roles: ['reader'] },
  nobody: {},
  zoe: { roles: ['admin'], tenant: 'acme' },
  stray: { roles: ['admin'], tenant: 'nowhere' },
}

export const POLICY = `
permit (principal, action, resource) when { context.roles.contains("admin") };
permit (
  principal,
  action in [Action::"api:attention", Action::"api:case.list", Action::"api:case.read", Action::"api:deadletter.list", Action::"api:drill.read",
    Action::"api:halt.list", Action::"api:hold.list", Action::"api:obligation.list", Action::"api:push.list", Action::"api:run.history", Action::"api:run.list",
    Action::"api:run.live", Action::"api:run.read", Action::"api:run.waiting", Action::"api:task.list", Action::"api:task.read"],
  resource
) when { context.roles.contains("reader") };
`

export const tokenOf = (name: string): string => `token-of-${name}-`.padEnd(40, 'x')

/** A file with a text, which goes with the test. */
export function fileOf(t: Test, name: string, text: string): string {
  const folder = mkdtempSync(join(tmpdir(), 'svc-operator-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  writeFileSync(join(folder, name), text)
  return join(folder, name)
}

export interface Reply {
  status: number
  // biome-ignore lint/suspicious/noExplicitAny: of whatever shape the operation answers, which was checked
  body: any
  headers: Record<string, unknown>
}

export interface Client {
  get(path: string): Promise<Reply>
  /** @param body JSON; a text or bytes go as they are. */
  post(path: string, body?: unknown, headers?: Record<string, string>): Promise<Reply>
}

export interface ApiNode {
  node: TestNode
  /** Of the default tenant. */
  agents: AgentPlane
  planes: AgentPlanes
  plane(tenant?: string): OperatedPlane
  as(name: string): Client
  /** With this Authorization, or none. */
  with(authorization: string | undefined): Client
  /** Begins a run and waits until it rests. */
  run(capability: string, input: unknown, tenant?: string): Promise<string>
}

export interface ApiOptions extends BootOptions {
  actors?: Readonly<Record<string, Actor>>
  agents?: readonly Agent[]
  /** By default POLICY. */
  policy?: string
  tenants?: string[]
}

export async function startApi(t: Test, skills: readonly Skill[], options: ApiOptions = {}): Promise<ApiNode> {
  const { actors = ACTORS, policy = POLICY, tenants = ['acme'], config = {}, plugins = [], agents: declared = [], ...more } = options
  const held: { agents?: AgentPlane; planes?: AgentPlanes } = {}
  const agent = definePlugin({
    id: 'agent_of_test',
    summary: 'Skills of a test',
    stability: 'experimental',
    requires: [AGENTS, AGENT_PLANES],
    setup(svc) {
      held.agents = svc.use<AgentPlane>(AGENTS)
      held.planes = svc.use<AgentPlanes>(AGENT_PLANES)
      for (const skill of skills) held.agents.skill(skill)
      for (const one of declared) held.agents.agent(one)
    },
  })
  const entries = Object.entries(actors).map(([actor, entry]) => ({ token: tokenOf(actor), actor, ...entry }))
  const operatorApi = {
    tokens_file: fileOf(t, 'tokens.yaml', JSON.stringify(entries)),
    policy: fileOf(t, 'all.cedar', policy),
    ...(config.operator_api as object),
  }
  const node = await boot({
    ...more,
    plugins: ['agent_plane', 'cedar', 'operator_api', agent, ...plugins],
    config: {
      ...config,
      authorization: { engine: 'none', ...(config.authorization as object) },
      agent_plane: { sweep_interval_secs: 0.1, tenants, ...(config.agent_plane as object) },
      operator_api: operatorApi,
    },
  })
  t.teardown(() => node.stop())
  const agents = held.agents as AgentPlane
  const planes = held.planes as AgentPlanes
  const plane = (tenant = 'default') => planes.find(tenant) as OperatedPlane
  const client = (authorization: string | undefined) => clientOf(t, node, authorization)
  return {
    node,
    agents,
    planes,
    plane,
    with: client,
    as: (name) => client(`Bearer ${tokenOf(name)}`),
    async run(capability, input, tenant) {
      const { run } = await plane(tenant).agents.run({ capability, input: input as never, actor: 'test' })
      await plane(tenant).agents.settled(run)
      return run
    },
  }
}

function clientOf(t: Test, node: TestNode, authorization: string | undefined): Client {
  const ask = async (method: 'GET' | 'POST', path: string, payload?: unknown, headers: Record<string, string> = {}): Promise<Reply> => {
    const isJson = payload !== undefined && typeof payload !== 'string' && !Buffer.isBuffer(payload)
    const answer = await node.inject({
      method,
      url: BASE + path,
      headers: { ...(authorization === undefined ? {} : { authorization }), ...(isJson ? { 'content-type': 'application/json' } : {}), ...headers },
      ...(payload === undefined ? {} : { payload: isJson ? JSON.stringify(payload) : (payload as string) }),
    })
    const reply = { status: answer.statusCode, body: answer.body === '' ? undefined : (answer.json() as unknown), headers: answer.headers }
    t.same(answerProblem(method, path, reply), undefined)
    return reply
  }
  return { get: (path) => ask('GET', path), post: (path, body, headers) => ask('POST', path, body, headers) }
}

interface Described {
  paths: Record<string, Record<string, { operationId: string; responses: Record<string, { content?: { 'application/json': { schema: object } } }> }>>
  components: { schemas: Record<string, object> }
}

export const DOCUMENT = openapiDocument(OPERATIONS) as unknown as Described
const router = new Router(OPERATIONS)

/** What is wrong with an answer, as the document has it; undefined = nothing. */
export function answerProblem(method: string, path: string, { status, body }: Pick<Reply, 'status' | 'body'>): string | undefined {
  const found = router.find(method, path.split('?', 1)[0])
  if (!('operation' in found)) return [401, 403, 404, 405].includes(status) ? undefined : `${method} ${path}: ${status}`
  const { responses } = DOCUMENT.paths[found.operation.path][method.toLowerCase()]
  const listed = responses[status]
  const place = `${method} ${found.operation.path}: ${status} ${JSON.stringify(body)?.slice(0, 300)}`
  if (listed === undefined) return `${place} is not listed`
  const schema = listed.content?.['application/json'].schema
  if (schema === undefined) return body === undefined ? undefined : `${place} has a body`
  const whole = resolved(schema) as never
  return Value.Check(whole, body) ? undefined : `${place}: ${JSON.stringify([...Value.Errors(whole, body)].slice(0, 3))}`
}

/** With what it refers to in its place. */
export function resolved(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(resolved)
  if (typeof schema !== 'object' || schema === null) return schema
  const { $ref } = schema as { $ref?: string }
  if ($ref !== undefined) return resolved(DOCUMENT.components.schemas[$ref.slice('#/components/schemas/'.length)])
  return Object.fromEntries(Object.entries(schema).map(([name, one]) => [name, resolved(one)]))
}
