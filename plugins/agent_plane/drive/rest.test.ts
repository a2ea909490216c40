/** When a run comes to rest: what has come for a step that is not gone on with does not keep it awake. */
import type { StateStore } from 'svcdb'
import t from 'tap'
import { deadLetters } from '../store/events.ts'
import { statusOf } from '../store/runs.ts'
import { controlled, LEASE_MS, skill } from '../testing/control.ts'

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
