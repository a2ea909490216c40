/** Groups that are open when their run is cancelled, or fails elsewhere: what was done in them is undone, once, wherever the process dies. */
import { defineSkill, type Json, type StepContext } from 'svcdb/agents'
import { AgentRunner, crashEverywhere } from 'svcdb/agents/testkit'
import { seeded } from 'svcdb/lib/random'
import { Type } from 'svcdb/lib/schema'
import t, { type Test } from 'tap'

/** What a step does: effects, waits, and both in groups and branches. */
type Act = { do: 'effect' | 'look' | 'sleep' | 'await'; name: string } | { do: 'group' | 'branches' | 'caught'; name: string; acts: Act[] }

const HOUR = 3_600_000

/** A step of these acts; what stands outside, by the name of the effect; how often each was done. */
function world(acts: readonly Act[], undoSleeps: boolean) {
  const keys = new Map<string, string>()
  const times = new Map<string, number>()
  const outside = (name: string, key: string): Json => {
    if (!keys.has(key)) times.set(name, (times.get(name) ?? 0) + 1)
    keys.set(key, name)
    return null
  }
  const effect = (context: StepContext, name: string) =>
    context.effect({ kind: 'test.act', args: name, mutates: true, recovery: 'idempotent' }, async ({ idempotencyKey }) => outside(name, idempotencyKey))
  async function run(context: StepContext, list: readonly Act[], undo?: (act: () => Promise<unknown>) => void): Promise<void> {
    for (const act of list) {
      if (act.do === 'look') await context.effect({ kind: 'test.look', args: act.name, mutates: false }, async () => null)
      else if (act.do === 'sleep') await context.sleep(HOUR)
      else if (act.do === 'await') await context.awaitEvent({ kind: 'never', correlation: [{ namespace: 'name', value: act.name }], withinMs: HOUR })
      else if (act.do === 'group') await context.group(act.name, [act.name], (group) => run(context, act.acts, (one) => group.undo(one)))
      else if (act.do === 'branches') await Promise.all(act.acts.map((one) => run(context, [one], undo)))
      else if (act.do === 'caught') await run(context, act.acts, undo).catch(() => {})
      else if (act.do === 'effect' && undo !== undefined) {
        await effect(context, act.name)
        undo(async () => {
          if (undoSleeps) await context.sleep(1000)
          await effect(context, `undo ${act.name}`)
        })
      }
    }
  }
  const skill = defineSkill({
    capability: 'test.groups',
    summary: 'Does what the test says',
    input: Type.Null(),
    output: Type.Null(),
    compensation: 'unnecessary',
    invoke: async (context: StepContext) => {
      await run(context, acts)
      return null
    },
  })
  return { skill, times }
}

/** Cancels the run when it rests, if it does, and lets it end. */
async function cancelled(runner: AgentRunner): Promise<{ run: string; status: string }> {
  const { run, status } = await runner.run('test.groups', null)
  if (status === 'succeeded') return { run, status }
  await runner.cancel(run)
  for (let i = 0; i < 20 && (await runner.report(run)).status === 'suspended'; i++) await runner.advance(2000)
  return runner.report(run)
}

async function check(t: Test, acts: readonly Act[], undoSleeps: boolean, about: string): Promise<void> {
  let last: ReturnType<typeof world> | undefined
  const options = () => {
    last = world(acts, undoSleeps)
    return { skills: [last.skill] }
  }
  await crashEverywhere(options, async (runner, crash) => {
    const { run, status, ...more } = await cancelled(runner)
    const where = `${about} ${JSON.stringify(crash)}`
    t.equal(status === 'succeeded' ? 'cancelled' : status, 'cancelled', `${where} ${JSON.stringify(more)}`)
    const journal = await runner.journal(run)
    const settled = new Map(journal.filter(({ kind }) => kind === 'GroupSettled').map(({ payload }) => [payload.group, payload.outcome]))
    for (const { kind, payload } of journal) if (kind === 'GroupOpened') t.equal(settled.has(payload.group), true, `${where}: ${payload.group} is settled`)
    const { times = new Map<string, number>() } = last ?? {}
    for (const [name, count] of times) t.equal(count, 1, `${where}: ${name}`)
    for (const [name, isUndone] of expected(acts, settled)) {
      if (!times.has(name)) continue
      t.equal(times.has(`undo ${name}`), isUndone, `${where}: ${name} is ${isUndone ? '' : 'not '}undone`)
    }
    t.same(await runner.replay(run), [], where)
  })
}

