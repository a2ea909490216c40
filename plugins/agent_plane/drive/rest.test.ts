/** When a run comes to rest: what has come for a step that is not gone on with does not keep it awake. */
import type { StateStore } from 'svcdb'
import t from 'tap'
import { deadLetters } from '../store/events.ts'
import { statusOf } from '../store/runs.ts'
import { controlled, LEASE_MS, skill } from '../testing/control.ts'
import { judgeIndexes } from '../testing/indexes.ts'

const CALLS = 2000
const about = (value: string) => [{ namespace: 'n', value }]

/** One whose pass does not spin: it fails when it is asked again and again. */
function bounded(state: StateStore): StateStore {
  let calls = 0
  return {
    get: (key) => state.get(key),
    list: (range) => state.list(range),
    transaction: (body) => (++calls > CALLS ? Promise.reject(new Error('the pass does not come to rest')) : state.transaction(body)),
  }
}

/** One whose calls take their time. */
function slow(state: StateStore): StateStore {
  return {
    get: (key) => state.get(key),
    list: (range) => state.list(range),
    transaction: async (body) => {
      await ticks(1)
      return state.transaction(body)
    },
  }
}

async function ticks(count: number): Promise<void> {
  for (let rest = count; rest > 0; rest--) await new Promise((resolve) => setImmediate(resolve))
}

async function setup() {
  const held: { tell?: (run: string) => Promise<unknown> } = {}
  const parts = await controlled([
    skill('hears', async (context, input) => {
      const { name } = input as { name: string }
      return (await context.awaitEvent({ kind: 'told', correlation: about(name), withinMs: 1e9 })).payload
    }),
    skill('tells', async (context) => {
      await context.effect({ kind: 'tell', args: null, mutates: false }, async () => (await held.tell?.(context.run)) as null)
      return null
    }),
    skill('replaces', async (context) => {
      await context.effect({ kind: 'tell', args: null, mutates: false }, async () => (await held.tell?.(context.run)) as null)
      const last = { id: 'c', capability: 'hears', depends_on: ['b'], args: named('c'), terminal: true }
      return context.replan(['b', last], 'the other one is not needed')
    }),
  ])
  const { state } = parts
  const driver = parts.driver({ state: bounded(state) })
  /** As soon as somebody waits for it. */
  const told = (name: string) => async (run: string) => {
    const waits = async () => JSON.stringify(await state.list({ prefix: `wait/${run}/` }))
    while (!(await waits()).includes(`"${name}"`)) await new Promise((resolve) => setImmediate(resolve))
    await driver.deliver({ id: name, source: 's', kind: 'told', correlation: about(name), payload: name })
    return null
  }
  return { ...parts, held, told, one: driver }
}

const named = (value: string) => ({ name: { from: 'const' as const, value } })

t.test('a run whose plan has left a step behind waits for the others, whatever has come for that one', async (t) => {
  const { state, one, held, told, records } = await setup()
  held.tell = told('a')
  const plan = [
    { id: 'a', capability: 'hears', args: named('a') },
    { id: 'b', capability: 'replaces', terminal: true },
  ]
  const { run, epoch } = await one.admit({ plan, input: null, actor: 'ann' })
  t.equal(await one.drive(run, epoch), 'suspended')
  t.same(await state.list({ prefix: `inbox/${run}/` }), [])
  t.match(await deadLetters(state, 10), [{ id: 'a', reason: /ended without reading it/ }])
  t.match(await one.deliver({ id: 'c', source: 's', kind: 'told', correlation: about('c'), payload: 'on' }), { delivery: 'resumed', run })
  t.equal(await one.drive(run), 'succeeded')
  t.equal((await records(run, 'StepFinished')).length, 2)
  t.same((await one.replay(run)).divergences, [])
})

t.test('steps that have begun go before new ones, where only so many go on at one time', async (t) => {
  const { state, clock, driver, held } = await setup()
  const one = driver({ state: bounded(state), limits: { maxSteps: 1000, maxEffects: 1000, maxParallelSteps: 2 } })
  const plan = [
    { id: 'p', capability: 'hears', args: named('p') },
    { id: 'q', capability: 'tells' },
    { id: 'x1', capability: 'hears', depends_on: ['p'], args: named('x1') },
    { id: 'x2', capability: 'hears', depends_on: ['p'], args: named('x2') },
    { id: 'y', capability: 'hears', depends_on: ['q'], args: named('y') },
    { id: 'z', capability: 'tells', depends_on: ['x1', 'x2', 'y'], terminal: true },
  ]
  held.tell = async () => null
  const { run, epoch } = await one.admit({ plan, input: null, actor: 'ann' })
  t.equal(await one.drive(run, epoch), 'suspended')
  const tell = (name: string) => one.deliver({ id: name, source: 's', kind: 'told', correlation: about(name), payload: name })
  for (const name of ['p', 'y', 'x1', 'x2']) {
    await tell(name)
    clock.now += LEASE_MS
    await one.drive(run)
    if (name !== 'x2') t.equal(await statusOf(state, run), 'suspended', name)
  }
  t.equal(await statusOf(state, run), 'succeeded')
  t.same((await one.replay(run)).divergences, [])
})

