import {
  type AgentManifest,
  defineAgent,
  defineSkill,
  defineTool,
  EffectError,
  type FakeReply,
  httpTool,
  manifestDigest,
  manifestProblems,
  promqlTool,
  sqlTool,
  ToolRefused,
  writeTool,
} from 'svcdb/agents'
import { Type } from 'svcdb/lib/schema'
import { loadEngine } from 'svcdb/testkit'
import t, { type Test } from 'tap'
import { turnsDuring } from '../../../test/support/turns-during.ts'
import { start } from '../testing/node.ts'
import { declaredSkill } from './declared-skill.ts'

const manifest = (name: string, more: object = {}): AgentManifest => ({
  apiVersion: 'svc/v1alpha1',
  kind: 'Agent',
  metadata: { name, version: '1' },
  spec: { capabilities: { provides: [`${name}.do`] }, budgets: {}, ...more },
})
const model = { execution: { kind: 'tool-calling' as const, max_turns: 3 }, models: { privileged: { provider: 'fake', model: 'one' } } }
const closed = { additionalProperties: false }

function adder(calls: number[]) {
  return defineTool({
    ref: 'tool://math/add',
    description: 'Adds',
    arguments: Type.Object({ a: Type.Integer(), b: Type.Integer() }, closed),
    output: Type.Integer(),
    mutates: false,
    async call({ a, b }) {
      calls.push(a + b)
      return a + b
    },
  })
}

t.test('a manifest is checked and told where it is wrong, and its digest is that of what it says', async (t) => {
  const tool = { ref: 'tool://math/add', mutates: false, description: 'Adds', arguments: { type: 'object', properties: {} } }
  const whole = manifest('sum', { tools: [tool] })
  t.same(manifestProblems(whole), [])
  const turned = { spec: whole.spec, metadata: { version: '1', name: 'sum' }, kind: whole.kind, apiVersion: whole.apiVersion }
  t.equal(manifestDigest(whole as never), manifestDigest(turned as never), 'the order of members says nothing')
  t.match(manifestDigest(whole as never), /^[0-9a-f]{64}$/)
  const wrong: [object, RegExp][] = [
    [{ ...whole, apiVersion: 'v2' }, /^\/apiVersion: /],
    [{ ...whole, extra: 1 }, /"extra"/],
    [manifest('Sum'), /^\/metadata\/name: /],
    [manifest('sum', { budgets: undefined }), /^\/spec\/budgets: /],
    [manifest('sum', { tools: [{ ...tool, protected_fields: ['to'] }] }), /^\/spec\/tools\/0\/protected_fields: the arguments have no "to"/],
    [manifest('sum', { tools: [tool, tool] }), /two are called "tool:\/\/math\/add"/],
    [manifest('sum', { execution: { kind: 'completion' } }), /^\/spec\/models: /],
    [manifest('sum', { tools: [{ ...tool, rate_limit: { calls: 1, per_secs: 0 } }] }), /^\/spec\/tools\/0\/rate_limit\/per_secs: /],
  ]
  for (const [bad, said] of wrong)
    t.ok(
      manifestProblems(bad).some((line) => said.test(line)),
      `${said}: ${manifestProblems(bad)}`,
    )
})

t.test('an agent is what its manifest, its tools and its skills say together', async (t) => {
  const add = adder([])
  const skill = (capability: string) => ({ capability, summary: 'Of a test', input: Type.Null(), output: Type.Null(), invoke: async () => null })
  const agent = defineAgent({ manifest: manifest('sum'), tools: [add], skills: (define) => [define(skill('sum.do'))] })
  t.match(agent.manifest.spec.tools, [{ ref: 'tool://math/add', arguments: { type: 'object', required: ['a', 'b'] } }])
  t.equal(agent.digest, manifestDigest(agent.manifest))
  t.equal(defineAgent({ manifest: agent.manifest, tools: [add], skills: (define) => [define(skill('sum.do'))] }).digest, agent.digest, 'a whole one will do')
  t.throws(() => defineAgent({ manifest: agent.manifest }), /nothing here does it/)
  t.throws(() => defineAgent({ manifest: manifest('sum', { tools: [] }), tools: [add] }), /the manifest does not have the tool/)
  t.throws(() => defineAgent({ manifest: agent.manifest, tools: [defineTool({ ...add, mutates: true })] }), /say different things of it/)
  t.throws(() => defineAgent({ manifest: manifest('sum') }), /has no skill of that name/)
  t.throws(() => defineAgent({ manifest: manifest('sum'), skills: (define) => [define(skill('other'))] }), /does not name/)
  t.throws(() => defineTool({ ...add, ref: 'add' }), /write tool:/)
})

