/**
 * A lost answer to any operation that changes something can be repeated. Three tenants begin alike; in one an operation is sent once, in another one after the
 * other, in the third twice at one time. Whatever may be read of the three is the same afterwards, and what was done outside was done as often.
 */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { defineSkill, EffectError, type Json, type StepContext } from 'svcdb/agents'
import { Type } from 'svcdb/lib/schema'
import t, { type Test } from 'tap'
import { eventually, lookUntil } from '../../test/support/until.ts'
import { OPERATIONS } from './routes/index.ts'
import { type ApiNode, type Client, type Reply, startApi } from './testing.ts'

const TENANTS = ['once', 'again', 'together'] as const
const any = { summary: 'Of a test', input: Type.Any(), output: Type.Any() }
const about = [{ namespace: 'n', value: 'x' }]

/** One tenant, as two of its operators have it. */
interface World {
  api: ApiNode
  tenant: string
  ann: Client
  bob: Client
  /** That was made on the way: it is looked at in the end. */
  runs: string[]
  cases: string[]
  tasks: string[]
  /** Who is told by pushes: nobody, until it is opened. */
  hook: string
  open(): void
}

/** What an operation is asked with, after what has to be there for it. */
type Prepare = (world: World) => Promise<{ path: string; body?: object }>

function skills(done: Map<string, string[]>) {
  const perform = (run: string, what: string) => {
    done.set(run, [...(done.get(run) ?? []), what])
    return what
  }
  const skill = (capability: string, invoke: (ctx: StepContext, input: Json) => Promise<Json>, more: object = {}) =>
    defineSkill({ ...any, capability, invoke, ...more } as never)
  return [
    skill('echo', async (_ctx, input) => input),
    skill(
      'work',
      async (ctx) => {
        await ctx.effect({ kind: 'do', args: null, mutates: true, recovery: 'idempotent' }, async () => perform(ctx.run, 'did'))
        return (await ctx.awaitEvent({ kind: 'go', correlation: about, withinMs: 1e9 })).payload
      },
      {
        compensate: async (ctx: StepContext) =>
          void (await ctx.effect({ kind: 'undo', args: null, mutates: true, recovery: 'idempotent' }, async () => perform(ctx.run, 'undid'))),
      },
    ),
    skill('doubt', async (ctx) => {
      const paid = await ctx.effect({ kind: 'pay', args: null, mutates: true }, async () => {
        perform(ctx.run, 'paid')
        throw new EffectError('no answer', { disposition: 'in_doubt' })
      })
      await ctx.effect({ kind: 'tell', args: null, mutates: true, recovery: 'idempotent' }, async () => perform(ctx.run, 'told'))
      return paid
    }),
    skill('ask', async (ctx) => ({ ...(await ctx.task({ kind: 'ask', summary: 'May I?', proposed_action: { n: 1 } })) }) as Json),
    skill('matter', async (ctx) => {
      await ctx.deadline('answer', { unit: 'minutes', n: 0 })
      return null
    }),
  ]
}

async function begin(world: World, capability: string, more: object = {}): Promise<string> {
  const { agents } = world.api.plane(world.tenant)
  const { run } = await agents.run({ capability, input: null, actor: 'test', ...more })
  await agents.settled(run)
  world.runs.push(run)
  return run
}

async function doubted(world: World): Promise<{ run: string; said: object }> {
  const run = await begin(world, 'doubt')
  const [{ effect }] = (await world.ann.get(`/runs/${run}`)).body.undecided
  return { run, said: { effect, disposition: 'landed', output: 'paid', note: 'seen at the bank' } }
}

async function asked(world: World): Promise<string> {
  const run = await begin(world, 'ask')
  const [{ id }] = (await world.ann.get('/tasks')).body.tasks.filter((task: { run: string }) => task.run === run)
  world.tasks.push(id)
  return id
}

async function breached(world: World): Promise<string> {
  await begin(world, 'matter', { case: { kind: 'claim', correlation: [{ namespace: 'claim', value: String(world.cases.length) }] } })
  await eventually(async () => (await world.ann.get('/obligations')).body.obligations.length > 0)
  const [{ case: id }] = (await world.ann.get('/obligations')).body.obligations
  world.cases.push(id)
  return id
}

