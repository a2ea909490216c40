import {
  defineAgent,
  defineSkill,
  defineTool,
  EffectError,
  type Json,
  ownProse,
  type StepContext,
  TASK_DECIDED,
  type TaskRequest,
  type TaskView,
  taskKey,
} from 'svcdb/agents'
import { Type } from 'svcdb/lib/schema'
import t, { type Test } from 'tap'
import { type ApiNode, startApi } from '../testing.ts'

const NONE = '0'.repeat(64)
const YES = { approved: true, reason: 'fine' }
const ACTORS = {
  ann: { roles: ['admin', 'desk'] },
  bob: { roles: ['admin', 'desk'] },
  cat: { roles: ['admin', 'lead'] },
  test: { roles: ['admin', 'desk'] },
  rita: { roles: ['reader'] },
  zoe: { roles: ['admin', 'desk'], tenant: 'acme' },
}

function skill(capability: string, invoke: (context: StepContext, input: never) => Promise<Json>) {
  return defineSkill({ capability, summary: 'Of a test', input: Type.Any(), output: Type.Any(), invoke } as never)
}
const ask: TaskRequest = { kind: 'refund', summary: ownProse('Pay it back?'), proposed_action: { cents: 250 }, candidate_roles: ['desk'] }
const SKILLS = [
  skill('ask', async (context, more: Partial<TaskRequest>) => ({ ...(await context.task({ ...ask, ...more })) }) as Json),
  skill('open', async (context, more: Partial<TaskRequest>) => {
    const task = await context.openTask({ ...ask, ...more })
    await context.sleep(1)
    return (await context.awaitEvent({ kind: TASK_DECIDED, correlation: [taskKey(task)], withinMs: 60_000 })).payload
  }),
  skill('doubt', async (context) => {
    await context.openTask(ask)
    await context.openTask({ ...ask, kind: 'other' })
    return context.effect({ kind: 'pay', args: null, mutates: true }, async () => {
      throw new EffectError('no answer', { disposition: 'in_doubt' })
    })
  }),
  skill('hear', async (context) => {
    const { payload } = await context.awaitEvent({ kind: 'told', correlation: [], withinMs: 60_000 })
    return { ...(await context.task({ ...ask, summary: `He says ${payload}` })) } as Json
  }),
]

async function desk(t: Test): Promise<ApiNode & { asked(capability: string, more?: object): Promise<{ run: string; task: TaskView }> }> {
  const api = await startApi(t, SKILLS, { actors: ACTORS })
  return {
    ...api,
    async asked(capability, more = {}) {
      const run = await api.run(capability, more)
      const [task] = (await api.as('ann').get('/tasks')).body.tasks.filter((one: TaskView) => one.run === run)
      return { run, task }
    },
  }
}

t.test('a person decides, and the run goes on with what was said', async (t) => {
  const { asked, as, agents } = await desk(t)
  const [ann, bob, cat, rita] = ['ann', 'bob', 'cat', 'rita'].map(as)
  const { run, task } = await asked('ask')
  t.match(task, {
    kind: 'refund',
    priority: 'normal',
    state: 'open',
    decidable_by_you: true,
    has_untrusted_prose: false,
    justification: { summary: { value: 'Pay it back?', label: { trust: 'trusted' } } },
  })
  t.same(task.rendering, { summary: 'Pay it back?', proposed_action: { cents: 250 }, escaped: false })
  const at = `/tasks/${task.id}`
  t.same((await cat.get('/tasks')).body.tasks, [], 'not for her roles')
  t.match(await cat.get(at), { status: 200, body: { decidable_by_you: false } }, 'and she may look')
  t.match(await as('test').get(at), { status: 200, body: { decidable_by_you: false } }, 'who asked for the run sees it')
  t.match(await as('test').post(`${at}/decide`, YES), { status: 403, body: { error: /asked for it/ } })
  t.equal((await rita.get(at)).status, 200)
  for (const [path, body] of [['claim'], ['release'], ['takeover', { from: 'x' }], ['decide', YES]] as const)
    t.equal((await rita.post(`${at}/${path}`, body)).status, 403)
  t.match(await ann.post(`${at}/claim`), { status: 200, body: { state: 'claimed', assignee: 'ann' } })
  t.match(await ann.post(`/tasks/task_${task.id}/claim`), { status: 200 }, 'the answer was lost')
  t.equal((await bob.post(`${at}/claim`)).status, 409)
  t.equal((await cat.post(`${at}/claim`)).status, 403)
  t.equal((await bob.post(`${at}/release`)).status, 409)
  t.match(await ann.post(`${at}/release`), { status: 204, body: undefined })
  t.equal((await ann.post(`${at}/release`)).status, 409)
  await ann.post(`${at}/claim`)
  t.equal((await bob.post(`${at}/takeover`, { from: 'cat' })).status, 409)
  t.equal((await cat.post(`${at}/takeover`, { from: 'ann' })).status, 403)
  t.match(await bob.post(`${at}/takeover`, { from: 'ann' }), { status: 200, body: { assignee: 'bob' } })
  t.equal((await ann.post(`${at}/decide`, YES)).status, 409)
  t.match(await bob.post(`${at}/decide`, { ...YES, digest: NONE }), { status: 412 })
  t.match(await bob.get(at), { body: { state: 'claimed' } }, 'nothing was recorded')
  t.same((await bob.post(`${at}/decide`, { ...YES, digest: task.digest })).body, { decided_by: 'bob', approved: true })
  t.match(await bob.post(`${at}/decide`, YES), { status: 200 }, 'the answer was lost')
  t.equal((await bob.post(`${at}/decide`, { ...YES, approved: false })).status, 409)
  t.equal((await ann.post(`${at}/claim`)).status, 409)
  t.equal(await agents.settled(run), 'succeeded')
  t.match(await agents.replay(run), { divergences: [], output: { approved: true, decided_by: 'bob', basis: 'authenticated', reason: 'fine' } })
  t.match(await ann.get(at), { body: { state: 'completed', decidable_by_you: false } })
})