t.test('a declared agent asks its model, has tools called, and tells the model what was refused', async (t) => {
  const calls: number[] = []
  const script: FakeReply[] = [
    {
      tool_calls: [
        { tool: 'tool://math/add', arguments: { a: 1, b: 2 } },
        { tool: 'tool://math/add', arguments: { a: 'x' } },
      ],
    },
    { tool_calls: [{ tool: 'tool://math/other', arguments: {} }] },
    { output: { sum: 3 }, usage: { input_tokens: 10, output_tokens: 5 } },
  ]
  const seen: string[] = []
  const agent = defineAgent({
    manifest: manifest('sum', { ...model, output: { schema: { type: 'object', required: ['sum'], properties: { sum: { type: 'integer' } } } } }),
    tools: [adder(calls)],
    script: ({ messages }, turn) => {
      for (const message of messages.slice(-2)) if (message.role === 'tool') seen.push(message.content)
      return script[turn]
    },
  })
  const { run, plane, node } = await start(t, [], { agents: [agent] })
  const answer = await run('sum.do', { numbers: [1, 2] })
  t.match(answer, { status: 'succeeded', output: { sum: 3 } })
  t.same(calls, [3], 'once')
  t.match(seen.join('\n'), /"result":3[\s\S]*"refused":"the arguments of tool[\s\S]*"refused":"agent \\"sum\\" has no tool/)
  t.same((await plane.replay(answer.run)).divergences, [])
  t.equal(calls.length, 1, 'a replay calls nothing')
  const [, records] = await Promise.all([node, historyOf(node, answer.run)])
  t.match(records[0], { kind: 'RunAdmitted', governed_by: { name: 'sum', version: '1', digest: agent.digest } })
  t.match(records.filter(({ kind }) => kind === 'EffectDone').at(-1), { spend: { tokens: 15 } })
})

t.test('others have their turns of the event loop while a model has very many tools called that are refused', async (t) => {
  const agent = defineAgent({ manifest: manifest('sum', model), tools: [adder([])], script: [] })
  let asked = 0
  const context = {
    complete: async () => ({ content: 'done', tool_calls: asked++ > 0 ? [] : new Array(60).fill({ id: 'x', tool: 'tool://math/none', arguments: {} }) }),
    async callTool() {
      for (const until = performance.now() + 1; performance.now() < until; );
      throw new ToolRefused('no')
    },
  }
  const turns = await turnsDuring(async () => {
    t.same(await declaredSkill(agent, 'sum.do').invoke(context as never, null), { text: 'done' })
  })
  t.ok(turns >= 4, `${turns} turns`)
})

t.test('turns and tokens end where the manifest says', async (t) => {
  const again: FakeReply = { tool_calls: [{ tool: 'tool://math/add', arguments: { a: 1, b: 1 } }], usage: { input_tokens: 50, output_tokens: 50 } }
  const make = (name: string, budgets: object) => defineAgent({ manifest: manifest(name, { ...model, budgets }), tools: [adder([])], script: () => again })
  const { run } = await start(t, [], { agents: [make('turns', {}), make('tokens', { max_tokens: 150 }), make('steps', { max_effects: 2 })] })
  t.match(await run('turns.do', null), { status: 'failed', reason: /still asks for tools after 3 turns/ })
  t.match(await run('tokens.do', null), { status: 'exhausted' })
  t.match(await run('steps.do', null), { status: 'exhausted' })
})