/** Effects, and whether a group around them was aborted. */
function expected(acts: readonly Act[], settled: ReadonlyMap<unknown, unknown>, isUndone = false): [string, boolean][] {
  return acts.flatMap((act): [string, boolean][] => {
    if (act.do === 'effect') return [[act.name, isUndone]]
    if (!('acts' in act)) return []
    // What is undone by an aborted group is what it has registered itself; a committed one within it stays.
    return expected(act.acts, settled, act.do === 'group' ? settled.get(act.name) === 'aborted' : isUndone)
  })
}

t.test('a cancel inside a group undoes it', async (t) => {
  const acts: Act[] = [
    {
      do: 'group',
      name: 'g',
      acts: [
        { do: 'effect', name: 'a' },
        { do: 'effect', name: 'b' },
        { do: 'sleep', name: 's' },
        { do: 'effect', name: 'c' },
      ],
    },
  ]
  for (const undoSleeps of [false, true]) await check(t, acts, undoSleeps, undoSleeps ? 'undoing sleeps' : 'at once')
})

t.test('random steps of groups, waits and branches', async (t) => {
  const seed = Number(process.env.SVC_SEED ?? Math.floor(Math.random() * 2 ** 31))
  t.comment(`SVC_SEED=${seed}`)
  const random = seeded(seed)
  const below = (n: number): number => Math.floor(random() * n)
  let names = 0
  const make = (depth: number): Act => {
    const name = `n${names++}`
    const chance = below(10)
    if (depth === 0 || chance < 4) return { do: (['effect', 'effect', 'look', 'sleep', 'await'] as const)[below(5)], name }
    const acts = Array.from({ length: 1 + below(3) }, () => make(depth - 1))
    return { do: chance < 7 ? 'group' : chance < 9 ? 'branches' : 'caught', name, acts }
  }
  for (let i = 0; i < Number(process.env.SVC_ROUNDS ?? 12); i++) {
    const acts: Act[] = [{ do: 'group', name: `g${i}`, acts: [make(2), make(2), make(1)] }, make(1)]
    await check(t, acts, below(2) === 0, JSON.stringify(acts))
  }
})

t.test('a step that fails has the groups of those beside it undone', async (t) => {
  let last: ReturnType<typeof world> | undefined
  const acts: Act[] = [
    {
      do: 'group',
      name: 'g',
      acts: [
        { do: 'effect', name: 'a' },
        { do: 'sleep', name: 's' },
      ],
    },
  ]
  const fails = defineSkill({
    capability: 'test.fails',
    summary: 'Fails when it has slept',
    input: Type.Null(),
    output: Type.Null(),
    compensation: 'unnecessary',
    invoke: async (context: StepContext) => {
      await context.sleep(1000)
      throw new Error('it was sold out')
    },
  })
  for (const undoSleeps of [false, true]) {
    const options = () => {
      last = world(acts, undoSleeps)
      return { skills: [last.skill, fails] }
    }
    await crashEverywhere(options, async (runner, crash) => {
      const where = `${undoSleeps} ${JSON.stringify(crash)}`
      const { run } = await runner.plan(
        [
          { id: 'one', capability: 'test.groups' },
          { id: 'two', capability: 'test.fails', terminal: true },
        ],
        null,
      )
      for (let i = 0; i < 10 && (await runner.report(run)).status === 'suspended'; i++) await runner.advance(1000)
      t.match(await runner.report(run), { status: 'failed', reason: 'it was sold out' }, where)
      t.same(
        [...(last?.times ?? [])],
        [
          ['a', 1],
          ['undo a', 1],
        ],
        where,
      )
      t.same(await runner.replay(run), [], where)
    })
  }
})

t.test('a step that goes on whatever it is told is set aside for a person', async (t) => {
  const stubborn = defineSkill({
    capability: 'test.groups',
    summary: 'Never ends',
    input: Type.Null(),
    output: Type.Null(),
    compensation: 'unnecessary',
    invoke: (context: StepContext) =>
      context.group('g', [], async () => {
        for (;;) await context.sleep(HOUR).catch(() => {})
      }),
  })
  const runner = await AgentRunner.create({ skills: [stubborn] })
  t.match(await cancelled(runner), { status: 'quarantined', reason: /after it was told that the run is undone/ })
})