t.test('all that a step waits for at one time is waited for when the run rests', async (t) => {
  const { state, clock, driver, run, records } = await controlled([
    skill('waits', async (context) => {
      const hears = (name: string) => context.awaitEvent({ kind: 'told', correlation: about(name), withinMs: 1e9 })
      const heard = await Promise.all([hears('a'), hears('b'), context.storeBlob(Buffer.from('bytes')), hears('c'), context.sleep(1000)])
      return heard[0].payload
    }),
  ])
  const one = driver({ state: slow(state) })
  const { run: id, status } = await run(one, 'waits')
  t.equal(status, 'suspended')
  const { length } = await records(id)
  await ticks(20)
  t.equal((await records(id)).length, length, 'nothing is written for a run that rests')
  await judgeIndexes(state)
  t.same(await one.due(10), [])
  clock.now += 1000
  t.same(await one.due(10), [id], 'the sleep is over first')
  for (const name of ['c', 'b', 'a']) {
    t.match(await one.deliver({ id: name, source: 's', kind: 'told', correlation: about(name), payload: name }), { delivery: 'resumed', run: id })
    t.equal(await one.drive(id), name === 'a' ? 'succeeded' : 'suspended')
  }
  t.same((await one.replay(id)).divergences, [])
  await judgeIndexes(state)
})

t.test('what a step asks for beside a wait is done before the run rests, and once', async (t) => {
  const done: string[] = []
  const { state, clock, driver, run } = await controlled([
    skill('waits', async (context) => {
      const does = (name: string) => context.effect({ kind: name, args: null, mutates: true }, async () => done.push(name))
      const hears = context.awaitEvent({ kind: 'told', correlation: about('a'), withinMs: 1e9 })
      await Promise.all([hears, does('one'), does('other'), context.sleep(1000)])
      return null
    }),
  ])
  const one = driver({ state: slow(state) })
  const { run: id, status } = await run(one, 'waits')
  t.equal(status, 'suspended')
  t.same(done, ['one', 'other'])
  await judgeIndexes(state)
  await one.deliver({ id: 'a', source: 's', kind: 'told', correlation: about('a'), payload: null })
  clock.now += 1000
  t.equal(await one.drive(id), 'succeeded')
  t.same(done, ['one', 'other'])
})

t.test('a probe that answers when the run rests is too late, and is asked again when the run goes on', async (t) => {
  const answers: (() => void)[] = []
  const probe = () => new Promise<{ landed: true; output: string }>((answer) => answers.push(() => answer({ landed: true, output: 'paid' })))
  let dead = false
  const { state, clock, driver, records } = await controlled([
    skill('waits', async (context) => {
      const pays = context.effect({ kind: 'pay', args: null, mutates: true, recovery: 'reconcile', probe }, async () => {
        dead = true
        return 'paid'
      })
      const hears = context.awaitEvent({ kind: 'told', correlation: about('a'), withinMs: 1e9 })
      const [paid] = await Promise.all([pays, hears])
      return paid
    }),
  ])
  const dying = driver({ state: { ...slow(state), transaction: (body) => (dead ? Promise.reject(new Error('it is dead')) : state.transaction(body)) } })
  const { run: id, epoch } = await dying.admit({ capability: 'waits', input: null, actor: 'ann' })
  await t.rejects(dying.drive(id, epoch), /a pass over a run has ended before its time/)
  clock.now += LEASE_MS + 1
  const one = driver()
  t.equal(await one.drive(id), 'suspended')
  const { length } = await records(id)
  while (answers.length === 0) await ticks(1)
  answers[0]()
  await ticks(20)
  t.equal((await records(id)).length, length, 'nothing is written for a run that rests')
  await one.deliver({ id: 'a', source: 's', kind: 'told', correlation: about('a'), payload: null })
  const pass = one.drive(id)
  while (answers.length === 1) await ticks(1)
  answers[1]()
  t.equal(await pass, 'succeeded')
  t.equal((await records(id, 'EffectReconciled')).length, 1)
  t.same((await one.replay(id)).divergences, [])
  await judgeIndexes(state)
})