t.test('svc is a tool: SQL, PromQL and points, in the namespace of the agent', async (t) => {
  const agent = defineAgent({
    manifest: manifest('ops'),
    tools: [sqlTool(), promqlTool(), writeTool()],
    skills: (skill) => [
      skill({
        capability: 'ops.do',
        summary: 'Of a test',
        input: Type.Object({ query: Type.String() }),
        output: Type.Any(),
        compensation: 'unnecessary',
        async invoke(ctx, { query }) {
          const time = await ctx.now()
          const written = await ctx.callTool('tool://svc/write', { points: [{ measurement: 'disk', tags: { host: 'a' }, fields: { used: 91.5 }, time }] })
          const { rows } = await ctx.callTool('tool://svc/sql', { query })
          const { result } = (await ctx.callTool('tool://svc/promql', { query: 'disk{__field__="used"} or disk_used or disk' })) as { result: unknown[] }
          return { ...written, rows, series: result.length }
        },
      }),
    ],
  })
  const { run } = await start(t, [], { agents: [agent], storage: 'embedded', plugins: ['promql'] })
  t.match(await run('ops.do', { query: 'SELECT host, used FROM disk' }), { status: 'succeeded', output: { written: 1, rows: [['a', 91.5]], series: 1 } })
  t.match(await run('ops.do', { query: 'DROP TABLE disk' }), { status: 'failed' })
})

t.test('a tool of HTTP is called once, at checked addresses, and says what it knows of a failure', async (t) => {
  const requests: { url: string; key: string; body: string }[] = []
  const { url } = await serve(t, (path, headers, body) => {
    requests.push({ url: path, key: headers['idempotency-key'] ?? '', body })
    if (path.includes('late')) return requests.length < 3 ? { status: 503, headers: { 'retry-after': '0' }, body: 'later' } : { status: 200, body: '{}' }
    return path.includes('bad') ? { status: 404, body: 'none such' } : { status: 200, body: '{"ok":true}' }
  })
  const order = httpTool({
    ref: 'tool://shop/order',
    description: 'Orders',
    arguments: Type.Object({ id: Type.String(), count: Type.Integer() }, closed),
    mutates: true,
    idempotent: true,
    method: 'POST',
    url: `${url}/orders/{id}`,
  })
  const make = (name: string, more: object = {}) =>
    defineAgent({
      manifest: manifest(name, more),
      tools: [order],
      skills: (skill) => [
        skill({
          capability: `${name}.do`,
          summary: 'Of a test',
          input: Type.Object({ id: Type.String() }),
          output: Type.Any(),
          invoke: (ctx, { id }) => ctx.callTool('tool://shop/order', { id, count: 2 }),
        }),
      ],
    })
  const agents = [make('shop'), make('elsewhere', { security: { hosts: ['*.example.com'] } })]
  const { run } = await start(t, [], { agents, config: { agent_plane: { sweep_interval_secs: 0.1, allow_private_targets: true } } })
  t.match(await run('shop.do', { id: 'a b' }), { status: 'succeeded', output: { status: 200, body: { ok: true } } })
  t.match(requests, [{ url: '/orders/a%20b', key: /^run_/, body: '{"count":2}' }])
  requests.length = 1
  t.match(await run('shop.do', { id: 'late' }), { status: 'succeeded' })
  t.equal(requests.length, 3)
  t.equal(requests[1].key, requests[2].key, 'under one key')
  t.match(await run('shop.do', { id: 'bad' }), { status: 'failed', reason: /it answered 404: none such/ })
  t.match(await run('elsewhere.do', { id: 'x' }), { status: 'failed', reason: /not among the hosts of the agent/ })
  const closedNode = await start(t, [], { agents: [make('shop')] })
  t.match(await closedNode.run('shop.do', { id: 'x' }), { status: 'failed', reason: /is not https/ })
})