/** All operations that change something. */
const PREPARE: Readonly<Record<string, Prepare>> = {
  cancel_run: async (world) => ({ path: `/runs/${await begin(world, 'work')}/cancel`, body: { reason: 'not needed' } }),
  reopen_run: async (world) => {
    const { run, said } = await doubted(world)
    await world.ann.post(`/runs/${run}/reconcile`, said)
    return { path: `/runs/${run}/reopen`, body: { reason: 'settled' } }
  },
  abandon_run: async (world) => ({ path: `/runs/${(await doubted(world)).run}/abandon`, body: { reason: 'given up' } }),
  reconcile_effect: async (world) => {
    const { run, said } = await doubted(world)
    return { path: `/runs/${run}/reconcile`, body: said }
  },
  claim_task: async (world) => ({ path: `/tasks/${await asked(world)}/claim` }),
  release_task: async (world) => {
    const task = await asked(world)
    await world.ann.post(`/tasks/${task}/claim`)
    return { path: `/tasks/${task}/release` }
  },
  take_over_task: async (world) => {
    const task = await asked(world)
    await world.bob.post(`/tasks/${task}/claim`)
    return { path: `/tasks/${task}/takeover`, body: { from: 'bob' } }
  },
  decide_task: async (world) => ({ path: `/tasks/${await asked(world)}/decide`, body: { approved: true, reason: 'fine', amendment: { n: 2 } } }),
  acknowledge_obligation: async (world) => ({ path: '/obligations/acknowledge', body: { case: await breached(world), obligation: 'answer', note: 'late' } }),
  place_hold: async (world) => ({ path: '/holds', body: { case: await breached(world), reason: 'a lawsuit' } }),
  release_hold: async (world) => {
    const id = await breached(world)
    await world.ann.post('/holds', { case: id, reason: 'a lawsuit' })
    return { path: '/holds/release', body: { case: id } }
  },
  place_halt: async () => ({ path: '/halts', body: { scope: 'agent:mailer', reason: 'a flood' } }),
  lift_halt: async (world) => {
    await world.ann.post('/halts', { scope: 'agent:mailer', reason: 'a flood' })
    return { path: '/halts/lift', body: { scope: 'agent:mailer' } }
  },
  deliver_event: async (world) => {
    await begin(world, 'work')
    return { path: '/events', body: { id: '1', kind: 'go', payload: 'yes', correlation: about } }
  },
  rearm_push: async (world) => {
    const run = await begin(world, 'echo', { push: [{ id: 'one', url: world.hook }] })
    await eventually(async () => (await world.ann.get('/push')).body.parked.length > 0)
    world.open()
    return { path: '/push/rearm', body: { run, id: 'one' } }
  },
}

/** All that may be read of a tenant, with names in the place of what is another one each time. */
async function seen({ ann, runs, cases, tasks }: World): Promise<string> {
  const ids: Readonly<Record<string, readonly string[]>> = { run: runs, case: cases, task: tasks }
  const found: unknown[] = []
  for (const { method, path, parameters } of OPERATIONS) {
    if (method !== 'GET') continue
    const paths = parameters.length === 0 ? [path] : ids[parameters[0]].map((id) => path.replace(/\{\w+\}/, id))
    for (const one of [...paths, ...(VARIANTS[path] ?? [])]) {
      const { status, body } = await ann.get(one)
      found.push({ path: one, status, body })
    }
  }
  return named(JSON.stringify(found, (key, value) => (AT.has(key) || key === 'sealed' ? null : value), 1))
}

const VARIANTS: Readonly<Record<string, readonly string[]>> = {
  '/runs': ['succeeded', 'cancelled', 'abandoned', 'failed', 'hold-released', 'halt-lifted'].map((outcome) => `/runs?outcome=${outcome}`),
  '/cases': ['open', 'closed'].map((status) => `/cases?status=${status}`),
  '/holds': ['/holds?state=released'],
  '/halts': ['/halts?state=lifted'],
}
/** Times, and what follows from ids. */
const AT = new Set(['placed_at', 'thrown_at', 'lifted_at', 'released_at', 'opened_at', 'resolved_at', 'resolvedAt', 'at', 'chain_head', 'detail', 'epoch'])

