/** Plans with nodes of agents: one declaration governs a run, whichever of its nodes is the agent's. */
import { type Agent, type AgentManifest, defineAgent, type Json, type PlanNode, type Skill, type StepContext } from 'svcdb/agents'
import { Type } from 'svcdb/lib/schema'
import t from 'tap'
import type { DriverTools } from '../drive/driver.ts'
import { controlled, skill } from '../testing/control.ts'
import { limitsOf } from './limits.ts'
import { AgentRegistry } from './registry.ts'

const EVE = { actor: 'eve', basis: 'asserted' } as const

function agent(name: string, budgets: AgentManifest['spec']['budgets'] = {}, version = '1'): Agent {
  const manifest: AgentManifest = {
    apiVersion: 'svc/v1alpha1',
    kind: 'Agent',
    metadata: { name, version },
    spec: { capabilities: { provides: [`${name}.do`] }, budgets },
  }
  const invoke = async (ctx: StepContext) => {
    for (let i = 0; i < 3; i++) await ctx.effect({ kind: 'look', args: i, mutates: false }, async () => null)
    return name
  }
  return defineAgent({
    manifest,
    skills: (skill) => [skill({ capability: `${name}.do`, summary: 'Of a test', input: Type.Any(), output: Type.Any(), invoke })],
  })
}

/** What a process knows of agents. */
function knowing(agents: readonly Agent[], others: readonly Skill[]): Partial<DriverTools> {
  const registry = new AgentRegistry(new Map(others.map((one) => [one.capability, one])))
  for (const one of agents) registry.add(one)
  return {
    skills: registry.skills,
    governing: (capability) => registry.governing(capability),
    limitsOf: (capability) => limitsOf(registry.of(capability)),
  }
}

const plain = skill('plain', async () => 'plain')
const change = skill('change', async (ctx, input) => {
  const { keep } = input as { keep: string[] }
  const more: PlanNode = { id: 'more', capability: 'seller.do', depends_on: ['change'], terminal: true }
  return ctx.replan([...keep, 'change', more], 'on second thoughts').catch((error: Error): Json => error.message)
})
const changing = (...keep: string[]): PlanNode => ({
  id: 'change',
  capability: 'change',
  depends_on: keep,
  terminal: true,
  args: { keep: { from: 'const', value: keep } },
})
/** The agent's node is not the one that gives what the run gives. */
const plan: PlanNode[] = [
  { id: 'sell', capability: 'seller.do' },
  { id: 'last', capability: 'plain', depends_on: ['sell'], terminal: true },
]

t.test('the agent of any node governs the run: its limits, its declaration, and halts of it', async (t) => {
  const { driver, run, records } = await controlled([])
  const bounded = agent('seller', { max_effects: 2 })
  const one = driver(knowing([bounded], [plain]))
  const begun = await run(one, '', { plan, capability: undefined } as never)
  t.match(await records(begun.run, 'RunAdmitted'), [{ payload: { capability: 'plain', governed_by: { name: 'seller', digest: bounded.digest } } }])
  t.equal(begun.status, 'exhausted', 'by the manifest')
  const other = driver(knowing([agent('seller', {}, '2')], [plain]))
  t.equal(await other.resume(begun.run), 'quarantined', 'it is declared otherwise now')
  await one.halt('agent:seller', 'to look at it', EVE)
  await t.rejects(run(one, '', { plan, capability: undefined } as never), { code: 'FORBIDDEN', message: /"agent:seller" is halted/ })
})

t.test('a plan has the nodes of one agent: others are commissioned', async (t) => {
  const { driver, run, records } = await controlled([])
  const one = driver(knowing([agent('seller'), agent('buyer')], [plain, change]))
  const both: PlanNode[] = [
    { id: 'buy', capability: 'buyer.do' },
    { id: 'sell', capability: 'seller.do', depends_on: ['buy'], terminal: true },
  ]
  await t.rejects(run(one, '', { plan: both, capability: undefined } as never), {
    code: 'BAD_REQUEST',
    message: /of the agents "buyer" and "seller".*commission/,
  })
  const replanning: PlanNode[] = [{ id: 'buy', capability: 'buyer.do' }, changing('buy')]
  for (const [plan, why] of [
    [replanning, /node "more" is of the agent "seller", and the run is governed by "buyer".*commission/],
    [[changing()], /node "more" is of the agent "seller", and the run is governed by no agent.*commission/],
  ] as const) {
    const { run: id, status } = await run(one, '', { plan: [...plan], capability: undefined } as never)
    t.equal(status, 'succeeded')
    t.match((await one.replay(id)).output, why)
    t.equal((await records(id, 'PlanFrozen')).length, 1)
  }
  const own = driver(knowing([agent('seller')], [plain, change]))
  const first: PlanNode[] = [{ id: 'sell', capability: 'seller.do' }, changing('sell')]
  const same = await run(own, '', { plan: first, capability: undefined } as never)
  t.equal(same.status, 'succeeded')
  t.equal((await records(same.run, 'PlanFrozen')).length, 2, 'its own may come later')
})
