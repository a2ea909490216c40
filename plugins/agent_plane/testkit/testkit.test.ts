import { type AgentManifest, defineAgent, defineSkill, defineTool, type FakeReply, type Json } from 'svcdb/agents'
import { AgentRunner, crashEverywhere } from 'svcdb/agents/testkit'
import { Type } from 'svcdb/lib/schema'
import t from 'tap'

const closed = { additionalProperties: false }
const manifest = (name: string, more: object = {}): AgentManifest => ({
  apiVersion: 'svc/v1alpha1',
  kind: 'Agent',
  metadata: { name, version: '1' },
  spec: { capabilities: { provides: [`${name}.do`] }, budgets: {}, ...more },
})

/** A shop outside: it knows a repeated order by its key. */
function shop() {
  const orders = new Map<string, string>()
  const made: string[] = []
  const act = (ref: 'tool://shop/order' | 'tool://shop/cancel') =>
    defineTool({
      ref,
      description: 'Of a test',
      arguments: Type.Object({ what: Type.String() }, closed),
      output: Type.String(),
      mutates: true,
      recovery: 'idempotent',
      async call({ what }, { idempotencyKey }) {
        if (!orders.has(idempotencyKey)) made.push(`${ref === 'tool://shop/order' ? '' : '-'}${what}`)
        orders.set(idempotencyKey, what)
        return `for ${what}`
      },
    })
  return { made, tools: [act('tool://shop/order'), act('tool://shop/cancel')] as const }
}

t.test('a skill is run in memory: its clock is moved, events come, and its effects are seen', async (t) => {
  const { made, tools } = shop()
  const agent = defineAgent({
    manifest: manifest('buyer'),
    tools,
    skills: (skill) => [
      skill({
        capability: 'buyer.do',
        summary: 'Orders when somebody agrees',
        input: Type.Object({ what: Type.String() }),
        output: Type.String(),
        async invoke(ctx, { what }) {
          await ctx.sleep(3_600_000)
          await ctx.awaitEvent({ kind: 'agreed', correlation: [{ namespace: 'item', value: what }], withinMs: 60_000 })
          return ctx.callTool('tool://shop/order', { what })
        },
      }),
    ],
  })
  const runner = await AgentRunner.create({ agents: [agent] })
  const begun = await runner.run('buyer.do', { what: 'tea' })
  t.match(begun, { status: 'suspended', waiting_for: /^sleeping until/ })
  await runner.advance(3_600_000)
  t.match(await runner.report(begun.run), { status: 'suspended', waiting_for: /^awaiting agreed for item=tea/ })
  t.match(await runner.deliver({ kind: 'agreed', correlation: [{ namespace: 'item', value: 'tea' }], payload: null }), { delivery: 'resumed' })
  const done = await runner.report(begun.run)
  t.match(done, { status: 'succeeded', output: 'for tea' })
  t.match(
    done.effects.filter(({ kind }) => kind === 'tool.call'),
    [{ args: { tool: 'tool://shop/order', arguments: { what: 'tea' } }, outcome: 'done', attempts: 1 }],
  )
  t.same(made, ['tea'])
  t.same(await runner.replay(begun.run), [])
})

t.test('wherever the process dies, what was ordered is ordered once', async (t) => {
  const shops: ReturnType<typeof shop>[] = []
  const script: FakeReply[] = [{ tool_calls: [{ tool: 'tool://shop/order', arguments: { what: 'tea' } }] }, { output: { done: true } }]
  const options = () => {
    const own = shop()
    shops.push(own)
    const model = {
      execution: { kind: 'tool-calling', max_turns: 3 },
      models: { privileged: { provider: 'fake', model: 'one' } },
      output: { schema: { type: 'object' } },
    }
    return { agents: [defineAgent({ manifest: manifest('buyer', model), tools: own.tools, script })] }
  }
  const lives = await crashEverywhere(options, async (runner, crash) => {
    const { run, status, output } = await runner.run('buyer.do', null)
    t.same({ status, output }, { status: 'succeeded', output: { done: true } }, JSON.stringify(crash))
    t.same(shops.at(-1)?.made, ['tea'])
    t.same(await runner.replay(run), [])
  })
  t.ok(lives > 10)
})

