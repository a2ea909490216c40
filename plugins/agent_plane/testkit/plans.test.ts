/** Plans that are replaced while their run goes on, and steps that verify. */
import { defineAgent, defineSkill, type Json, type PlanNode, type Skill, type StepContext } from 'svcdb/agents'
import { AgentRunner, crashEverywhere } from 'svcdb/agents/testkit'
import { Type } from 'svcdb/lib/schema'
import t from 'tap'

type Invoke = (ctx: StepContext, input: Record<string, Json>) => Promise<Json>
const skill = (capability: string, invoke: Invoke, more: Partial<Skill> = {}) =>
  defineSkill({ capability, summary: 'Of a test', input: Type.Any(), output: Type.Any(), ...more, invoke } as never)
const node = (id: string, capability = id, more: Partial<PlanNode> = {}): PlanNode => ({ id, capability, ...more })
const kindsOf = async (runner: AgentRunner, run: string, kind: string) => (await runner.journal(run)).filter((one) => one.kind === kind)

/** What was done outside, and undone. */
function world() {
  const done: string[] = []
  const once = (ctx: StepContext, what: string) =>
    ctx.effect({ kind: 'do', args: what, mutates: true, recovery: 'idempotent' }, async ({ idempotencyKey }) => {
      if (!done.includes(`${what} ${idempotencyKey}`)) done.push(`${what} ${idempotencyKey}`)
      return what
    })
  const work = skill('work', (ctx, { what = 'work' }) => once(ctx, what as string), {
    compensate: async (ctx: StepContext, { what = 'work' }: Record<string, Json>) => void (await once(ctx, `-${what}`)),
  } as never)
  return { work, done: () => done.map((one) => one.split(' ')[0]) }
}

const args = (what: string): PlanNode['args'] => ({ what: { from: 'const', value: what } })

t.test('a step replaces the rest of the plan, wherever the process dies', async (t) => {
  const worlds: ReturnType<typeof world>[] = []
  const options = () => {
    const { work, done } = world()
    worlds.push({ work, done })
    const change = skill('change', async (ctx) => {
      const version = await ctx.replan(
        ['first', 'change', node('third', 'work', { depends_on: ['change'], terminal: true, args: args('third') })],
        'the second is not needed',
      )
      return { version }
    })
    return { skills: [work, change] }
  }
  const plan = [
    node('first', 'work', { args: args('first') }),
    node('change', 'change', { depends_on: ['first'] }),
    node('second', 'work', { depends_on: ['change'], terminal: true, args: args('second') }),
  ]
  await crashEverywhere(options, async (runner) => {
    const { run, status, output } = await runner.plan(plan, {})
    t.same([status, output], ['succeeded', 'third'])
    t.same(worlds.at(-1)?.done(), ['first', 'third'], 'each once, and the second not at all')
    t.same(await runner.replay(run), [])
    const [one, two, ...more] = await kindsOf(runner, run, 'PlanFrozen')
    t.same(more, [])
    t.match(two, { step: 2, payload: { steps: ['first', 'change', 'third'], plan: { version: 2, reason: 'the second is not needed' } } })
    t.equal((two.payload.plan as { derived_from: string }).derived_from, (one.payload.plan as { digest: string }).digest)
    t.same(
      (await kindsOf(runner, run, 'StepStarted')).map(({ step }) => step),
      [1, 2, 4],
      'a number stands for one step, for good',
    )
  })
})

t.test('a plan that cannot be used is refused, and the one in force stays', async (t) => {
  let asked: { nodes: (PlanNode | string)[]; reason?: string } = { nodes: [] }
  const change = skill('change', async (ctx) => {
    const refused = await ctx.replan(asked.nodes, asked.reason ?? 'why not').catch((error: Error) => error.message)
    return { refused }
  })
  const { work } = world()
  const last = node('last', 'work', { depends_on: ['change'], terminal: true })
  for (const [nodes, reason, why] of [
    [[], 'x', /it is empty/],
    [['change', 'gone'], 'x', /no node "gone" that could stay/],
    [['change'], 'x', /no node is terminal/],
    [['change', 'last', node('change')], 'x', /two nodes are called "change"/],
    [[node('change', 'work', { terminal: true })], 'x', /node "change" has begun, and is another one/],
    [['change', node('new', 'nothing.here', { terminal: true })], 'x', /nothing here has the capability "nothing.here"/],
    [['change', 'last'], ' ', /its reason has 1 to/],
  ] as const) {
    asked = { nodes: [...nodes], reason }
    const runner = await AgentRunner.create({ skills: [change, work] })
    const { run, output, status } = await runner.plan([node('change'), last], {})
    t.same([status, output], ['succeeded', 'work'], String(why))
    const ended = (await kindsOf(runner, run, 'EffectFailed'))[0]
    t.match(ended?.payload, { error: why, disposition: 'did_not_happen' })
    t.equal((await kindsOf(runner, run, 'PlanFrozen')).length, 1)
    t.same(await runner.replay(run), [])
  }
  const runner = await AgentRunner.create({ skills: [change, work] })
  asked = { nodes: ['change', 'last', node('more', 'work', { terminal: true })] }
  const chain = [{ id: 'ann', scope: ['change', 'work'] }]
  t.match(await runner.plan([node('change'), last], {}, { chain }), { status: 'succeeded', output: { last: 'work', more: 'work' } })
  const narrow = skill(
    'narrow',
    async (ctx) => (await ctx.replan([node('more', 'work', { terminal: true })], 'x').catch((error: Error) => error.message)) as Json,
  )
  const bound = await AgentRunner.create({ skills: [narrow, work] })
  t.match(await bound.run('narrow', {}, { chain: [{ id: 'ann', scope: ['narrow'] }] }), { output: /the scope of "ann" does not cover "work"/ })
})

