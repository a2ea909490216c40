/** What operators do to runs and see of them by HTTP, beside the operations one by one: budgets, halts of agents and revisions, what is abandoned, calendars. */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { definePlugin } from 'svcdb'
import { AGENTS, type AgentPlane, defineAgent, defineSkill, EffectError, type Json, type Skill, type StepContext } from 'svcdb/agents'
import { Type } from 'svcdb/lib/schema'
import t from 'tap'
import { lookUntil } from '../../../test/support/until.ts'
import { type Client, startApi } from '../testing.ts'

t.setTimeout(120_000)

const any = { summary: 'Of a test', input: Type.Any(), output: Type.Any() }
const skill = (capability: string, invoke: (context: StepContext, input: never) => Promise<Json>, more: Partial<Skill> = {}) =>
  defineSkill({ ...any, capability, ...more, invoke } as never)

t.test('an exhausted run says which budget ran out, is found by it, and is cancelled by who may', async (t) => {
  const spends = skill('spends', async (context) => {
    for (let i = 0; i < 5; i++) await context.effect({ kind: 'count', args: i, mutates: false }, async () => i)
    return 'done'
  })
  const { as, run, agents } = await startApi(t, [spends], { config: { agent_plane: { max_effects: 3 } } })
  const [ann, rita] = [as('ann'), as('rita')]
  const id = await run('spends', null)
  t.match((await rita.get(`/runs/${id}`)).body, {
    status: 'exhausted',
    sealed: false,
    reason: 'a budget is used up',
    exhaustion: { limit: 'effects', allowed: 3, used: 3 },
  })
  t.match((await rita.get('/runs?outcome=exhausted')).body, { runs: [id], truncated: false })
  t.match((await rita.get('/attention')).body.conditions, [{ condition: 'run.exhausted', subjects: [id] }])
  t.equal((await rita.post(`/runs/${id}/cancel`, { reason: 'x' })).status, 403)
  for (const word of ['reopen', 'abandon']) t.equal((await ann.post(`/runs/${id}/${word}`, { reason: 'x' })).status, 409, 'it is not quarantined')
  t.match(await ann.post(`/runs/${id}/cancel`, { reason: 'enough' }), { status: 202, body: { requested_by: 'ann', recorded: true } })
  t.equal(await agents.settled(id), 'cancelled')
  const { body } = await lookUntil(
    () => rita.get(`/runs/${id}`),
    (seen) => seen.body.sealed,
  )
  t.match(body, { status: 'cancelled', sealed: true, decided_by: { actor: 'ann', basis: 'authenticated' } })
  t.equal(body.exhaustion, undefined)
})

t.test('halts of an agent and of a revision keep new runs out, and touch none that goes on', async (t) => {
  const declared = (name: string) =>
    defineAgent({
      manifest: {
        apiVersion: 'svc/v1alpha1',
        kind: 'Agent',
        metadata: { name, version: '1' },
        spec: { capabilities: { provides: [`${name}.wait`] }, budgets: {} },
      },
      skills: (define) => [
        define({
          ...any,
          capability: `${name}.wait`,
          invoke: async (context) => (await context.awaitEvent({ kind: 'go', correlation: [{ namespace: 'n', value: name }], withinMs: 1e9 })).payload,
        }),
      ],
    })
  const { as, plane, agents } = await startApi(t, [], { agents: [declared('payer'), declared('mailer')] })
  const [ann, bob, rita] = ['ann', 'bob', 'rita'].map(as)
  const begin = (name: string) => agents.run({ capability: `${name}.wait`, input: null, actor: 'test' })
  const { run } = await begin('payer')
  t.equal(await agents.settled(run), 'suspended')
  const { digest } = (await rita.get(`/runs/${run}/history`)).body.records[0].record.governed_by
  t.equal((await rita.post('/halts', { scope: 'agent:payer', reason: 'x' })).status, 403)
  for (const [scope, who, covers] of [
    ['agent:payer', ann, 'payer'],
    [`revision:${digest}`, bob, digest],
  ] as const) {
    t.match(await who.post('/halts', { scope, reason: `about ${scope.slice(0, 5)}` }), { status: 200, body: { scope, halted: true, reach: /not touched/ } })
    t.match((await rita.get('/halts')).body.halts, [{ scope, covers: new RegExp(covers) }])
    await t.rejects(begin('payer'), { code: 'FORBIDDEN', message: new RegExp(`about ${scope.slice(0, 5)}`) })
    const other = await begin('mailer')
    t.equal(await agents.settled(other.run), 'suspended', 'others are let in')
    t.match(await rita.get(`/runs/${run}`), { body: { status: 'suspended' } }, 'what goes on is not touched')
    t.match(await ann.post('/halts/lift', { scope }), { body: { was_standing: true, removed: true } })
  }
  await ann.post('/halts', { scope: 'agent:payer', reason: 'wide' })
  await ann.post('/halts', { scope: `revision:${digest}`, reason: 'narrow' })
  await t.rejects(begin('payer'), { code: 'FORBIDDEN', message: /narrow/ }, 'the narrowest is named')
  await plane().agents.deliver({ id: '1', source: 's', kind: 'go', correlation: [{ namespace: 'n', value: 'payer' }], payload: 'on' })
  t.equal(await agents.settled(run), 'succeeded', 'a suspended run goes on under them')
})

