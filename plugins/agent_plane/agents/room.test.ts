/** Runs that are commissioned, or that signals begin, where there is no room for them yet. */
import { definePlugin, SIGNAL_SINK, type SignalSink, type TriggerSignal } from 'svcdb'
import {
  AGENT_PLANES,
  type AgentContext,
  type AgentManifest,
  type AgentPlanes,
  defineAgent,
  type HaltOperations,
  type Json,
  type OperatedPlane,
} from 'svcdb/agents'
import { Type } from 'svcdb/lib/schema'
import t from 'tap'
import { start } from '../testing/node.ts'

const OPERATOR = { actor: 'olga', basis: 'asserted' } as const
const LONG = 600_000

function agent(name: string, does: (ctx: AgentContext) => Promise<Json>, commissions: string[] = []) {
  const manifest: AgentManifest = {
    apiVersion: 'svc/v1alpha1',
    kind: 'Agent',
    metadata: { name, version: '1' },
    spec: { capabilities: { provides: [`${name}.do`] }, security: { commissions }, budgets: {} },
  }
  return defineAgent({
    manifest,
    skills: (skill) => [skill({ capability: `${name}.do`, summary: 'Of a test', input: Type.Any(), output: Type.Any(), invoke: does })],
  })
}

const hand = agent('hand', async (ctx) => ctx.effect({ kind: 'work', args: null, mutates: true }, async () => 'done'))
const commission = (ctx: AgentContext, withinMs = LONG) => ctx.commission({ capability: 'hand.do', input: null, withinMs })
const bounded = (quota: object) => ({ agent_plane: { sweep_interval_secs: 0.1, quota } })

/** As `settled`, of a run that may be suspended meanwhile. */
async function over(plane: { settled(run: string): Promise<string> }, run: string): Promise<string> {
  const end = Date.now() + 60_000
  for (;;) {
    const status = await plane.settled(run)
    if (status !== 'suspended' || Date.now() > end) return status
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
}

t.test('a run that commissions takes no room from the one that it waits for', async (t) => {
  const { plane } = await start(t, [], { agents: [hand, agent('boss', (ctx) => commission(ctx), ['hand'])], config: bounded({ max_concurrent_runs: 1 }) })
  const { run } = await plane.run({ capability: 'boss.do', input: null, actor: 'ann' })
  t.equal(await over(plane, run), 'succeeded')
})

t.test('several that are commissioned begin as there is room for them', async (t) => {
  const boss = agent('boss', (ctx) => Promise.all([commission(ctx), commission(ctx), commission(ctx)]), ['hand'])
  const { plane } = await start(t, [], { agents: [hand, boss], config: bounded({ max_concurrent_runs: 1 }) })
  const { run } = await plane.run({ capability: 'boss.do', input: null, actor: 'ann' })
  t.equal(await over(plane, run), 'succeeded')
  t.match(await plane.replay(run), { divergences: [], output: ['done', 'done', 'done'] })
})

/** @returns what places halts in the plane of a node. */
function steering() {
  const held: { planes?: AgentPlanes } = {}
  const plugin = definePlugin({
    id: 'steering',
    summary: 'Of a test',
    stability: 'experimental',
    requires: [AGENT_PLANES],
    setup: (svc) => void (held.planes = svc.use<AgentPlanes>(AGENT_PLANES)),
  })
  const plane = (tenant = 'default') => held.planes?.find(tenant) as OperatedPlane
  return { plugin, plane, halts: () => plane().halts as HaltOperations }
}

t.test('a halt keeps runs from being commissioned, and does not touch the one that commissions', async (t) => {
  const { plugin, halts } = steering()
  const agents = [hand, agent('boss', (ctx) => commission(ctx), ['hand']), agent('hasty', (ctx) => commission(ctx, 200), ['hand'])]
  const { plane } = await start(t, [], { agents, plugins: [plugin] })
  await halts().place('agent:hand', 'to look at it', OPERATOR)
  const { run } = await plane.run({ capability: 'boss.do', input: null, actor: 'ann' })
  t.equal(await plane.settled(run), 'suspended')
  t.match(await plane.standing(run), { status: 'suspended', undecided: [] })
  const hasty = await plane.run({ capability: 'hasty.do', input: null, actor: 'ann' })
  t.equal(await over(plane, hasty.run), 'failed')
  t.match((await plane.standing(hasty.run)).reason, /"agent:hand" is halted since/, 'its time was over first')
  await halts().lift('agent:hand', OPERATOR)
  t.equal(await over(plane, run), 'succeeded')
  t.match(await plane.replay(run), { divergences: [], output: 'done' })
})

t.test('a signal that may begin no run yet is handed back, and others of its batch begin theirs', async (t) => {
  const { plugin, halts, plane: planeOf } = steering()
  const held: { sink?: SignalSink } = {}
  const peek = definePlugin({
    id: 'peek',
    summary: 'Hands signals over',
    stability: 'experimental',
    requires: [SIGNAL_SINK],
    setup: (svc) => void (held.sink = svc.use<SignalSink>(SIGNAL_SINK)),
  })
  let free = (): void => {}
  const gate = new Promise<void>((resolve) => {
    free = resolve
  })
  const busy = agent('busy', (ctx) =>
    ctx.effect({ kind: 'work', args: null, mutates: false }, async () => {
      await gate
      return null
    }),
  )
  const rule = (trigger: string, more = {}) => ({ trigger, capability: 'hand.do', ...more })
  const on_signal = [rule('full'), rule('other', { tenant: 'acme' }), { trigger: 'missing', capability: 'none.do' }]
  const { plane } = await start(t, [], {
    agents: [hand, busy],
    plugins: [plugin, peek],
    config: { agent_plane: { sweep_interval_secs: 0.1, quota: { max_concurrent_runs: 1 }, on_signal, tenants: ['acme'] } },
  })
  const signal = (trigger_name: string) =>
    ({ event_id: `id-${trigger_name}`, trigger_name, measurement: 'disk', tags: {}, timestamp: '1', value: 1 }) as unknown as TriggerSignal
  const take = () => (held.sink as SignalSink).take('default', ['full', 'missing', 'other'].map(signal))
  const begun = async (tenant: string) => (await planeOf(tenant).runs.list('succeeded', 10)).rows.length
  const { run } = await plane.run({ capability: 'busy.do', input: null, actor: 'ann' })
  await t.rejects(take(), { code: 'RATE_LIMITED' }, 'there is no room')
  free()
  t.equal(await plane.settled(run), 'succeeded')
  await halts().place('tenant', 'to look at it', OPERATOR)
  await t.rejects(take(), { code: 'FORBIDDEN' }, 'it is halted')
  await halts().lift('tenant', OPERATOR)
  await take()
  await take()
  const end = Date.now() + 20_000
  while (((await begun('default')) < 2 || (await begun('acme')) < 1) && Date.now() < end) await new Promise((resolve) => setTimeout(resolve, 50))
  t.same([await begun('default'), await begun('acme')], [2, 1], 'each once')
})
