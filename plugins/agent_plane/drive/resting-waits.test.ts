/** What a run waits for while it rests otherwise: an event that comes meanwhile is there when it goes on. */
import type { Json } from 'svcdb/agents'
import t, { type Test } from 'tap'
import { deadLetters } from '../store/events.ts'
import { waitOf } from '../store/waits.ts'
import { controlled, skill } from '../testing/control.ts'
import { judgeIndexes } from '../testing/indexes.ts'

const EVE = { actor: 'eve', basis: 'asserted' } as const
const GRACE_MS = 3_600_000
const WITHIN_MS = GRACE_MS / 2
const LIMITS = { maxSteps: 1000, maxEffects: 1000 }
const correlation = [{ namespace: 'order', value: '7' }]
const told = (id: string) => ({ id, source: 's', kind: 'told', correlation, payload: id })

async function setup(withinMs: number) {
  const parts = await controlled([
    skill('hears', async (context) => (await context.awaitEvent({ kind: 'told', correlation, withinMs })).payload),
    skill('pays', (context) =>
      context.effect({ kind: 'pay', args: null, mutates: true }, async () => {
        throw new Error('no answer')
      }),
    ),
    skill('spends', async (context) => {
      for (let i = 0; i < 2; i++) await context.effect({ kind: 'look', args: i, mutates: false }, async () => null)
      return null
    }),
    skill('fails', async () => {
      throw new Error('it was sold out')
    }),
  ])
  const begin = async (beside: string, one = parts.driver()) => {
    const plan = [
      { id: 'hears', capability: 'hears', terminal: true },
      { id: 'beside', capability: beside },
    ]
    const { run, epoch } = await one.admit({ plan, input: null, actor: 'ann' })
    return { run, status: await one.drive(run, epoch) }
  }
  return { ...parts, begin }
}

async function reopened(t: Test, withinMs: number, meanwhileMs: number): Promise<Json | undefined> {
  const { state, clock, driver, begin, records } = await setup(withinMs)
  const one = driver()
  const { run, status } = await begin('pays')
  t.equal(status, 'quarantined')
  t.match(await one.deliver(told('first')), { delivery: 'buffered', run })
  await judgeIndexes(state)
  clock.now += meanwhileMs
  await one.retire(GRACE_MS, 100)
  t.same(await deadLetters(state, 10), [])
  t.match(await one.deliver(told('first')), { delivery: 'duplicate', run })
  const [{ effect }] = (await one.standing(run)).undecided
  await one.reconcile(run, effect, { disposition: 'landed', output: null, note: 'seen on the statement' }, EVE)
  t.equal(await one.decide(run, 'reopen', EVE, 'it was paid'), 'succeeded')
  await judgeIndexes(state)
  t.equal((await records(run, 'RunSuspended')).length, 1)
  return (await one.replay(run)).output
}

t.test('an event that comes while a run is quarantined is there when it is reopened, however much later', async (t) => {
  t.equal(await reopened(t, 10 * GRACE_MS, 2 * GRACE_MS), 'first')
  t.equal(await reopened(t, WITHIN_MS, WITHIN_MS + 1), 'first', 'also after the time of the wait')
})

t.test('a run that is exhausted or has failed still waits, and says so when it is suspended again', async (t) => {
  for (const [beside, rests] of [
    ['spends', 'exhausted'],
    ['fails', 'failed'],
  ] as const) {
    const { state, clock, driver, begin, records } = await setup(10 * GRACE_MS)
    const { run, status } = await begin(beside, driver({ limits: { ...LIMITS, maxEffects: 1 } }))
    t.equal(status, rests)
    await judgeIndexes(state)
    const one = driver()
    if (rests === 'exhausted') {
      t.equal(await one.resume(run), 'suspended')
      t.match(await one.standing(run), { waiting_for: /awaiting told for order=7/ })
      t.equal((await records(run, 'RunSuspended')).length, 2)
    }
    t.match(await one.deliver(told('first')), { delivery: rests === 'exhausted' ? 'resumed' : 'buffered', run })
    clock.now += 2 * GRACE_MS
    await one.retire(GRACE_MS, 100)
    t.same(await deadLetters(state, 10), [])
    if (rests === 'exhausted') t.equal(await one.drive(run), 'succeeded')
    else t.equal(await one.resume(run), 'failed')
    await judgeIndexes(state)
  }
})

t.test('an event goes to a run that goes on, then to one that rests, and to a failed one when none begins with it', async (t) => {
  const { state, clock, driver, begin, run } = await setup(WITHIN_MS)
  const one = driver()
  const failed = await begin('fails')
  const resting = await begin('pays')
  const going = await run(one, 'hears')
  t.match(await one.deliver(told('1')), { delivery: 'resumed', run: going.run })
  t.match(await one.deliver(told('2')), { delivery: 'buffered', run: resting.run })
  const begins = driver({ beginnings: () => [{ capability: 'fails', input: null, actor: 'ann' }] })
  const third = await begins.deliver(told('3'))
  t.not(third.run, failed.run)
  t.equal(third.run, third.begun[0].run)
  t.match(await one.deliver(told('4')), { delivery: 'buffered', run: failed.run })
  const later = await begin('fails')
  clock.now += WITHIN_MS + 1
  const [{ value: wait }] = await state.list<{ key: string }>({ prefix: `wait/${later.run}/` })
  t.match(await one.deliver(told('5')), { delivery: 'buffered', run: undefined }, 'a wait is over by its time')
  t.equal(await waitOf(state, later.run, wait.key), undefined, 'and is not looked at again')
})
