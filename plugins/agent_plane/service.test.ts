/** What a process keeps of its own of the runs that are to go on: no more than a bound, and no lease that it does not use. */
import { SvcError } from 'svcdb/lib/errors'
import t, { type Test } from 'tap'
import { until } from '../../test/support/until.ts'
import { AgentRegistry } from './agents/registry.ts'
import { slots } from './quota/store.ts'
import { PlaneService } from './service.ts'
import { leaseOf } from './store/leases.ts'
import { controlled, LEASE_MS, skill } from './testing/control.ts'
import { Turns } from './turns.ts'

const EVE = { actor: 'eve', basis: 'asserted' } as const

/** One run at a time, two that wait, and a clock whose timers the test lets go off. */
async function setup(t: Test) {
  let free = (): void => {}
  const gate = new Promise<void>((resolve) => {
    free = resolve
  })
  t.teardown(() => free())
  const performed: string[] = []
  const step = (name: string, before: Promise<void>) =>
    skill(name, (context) =>
      context.effect({ kind: 'work', args: name, mutates: true }, async () => {
        performed.push(name)
        await before
        return null
      }),
    )
  const parts = await controlled([step('slow', gate), step('quick', Promise.resolve())])
  const timers = new Set<() => void>()
  const left = { count: 0 }
  const counter = { inc() {} }
  const turns = new Turns(1)
  const service: PlaneService = new PlaneService({
    driver: () => driver,
    registry: new AgentRegistry(),
    calendars: new Map(),
    turns,
    maxQueued: 2,
    leaseMs: LEASE_MS,
    left: () => void left.count++,
    clock: {
      now: () => parts.clock.now,
      after(_ms: number, act: () => void) {
        timers.add(act)
        return () => void timers.delete(act)
      },
    } as never,
    log: { warn() {} } as never,
    metrics: { admitted: counter, settled: counter, broken: counter, events: counter } as never,
  })
  const driver = parts.driver({ stopping: () => !service.isOpen })
  const begin = async (capability = 'quick') => (await service.run({ capability, input: null, actor: 'ann' })).run
  const held = async () => (await slots(parts.state, 100)).map(({ run }) => run).sort()
  return { ...parts, service, driver, turns, timers, left, performed, begin, held, free: () => free() }
}

t.test('what a process cannot queue is left, without a lease, to whoever looks for runs', async (t) => {
  const { service, driver, turns, left, begin, held, free, state } = await setup(t)
  const runs = [await begin('slow')]
  for (let i = 0; i < 5; i++) runs.push(await begin())
  t.equal(turns.waiting, 2)
  await until('only what goes on and what waits has a slot', async () => (await held()).length === 3)
  t.same(await held(), runs.slice(0, 3).sort())
  for (const run of runs.slice(3)) t.equal((await leaseOf(state, run))?.holder, undefined)
  t.equal(left.count, 3)
  t.same((await driver.due(10)).sort(), runs.slice(3).sort(), 'they are found')
  await service.deliver({ id: '1', source: 's', kind: 'go', payload: null })
  await t.resolves(service.cancel(runs[5], EVE, 'no more'), 'a run that is to go on is left as well')
  t.equal(turns.waiting, 2)
  free()
  for (const run of runs.slice(0, 3)) t.equal(await service.settled(run), 'succeeded')
  for (const run of await driver.due(10)) service.launch(run)
  for (const [index, run] of runs.entries()) t.equal(await service.settled(run), index === 5 ? 'cancelled' : 'succeeded')
})

t.test('a run that waits long for its turn gives its lease back, and takes one when it has its turn', async (t) => {
  const { service, timers, performed, begin, held, free, clock, records } = await setup(t)
  const slow = await begin('slow')
  const run = await begin()
  await until('the first one is at work', () => performed.length === 1)
  t.same(await held(), [slow, run].sort())
  clock.now += LEASE_MS / 2
  for (const act of timers) act()
  await until('it has no slot', async () => (await held()).length === 1)
  clock.now += LEASE_MS
  free()
  t.equal(await service.settled(run), 'succeeded')
  t.equal((await records(run, 'QuotaPassStarted')).length, 1)
  t.same(performed, ['slow', 'quick'])
})

