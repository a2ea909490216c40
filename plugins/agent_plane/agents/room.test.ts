/** Runs that are commissioned, or that signals begin, where there is no room for them yet. */
import { SIGNAL_SINK, type SignalSink, type TriggerSignal } from 'svcdb'
import { AGENT_PLANES, type AgentContext, type AgentPlanes, type HaltOperations, type OperatedPlane } from 'svcdb/agents'
import t from 'tap'
import { until } from '../../../test/support/until.ts'
import { handOut, start } from '../testing/node.ts'
import { oneAgent } from '../testing/one-agent.ts'

const OPERATOR = { actor: 'olga', basis: 'asserted' } as const
const LONG = 600_000

const hand = oneAgent('hand', async (ctx) => ctx.effect({ kind: 'work', args: null, mutates: true }, async () => 'done'))
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
  const { plane } = await start(t, [], { agents: [hand, oneAgent('boss', (ctx) => commission(ctx), ['hand'])], config: bounded({ max_concurrent_runs: 1 }) })
  const { run } = await plane.run({ capability: 'boss.do', input: null, actor: 'ann' })
  t.equal(await over(plane, run), 'succeeded')
})

t.test('several that are commissioned begin as there is room for them', async (t) => {
  const boss = oneAgent('boss', (ctx) => Promise.all([commission(ctx), commission(ctx), commission(ctx)]), ['hand'])
  const { plane } = await start(t, [], { agents: [hand, boss], config: bounded({ max_concurrent_runs: 1 }) })
  const { run } = await plane.run({ capability: 'boss.do', input: null, actor: 'ann' })
  t.equal(await over(plane, run), 'succeeded')
  t.match(await plane.replay(run), { divergences: [], output: ['done', 'done', 'done'] })
})

/** @returns what places halts in the plane of a node. */
function steering() {
  const { plugin, service } = handOut<AgentPlanes>(AGENT_PLANES)
  const plane = (tenant = 'default') => service().find(tenant) as OperatedPlane
  return { plugin, plane, halts: () => plane().halts as HaltOperations }
}

t.test('a halt keeps runs from being commissioned, and does not touch the one that commissions', async (t) => {
  const { plugin, halts } = steering()
  const agents = [hand, oneAgent('boss', (ctx) => commission(ctx), ['hand']), oneAgent('hasty', (ctx) => commission(ctx, 200), ['hand'])]
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

t.test('a signal that may begin no run yet is kept until it may: neither its triggers nor other agents wait for it', async (t) => {
  const { plugin, halts, plane: planeOf } = steering()
  const handed = handOut<SignalSink>(SIGNAL_SINK)
  let free = (): void => {}
  const gate = new Promise<void>((resolve) => {
    free = resolve
  })
  const busy = oneAgent('busy', (ctx) =>
    ctx.effect({ kind: 'work', args: null, mutates: false }, async () => {
      await gate
      return null
    }),
  )
  const rule = (trigger: string, more = {}) => ({ trigger, capability: 'hand.do', ...more })
  const on_signal = [rule('full'), rule('other', { tenant: 'acme' }), rule('idle', { capability: 'idle.do' }), { trigger: 'missing', capability: 'none.do' }]
  const { plane, node } = await start(t, [], {
    agents: [hand, busy, oneAgent('idle', async () => null)],
    plugins: [plugin, handed.plugin],
    config: {
      agent_plane: { sweep_interval_secs: 0.1, quota: { max_concurrent_runs: 1 }, on_signal, tenants: ['acme'], max_waiting_signals: 2 },
    },
  })
  const signal = (trigger_name: string, id = trigger_name) =>
    ({ event_id: `id-${id}`, trigger_name, measurement: 'disk', tags: {}, timestamp: '1', value: 1 }) as unknown as TriggerSignal
  const take = (...signals: TriggerSignal[]) => handed.service().take('default', signals)
  const all = () => take(...['full', 'missing', 'other'].map((name) => signal(name)))
  const begun = async (tenant = 'default') => (await planeOf(tenant).runs.list('succeeded', 10)).rows.length
  const metric = async (name: string) => Number(new RegExp(`^svc_agent_plane_${name} (\\d+)`, 'm').exec((await node.inject('/metrics')).body)?.[1])
  const { run } = await plane.run({ capability: 'busy.do', input: null, actor: 'ann' })
  await all()
  await all()
  await until('one waits for room, and is kept once', async () => (await metric('waiting_signals')) === 1)
  await until('that of the other tenant has begun', async () => (await begun('acme')) === 1)
  t.equal(await begun(), 0)
  free()
  t.equal(await plane.settled(run), 'succeeded')
  await until('it begins when there is room', async () => (await begun()) === 2)
  await halts().place('agent:hand', 'to look at it', OPERATOR)
  await take(signal('full', '2'), signal('full', '3'), signal('full', '4'))
  await until('so many wait as may', async () => (await metric('waiting_signals')) === 2 && (await metric('dropped_signals_total')) === 1)
  await take(signal('idle'))
  await until('an agent that is not halted begins', async () => (await begun()) === 3)
  await halts().lift('agent:hand', OPERATOR)
  await until('each of those that were kept begins', async () => (await begun()) === 5)
  await until('none is left', async () => (await metric('waiting_signals')) === 0)
  await all()
  t.equal(await begun(), 5, 'what has begun begins once')
})
