/** What a process keeps of its own of the runs that are to go on: no more than a bound, and no lease that it does not use. */
import t, { type Test } from 'tap'
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
  const driver = parts.driver()
  const begin = async (capability = 'quick') => (await service.run({ capability, input: null, actor: 'ann' })).run
  const held = async () => (await slots(parts.state, 100)).map(({ run }) => run).sort()
  const until = async (what: string, holds: () => boolean | Promise<boolean>) => {
    const end = Date.now() + 20_000
    while (!(await holds()) && Date.now() < end) await new Promise((resolve) => setTimeout(resolve, 5))
    t.ok(await holds(), what)
  }
  return { ...parts, service, driver, turns, timers, left, performed, begin, held, until, free: () => free() }
}

t.test('what a process cannot queue is left, without a lease, to whoever looks for runs', async (t) => {
  const { service, driver, turns, left, begin, held, until, free, state } = await setup(t)
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
  const { service, timers, performed, begin, held, until, free, clock, records } = await setup(t)
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