t.test('what is no task, of another tenant, or no request', async (t) => {
  const { asked, as } = await desk(t)
  const ann = as('ann')
  const { task } = await asked('ask')
  const verbs = [['claim'], ['release'], ['takeover', { from: 'x' }], ['decide', YES]] as const
  t.equal((await ann.get('/tasks/x')).status, 400)
  t.equal((await ann.get(`/tasks/${NONE}`)).status, 404)
  for (const [verb, body] of verbs) {
    t.equal((await ann.post(`/tasks/x/${verb}`, body)).status, 400)
    t.equal((await ann.post(`/tasks/${NONE}/${verb}`, body)).status, 404)
    t.equal((await as('zoe').post(`/tasks/${task.id}/${verb}`, body)).status, 404, 'of another tenant')
  }
  t.same((await as('zoe').get('/tasks')).body, { tasks: [], truncated: false })
  const decide = `/tasks/${task.id}/decide`
  for (const body of [{}, { approved: true }, { ...YES, actor: 'eve' }, { ...YES, digest: 'x' }])
    t.equal((await ann.post(decide, body)).status, 422, JSON.stringify(body))
  t.equal((await ann.post(decide, '{')).status, 415)
  t.equal((await ann.post(decide, '{', { 'content-type': 'application/json' })).status, 400)
  t.equal((await ann.post(decide, JSON.stringify({ ...YES, reason: 'x'.repeat(1 << 21) }), { 'content-type': 'application/json' })).status, 413)
  t.equal((await ann.post(decide, { ...YES, reason: ' ' })).status, 400)
  t.equal((await ann.post(decide, { ...YES, digest: null, amendment: null })).status, 200)
})

t.test('amendments are checked, and what is withheld is only rejected', async (t) => {
  const { asked, as, agents, plane } = await desk(t)
  const ann = as('ann')
  const schema = { type: 'object', required: ['cents'], properties: { cents: { type: 'integer', minimum: 1 } }, additionalProperties: false }
  const { run, task } = await asked('ask', { schema })
  const decide = `/tasks/${task.id}/decide`
  t.match(await ann.post(decide, { ...YES, amendment: { cents: 0 } }), { status: 422, body: { error: /cents/ } })
  t.equal((await ann.post(decide, { ...YES, amendment: { cents: 9 } })).status, 200)
  t.equal(await agents.settled(run), 'succeeded')
  t.match(await agents.replay(run), { output: { amendment: { cents: 9 } } })
  const other = await asked('ask', { kind: 'secret' })
  await plane().tasks?.withhold(other.task.id, 'erased')
  t.match((await ann.get(`/tasks/${other.task.id}`)).body, {
    withheld: 'erased',
    justification: { proposed_action: null },
    rendering: { proposed_action: null, withheld: 'erased' },
  })
  t.equal((await ann.post(`/tasks/${other.task.id}/decide`, YES)).status, 422)
  t.equal((await ann.post(`/tasks/${other.task.id}/decide`, { ...YES, approved: false, amendment: 'ask again' })).status, 200)
  const matter = { case: { kind: 'claim', correlation: [{ namespace: 'claim', value: '7' }] } }
  const { run: held } = await agents.run({ capability: 'ask', input: {}, actor: 'test', ...matter })
  await agents.settled(held)
  const [kept] = (await ann.get('/tasks')).body.tasks.filter((one: { run: string }) => one.run === held)
  t.equal((await ann.post('/holds', { case: kept.case, reason: 'a lawsuit' })).status, 200)
  await t.rejects(plane().tasks?.withhold(kept.id, 'erased') ?? Promise.resolve(), { code: 'CONFLICT', message: /is held, and what is held is not erased/ })
  t.equal((await ann.post('/holds/release', { case: kept.case })).status, 200)
  await plane().tasks?.withhold(kept.id, 'erased')
  t.match((await ann.get(`/tasks/${kept.id}`)).body, { withheld: 'erased' })
})