t.test('what is left out is not waited for, and what it has done is undone with the rest', async (t) => {
  const { work, done } = world()
  const slow = skill(
    'slow',
    async (ctx) => {
      await ctx.effect({ kind: 'do', args: 'slow', mutates: true, recovery: 'idempotent' }, async () => null)
      await ctx.sleep(1e9)
      return null
    },
    {
      compensate: async (ctx: StepContext) => void (await ctx.effect({ kind: 'undo', args: 'slow', mutates: true, recovery: 'idempotent' }, async () => null)),
    } as never,
  )
  const change = skill('change', async (ctx, { fails }) => {
    const after =
      fails === true ? [node('bad', 'bad', { terminal: true, depends_on: ['change'] })] : [node('end', 'work', { terminal: true, depends_on: ['change'] })]
    return ctx.replan(['change', ...after], 'do not wait')
  })
  const bad = skill('bad', async () => {
    throw new Error('it went wrong')
  })
  const plan = [node('slow'), node('change'), node('join', 'work', { depends_on: ['slow', 'change'], terminal: true })]
  const runner = await AgentRunner.create({ skills: [work, slow, change, bad] })
  t.match(await runner.plan(plan, {}), { status: 'succeeded', output: 'work' })
  t.same(done(), ['work'])
  const failed = await runner.plan(plan, { fails: true })
  t.match(failed, { status: 'failed', reason: 'it went wrong' })
  t.match(
    failed.effects.filter(({ phase }) => phase === 'compensating'),
    [{ kind: 'undo', outcome: 'done' }],
  )
  t.match(await kindsOf(runner, failed.run, 'StepCompensated'), [{ step: 2, payload: { compensation: 'slow' } }])
})

t.test('replanning is bounded', async (t) => {
  const agent = defineAgent({
    manifest: {
      apiVersion: 'svc/v1alpha1',
      kind: 'Agent',
      metadata: { name: 'fickle', version: '1' },
      spec: { capabilities: { provides: ['fickle'] }, budgets: { max_replans: 2 } },
    },
    skills: (define) => [
      define({
        capability: 'fickle',
        summary: 'Of a test',
        input: Type.Any(),
        output: Type.Any(),
        async invoke(ctx) {
          for (let i = 0; i < 3; i++) await ctx.replan(['only'], `change ${i}`)
          return null
        },
      }),
    ],
  })
  const runner = await AgentRunner.create({ agents: [agent] })
  const { run, status } = await runner.run('fickle', null)
  t.equal(status, 'exhausted')
  t.match((await kindsOf(runner, run, 'RunConcluded'))[0].payload, { exhaustion: { limit: 'replans', allowed: 2 } })
  t.match(await kindsOf(runner, run, 'BudgetRefused'), [{ payload: { limit: 'replans' } }])
})

t.test('what a step that verifies does not let pass fails the run, and is undone', async (t) => {
  const { work, done } = world()
  const look = skill('look', async (_ctx, { n, want }) => ({ passed: n === want, reason: `${n} is not ${want}` }))
  const plan = (want: string): PlanNode[] => [
    node('make', 'work', { args: args('made') }),
    node('look', 'look', {
      depends_on: ['make'],
      verifies: true,
      terminal: true,
      args: { n: { from: 'node', node: 'make' }, want: { from: 'const', value: want } },
    }),
  ]
  const runner = await AgentRunner.create({ skills: [work, look] })
  t.match(await runner.plan(plan('made'), {}, { topology: 'collaborative' }), { status: 'succeeded', output: { passed: true } })
  t.match(await runner.plan(plan('other'), {}), { status: 'failed', reason: /node "look" verifies, and it has not passed: made is not other/ })
  t.same(done(), ['made', 'made', '-made'])
  const mute = skill('mute', async () => 'fine')
  const silent = await AgentRunner.create({ skills: [work, mute] })
  t.match(await silent.plan([node('make', 'work'), node('look', 'mute', { depends_on: ['make'], verifies: true, terminal: true })], {}), {
    status: 'failed',
    reason: /did not say whether it has passed/,
  })
  const refused = (nodes: PlanNode[], why: RegExp, topology: 'dag' | 'collaborative' = 'dag') =>
    t.rejects(runner.plan(nodes, {}, { topology }), { code: 'BAD_REQUEST', message: why })
  await refused([node('make', 'work', { terminal: true })], /no node verifies what they give/, 'collaborative')
  await refused([node('look', 'look', { verifies: true, terminal: true })], /depends on nothing that it could look at/)
  await refused([node('make', 'work', { terminal: true, quorum: { need: 1, lenses: ['a'] } })], /goes with verifies/)
  for (const [quorum, why] of [
    [{ need: 1, lenses: ['a', 'b'] }, /more than half of its 2/],
    [{ need: 3, lenses: ['a', 'b'] }, /more than half of its 2/],
    [{ need: 2, lenses: ['a', 'a'] }, /a lens twice/],
    [{ need: 1, lenses: [] }, /1 to 16 lenses/],
  ] as const)
    await refused(
      [node('make', 'work'), node('look', 'look', { depends_on: ['make'], verifies: true, terminal: true, quorum: { ...quorum, lenses: [...quorum.lenses] } })],
      why,
    )
})