t.test('what is abandoned is not undone, though it could be; what is cancelled is', async (t) => {
  const done: string[] = []
  const book = skill(
    'book',
    async (context) => {
      await context.effect({ kind: 'book', args: null, mutates: true, recovery: 'idempotent' }, async () => done.push('booked'))
      return 'booked'
    },
    {
      compensation: 'compensatable',
      compensate: async (context: StepContext) =>
        void (await context.effect({ kind: 'unbook', args: null, mutates: true, recovery: 'idempotent' }, async () => done.push('unbooked'))),
    } as never,
  )
  const pay = skill('pay', (context) =>
    context.effect({ kind: 'pay', args: null, mutates: true }, async () => {
      throw new EffectError('no answer', { disposition: 'in_doubt' })
    }),
  )
  const { as, agents } = await startApi(t, [book, pay])
  const [ann, bob, rita] = ['ann', 'bob', 'rita'].map(as)
  const begin = async () => {
    const plan = [
      { id: 'book', capability: 'book' },
      { id: 'pay', capability: 'pay', depends_on: ['book'], terminal: true },
    ]
    const { run } = await agents.run({ plan, input: null, actor: 'test' })
    t.equal(await agents.settled(run), 'quarantined')
    return run
  }
  const lost = await begin()
  t.equal((await rita.post(`/runs/${lost}/abandon`, { reason: 'x' })).status, 403)
  t.match(await bob.post(`/runs/${lost}/abandon`, { reason: 'given up' }), { status: 200, body: { status: 'abandoned', decided_by: 'bob' } })
  t.same(done, ['booked'], 'it stands')
  const kinds = async (run: string) => (await rita.get(`/runs/${run}/history`)).body.records.map(({ kind }: { kind: string }) => kind)
  t.notOk((await kinds(lost)).includes('StepCompensated'))
  t.match((await ann.post(`/runs/${lost}/cancel`, { reason: 'x' })).status, 409, 'it is over')

  done.length = 0
  const other = await begin()
  const [{ effect }] = (await rita.get(`/runs/${other}`)).body.undecided
  t.match(await ann.post(`/runs/${other}/cancel`, { reason: 'x' }), { status: 409, body: { error: /reopen or abandon/ } })
  t.equal((await bob.post(`/runs/${other}/reconcile`, { effect, disposition: 'did_not_happen', note: 'asked the bank' })).status, 200)
  t.match(await ann.post(`/runs/${other}/reopen`, { reason: 'try' }), { status: 200, body: { status: 'quarantined' } }, 'it is in doubt once more')
  const [{ effect: second }] = (await rita.get(`/runs/${other}`)).body.undecided
  t.not(second, effect)
  t.same(done, ['booked'])
})

t.test('two take a task over at one time: one of them has it', async (t) => {
  const ask = skill('ask', async (context) => {
    const { decided_by } = await context.task({ kind: 'k', summary: 'May I?', proposed_action: null, candidate_roles: ['desk'] })
    return decided_by
  })
  const desk = { roles: ['admin', 'desk'] }
  const { as, run, agents } = await startApi(t, [ask], { actors: { ann: desk, bob: desk, cat: desk, test: desk } })
  const id = await run('ask', null)
  const [{ id: task }] = (await as('ann').get('/tasks')).body.tasks
  const at = `/tasks/${task}`
  for (let round = 0; round < 10; round++) {
    const from = round === 0 ? 'ann' : ((await as('ann').get(at)).body.assignee as string)
    if (round === 0) t.equal((await as('ann').post(`${at}/claim`)).status, 200)
    const others = ['ann', 'bob', 'cat'].filter((name) => name !== from)
    const replies = await Promise.all(others.map((name) => as(name).post(`${at}/takeover`, { from })))
    t.same(replies.map(({ status }) => status).sort(), [200, 409], `from ${from}`)
    const winner = others[replies.findIndex(({ status }) => status === 200)]
    t.match((await as('ann').get(at)).body, { assignee: winner, state: 'claimed' })
  }
  const { assignee } = (await as('ann').get(at)).body
  const loser = ['ann', 'bob', 'cat'].find((name) => name !== assignee) as string
  t.equal((await as(loser).post(`${at}/decide`, { approved: true, reason: 'x' })).status, 409)
  t.equal((await as(assignee).post(`${at}/decide`, { approved: true, reason: 'x' })).status, 200)
  t.equal(await agents.settled(id), 'succeeded')
  t.equal((await agents.replay(id)).output, assignee)
})

