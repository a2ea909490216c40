/** What needs a person: each condition, by what brings it about. */
import t from 'tap'
import { runsOf } from '../store/runs.ts'
import { overdueTasks } from '../tasks/store.ts'
import { controlled, skill } from '../testing/control.ts'
import { attention, CONDITIONS } from './conditions.ts'

const EVE = { actor: 'eve', basis: 'asserted' } as const
const LIMITS = { maxSteps: 1000, maxEffects: 1000 }

async function setup() {
  const parts = await controlled([
    skill('nothing', async () => null),
    skill('asks', async (context) => (await context.task({ kind: 'ask', summary: 'May I?', proposed_action: null, withinMs: 1000 })).reason),
    skill('nap', async (context) => {
      await context.sleep(60_000)
      return null
    }),
    skill('doubt', (context) =>
      context.effect({ kind: 'pay', args: null, mutates: true }, async () => {
        throw new Error('no answer')
      }),
    ),
    skill(
      'half',
      async (context) => {
        await context.effect({ kind: 'pay', args: null, mutates: true }, async () => null)
        throw new Error('and then not')
      },
      { compensation: 'pivot' },
    ),
  ])
  const found = async () =>
    Object.fromEntries((await attention(parts.state, parts.clock.now, true)).conditions.map(({ condition, subjects }) => [condition, subjects]))
  return { ...parts, found }
}

t.test('a plane at rest needs nobody, and all is looked at', async (t) => {
  const { state, clock } = await setup()
  t.same(await attention(state, clock.now, true), { needs_attention: false, conditions: [], not_checked: [] })
  t.equal(CONDITIONS.length, 12)
  t.match(
    await attention(state, clock.now, false),
    { not_checked: [/^push registrations .*select the plugin webhooks$/] },
    'what there is no store for is named',
  )
})

t.test('runs that stand still are found by why they do', async (t) => {
  const { driver, run, found, clock, state } = await setup()
  const one = driver()
  const doubt = await run(one, 'doubt')
  const exhausted = await run(driver({ limits: { ...LIMITS, maxSteps: 0 } }), 'nothing')
  const half = await run(one, 'half')
  const nap = await run(one, 'nap')
  t.same(await found(), { 'run.quarantined': [doubt.run], 'run.exhausted': [exhausted.run], 'run.failed_with_landed_work': [half.run] })
  clock.now += 60_000
  t.match(await found(), { 'run.wait_expired': [nap.run] })
  t.same(await one.due(10), [nap.run])
  t.match(await found(), { 'run.wait_expired': [nap.run] }, 'looking for it changes nothing')
  t.equal(await one.drive(nap.run), 'succeeded')
  t.notOk((await found())['run.wait_expired'], 'it has gone on')
  await one.halt('subject:ann', 'r', EVE)
  t.equal(await one.resume(half.run).catch(() => 'failed'), 'withheld')
  t.match(await found(), { 'run.withheld': [half.run] })
  t.notOk((await found())['run.failed_with_landed_work'])
  await one.lift('subject:ann', EVE)
  const left = await one.admit({ capability: 'nothing', input: null, actor: 'ann' })
  t.notOk((await found())['run.abandoned'], 'its process has a lease')
  clock.now += 31_000
  t.match(await found(), { 'run.abandoned': [left.run] })
  t.equal(await one.drive(left.run), 'succeeded')
  t.notOk((await found())['run.abandoned'])
  await state.transaction((tx) => tx.put(`quota/slot/${doubt.run}`, { run: doubt.run, since: 0 }))
  t.match(await found(), { 'quota.held_by_stopped_run': [doubt.run] })
})

t.test('what else waits for a person is found as well', async (t) => {
  const { driver, run, found, state, clock } = await setup()
  const one = driver({ checkReceiver: async () => {} })
  const { run: id } = await run(one, 'nap', { push: [{ id: 'p', url: 'https://a.example' }] })
  await one.deliver({ id: 'e1', source: 'bob', kind: 'nobody', payload: null })
  const asker = await run(one, 'asks')
  clock.now += 10_000
  const [task] = await overdueTasks(state, clock.now, 10)
  t.match(task, /^[0-9a-f]{64}$/, asker.status)
  await one.retire(1000, 10)
  await state.transaction((tx) => {
    tx.put(`push/of/${id}/p`, { config: { id: 'p', url: 'https://a.example' }, next_seq: 1, attempts: 32, parked: true })
    tx.put(`push/parked/${id}/p`, { run: id, id: 'p' })
  })
  t.same(await found(), { 'event.dead_lettered': ['bob e1'], 'push.parked': [`${id}/p`], 'task.overdue': [task] })
})

t.test('ten are named, the rest is counted, and a full page says so', async (t) => {
  const { driver, run, state, clock } = await setup()
  const none = driver({ limits: { ...LIMITS, maxSteps: 0 } })
  for (let i = 0; i < 12; i++) {
    clock.now += 1
    await run(none, 'nothing')
  }
  const newest = await runsOf(state, 'exhausted', 10)
  t.match(await attention(state, clock.now, true), {
    needs_attention: true,
    conditions: [{ condition: 'run.exhausted', found: 12, at_least: false, subjects: newest, unlisted: 2, remedy: /raise the bound/ }],
  })
  for (let i = 0; i < 100; i++) {
    clock.now += 1
    await run(none, 'nothing')
  }
  t.match((await attention(state, clock.now, true)).conditions, [{ found: 100, at_least: true, unlisted: 90 }])
})