t.test('a decision is there for who waits later; what was heard is untrusted; the end of a run withdraws', async (t) => {
  const { asked, as, agents, run: begin } = await desk(t)
  const ann = as('ann')
  const early = await asked('open')
  t.equal((await ann.post(`/tasks/${early.task.id}/decide`, YES)).status, 200)
  while ((await agents.settled(early.run)) === 'suspended') await new Promise((resolve) => setTimeout(resolve, 20))
  t.match(await agents.replay(early.run), { divergences: [], output: { approved: true, decided_by: 'ann' } })
  const heard = await begin('hear', null)
  await t.rejects(agents.deliver({ id: '0', source: 'x', kind: TASK_DECIDED, payload: YES }), { code: 'FORBIDDEN' })
  await agents.deliver({ id: '1', source: 'x', kind: 'told', payload: 'it is \u202egnp' })
  await agents.settled(heard)
  const [task] = (await ann.get('/tasks')).body.tasks
  t.match(task, { run: heard, has_untrusted_prose: true, rendering: { summary: 'He says it is \\u{202E}gnp', escaped: true } })
  t.same(task.justification.summary.label, { provenance: ['actor:test', 'event:x'], trust: 'untrusted', sensitivity: 'internal' })
  await agents.cancel(heard, { actor: 'eve', basis: 'asserted' }, 'enough')
  t.equal(await agents.settled(heard), 'cancelled')
  t.match((await ann.get(`/tasks/${task.id}`)).body, { state: 'withdrawn' })
  t.equal((await ann.post(`/tasks/${task.id}/decide`, YES)).status, 409)
})

t.test('who abandons a run withdraws its tasks, and no others', async (t) => {
  const { asked, as, agents, run: begin } = await desk(t)
  const ann = as('ann')
  const kept = await asked('ask')
  const doubted = await begin('doubt', null)
  t.equal(await agents.settled(doubted), 'quarantined')
  const tasks: TaskView[] = (await ann.get('/tasks')).body.tasks.filter((task: TaskView) => task.run === doubted)
  t.match(tasks, [{ state: 'open' }, { state: 'open' }], 'it may be reopened')
  t.match(await ann.post(`/tasks/${tasks[0].id}/claim`), { body: { state: 'claimed', assignee: 'ann' } })
  t.match(await as('bob').post(`/runs/${doubted}/abandon`, { reason: 'given up' }), { status: 200, body: { status: 'abandoned' } })
  for (const { id } of tasks) {
    const { body } = await ann.get(`/tasks/${id}`)
    t.match(body, { state: 'withdrawn', decidable_by_you: false })
    t.notOk(body.assignee)
    for (const verb of ['claim', 'release']) t.equal((await ann.post(`/tasks/${id}/${verb}`)).status, 409, verb)
    t.match(await ann.post(`/tasks/${id}/decide`, YES), { status: 409, body: { error: /withdrawn/ } })
  }
  t.match((await ann.get('/tasks')).body, { tasks: [{ id: kept.task.id, state: 'open' }] })
  t.equal((await ann.get('/tasks')).body.tasks.length, 1)
})

t.test('nobody answers in time', async (t) => {
  const { as, agents, run } = await desk(t)
  for (const [policy, approved] of [
    [{ policy: 'deny' }, false],
    [{ policy: 'proceed', allow_unattended: true }, true],
  ] as const) {
    const id = await run('ask', { withinMs: 1, on_expiry: policy })
    while ((await agents.settled(id)) === 'suspended') await new Promise((resolve) => setTimeout(resolve, 20))
    t.match(await agents.replay(id), { output: { approved, expired: true } })
  }
  const id = await run('ask', { withinMs: 1, on_expiry: { policy: 'escalate', escalate_to: ['lead'] } })
  let tasks: TaskView[] = []
  for (; tasks.length === 0; await new Promise((resolve) => setTimeout(resolve, 50))) tasks = (await as('cat').get('/tasks')).body.tasks
  t.match(tasks, [{ run: id, state: 'escalated' }])
  t.equal((await as('test').post(`/tasks/${tasks[0].id}/decide`, YES)).status, 403, 'exclusions stay')
  t.equal((await as('cat').post(`/tasks/${tasks[0].id}/decide`, YES)).status, 200)
  t.equal(await agents.settled(id), 'succeeded')
  t.equal(await agents.settled(await run('ask', { on_expiry: { policy: 'proceed' } })), 'failed', 'without a word that says so')
})

