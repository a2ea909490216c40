/** Runs that an agent commissions, when the run that does is undone. */
import { type AgentContext, type AgentManifest, type AnyTool, defineAgent, defineTool, type Json } from 'svcdb/agents'
import { AgentRunner, crashEverywhere, type RunReport } from 'svcdb/agents/testkit'
import { Type } from 'svcdb/lib/schema'
import t from 'tap'

const DAY = 86_400_000
const closed = { additionalProperties: false }
const manifest = (name: string, commissions: string[] = []): AgentManifest => ({
  apiVersion: 'svc/v1alpha1',
  kind: 'Agent',
  metadata: { name, version: '1' },
  spec: { capabilities: { provides: [`${name}.do`] }, security: { commissions }, budgets: {} },
})

/** A shop that knows a repeated call by its key, and says in what order it was called. */
function shop() {
  const made: string[] = []
  const known = new Set<string>()
  const act = <R extends string>(ref: R, sign: string) =>
    defineTool({
      ref,
      description: 'Of a test',
      arguments: Type.Object({ what: Type.String() }, closed),
      mutates: true,
      recovery: 'idempotent',
      async call({ what }, { idempotencyKey }) {
        if (!known.has(idempotencyKey)) made.push(sign + what)
        known.add(idempotencyKey)
        return null
      },
    })
  return { made, tools: [act('tool://shop/buy', '+'), act('tool://shop/back', '-')] as const }
}

type Tools = ReturnType<typeof shop>['tools']
type Does = (ctx: AgentContext<Tools>) => Promise<Json>

/** Buys what it is called after, does the rest, and brings that back when it is undone. */
function agent(name: string, tools: Tools, rest: Does, commissions: string[] = [], undo = true) {
  return defineAgent({
    manifest: manifest(name, commissions),
    tools,
    skills: (skill) => [
      skill({
        capability: `${name}.do`,
        summary: 'Of a test',
        input: Type.Null(),
        output: Type.Any(),
        async invoke(ctx) {
          await ctx.callTool('tool://shop/buy', { what: name })
          return rest(ctx)
        },
        ...(undo
          ? {
              async compensate(ctx: AgentContext<Tools>) {
                await ctx.callTool('tool://shop/back', { what: name })
              },
            }
          : {}),
      }),
    ],
  })
}

const commission =
  (name: string, withinMs = DAY): Does =>
  (ctx) =>
    ctx.commission({ capability: `${name}.do`, input: null, withinMs })
const waits: Does = async (ctx) => (await ctx.awaitEvent({ kind: 'go', correlation: [], withinMs: DAY })).payload

const childOf = async (runner: AgentRunner, { effects }: RunReport): Promise<RunReport> =>
  runner.report(effects.find(({ kind }) => kind === 'agent.commission')?.output as string)

t.test('a run that is cancelled has those stopped and undone that it has commissioned, before anything of its own, wherever the process dies', async (t) => {
  const shops: ReturnType<typeof shop>[] = []
  const options = () => {
    const own = shop()
    shops.push(own)
    const make = (name: string, rest: Does, commissions: string[] = []) => agent(name, own.tools, rest, commissions)
    return { agents: [make('boss', commission('hand'), ['hand']), make('hand', commission('finger'), ['finger']), make('finger', waits)] }
  }
  await crashEverywhere(options, async (runner, crash) => {
    const at = JSON.stringify(crash)
    const begun = await runner.run('boss.do', null)
    t.equal(begun.status, 'suspended', at)
    const boss = await runner.cancel(begun.run, 'not wanted')
    const hand = await childOf(runner, boss)
    const finger = await childOf(runner, hand)
    t.same(
      [boss, hand, finger].map(({ status }) => status),
      ['cancelled', 'cancelled', 'cancelled'],
      at,
    )
    t.same(shops.at(-1)?.made, ['+boss', '+hand', '+finger', '-finger', '-hand', '-boss'], at)
    t.match(hand.reason, `the run ${boss.run} that has commissioned it was cancelled: not wanted`)
    t.match((await runner.journal(finger.run)).find(({ kind }) => kind === 'RunCancelled')?.payload, { actor: { actor: 'tester', basis: 'asserted' } })
    t.match(await runner.deliver({ kind: 'go', payload: null }), { delivery: 'buffered' }, 'nobody waits')
    for (const { run } of [boss, hand, finger]) t.same(await runner.replay(run), [], at)
  })
})