t.test('a process that ends begins no run, and leaves those that only wait for their turn without a lease', async (t) => {
  const { service, driver, begin, held, performed, free, state, records } = await setup(t)
  const slow = await begin('slow')
  const quick = await begin()
  await until('the first one is at work', () => performed.length === 1)
  const closed = service.close()
  await t.rejects(begin(), { code: 'OVERLOADED', message: /the node is stopping/ })
  await until('only what is under way has a lease', async () => (await held()).length === 1)
  t.equal((await leaseOf(state, quick))?.holder, undefined)
  free()
  await closed
  t.same(await held(), [], 'the run that has come to a boundary has none either')
  t.match(
    (await records(slow)).map(({ kind }) => kind),
    ['RunAdmitted', 'PlanFrozen', 'StepStarted', 'EffectStarted', 'EffectDone', 'StepFinished'],
    'its step was let to its end',
  )
  t.same((await driver.due(10)).sort(), [slow, quick].sort(), 'at once, and not when their leases lapse')
})

t.test('a pass ends at a boundary between steps when its process is to end', async (t) => {
  let stopping = false
  const { driver, records, clock } = await controlled([
    skill('first', async () => {
      stopping = true
      return null
    }),
    skill('second', async () => null),
  ])
  const plan = [
    { id: 'one', capability: 'first' },
    { id: 'two', capability: 'second', depends_on: ['one'], terminal: true },
  ]
  const ending = driver({ stopping: () => stopping })
  const { run, epoch } = await ending.admit({ plan, input: null, actor: 'ann' })
  const before = clock.now
  t.equal(await ending.drive(run, epoch), 'running')
  t.equal((await records(run, 'StepStarted')).length, 1)
  t.equal(await driver().drive(run), 'succeeded', 'the next process goes on')
  t.equal(clock.now, before, 'without waiting for a lease')
})

t.test('what is delivered to a process that ends begins its run elsewhere', async (t) => {
  const { state, driver, clock } = await controlled([skill('quick', async () => null)])
  const counter = { inc() {} }
  const one = driver({ beginnings: () => [{ capability: 'quick', input: null, actor: 'svc:event/go' }] })
  const service = new PlaneService({
    driver: () => one,
    registry: new AgentRegistry(),
    calendars: new Map(),
    turns: new Turns(1),
    maxQueued: 2,
    leaseMs: LEASE_MS,
    clock: { now: () => clock.now, after: () => () => {} } as never,
    log: { warn() {} } as never,
    metrics: { admitted: counter, settled: counter, broken: counter, events: counter } as never,
  })
  await service.close()
  const { run = '' } = await service.deliver({ id: '1', source: 's', kind: 'go', payload: null })
  const end = Date.now() + 20_000
  while ((await leaseOf(state, run))?.holder !== undefined && Date.now() < end) await new Promise((resolve) => setTimeout(resolve, 5))
  t.same(await one.due(10), [run])
})

t.test('a full disk that interrupts all runs is not logged for each of them', async (t) => {
  const said: object[] = []
  let failure = new SvcError('STORAGE_FULL', 'no space left on the data volume')
  const service = new PlaneService({
    driver: () =>
      ({
        async drive() {
          throw failure
        },
      }) as never,
    ...{ registry: new AgentRegistry(), calendars: new Map(), turns: new Turns(64), maxQueued: 64, leaseMs: LEASE_MS },
    clock: { monotonic: () => 0, after: () => () => {} } as never,
    log: { warn: (o: object) => void said.push(o) } as never,
    metrics: { broken: { inc() {} }, settled: { inc() {} } } as never,
  })
  const pass = async (): Promise<void> => {
    for (let i = 0; i < 50; i++) service.launch(`run_${i}`)
    await until('all passes are over', () => !Array.from({ length: 50 }, (_, i) => service.isTaken(`run_${i}`)).includes(true))
  }
  await pass()
  t.match(said, [{ err: failure, run: 'run_0' }])
  failure = new SvcError('DATABASE_ERROR', 'a record is not what was stored')
  await pass()
  t.equal(said.length, 51, 'other failures are of the run that has them')
})