t.test('an obligation by a calendar of a plugin: due when that said, with its digest', async (t) => {
  const digest = 'c'.repeat(64)
  let day = 1
  const calendar = { name: 'tax.office', digest, resolve: (_from: number, { quarter }: Record<string, Json>) => Date.UTC(2099, Number(quarter) * 3, day) }
  const owes = skill('owes', async (context, quarter: number) => {
    const { resolvedAt } = await context.deadline('return', { quarter } as never, { calendar: 'tax.office' })
    return resolvedAt
  })
  const elsewhere = skill('elsewhere', (context) => context.deadline('return', { unit: 'hours', n: 1 }, { calendar: 'moon' }).then(() => null))
  const office = definePlugin({
    id: 'office_of_test',
    summary: 'Has a calendar',
    stability: 'experimental',
    requires: [AGENTS],
    setup: (svc) => svc.use<AgentPlane>(AGENTS).calendar(calendar),
  })
  const { as, agents, plane } = await startApi(t, [owes, elsewhere], { plugins: [office] })
  const begin = async (capability: string, input: Json, order: string) => {
    const matter = { kind: 'tax', correlation: [{ namespace: 'order', value: order }] }
    const { run } = await agents.run({ capability, input, actor: 'test', case: matter })
    return { run, status: await agents.settled(run), id: (await plane().runs.view(run)).case as string }
  }
  const { id, run } = await begin('owes', 2, '1')
  day = 15
  t.match((await as('rita').get(`/cases/${id}`)).body.deadlines, [
    { name: 'return', state: 'pending', resolved_at: '2099-07-01T00:00:00Z', calendar_digest: digest },
  ])
  t.same((await agents.replay(run)).divergences, [], 'a calendar that changes does not move it')
  t.match((await as('rita').get(`/runs/${run}/history`)).body.records.find(({ kind }: { kind: string }) => kind === 'DeadlineRegistered').record, {
    resolved_at: '2099-07-01T00:00:00Z',
    calendar_digest: digest,
  })
  t.match(await begin('elsewhere', null, '2'), { status: 'failed' })
  t.equal((await as('nobody').get(`/cases/${id}`)).status, 403)
})

t.test('a receiver that asks for time gets it, is not parked, and is told in the end', async (t) => {
  const told: string[] = []
  const asked: number[] = []
  const server = createServer((request, response) => {
    let text = ''
    request.on('data', (more) => (text += more))
    request.on('end', () => {
      asked.push(performance.now())
      const isTold = asked.length > 2
      if (isTold) told.push(JSON.parse(text).type)
      response.writeHead(isTold ? 204 : 503, isTold ? {} : { 'retry-after': asked.length === 1 ? '3' : '0' }).end()
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => server.close())
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook`
  const webhooks = { signing_secrets: ['whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'], allow_private_targets: true }
  const echo = skill('echo', async () => 'done')
  const { as, agents } = await startApi(t, [echo], { plugins: ['webhooks'], config: { webhooks, agent_plane: { sweep_interval_secs: 0.1 } } })
  const rita: Client = as('rita')
  const { run } = await agents.run({ capability: 'echo', input: null, actor: 'test', push: [{ id: 'one', url }] })
  t.equal(await agents.settled(run), 'succeeded')
  for (const end = Date.now() + 60_000; told.length < 2 && Date.now() < end; ) {
    t.same((await rita.get('/push')).body, { parked: [], truncated: false })
    await new Promise((resolve) => setTimeout(resolve, 200))
  }
  t.same(told, ['io.svc.run.admitted', 'io.svc.run.completed'])
  t.ok(asked[1] - asked[0] >= 2900, `as long as it asked for: ${asked[1] - asked[0]} ms`)
  t.ok(asked[2] - asked[1] >= 1900, `and then twice the pause of the first failure, half of it at least: ${asked[2] - asked[1]} ms`)
  t.same((await as('ann').post('/push/rearm', { run, id: 'one' })).body, { rearmed: false }, 'it was never parked')
})

t.test('a plane without a case store has nothing to drill', async (t) => {
  const { as, plane } = await startApi(t, [])
  t.match(await as('rita').get('/drill'), { status: 200, body: { drilled: false } })
  const own = plane() as unknown as { drill: unknown }
  own.drill = undefined
  t.match(await as('rita').get('/drill'), { status: 404, body: { error: /no case store/ } })
  t.equal((await as('nobody').get('/drill')).status, 403, 'who may not ask is not told')
  t.match(await as('zoe').get('/drill'), { status: 200 }, 'of another tenant')
})
