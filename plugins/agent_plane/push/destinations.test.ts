/** Receivers of the config: what it says now holds for runs that were begun before as well. */
import type { WebhookAttempt } from 'svcdb'
import type { PushConfig } from 'svcdb/agents'
import t from 'tap'
import { controlled, skill } from '../testing/control.ts'
import { currentOf } from './config.ts'
import { PushSender } from './sender.ts'
import { parkedPushes, rearm } from './store.ts'

const TAKEN: WebhookAttempt = { result: 'taken', reason: '' }
const GONE: WebhookAttempt = { result: 'refused', reason: 'it answered 410 Gone' }
const OLD: PushConfig = { id: 'operator:ops', url: 'https://ops.example/old' }
const NEW: PushConfig = { id: 'operator:ops', url: 'https://ops.example/new' }
const OWN: PushConfig = { id: 'one', url: 'https://one.example' }

/** A process with the config that it was started with. */
async function setup() {
  const wait = skill('wait', async (context) => (await context.awaitEvent({ kind: 'go', correlation: [], withinMs: 10 ** 9 })).payload)
  const parts = await controlled([wait])
  const told: string[] = []
  const drain = (destinations: readonly PushConfig[], answer: WebhookAttempt = TAKEN) =>
    new PushSender({
      current: (registered) => currentOf(registered, destinations, false),
      send: async ({ url }, { type }) => {
        told.push(`${url} ${type.replace('io.svc.run.', '')}`)
        return answer
      },
      now: () => parts.clock.now,
      after: () => () => {},
      random: () => 0,
      told: () => {},
    }).run([{ tenant: 'default', state: parts.state }])
  const driver = parts.driver({ checkReceiver: async () => {}, destinations: [OLD] })
  const { run } = await parts.run(driver, 'wait', { push: [OWN] })
  const end = async () => {
    await driver.deliver({ id: '1', source: 's', kind: 'go', payload: null })
    await driver.drive(run)
  }
  return { ...parts, run, told, drain, end }
}

t.test('a receiver with another URL is told by that, also of runs that have begun before, and where it was parked', async (t) => {
  const { state, clock, run, told, drain, end } = await setup()
  await drain([OLD], GONE)
  t.same(
    (await parkedPushes(state, 10)).map(({ row }) => row.config.id),
    ['one', 'operator:ops'],
  )
  for (const id of ['one', 'operator:ops']) t.ok(await state.transaction((tx) => rearm(tx, run, id, clock.now)))
  told.length = 0
  await end()
  await drain([NEW])
  t.same(told.sort(), ['admitted', 'completed', 'suspended'].flatMap((type) => [`${NEW.url} ${type}`, `${OWN.url} ${type}`]).sort())
  t.same(await state.list({ prefix: 'push/' }), [])
})

t.test('one that the config has no more is told nothing more', async (t) => {
  const { state, told, drain, end } = await setup()
  await drain([OLD])
  told.length = 0
  await end()
  await drain([])
  t.same(told, [`${OWN.url} completed`])
  t.same(await state.list({ prefix: 'push/' }), [], 'and nothing is left of it')
})

t.test('where nodes share their state, one whose config has it not yet keeps nothing from it', (t) => {
  t.equal(currentOf(OLD, [], true), OLD)
  t.equal(currentOf(OLD, [NEW], true), NEW)
  t.end()
})