t.test('a group is settled whole: what it did is undone, newest first, when it does not succeed', async (t) => {
  for (const fails of [false, true]) {
    const shops: ReturnType<typeof shop>[] = []
    const options = () => {
      const own = shop()
      shops.push(own)
      const agent = defineAgent({
        manifest: manifest('buyer'),
        tools: own.tools,
        skills: (skill) => [
          skill({
            capability: 'buyer.do',
            summary: 'Orders both or none',
            input: Type.Null(),
            output: Type.Any(),
            invoke: (ctx) =>
              ctx.group('both', ['shop:tea', 'shop:milk'], async (group) => {
                for (const what of ['tea', 'milk']) {
                  await ctx.callTool('tool://shop/order', { what })
                  group.undo(() => ctx.callTool('tool://shop/cancel', { what }))
                }
                if (fails) throw new Error('no sugar')
                return 'both'
              }),
          }),
        ],
      })
      return { agents: [agent] }
    }
    await crashEverywhere(options, async (runner, crash) => {
      const { run, status } = await runner.run('buyer.do', null)
      t.equal(status, fails ? 'failed' : 'succeeded', JSON.stringify(crash))
      t.same(shops.at(-1)?.made, fails ? ['tea', 'milk', '-milk', '-tea'] : ['tea', 'milk'])
      const settled = (await runner.journal(run)).filter(({ kind }) => kind === 'GroupSettled')
      t.match(settled, [{ payload: { group: 'both', outcome: fails ? 'aborted' : 'committed' } }])
    })
  }
})

t.test('an agent commissions another, waits for it, and no chain grows beyond its bound', async (t) => {
  const make = (name: string, next: string | undefined, does: (input: Json) => Json) =>
    defineAgent({
      manifest: manifest(name, { security: { commissions: next === undefined ? [] : [next] } }),
      skills: (skill) => [
        skill({
          capability: `${name}.do`,
          summary: 'Of a test',
          input: Type.Any(),
          output: Type.Any(),
          compensation: 'unnecessary',
          async invoke(ctx, input) {
            if (next === undefined) return does(input)
            const given = await ctx.commission({ capability: `${next}.do`, input, withinMs: 60_000 })
            return [name, given]
          },
        }),
      ],
    })
  const fail = (): Json => {
    throw new Error('not today')
  }
  const agents = [make('one', 'two', String), make('two', 'three', String), make('three', undefined, (input) => [input, 'done']), make('top', 'one', String)]
  const options = () => ({ agents: [...agents, make('sad', 'worker', String), make('worker', undefined, fail), make('rogue', undefined, fail)] })
  await crashEverywhere(options, async (runner, crash) => {
    const { run, status, output } = await runner.run('one.do', 7)
    t.same({ status, output }, { status: 'succeeded', output: ['one', ['two', [7, 'done']]] }, JSON.stringify(crash))
    t.same(await runner.replay(run), [])
  })
  const runner = await AgentRunner.create(options())
  t.match(await runner.run('sad.do', null), { status: 'failed', reason: /is failed: not today/ })
  t.match(await runner.run('top.do', 1), { status: 'failed', reason: /a chain has 3 principals at most/ })
  const [first] = (await runner.run('one.do', 1)).effects
  const child = await runner.journal(first.output as string)
  t.match(
    child.find(({ kind }) => kind === 'IdentityBound'),
    { payload: { chain: [{ id: 'tester', scope: ['*'] }, { id: 'agent:one' }] } },
  )
})

t.test('what an agent remembers it finds again in another run', async (t) => {
  const agent = defineAgent({
    manifest: manifest('counter'),
    skills: (skill) => [
      skill({
        capability: 'counter.do',
        summary: 'Counts its runs',
        input: Type.Null(),
        output: Type.Integer(),
        async invoke(ctx) {
          const count = (((await ctx.recall('runs')) as number | null) ?? 0) + 1
          await ctx.remember('runs', count)
          return count
        },
      }),
    ],
  })
  const runner = await AgentRunner.create({ agents: [agent] })
  t.match(await runner.run('counter.do', null), { output: 1 })
  const second = await runner.run('counter.do', null)
  t.match(second, { output: 2 })
  t.same(await runner.replay(second.run), [])
})

t.test('a skill sleeps until an instant, and not longer', async (t) => {
  const waker = defineSkill({
    capability: 'waker',
    summary: 'Wakes at a time',
    input: Type.Any(),
    output: Type.Any(),
    async invoke(ctx, { inMs }: { inMs: number }) {
      const began = await ctx.now()
      await ctx.sleepUntil(began + inMs)
      return (await ctx.now()) - began
    },
  })
  const runner = await AgentRunner.create({ skills: [waker] })
  const { run, status, waiting_for: waiting } = await runner.run('waker', { inMs: 3_600_000 })
  t.match([status, waiting], ['suspended', /^sleeping until \d{4}-\d\d-\d\dT/])
  await runner.advance(3_599_000)
  t.equal((await runner.report(run)).status, 'suspended', 'not before')
  await runner.advance(1000)
  t.match(await runner.report(run), { status: 'succeeded', output: 3_600_000 })
  t.same(await runner.replay(run), [])
  t.match(await runner.run('waker', { inMs: -1 }), { status: 'succeeded' }, 'an instant that is over is no wait')
})
