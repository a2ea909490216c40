/** What a run may use up bounds what it does, and not how that is undone. */
import type { PlanePolicy, StepContext } from 'svcdb/agents'
import t from 'tap'
import { type Controlled, controlled, skill } from '../testing/control.ts'

const EVE = { actor: 'eve', basis: 'asserted' } as const
const LIMITS = { maxSteps: 1000, maxEffects: 1000 }
const permits: PlanePolicy = async ({ resource }) => (resource.id === 'wipe' ? { outcome: 'deny', reason: 'never' } : { outcome: 'permit' })

async function setup(): Promise<Controlled & { done: string[] }> {
  const done: string[] = []
  const act = (name: string) => ({ kind: name, args: null, mutates: true, recovery: 'idempotent' }) as const
  const does = (context: StepContext, name: string) => context.effect(act(name), async () => done.push(name))
  const wipe = (context: StepContext, i: number) => context.effect({ kind: 'wipe', args: i, mutates: true }, async () => null).catch(() => null)
  const parts = await controlled([
    skill(
      'acts',
      async (context, input) => {
        if (input === 'wipe') await wipe(context, 0)
        return does(context, 'act')
      },
      {
        compensation: 'compensatable',
        compensate: async (context: StepContext) => void (await does(context, 'undo act')),
      } as never,
    ),
    skill('goes_on', async (context, input) => {
      if (input === 'wait') await context.sleep(5000)
      if (input === 'wipe') await wipe(context, 1)
      if (input === 'fill') await context.note('x'.repeat(5000))
      return does(context, 'more')
    }),
    skill('groups', (context) =>
      context.group('both', ['a'], async (group) => {
        group.undo(() => does(context, 'undo one'))
        await does(context, 'one')
        return does(context, 'other')
      }),
    ),
    skill('catches', async (context) => {
      const fails = () => Promise.reject(new Error('it was sold out'))
      const both = context.group('both', ['a'], async (group) => {
        group.undo(() => does(context, 'undo one'))
        await does(context, 'one')
        return fails()
      })
      return both.catch((error: Error) => error.message)
    }),
  ])
  return { ...parts, done }
}

t.test('a run that has used up a budget undoes what it did when it is cancelled', async (t) => {
  for (const { limits, input = null, name, pauseMs = 0 } of [
    { name: 'effects', limits: { maxEffects: 1 } },
    { name: 'wallclock', limits: { maxWallclockMs: 4000 }, input: 'wait', pauseMs: 5000 },
    { name: 'journal_bytes', limits: { maxJournalBytes: 5000 }, input: 'fill' },
    { name: 'denials', limits: { maxDenials: 1 }, input: 'wipe' },
  ]) {
    const { driver, clock, records, done } = await setup()
    const one = driver({ limits: { ...LIMITS, ...limits }, policy: permits })
    const plan = [
      { id: 'first', capability: 'acts' },
      { id: 'second', capability: 'goes_on', depends_on: ['first'], terminal: true },
    ]
    const { run, epoch } = await one.admit({ plan, input, actor: 'ann' })
    let status = await one.drive(run, epoch)
    clock.now += pauseMs
    if (status === 'suspended') status = await one.drive(run)
    t.equal(status, 'exhausted', name)
    t.match((await records(run, 'BudgetRefused')).at(-1), { payload: { limit: name } })
    await one.cancel(run, EVE, 'it is not wanted')
    t.equal(await one.drive(run), 'cancelled', name)
    t.same(done, ['act', 'undo act'], name)
    t.same(await records(run, 'BudgetReadmitted'), [], 'nothing was raised')
    t.same((await one.replay(run)).divergences, [])
  }
})

t.test('a group that a budget has stopped is undone when its run is cancelled', async (t) => {
  const { driver, run, done } = await setup()
  const one = driver({ limits: { ...LIMITS, maxEffects: 1 } })
  const { run: id, status } = await run(one, 'groups')
  t.equal(status, 'exhausted')
  await one.cancel(id, EVE, 'it is not wanted')
  t.equal(await one.drive(id), 'cancelled')
  t.same(done, ['one', 'undo one'])
  t.same((await one.replay(id)).divergences, [])
})

t.test('a group that fails undoes itself, whatever is used up', async (t) => {
  const { driver, run, done } = await setup()
  const one = driver({ limits: { ...LIMITS, maxEffects: 1 } })
  const { run: id, status } = await run(one, 'catches')
  t.equal(status, 'succeeded')
  t.same(done, ['one', 'undo one'])
  t.match(await one.replay(id), { divergences: [], output: 'it was sold out' })
})