t.test('what was commissioned and has succeeded stands: whoever commissioned it must undo it', async (t) => {
  for (const undo of [true, false]) {
    const { made, tools } = shop()
    const both: Does = async (ctx) => [await commission('hand')(ctx), await waits(ctx)]
    const runner = await AgentRunner.create({ agents: [agent('boss', tools, both, ['hand'], undo), agent('hand', tools, async () => 'done')] })
    const { run } = await runner.run('boss.do', null)
    const boss = await runner.cancel(run)
    t.equal((await childOf(runner, boss)).status, 'succeeded')
    t.match(boss, undo ? { status: 'cancelled' } : { status: 'quarantined', reason: /nothing says how to undo it/ })
    t.same(made, ['+boss', '+hand', ...(undo ? ['-boss'] : [])])
  }
})

t.test('a run that fails stops what it has commissioned and does not wait for any more', async (t) => {
  const { made, tools } = shop()
  const late = commission('hand', 1000)
  const fails: Does = async (ctx) => {
    void commission('hand')(ctx)
    await ctx.callTool('tool://shop/buy', { what: 'rest' })
    throw new Error('not today')
  }
  const runner = await AgentRunner.create({
    agents: [agent('boss', tools, late, ['hand']), agent('rash', tools, fails, ['hand']), agent('hand', tools, waits)],
  })
  const begun = await runner.run('boss.do', null)
  await runner.advance(2000)
  const boss = await runner.report(begun.run)
  t.match(boss, { status: 'failed', reason: /no event "svc.run.concluded" has come/ })
  t.match(await childOf(runner, boss), { status: 'cancelled', reason: /has failed: no event/ })
  t.same(made.splice(0), ['+boss', '+hand', '-hand', '-boss'])
  const rash = await runner.run('rash.do', null)
  t.match(rash, { status: 'failed', reason: 'not today' })
  t.match(await childOf(runner, rash), { status: 'cancelled' })
  t.same(made, ['+rash', '+rest', '-rash'], 'it was stopped before its first step')
})

t.test('where nothing but the commission is to be undone, nothing else is asked of the skill', async (t) => {
  const { made, tools } = shop()
  const bare = defineAgent({
    manifest: manifest('bare', ['hand']),
    skills: (skill) => [
      skill({
        capability: 'bare.do',
        summary: 'Of a test',
        input: Type.Null(),
        output: Type.Any(),
        invoke: (ctx) => ctx.commission({ capability: 'hand.do', input: null, withinMs: DAY }),
      }),
    ],
  })
  const sad = agent('sad', tools, () => Promise.reject(new Error('no')))
  const asks = defineAgent({
    manifest: manifest('asks', ['sad']),
    skills: (skill) => [
      skill({
        capability: 'asks.do',
        summary: 'Of a test',
        input: Type.Null(),
        output: Type.Any(),
        invoke: (ctx) => ctx.commission({ capability: 'sad.do', input: null, withinMs: DAY }),
      }),
    ],
  })
  const runner = await AgentRunner.create({ agents: [bare, agent('hand', tools, waits), sad, asks] })
  const { run } = await runner.run('bare.do', null)
  t.equal((await runner.cancel(run)).status, 'cancelled')
  t.same(made.splice(0), ['+hand', '-hand'])
  t.match(await runner.run('asks.do', null), { status: 'failed', reason: /is failed: no$/ }, 'what has failed was undone')
  t.same(made, ['+sad', '-sad'])
})

t.test('one that nobody can undo is for a person, and the run that has commissioned it waits', async (t) => {
  const { made, tools } = shop()
  const runner = await AgentRunner.create({
    agents: [agent('boss', tools, commission('hand'), ['hand']), agent('hand', tools as readonly AnyTool[] as Tools, waits, [], false)],
  })
  const { run } = await runner.run('boss.do', null)
  const boss = await runner.cancel(run)
  t.match(boss, { status: 'suspended', waiting_for: /svc\.run\.over/ })
  const hand = await childOf(runner, boss)
  t.match(hand, { status: 'quarantined', reason: /nothing says how to undo it/ })
  t.equal((await runner.endQuarantine(hand.run, 'abandon')).status, 'abandoned')
  t.match(await runner.report(run), { status: 'cancelled' }, 'its own skill says how it is undone')
  t.same(made, ['+boss', '+hand', '-boss'])
})

t.test('several that are commissioned at one time are waited for together, wherever the process dies', async (t) => {
  const options = () => {
    const { tools } = shop()
    const all: Does = (ctx) => Promise.all(['one', 'two', 'three'].map((name) => commission(name)(ctx)))
    const names = ['one', 'two', 'three']
    return { agents: [agent('boss', tools, all, names), ...names.map((name) => agent(name, tools, async () => name))] }
  }
  await crashEverywhere(options, async (runner, crash) => {
    const { run, status, output } = await runner.run('boss.do', null)
    t.same({ status, output }, { status: 'succeeded', output: ['one', 'two', 'three'] }, JSON.stringify(crash))
    t.same(await runner.replay(run), [])
  })
})
