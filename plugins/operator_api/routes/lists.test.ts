/** What lists have when there is more than fits: a hundred rows in their order, and that there are more; of halts that stand all. */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { defineSkill, type Json, type StepContext } from 'svcdb/agents'
import { Type } from 'svcdb/lib/schema'
import t from 'tap'
import { type ApiNode, type Client, startApi } from '../testing.ts'

t.setTimeout(300_000)

const MORE = 103
const skill = (capability: string, invoke: (context: StepContext, input: never) => Promise<Json>) =>
  defineSkill({ capability, summary: 'Of a test', input: Type.Any(), output: Type.Any(), invoke } as never)
const SKILLS = [
  skill('ask', async (context, priority: 'low' | 'normal' | 'urgent') => {
    const { approved } = await context.task({ kind: 'k', summary: 'May I?', proposed_action: null, candidate_roles: [], priority })
    return approved
  }),
  skill('late', async (context, count: number) => {
    for (let i = 0; i < count; i++) await context.deadline(`o${i}`, { unit: 'minutes', n: 0 })
    return 'done'
  }),
  skill('look', async ({ caseId }) => caseId ?? null),
]
const within = (order: string) => ({ kind: 'support.order', correlation: [{ namespace: 'order', value: order }] })

async function begin({ agents }: ApiNode, capability: string, input: Json, more: object = {}): Promise<string> {
  const { run } = await agents.run({ capability, input, actor: 'test', ...more })
  await agents.settled(run)
  return run
}

