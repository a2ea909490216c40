/** Agents whose tools need a person: the person decides over the API. */
import { type AgentManifest, defineAgent, defineTool, type FakeReply, type Json, type TaskView, ToolRefused } from 'svcdb/agents'
import { Type } from 'svcdb/lib/schema'
import t, { type Test } from 'tap'
import { type ApiNode, startApi } from '../testing.ts'

const closed = { additionalProperties: false }
const Payment = Type.Object({ to: Type.String(), cents: Type.Integer({ minimum: 1 }) }, closed)
const ACTORS = { ann: { roles: ['admin', 'lead'] }, bob: { roles: ['admin'] }, test: { roles: ['admin', 'lead'] } }

function manifest(name: string, more: object = {}): AgentManifest {
  const oversight = { roles: ['lead'], priority: 'high' as const }
  return {
    apiVersion: 'svc/v1alpha1',
    kind: 'Agent',
    metadata: { name, version: '1' },
    spec: { capabilities: { provides: [`${name}.do`] }, budgets: {}, oversight, ...more },
  }
}

/** Pays when a person agrees, sends where nothing from outside says so, and looks up what is from outside. */
function tools(done: Json[]) {
  const pay = defineTool({
    ref: 'tool://bank/pay',
    description: 'Pays',
    arguments: Payment,
    mutates: true,
    requires_approval: true,
    protected_fields: ['to'],
    async call(args) {
      done.push({ paid: args })
      return 'paid'
    },
  })
  const send = defineTool({
    ref: 'tool://mail/send',
    description: 'Sends',
    arguments: Type.Object({ to: Type.String(), text: Type.Optional(Type.String()) }, closed),
    mutates: true,
    protected_fields: ['to'],
    async call(args) {
      done.push({ sent: args })
      return 'sent'
    },
  })
  const look = defineTool({ ref: 'tool://web/look', description: 'Looks', arguments: Type.Object({}, closed), mutates: false, call: async () => 'eve' })
  return [pay, send, look] as const
}

const refusalOf = (error: unknown) => {
  if (error instanceof ToolRefused) return { refused: error.message, advice: (error.advice ?? null) as Json }
  throw error
}

type Desk = ApiNode & { begun(capability: string, input: unknown): Promise<{ run: string; task: TaskView }>; ended(run: string): Promise<Json> }

async function desk(t: Test, done: Json[]): Promise<Desk> {
  const script: FakeReply[] = [
    { tool_calls: [{ tool: 'tool://bank/pay', arguments: { to: 'eve', cents: 700 } }] },
    { tool_calls: [{ tool: 'tool://mail/send', arguments: { to: 'eve' } }] },
  ]
  const seen: string[] = []
  const declared = defineAgent({
    manifest: manifest('clerk', { execution: { kind: 'tool-calling', max_turns: 4 }, models: { privileged: { provider: 'fake', model: 'one' } } }),
    tools: tools(done),
    script: ({ messages }, turn) => {
      const last = messages[messages.length - 1]
      if (last.role === 'tool') seen.push(last.content)
      return script[turn] ?? { content: seen.join(' | ') }
    },
  })
  const payer = defineAgent({
    manifest: manifest('payer'),
    tools: tools(done),
    skills: (skill) => [
      skill({
        capability: 'payer.do',
        summary: 'Of a test',
        input: Payment,
        output: Type.Any(),
        invoke: (ctx, input) => ctx.callTool('tool://bank/pay', input).catch(refusalOf),
      }),
    ],
  })
  const mailer = defineAgent({
    manifest: manifest('mailer'),
    tools: tools(done),
    skills: (skill) => [
      skill({
        capability: 'mailer.do',
        summary: 'Of a test',
        input: Type.Object({ asks: Type.Boolean() }),
        output: Type.Any(),
        async invoke(ctx, { asks }) {
          const to = (await ctx.callTool('tool://web/look', {})) as string
          if (asks) await ctx.release(to, { summary: 'May mail go there?', withinMs: 60_000 })
          const first = await ctx.callTool('tool://mail/send', { to, text: 'x' }).catch(refusalOf)
          return [first, await ctx.callTool('tool://mail/send', { to: 'else' }).catch(refusalOf)]
        },
      }),
    ],
  })
  const api = await startApi(t, [], { agents: [declared, payer, mailer], actors: ACTORS })
  return {
    ...api,
    async begun(capability, input) {
      const run = await api.run(capability, input)
      const { tasks } = (await api.as('ann').get('/tasks')).body
      return { run, task: tasks.find((one: TaskView) => one.run === run) }
    },
    async ended(run) {
      t.equal(await api.agents.settled(run), 'succeeded')
      const { output, divergences } = await api.agents.replay(run)
      t.same(divergences, [])
      return output as Json
    },
  }
}

