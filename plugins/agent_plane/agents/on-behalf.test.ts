/** For whom a commissioned run acts: for all that the one acts for that commissions it, and whoever asked for that. */
import { AgentRunner } from 'svcdb/agents/testkit'
import t from 'tap'
import { oneAgent } from '../testing/one-agent.ts'

const HOUR = 3_600_000

const asks = oneAgent('hand', async (ctx) => ({ ...(await ctx.task({ kind: 'ask', summary: 'May I?', proposed_action: null, withinMs: HOUR })) }))
const boss = oneAgent('boss', (ctx) => ctx.commission({ capability: 'hand.do', input: null, withinMs: HOUR }), ['hand'])

t.test('who asked for a run for somebody else does not decide tasks of what it commissions', async (t) => {
  const runner = await AgentRunner.create({ agents: [boss, asks] })
  const chain = [{ id: 'customer-7', scope: ['*'] }]
  const { run } = await runner.run('boss.do', null, { actor: 'ann', chain })
  const child = (await runner.report(run)).effects.find(({ kind }) => kind === 'agent.commission')?.output as string
  const [admitted, bound] = ['RunAdmitted', 'IdentityBound'].map(async (kind) => (await runner.journal(child)).find((one) => one.kind === kind)?.payload)
  t.match(await admitted, { admitted_by: 'ann' })
  t.match(await bound, { chain: [{ id: 'customer-7' }, { id: 'agent:boss' }] })
  for (const by of ['ann', 'customer-7']) await t.rejects(runner.decide(child, { approved: true, by }), { code: 'FORBIDDEN' }, by)
  t.match(await runner.decide(child, { approved: true, by: 'eve' }), { status: 'succeeded' })
  t.match(await runner.report(run), { status: 'succeeded' })
})