function named(text: string): string {
  const names = new Map<string, string>()
  return text.replace(/(?:run|case)_[0-9A-Z]{26}|[0-9a-f]{64}|\d{4}-\d\d-\d\dT[0-9:.]+Z/g, (id) => {
    if (id.includes('T') && id.endsWith('Z') && id.includes('-')) return 'then'
    if (!names.has(id)) names.set(id, `name ${names.size}`)
    return names.get(id) as string
  })
}

async function start(t: Test): Promise<{ worlds: World[]; done: Map<string, string[]> }> {
  const gone = new Set<string>(TENANTS)
  const server = createServer((request, response) => {
    request.resume().on('end', () => response.writeHead(gone.has(request.url?.slice(1) ?? '') ? 410 : 204).end())
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => server.close())
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const done = new Map<string, string[]>()
  const actors = Object.fromEntries(TENANTS.flatMap((tenant) => ['ann', 'bob'].map((actor) => [`${actor}-${tenant}`, { actor, roles: ['admin'], tenant }])))
  const webhooks = { signing_secrets: ['whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'], allow_private_targets: true }
  const api = await startApi(t, skills(done), {
    actors,
    tenants: [...TENANTS],
    plugins: ['webhooks'],
    config: { webhooks, agent_plane: { sweep_interval_secs: 0.05 } },
  })
  const worlds = TENANTS.map((tenant) => ({
    api,
    tenant,
    ann: api.as(`ann-${tenant}`),
    bob: api.as(`bob-${tenant}`),
    runs: [],
    cases: [],
    tasks: [],
    open: () => void gone.delete(tenant),
    hook: `${url}/${tenant}`,
  }))
  return { worlds, done }
}

t.test('all operations that change something are here', async (t) => {
  t.same(Object.keys(PREPARE).sort(), OPERATIONS.flatMap(({ method, operationId }) => (method === 'POST' ? [operationId] : [])).sort())
})

t.test('twice is as once', async (t) => {
  const { worlds, done } = await start(t)
  for (const [operationId, prepare] of Object.entries(PREPARE)) await t.test(operationId, (t) => repeated(t, prepare, worlds, done))
})

async function repeated(t: Test, prepare: Prepare, worlds: readonly World[], done: Map<string, string[]>): Promise<void> {
  const answers = new Map<string, Reply[]>()
  const outside = new Map<string, string[]>()
  for (const world of worlds) {
    const { path, body } = await prepare(world)
    const send = () => world.ann.post(path, body)
    const given = [await (world.tenant === 'together' ? Promise.all([send(), send()]) : send().then((one) => [one]))].flat()
    // The answer is lost, and the same is sent again, by when what it has brought about may have gone on.
    if (world.tenant === 'again') {
      for (const run of world.runs) await world.api.plane(world.tenant).agents.settled(run)
      given.push(await send())
    }
    for (const run of world.runs) await world.api.plane(world.tenant).agents.settled(run)
    answers.set(world.tenant, given)
  }
  const first = answers.get('once')?.[0] as Reply
  t.ok(first.status < 300, `${first.status} ${JSON.stringify(first.body)}`)
  for (const tenant of ['again', 'together'])
    for (const { status, body } of answers.get(tenant) ?? [])
      t.ok(status === first.status || (status === 409 && body.error.length > 20), `${tenant}: ${status} ${JSON.stringify(body)}`)
  t.ok(
    answers.get('together')?.some(({ status }) => status === first.status),
    'one of two has its answer',
  )
  let texts: string[] = []
  const same = async () => {
    texts = await Promise.all(worlds.map(seen))
    return texts.every((text) => text === texts[0])
  }
  await lookUntil(same, (isSame) => isSame)
  t.equal(texts[1], texts[0], 'one after the other')
  t.equal(texts[2], texts[0], 'at one time')
  for (const world of worlds)
    outside.set(
      world.tenant,
      world.runs.flatMap((run) => done.get(run) ?? []),
    )
  t.same(outside.get('again'), outside.get('once'))
  t.same(outside.get('together'), outside.get('once'))
}