t.test('a call that needs a person waits for one, and is made as the person says', async (t) => {
  const done: Json[] = []
  const { as, begun, ended } = await desk(t, done)
  const asked = { to: 'dan', cents: 500 }
  const { run, task } = await begun('payer.do', asked)
  t.match(task, { kind: 'tool.approval', priority: 'high', decidable_by_you: true, has_untrusted_prose: false })
  t.match(task.rendering, { summary: 'payer wants to call tool://bank/pay: Pays', proposed_action: asked })
  const at = `/tasks/${task.id}/decide`
  t.equal((await as('bob').post(at, { approved: true, reason: 'yes' })).status, 403, 'he has not the role')
  t.equal((await as('test').post(at, { approved: true, reason: 'yes' })).status, 403, 'who has begun the run does not decide')
  t.match(await as('ann').post(at, { approved: true, reason: 'less', amendment: { to: 'dan', cents: 0 } }), { status: 422, body: { error: /cents/ } })
  t.same(done, [])
  t.equal((await as('ann').post(at, { approved: true, reason: 'yes', digest: task.digest })).status, 200)
  t.equal(await ended(run), 'paid')
  t.same(done, [{ paid: asked }])

  const amended = await begun('payer.do', asked)
  const amendment = { to: 'dan', cents: 100 }
  t.equal((await as('ann').post(`/tasks/${amended.task.id}/decide`, { approved: true, reason: 'less', amendment })).status, 200)
  t.equal(await ended(amended.run), 'paid')
  t.same(done, [{ paid: asked }, { paid: amendment }])

  const rejected = await begun('payer.do', asked)
  const no = { approved: false, reason: 'too much', amendment: { ask: 'again' } }
  t.equal((await as('ann').post(`/tasks/${rejected.task.id}/decide`, no)).status, 200)
  t.match(await ended(rejected.run), { refused: '"tool://bank/pay" was not approved by ann: too much', advice: { ask: 'again' } })
  t.equal(done.length, 2)
})

t.test('a model is told what a person has said, and what must not come from outside', async (t) => {
  const done: Json[] = []
  const { as, begun, ended } = await desk(t, done)
  const { run, task } = await begun('clerk.do', null)
  t.equal((await as('ann').post(`/tasks/${task.id}/decide`, { approved: false, reason: 'not to her', amendment: 'ask dan' })).status, 200)
  t.match(await ended(run), { text: /refused":"\\?"tool:\/\/bank\/pay.*not approved by ann: not to her","advice":"ask dan".*is protected/ })
  t.same(done, [])
})

t.test('a protected field takes from outside only what a person has released', async (t) => {
  const done: Json[] = []
  const { as, begun, ended, node, agents } = await desk(t, done)
  const alone = await begun('mailer.do', { asks: false })
  t.equal(alone.task, undefined)
  t.match(await ended(alone.run), [{ refused: /"to" of tool "tool:\/\/mail\/send" is protected/ }, { refused: /is protected/ }])
  t.same(done, [])
  const { run, task } = await begun('mailer.do', { asks: true })
  t.match(task, { kind: 'data.release', has_untrusted_prose: true, rendering: { summary: 'May mail go there?', proposed_action: 'eve' } })
  t.equal((await as('ann').post(`/tasks/${task.id}/decide`, { approved: true, reason: 'a customer' })).status, 200)
  t.match(await ended(run), ['sent', { refused: /is protected/ }], 'this value, and no other')
  t.same(done, [{ sent: { to: 'eve', text: 'x' } }])
  const records = (await node.storage.state('agent_plane').list<{ raw: string }>({ prefix: `record/${run}/` })).map(({ value }) => JSON.parse(value.raw))
  t.match(
    records.filter(({ kind }) => kind === 'Released'),
    [{ releaser: { actor: 'ann', basis: 'authenticated' }, label: { trust: 'untrusted' } }],
  )
  const rejected = await begun('mailer.do', { asks: true })
  t.equal((await as('ann').post(`/tasks/${rejected.task.id}/decide`, { approved: false, reason: 'who is that' })).status, 200)
  t.equal(await agents.settled(rejected.run), 'failed')
  t.match((await agents.standing(rejected.run)).reason, /the value was not released by ann: who is that/)
  t.equal(done.length, 1)
})