t.test('many decide at one time by HTTP: one of them does', async (t) => {
  const { asked, as, agents } = await desk(t)
  const { run, task } = await asked('ask')
  const replies = await Promise.all(
    Array.from({ length: 24 }, (_, i) =>
      as(i % 2 === 0 ? 'ann' : 'bob').post(
        `/tasks/${task.id}/${i % 3 === 0 ? 'claim' : 'decide'}`,
        i % 3 === 0 ? undefined : { approved: i % 4 === 1, reason: `${i}` },
      ),
    ),
  )
  const decided = replies.filter(({ status, body }) => status === 200 && body.decided_by !== undefined)
  t.ok(decided.length <= 1, `${decided.length}`)
  t.ok(replies.every(({ status }) => status === 200 || status === 409))
  if (decided.length === 0) {
    // All who have decided came before or after one who had taken it: that one does.
    const { assignee, state } = (await as('ann').get(`/tasks/${task.id}`)).body
    t.equal(state, 'claimed')
    decided.push(await as(assignee).post(`/tasks/${task.id}/decide`, { approved: true, reason: 'late' }))
    t.equal(decided[0].status, 200)
  }
  t.equal(await agents.settled(run), 'succeeded')
  t.match((await agents.replay(run)).output, decided[0].body)
})

t.test('an amendment of a call is held against the arguments of the tool, also where a skill without a model asks', async (t) => {
  const closed = { additionalProperties: false }
  const payer = (name: string, cents: { maximum?: number }) =>
    defineAgent({
      manifest: {
        apiVersion: 'svc/v1alpha1',
        kind: 'Agent',
        metadata: { name, version: '1' },
        spec: { capabilities: { provides: [`${name}.do`] }, budgets: {} },
      },
      tools: [
        defineTool({
          ref: 'tool://bank/pay',
          description: 'Pays',
          arguments: Type.Object({ cents: Type.Integer(cents) }, closed),
          mutates: true,
          recovery: 'idempotent',
          call: async () => null,
        }),
      ],
      skills: (define) => [define({ capability: `${name}.do`, summary: 'Of a test', input: Type.Any(), output: Type.Any(), invoke: (ctx) => pay(ctx) })],
    })
  const pay = async (context: StepContext): Promise<Json> => {
    const { approved, amendment } = await context.task({ ...ask, tool: 'tool://bank/pay' })
    return approved ? (amendment ?? ask.proposed_action) : null
  }
  const amended = async (agents: Parameters<typeof startApi>[2], capability: string, amendment: unknown) => {
    const { as, run, agents: plane } = await startApi(t, [skill('plain', pay)], { actors: ACTORS, ...agents })
    const id = await run(capability, null)
    const [task] = (await as('ann').get('/tasks')).body.tasks
    const { status, body } = await as('bob').post(`/tasks/${task.id}/decide`, { ...YES, amendment })
    if (status !== 200) return { status, error: body.error }
    await plane.settled(id)
    return { status, output: (await plane.replay(id)).output }
  }
  const one = { agents: [payer('one', {})] }
  t.match(await amended(one, 'plain', { cents: 100 }), { status: 200, output: { cents: 100 } })
  t.match(await amended(one, 'plain', { cents: 'all' }), { status: 422, error: /\/cents must be integer/ })
  t.match(await amended({}, 'plain', { cents: 100 }), { status: 422, error: /nothing here knows the arguments of tool "tool:\/\/bank\/pay"/ })
  const two = { agents: [payer('one', { maximum: 10 }), payer('two', { maximum: 1000 })] }
  t.match(await amended(two, 'plain', { cents: 100 }), { status: 422, error: /nothing here knows/ }, 'which of the two is meant nobody can say')
  t.match(await amended(two, 'one.do', { cents: 100 }), { status: 422, error: /\/cents must be <= 10/ }, 'that of the agent of the run')
  t.match(await amended(two, 'two.do', { cents: 100 }), { status: 200, output: { cents: 100 } })
})
