/** Stops that are asked for while a run is about to come to rest. */
import { EffectError, type StepContext } from 'svcdb/agents'
import t from 'tap'
import { leaseOf } from '../store/leases.ts'
import { statusOf } from '../store/runs.ts'
import { controlled, skill } from '../testing/control.ts'

const EVE = { actor: 'eve', basis: 'asserted' } as const

async function setup() {
  const done: string[] = []
  const held: { stop?: () => Promise<unknown> } = {}
  const undone = { compensate: async (context: Parameters<Parameters<typeof skill>[1]>[0]) => void (await context.effect(back, async () => done.push('back'))) }
  const back = { kind: 'back', args: null, mutates: true, recovery: 'idempotent' } as const
  const parts = await controlled([
    skill(
      'fails',
      async (context) => {
        await context.effect({ kind: 'act', args: null, mutates: true, recovery: 'idempotent' }, async () => done.push('act'))
        return context.effect({ kind: 'ask', args: null, mutates: false }, async () => {
          await held.stop?.()
          throw new EffectError('no', { disposition: 'did_not_happen', permanent: true })
        })
      },
      { compensation: 'compensatable', ...undone } as never,
    ),
    skill('spends', async (context) => {
      await context.effect({ kind: 'ask', args: null, mutates: false }, async () => (await held.stop?.()) as null)
      return context.effect({ kind: 'more', args: null, mutates: false }, async () => null)
    }),
  ])
  return { ...parts, done, held }
}

t.test('a stop that comes while a step fails, or uses up its budget, is seen before the run rests', async (t) => {
  const { driver, state, held, done, records } = await setup()
  for (const [capability, before] of [
    ['fails', 'failed'],
    ['spends', 'exhausted'],
  ] as const) {
    const one = driver(capability === 'spends' ? { limits: { maxSteps: 1000, maxEffects: 1 } } : {})
    const begin = async (stops: boolean) => {
      const { run, epoch } = await one.admit({ capability, input: null, actor: 'ann' })
      held.stop = async () => (stops ? void (await one.cancel(run, EVE, 'not wanted')) : undefined) ?? null
      return { run, status: await one.drive(run, epoch) }
    }
    t.equal((await begin(false)).status, before)
    const { run, status } = await begin(true)
    t.equal(status, 'cancelled', capability)
    t.equal(await statusOf(state, run), 'cancelled')
    t.match(await records(run, 'RunCancelled'), [{ payload: { actor: EVE, reason: 'not wanted' } }])
    t.match(await records(run, 'RunConcluded'), [{ payload: { outcome: 'cancelled', reason: 'not wanted' } }])
    t.same((await one.replay(run)).divergences, [])
  }
  t.same(done, ['act', 'back', 'act', 'back'], 'what was done is undone once')
})

t.test('why a run has failed is said at its end, also when undoing it takes more than one pass', async (t) => {
  const { state, driver, run, clock, records } = await controlled([
    skill(
      'slow',
      async (context) => {
        await context.effect({ kind: 'act', args: null, mutates: true, recovery: 'idempotent' }, async () => null)
        throw new Error('it was sold out')
      },
      { compensation: 'compensatable', compensate: (context: { sleep(ms: number): Promise<void> }) => context.sleep(1000) } as never,
    ),
  ])
  const one = driver()
  const { run: id, status } = await run(one, 'slow')
  t.equal(status, 'suspended')
  clock.now += 2000
  for (const due of await one.due(10)) await one.drive(due)
  t.equal(await statusOf(state, id), 'failed')
  t.match((await records(id, 'RunConcluded')).at(-1), { payload: { outcome: 'failed', reason: 'it was sold out' } })
})

t.test('a process that is to end begins no effect any more, and the run goes on elsewhere', async (t) => {
  const done: string[] = []
  let stopping = false
  let ends = ''
  const does = (context: StepContext, name: string) =>
    context.effect({ kind: name, args: null, mutates: true }, async () => {
      stopping = name === ends
      done.push(name)
      return null
    })
  const { state, driver, records } = await controlled([
    skill(
      'acts',
      async (context, input) => {
        await context.group('both', ['a'], async (group) => {
          group.undo(() => does(context, 'undo one').then(() => does(context, 'undo zero')))
          await does(context, 'one')
          if (input === 'waits') await context.sleep(1000)
          await does(context, 'other')
        })
        if (input === 'fails') throw new Error('it was sold out')
        return null
      },
      {
        compensation: 'compensatable',
        compensate: async (context: StepContext) => {
          await does(context, 'back other')
          await does(context, 'back one')
        },
      } as never,
    ),
  ])
  for (const { end, input, all, status } of [
    { end: 'one', input: 'goes on', all: ['one', 'other'], status: 'succeeded' },
    { end: 'back other', input: 'fails', all: ['one', 'other', 'back other', 'back one'], status: 'failed' },
    { end: 'undo one', input: 'waits', all: ['one', 'undo one', 'undo zero'], status: 'cancelled' },
  ]) {
    done.length = 0
    ends = end
    const one = driver({ stopping: () => stopping })
    const { run, epoch } = await one.admit({ capability: 'acts', input, actor: 'ann' })
    let got = await one.drive(run, epoch)
    if (input === 'waits') {
      await one.cancel(run, EVE, 'not wanted')
      got = await one.drive(run)
    }
    t.equal(got, 'running', end)
    t.equal(done.at(-1), end)
    t.equal(await statusOf(state, run), 'running')
    t.equal((await leaseOf(state, run))?.holder, undefined, 'the lease is given back')
    t.same((await one.standing(run)).undecided, [])
    stopping = false
    t.equal(await driver().drive(run), status)
    t.same(done, all)
    t.same((await one.replay(run)).divergences, [])
    t.equal((await records(run, 'RunConcluded')).length, 1)
  }
})

t.test('an attempt that is to be made again is left where the process is to end before it', async (t) => {
  let stopping = false
  let attempts = 0
  const { driver, run } = await controlled([
    skill('asks', (context) =>
      context.effect({ kind: 'ask', args: null, mutates: false }, async () => {
        if (++attempts === 1) throw new EffectError('not now', { disposition: 'did_not_happen' })
        return attempts
      }),
    ),
  ])
  const slept: number[] = []
  const sleep = async (ms: number) => {
    slept.push(ms)
    stopping = true
  }
  const { run: id, status } = await run(driver({ stopping: () => stopping, sleep }), 'asks')
  t.equal(status, 'running')
  t.equal(attempts, 1)
  t.equal(slept.length, 1)
  t.equal(await driver().drive(id), 'succeeded')
})