/** Until a list is full. */
async function full(client: Client, path: string, key: string): Promise<{ truncated: boolean; rows: Record<string, never>[] }> {
  for (const end = Date.now() + 60_000; ; ) {
    const { body } = await client.get(path)
    if (body.truncated || Date.now() > end) return { truncated: body.truncated, rows: body[key] }
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
}

t.test('tasks, by priority and then by age', async (t) => {
  const api = await startApi(t, SKILLS)
  const [rita, priorities] = [api.as('rita'), ['low', 'normal', 'urgent'] as const]
  for (let i = 0; i < 100; i++) await begin(api, 'ask', priorities[i % 3])
  t.match((await rita.get('/tasks')).body, { truncated: false, tasks: { length: 100 } })
  for (let i = 100; i < MORE; i++) await begin(api, 'ask', priorities[i % 3])
  const { truncated, rows } = await full(rita, '/tasks', 'tasks')
  t.same([truncated, rows.length], [true, 100])
  const rank = ({ priority }: { priority?: string }) => ['urgent', 'high', 'normal', 'low'].indexOf(priority ?? '')
  const order = (one: (typeof rows)[0], other: (typeof rows)[0]) =>
    rank(one) - rank(other) || Date.parse(one.created_at ?? one.opened_at) - Date.parse(other.created_at ?? other.opened_at)
  t.same(
    rows.map(({ id }) => id),
    [...rows].sort(order).map(({ id }) => id),
  )
  t.equal(rows.filter(({ priority }) => priority === 'urgent').length, 34, 'all that are urgent')
})

t.test('breached obligations, the longest overdue first', async (t) => {
  const api = await startApi(t, SKILLS, { config: { agent_plane: { sweep_interval_secs: 0.05 } } })
  await begin(api, 'late', MORE, { case: within('1') })
  const { truncated, rows } = await full(api.as('rita'), '/obligations', 'obligations')
  t.same([truncated, rows.length], [true, 100])
  const due = rows.map(({ resolved_at }) => Date.parse(resolved_at))
  t.same(
    due,
    [...due].sort((a, b) => a - b),
  )
})

t.test('dead letters', async (t) => {
  const api = await startApi(t, SKILLS, { config: { agent_plane: { event_grace_secs: 1, sweep_interval_secs: 0.05 } } })
  for (let i = 0; i < MORE; i++) await api.agents.deliver({ id: `${i}`, source: 's', kind: 'nobody', payload: null })
  const { truncated, rows } = await full(api.as('rita'), '/dead-letters', 'dead_letters')
  t.same([truncated, rows.length], [true, 100])
})

/** Those of one millisecond have no order. */
async function nextMillisecond(): Promise<void> {
  for (const now = Date.now(); Date.now() === now; ) await new Promise(setImmediate)
}

t.test('holds that stand, the oldest first, and those that were released, the newest first', async (t) => {
  const api = await startApi(t, SKILLS)
  const [ann, rita] = [api.as('ann'), api.as('rita')]
  const cases: string[] = []
  for (let i = 0; i < MORE; i++) {
    const run = await begin(api, 'look', null, { case: within(`${i}`) })
    cases.push((await rita.get(`/runs/${run}`)).body.case)
    t.match(await ann.post('/holds', { case: cases[i], reason: `${i}` }), { status: 200, body: { placed: true } })
  }
  const standing = (await rita.get('/holds')).body
  t.same([standing.truncated, standing.holds.length, standing.released], [true, 100, []])
  const placed = standing.holds.map(({ placed_at }: { placed_at: number }) => placed_at)
  t.same(
    placed,
    [...placed].sort((a, b) => a - b),
  )
  for (const id of cases) {
    t.match(await ann.post('/holds/release', { case: id }), { status: 200, body: { removed: true } })
    await nextMillisecond()
  }
  const { truncated, released, holds } = (await rita.get('/holds?state=released')).body
  t.same([truncated, released.length, holds], [true, 100, []])
  t.same(
    released.map((one: { case: string }) => one.case),
    cases.toReversed().slice(0, 100),
  )
})

t.test('halts that stand, all of them, and the newest of those that were lifted', async (t) => {
  const api = await startApi(t, SKILLS)
  const [ann, rita] = [api.as('ann'), api.as('rita')]
  const scopes = Array.from({ length: MORE }, (_, i) => `agent:a${i}`)
  for (const scope of scopes) t.equal((await ann.post('/halts', { scope, reason: 'look' })).status, 200)
  const { halts, truncated } = (await rita.get('/halts')).body
  t.same([halts.length, truncated], [MORE, false])
  t.same(new Set(halts.map(({ scope }: { scope: string }) => scope)), new Set(scopes))
  for (const scope of scopes) {
    t.match(await ann.post('/halts/lift', { scope }), { body: { removed: true } })
    await nextMillisecond()
  }
  const lifted = (await rita.get('/halts?state=lifted')).body
  t.same([lifted.truncated, lifted.lifted.length, lifted.halts], [true, 100, []])
  t.same(
    lifted.lifted.map(({ scope }: { scope: string }) => scope),
    scopes.toReversed().slice(0, 100),
  )
})

t.test('live runs, and the filter after the cut', async (t) => {
  let open = (): void => {}
  const opened = new Promise<void>((resolve) => {
    open = resolve
  })
  const hold = skill('hold', (context) => context.effect({ kind: 'hold', args: null, mutates: false }, () => opened.then(() => null)))
  const api = await startApi(t, [hold])
  const runs: string[] = []
  for (let i = 0; i < MORE; i++) {
    const chain = [{ id: i % 2 === 0 ? 'even' : 'odd', scope: ['*'] }]
    runs.push((await api.agents.run({ capability: 'hold', input: null, actor: 'test', chain })).run)
  }
  const rita = api.as('rita')
  const all = (await rita.get('/runs/live')).body
  t.same([all.truncated, all.runs.length], [true, 100])
  const even = (await rita.get('/runs/live?subject=even')).body
  const shown = all.runs.filter(({ subject }: { subject: string }) => subject === 'even')
  t.same(even, { runs: shown, truncated: true }, 'of what was cut, which it says')
  t.same((await rita.get('/runs/live?subject=nobody')).body, { runs: [], truncated: true })
  open()
  for (const run of runs) t.equal(await api.agents.settled(run), 'succeeded')
})

t.test('parked pushes', async (t) => {
  const server = createServer((request, response) => request.resume().on('end', () => response.writeHead(410).end()))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => server.close())
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook`
  const webhooks = { signing_secrets: ['whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'], allow_private_targets: true }
  const api = await startApi(t, SKILLS, { plugins: ['webhooks'], config: { webhooks } })
  const push = Array.from({ length: Math.ceil(MORE / 2) }, (_, i) => ({ id: `p${i}`, url }))
  for (let runs = 0; runs < 2; runs++) await begin(api, 'look', null, { push })
  const { truncated, rows } = await full(api.as('rita'), '/push', 'parked')
  t.same([truncated, rows.length], [true, 100])
})