t.test('an argument that the path of a tool names and that is not given is an error of the call; in the query it is empty', async (t) => {
  const requests: string[] = []
  const { url } = await serve(t, (path) => {
    requests.push(path)
    return { status: 200, body: '{}' }
  })
  const tool = (name: string, path: string) =>
    httpTool({
      ref: `tool://shop/${name}`,
      description: 'Looks',
      arguments: Type.Object({ id: Type.Optional(Type.String()) }, closed),
      mutates: false,
      method: 'GET',
      url: url + path,
    })
  const agent = defineAgent({
    manifest: manifest('shop'),
    tools: [tool('path', '/orders/no{id}'), tool('query', '/orders?id={id}')],
    skills: (skill) => [
      skill({
        capability: 'shop.do',
        summary: 'Of a test',
        input: Type.Object({ name: Type.String() }),
        output: Type.Any(),
        invoke: (ctx, { name }) => ctx.callTool(`tool://shop/${name}`, {}),
      }),
    ],
  })
  const { run } = await start(t, [], { agents: [agent], config: { agent_plane: { sweep_interval_secs: 0.1, allow_private_targets: true } } })
  t.match(await run('shop.do', { name: 'path' }), { status: 'failed', reason: /its URL names the argument "id", which is not given/ })
  t.match(await run('shop.do', { name: 'query' }), { status: 'succeeded' })
  t.same(requests, ['/orders?id='])
  const { call } = tool('text', '/orders/{id}')
  await t.rejects(async () => call({ id: '\ud83d' }, { services: { env: () => '' } } as never), {
    message: /the argument "id" is not of whole characters/,
    permanent: true,
  })
})

t.test('an argument leaves the path of a tool as it is: nothing is sent to another', async (t) => {
  const requests: string[] = []
  const { url } = await serve(t, (path) => {
    requests.push(path)
    return { status: 200, body: '{}' }
  })
  const paths = { whole: '/orders/{id}', last: '/orders/{id}?of=shop', beside: '/orders/.{id}/items', escaped: '/orders/%2E{id}', twice: '/orders/{id}{id}' }
  const free = { query: '/orders?id={id}', text: '/orders/no{id}' }
  const tool = ([name, path]: [string, string]) =>
    httpTool({
      ref: `tool://shop/${name}`,
      description: 'Deletes',
      arguments: Type.Object({ id: Type.String() }, closed),
      mutates: true,
      method: 'DELETE',
      url: url + path,
    })
  const agent = defineAgent({
    manifest: manifest('shop'),
    tools: Object.entries({ ...paths, ...free }).map(tool),
    skills: (skill) => [
      skill({
        capability: 'shop.do',
        summary: 'Of a test',
        input: Type.Object({ name: Type.String(), id: Type.String() }),
        output: Type.Any(),
        compensation: 'unnecessary',
        invoke: (ctx, { name, id }) => ctx.callTool(`tool://shop/${name}`, { id }),
      }),
    ],
  })
  const { run } = await start(t, [], { agents: [agent], config: { agent_plane: { allow_private_targets: true } } })
  const others = { whole: ['', '.', '..'], last: ['', '.', '..'], beside: ['', '.'], escaped: ['', '.'], twice: ['', '.'] }
  for (const [name, ids] of Object.entries(others))
    for (const id of ids) t.match(await run('shop.do', { name, id }), { status: 'failed', reason: /is no segment of a path/ }, `${name}: "${id}"`)
  t.same(requests, [])
  for (const [name, id] of [...Object.keys(paths).map((name) => [name, '...']), ['whole', '/'], ['twice', '%2e'], ['query', '..'], ['text', '']])
    t.match(await run('shop.do', { name, id }), { status: 'succeeded' }, `${name}: "${id}"`)
  const kept = ['/orders/...', '/orders/...?of=shop', '/orders/..../items', '/orders/%2E...', '/orders/......', '/orders/%2F', '/orders/%252e%252e']
  t.same(requests, [...kept, '/orders?id=..', '/orders/no'])
})

t.test('what a tool does not know of itself is a person to say', async (t) => {
  const pay = defineTool({
    ref: 'tool://bank/pay',
    description: 'Pays',
    arguments: Type.Object({}, closed),
    mutates: true,
    call: async () => {
      throw new Error('the line went dead')
    },
  })
  const refuse = defineTool({
    ...pay,
    ref: 'tool://bank/ask',
    call: () => Promise.reject(new EffectError('no', { disposition: 'did_not_happen', permanent: true })),
  })
  const script: FakeReply[] = [{ tool_calls: [{ tool: 'tool://bank/ask', arguments: {} }] }, { tool_calls: [{ tool: 'tool://bank/pay', arguments: {} }] }]
  const { run } = await start(t, [], { agents: [defineAgent({ manifest: manifest('bank', model), tools: [pay, refuse], script })] })
  t.match(await run('bank.do', null), { status: 'quarantined', undecided: [{ kind: 'tool.call', doubt: 'inconclusive' }] })
})