t.test('a quorum looks from several sides; where they do not agree, a person decides', async (t) => {
  const { work } = world()
  const looks: string[] = []
  const look = skill('look', async (ctx, { lens, says }) => {
    await ctx.note(`by ${lens}`)
    looks.push(lens as string)
    return { passed: (says as string[]).includes(lens as string), reason: `as seen by ${lens}` }
  })
  const plan = (...says: string[]): PlanNode[] => [
    node('make', 'work'),
    node('look', 'look', {
      depends_on: ['make'],
      verifies: true,
      terminal: true,
      quorum: { need: 3, lenses: ['sums', 'law', 'style', 'taste'] },
      args: { says: { from: 'const', value: says } },
    }),
  ]
  const runner = await AgentRunner.create({ skills: [work, look] })
  t.match(await runner.plan(plan('sums', 'law', 'style'), {}), { status: 'succeeded', output: { passed: true, verdicts: { length: 4 } } })
  t.same([...new Set(looks)], ['sums', 'law', 'style', 'taste'])
  t.match(await runner.plan(plan('taste'), {}), { status: 'failed', reason: /not passed: as seen by sums/ })
  const split = await runner.plan(plan('sums', 'law'), {})
  t.equal(split.status, 'suspended')
  t.match(await runner.decide(split.run, { approved: true, by: 'bob' }), { status: 'succeeded', output: { passed: true, decided_by: 'bob' } })
  t.same(await runner.replay(split.run), [])
  const rejected = await runner.plan(plan('sums', 'law'), {})
  t.match(await runner.decide(rejected.run, { approved: false, by: 'bob' }), { status: 'failed', reason: /bob has not let it pass/ })
})

t.test('a run that is undone waits for what undoing waits for, and no longer for what its steps did', async (t) => {
  const done: string[] = []
  const act = (ctx: StepContext, what: string) => ctx.effect({ kind: 'do', args: what, mutates: true, recovery: 'idempotent' }, async () => done.push(what))
  const slow = skill('slow', (ctx) => act(ctx, 'did'), {
    async compensate(ctx: StepContext) {
      await ctx.sleep(7_200_000)
      await act(ctx, 'undid')
    },
  } as never)
  const nap = skill('nap', async (ctx) => {
    await ctx.sleep(3_600_000)
    return null
  })
  const bad = skill('bad', async () => {
    throw new Error('it went wrong')
  })
  const runner = await AgentRunner.create({ skills: [slow, nap, bad] })
  const plan = [node('slow'), node('nap', 'nap', { depends_on: ['slow'] }), node('bad', 'bad', { depends_on: ['slow'], terminal: true })]
  const { run, status } = await runner.plan(plan, {})
  t.equal(status, 'suspended')
  await runner.advance(3_600_001)
  t.equal((await runner.report(run)).status, 'suspended', 'the nap is over, and nobody asks for it')
  await runner.advance(3_600_001)
  t.match(await runner.report(run), { status: 'failed', reason: 'it went wrong' })
  t.same(done, ['did', 'undid'])
  t.same(await runner.replay(run), [])
})

t.test('a stop that comes while a failed run is undone is seen, and it is undone once', async (t) => {
  const done: string[] = []
  const act = (ctx: StepContext, what: string) => ctx.effect({ kind: 'do', args: what, mutates: true, recovery: 'idempotent' }, async () => done.push(what))
  const held: { runner?: AgentRunner } = {}
  const slow = skill('slow', (ctx) => act(ctx, 'did'), {
    async compensate(ctx: StepContext) {
      // It comes while this goes on, and before the run waits.
      await ctx.effect({ kind: 'ask', args: null, mutates: false }, async () => {
        await held.runner?.requestCancel(ctx.run)
        return null
      })
      await ctx.sleep(7_200_000)
      await act(ctx, 'undid')
    },
  } as never)
  const bad = skill('bad', async () => {
    throw new Error('it went wrong')
  })
  held.runner = await AgentRunner.create({ skills: [slow, bad] })
  const { run, status } = await held.runner.plan([node('slow'), node('bad', 'bad', { depends_on: ['slow'], terminal: true })], {})
  t.equal(status, 'suspended')
  await held.runner.advance(7_200_001)
  t.match(await held.runner.report(run), { status: 'cancelled', reason: 'the test says so' })
  t.same(done, ['did', 'undid'])
})
