/** All that a step may ask for makes records, and a journal has a bound. */
import type { StepContext } from 'svcdb/agents'
import t from 'tap'
import { controlled, skill } from '../testing/control.ts'

const LIMITS = { maxSteps: 1000, maxEffects: 1000 }
const MANY = 200

/** Each makes a record, or two. */
const ASKED: Record<string, (context: StepContext, i: number) => Promise<unknown>> = {
  note: (context, i) => context.note(`${i}`),
  sleep: (context) => context.sleep(0),
  wait: (context, i) => context.awaitEvent({ kind: 'told', correlation: [{ namespace: 'n', value: `${i}` }], withinMs: 0 }).catch(() => null),
  now: (context) => context.now(),
  random: (context) => context.random(),
  group: (context, i) => context.group(`g${i}`, ['a'], async () => null),
  state: async (context) => {
    const { version, state } = await context.caseState()
    await context.putCaseState(version, state)
  },
}

for (const [name, ask] of Object.entries(ASKED))
  t.test(`a step that asks for ever more ends by the bound of its journal: ${name}`, async (t) => {
    const { driver, run, records } = await controlled([
      skill('asks', async (context) => {
        for (let i = 0; i < MANY; i++) await ask(context, i)
        return null
      }),
    ])
    const one = driver({ limits: { ...LIMITS, maxJournalBytes: 6000 } })
    const { run: id, status } = await run(one, 'asks', { case: { kind: 'order', correlation: [{ namespace: 'n', value: '7' }] } })
    t.equal(status, 'exhausted')
    t.match(await records(id, 'BudgetRefused'), [{ payload: { limit: 'journal_bytes' } }])
    t.equal(await one.resume(id), 'exhausted')
    t.equal(await driver({ limits: LIMITS }).resume(id), 'succeeded')
    t.match(await records(id, 'BudgetReadmitted'), [{ payload: { limit: 'journal_bytes' } }])
    t.same((await one.replay(id)).divergences, [])
  })

t.test('the time of a run bounds what it waits for as well', async (t) => {
  const { clock, driver, run, records } = await controlled([
    skill('sleeps', async (context) => {
      for (let i = 0; i < 10; i++) await context.sleep(1000)
      return null
    }),
  ])
  const one = driver({ limits: { ...LIMITS, maxWallclockMs: 3500 } })
  let { run: id, status } = await run(one, 'sleeps')
  for (let i = 0; i < 10 && status === 'suspended'; i++) {
    clock.now += 1000
    status = await one.drive(id)
  }
  t.equal(status, 'exhausted')
  t.match(await records(id, 'BudgetRefused'), [{ payload: { limit: 'wallclock', used: '4' } }])
})