t.test('a run goes on only under the declaration that it was admitted with', async (t) => {
  const { createEngine } = await loadEngine('memory', '.')
  const engine = createEngine({ config: {}, now: Date.now } as never)
  const storage = Object.assign(Object.create(engine) as typeof engine, { close: async () => {} })
  const make = (version: string, does: () => void = () => {}) =>
    defineAgent({
      manifest: { ...manifest('ops'), metadata: { name: 'ops', version } },
      skills: (skill) => [
        skill({
          capability: 'ops.do',
          summary: 'Of a test',
          input: Type.Null(),
          output: Type.Null(),
          async invoke(ctx) {
            await ctx.awaitEvent({ kind: 'go', correlation: [], withinMs: 60_000 })
            does()
            return null
          },
        }),
      ],
    })
  const first = await start(t, [], { agents: [make('1')], storage })
  const { run, status } = await first.run('ops.do', null)
  t.equal(status, 'suspended')
  await first.node.stop()
  let calls = 0
  const next = await start(t, [], { agents: [make('2', () => calls++)], storage })
  t.match(await next.plane.deliver({ id: '1', source: 'test', kind: 'go', payload: null }), { delivery: 'resumed', run })
  t.equal(await next.plane.settled(run), 'quarantined')
  t.match((await next.plane.standing(run)).reason, /agent "ops" is declared otherwise than when the run was admitted/)
  t.equal(calls, 0)
  await next.node.stop()
  const again = await start(t, [], { agents: [make('1', () => calls++)], storage })
  t.equal(await again.plane.decide(run, 'reopen', { actor: 'ann', basis: 'asserted' }, 'as it was'), 'succeeded')
  t.equal(calls, 1)
})

t.test('a run that is asked for under a declaration which is not here is refused, and leaves no trace', async (t) => {
  const make = (name: string) =>
    defineAgent({
      manifest: manifest(name),
      skills: (skill) => [skill({ capability: `${name}.do`, summary: 'Of a test', input: Type.Null(), output: Type.Null(), invoke: async () => null })],
    })
  const ops = make('ops')
  const bare = defineSkill({ capability: 'bare', summary: 'Of a test', input: Type.Null(), output: Type.Null(), invoke: async () => null })
  const { plane, node } = await start(t, [bare], { agents: [ops, make('other')] })
  const here = { name: 'ops', version: '1', digest: ops.digest }
  const ask = (capability: string, agent: object) => plane.run({ capability, input: null, actor: 'ann', agent: agent as typeof here })
  await t.rejects(ask('ops.do', { ...here, digest: 'ab'.repeat(32) }), {
    code: 'BAD_REQUEST',
    message: /here it is governed by agent "ops", version "1", digest/,
  })
  await t.rejects(ask('ops.do', { ...here, version: '2' }), { code: 'BAD_REQUEST' })
  await t.rejects(ask('other.do', here), { code: 'BAD_REQUEST', message: /governed by agent "other"/ })
  await t.rejects(ask('bare', here), { code: 'BAD_REQUEST', message: /no agent here provides it/ })
  t.same(await node.storage.state('agent_plane').list({ limit: 1 }), [])
  const { run } = await ask('ops.do', here)
  t.equal(await plane.settled(run), 'succeeded')
})

type Answer = { status: number; headers?: Record<string, string>; body: string }

async function serve(t: Test, answer: (path: string, headers: Record<string, string | undefined>, body: string) => Answer): Promise<{ url: string }> {
  const { createServer } = await import('node:http')
  const server = createServer(async (request, response) => {
    let body = ''
    for await (const part of request) body += part
    const { status, headers = {}, body: text } = answer(request.url ?? '', request.headers as Record<string, string>, body)
    response.writeHead(status, headers).end(text)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => server.close())
  return { url: `http://127.0.0.1:${(server.address() as { port: number }).port}` }
}

async function historyOf(node: Awaited<ReturnType<typeof start>>['node'], run: string): Promise<Record<string, unknown>[]> {
  const state = node.storage.state('agent_plane')
  return (await state.list<{ raw: string }>({ prefix: `record/${run}/` })).map(({ value }) => JSON.parse(value.raw))
}
