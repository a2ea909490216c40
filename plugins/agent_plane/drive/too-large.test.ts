/** What fits into no record is an answer to the step that gave it: as a fault of the store it would have the run tried again for ever. */
import { defineSkill, type Json, type StepContext } from 'svcdb/agents'
import { Type } from 'svcdb/lib/schema'
import t from 'tap'
import { start } from '../testing/node.ts'
import { oneAgent } from '../testing/one-agent.ts'

const LARGE = 'x'.repeat(2 << 20)
const deep = (levels: number): Json => JSON.parse('['.repeat(levels) + ']'.repeat(levels))
const HALF = '\ud83d'
const TOO_MANY = /bytes are more than the 1032192 of a record/

const steps: Record<string, { asks(ctx: StepContext): Promise<unknown>; said: RegExp }> = {
  'a large note': { asks: (ctx) => ctx.note(LARGE), said: TOO_MANY },
  'a note with half a character': { asks: (ctx) => ctx.note(HALF), said: /surrogate/ },
  'large arguments': { asks: (ctx) => ctx.effect({ kind: 'k', args: LARGE, mutates: false }, async () => 1), said: TOO_MANY },
  'deep arguments': {
    asks: (ctx) => ctx.effect({ kind: 'k', args: deep(600), mutates: false }, async () => 1),
    said: /nested more than 512 deep/,
  },
  'a large sink': { asks: (ctx) => ctx.sink({ kind: 'k', args: LARGE, accepts: 'secret' as never, mutates: false }, async () => 1), said: TOO_MANY },
  'a large key': {
    asks: (ctx) => ctx.awaitEvent({ kind: 'k', correlation: [{ namespace: 'n', value: LARGE }], withinMs: 10 }),
    said: TOO_MANY,
  },
}

for (const [name, { asks, said }] of Object.entries(steps))
  t.test(name, async (t) => {
    const skill = (capability: string, invoke: (ctx: StepContext) => Promise<Json>) =>
      defineSkill({ capability, summary: 'Of a test', input: Type.Any(), output: Type.Any(), invoke })
    const careless = skill('careless.do', async (ctx) => {
      await ctx.effect({ kind: 'before', args: 1, mutates: false }, async () => 1)
      await asks(ctx)
      return null
    })
    const careful = skill('careful.do', async (ctx) => {
      const error = await (async () => asks(ctx))().catch(({ message }: Error) => message)
      return [error as string, await ctx.effect({ kind: 'after', args: 1, mutates: true }, async () => 2)]
    })
    const { run, plane } = await start(t, [careless, careful])
    t.match(await run('careless.do', null), { status: 'failed', reason: said })
    const { run: id, ...done } = await run('careful.do', null)
    t.match(done, { status: 'succeeded', output: [said, 2] })
    t.match(await plane.replay(id), { status: 'succeeded', divergences: [], output: [said, 2] })
  })

t.test('a group that is too large for its record fails the step', async (t) => {
  const skill = defineSkill({
    capability: 'group.do',
    summary: 'Of a test',
    input: Type.Any(),
    output: Type.Any(),
    invoke: (ctx) => ctx.group('g', [LARGE], async () => null),
  })
  const { run } = await start(t, [skill])
  t.match(await run('group.do', null), { status: 'failed', reason: /cannot keep a record "GroupOpened": it has \d+ bytes/ })
})

t.test('an event that is nested too deep for a record is refused where it comes', async (t) => {
  const correlation = [{ namespace: 'n', value: 'v' }]
  const skill = defineSkill({
    capability: 'wait.do',
    summary: 'Of a test',
    input: Type.Any(),
    output: Type.Any(),
    invoke: (ctx) => ctx.awaitEvent({ kind: 'k', correlation, withinMs: 3_600_000 }).then(({ payload }) => payload),
  })
  const { plane } = await start(t, [skill])
  const { run } = await plane.run({ capability: 'wait.do', input: null, actor: 'me' })
  t.equal(await plane.settled(run), 'suspended')
  const deliver = (id: string, levels: number) => plane.deliver({ id, source: 's', kind: 'k', correlation, payload: deep(levels) })
  await t.rejects(deliver('a', 512), { code: 'BAD_REQUEST', message: /nested more than 512 deep/ })
  t.match(await deliver('b', 511), { delivery: 'resumed', run })
  t.equal(await plane.settled(run), 'succeeded')
})

const ends: Record<string, { does(): Promise<Json>; status?: string; said: RegExp }> = {
  // What it did stands, and nothing says how to undo it.
  'much that a commissioned run gives': { does: async () => LARGE, status: 'quarantined', said: TOO_MANY },
  'what a commissioned run gives that is nested deep': { does: async () => deep(512), status: 'quarantined', said: /nested more than 512 deep/ },
  'a long reason of a commissioned run': { does: () => Promise.reject(new Error(LARGE)), said: /"child.do" is failed: xxx/ },
  'half a character in the reason of one': { does: () => Promise.reject(new Error(HALF)), said: /"child.do" is failed: / },
}

for (const [name, { does, status: last = 'failed', said }] of Object.entries(ends))
  t.test(name, async (t) => {
    const child = oneAgent('child', does)
    const parent = oneAgent('parent', (ctx) => ctx.commission({ capability: 'child.do', input: null, withinMs: 60_000 }), ['child'])
    const { plane } = await start(t, [], { agents: [child, parent] })
    const { run } = await plane.run({ capability: 'parent.do', input: null, actor: 'me' })
    let status = ''
    while ((status = await plane.settled(run)) === 'suspended') await new Promise((resolve) => setTimeout(resolve, 20))
    t.match({ status, reason: (await plane.standing(run)).reason }, { status: last, reason: said })
  })
