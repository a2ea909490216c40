import { setImmediate as soon } from 'node:timers/promises'
import { defineSkill, type Json, type StepContext } from 'svcdb/agents'
import { AgentRunner, crashEverywhere } from 'svcdb/agents/testkit'
import { Type } from 'svcdb/lib/schema'
import t, { type Test } from 'tap'

/** Turns of the event loop that an effect of a branch takes. */
const LATENCIES: Record<string, number[]> = { a: [0, 5, 1], b: [3, 0, 0], c: [1, 1, 6] }

/** A skill of its own code, and what it has done outside. */
function skillOf(invoke: (context: StepContext, effect: (name: string, turns: number) => Promise<string>) => Promise<Json>) {
  const done = new Map<string, string>()
  const skill = defineSkill({
    capability: 'test.branch',
    summary: 'Does several things at one time',
    input: Type.Null(),
    output: Type.Any(),
    compensation: 'unnecessary',
    invoke: (context: StepContext) =>
      invoke(context, (name, turns) =>
        context.effect({ kind: `test.${name}`, args: null, mutates: true, recovery: 'idempotent' }, async ({ idempotencyKey }) => {
          for (let turn = 0; turn < turns; turn++) await soon()
          done.set(idempotencyKey, name)
          return `did ${name}`
        }),
      ),
  })
  return { skill, done: () => [...done.values()].sort() }
}

async function everywhere(t: Test, invoke: Parameters<typeof skillOf>[0], output: Json, effects: readonly string[]): Promise<void> {
  let last: ReturnType<typeof skillOf> | undefined
  const options = () => {
    last = skillOf(invoke)
    return { skills: [last.skill] }
  }
  await crashEverywhere(options, async (runner, crash) => {
    const report = await runner.run('test.branch', null)
    t.match(report, { status: 'succeeded', output }, JSON.stringify(crash))
    t.same(last?.done(), effects)
    t.same(await runner.replay(report.run), [])
  })
}

const names = Object.keys(LATENCIES).flatMap((branch) => [0, 1, 2].map((index) => `${branch}${index}`))

t.test('branches of several effects go on as they went, wherever the process dies', (t) =>
  everywhere(
    t,
    async (_, effect) =>
      Promise.all(
        Object.entries(LATENCIES).map(async ([branch, latencies]) => {
          const given: string[] = []
          for (const [index, turns] of latencies.entries()) given.push(await effect(`${branch}${index}`, turns))
          return given.join()
        }),
      ),
    ['did a0,did a1,did a2', 'did b0,did b1,did b2', 'did c0,did c1,did c2'],
    names,
  ),
)

t.test('so do branches that note, read the clock and take their time between two effects', (t) =>
  everywhere(
    t,
    async (context, effect) => {
      const branch = async (name: string, hops: number): Promise<string> => {
        for (let hop = 0; hop < hops; hop++) await Promise.resolve()
        for (const [index, turns] of LATENCIES[name].entries()) {
          await effect(`${name}${index}`, turns)
          if (index === 0) await context.note(`${name} has begun`)
          for (let hop = 0; hop < hops; hop++) await Promise.resolve()
          if (index === 1) await context.now()
        }
        return name
      }
      return Promise.all([branch('a', 40), branch('b', 0), branch('c', 7)])
    },
    ['a', 'b', 'c'],
    names,
  ),
)

t.test('what was asked while others ended, and failed, is told at the same place again', async (t) => {
  const heard: string[][] = []
  const { skill } = skillOf(async (context, effect) => {
    const order: string[] = []
    heard.push(order)
    const hear = (name: string, turns: number) =>
      effect(name, turns).then(
        () => void order.push(name),
        () => {},
      )
    const failing = context
      .effect({ kind: 'test.fails', args: null, mutates: false, maxAttempts: 1 }, async () => {
        await soon()
        throw new Error('not today')
      })
      .catch(() => void order.push('failed'))
    await Promise.all([hear('slow', 6), failing, hear('quick', 0)])
    return null
  })
  const runner = await AgentRunner.create({ skills: [skill] })
  const { run } = await runner.run('test.branch', null)
  t.same(await runner.replay(run), [])
  t.same(heard[0], ['quick', 'failed', 'slow'])
  t.ok(heard.length > 1)
  for (const order of heard) t.same(order, heard[0])
})
