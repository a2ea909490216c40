/** What a receiver asks for, a wrong clock and what concerns one registration alone cost others nothing that they were to be told. */
import type { WebhookAttempt } from 'svcdb'
import type { PushConfig } from 'svcdb/agents'
import { ManualClock } from 'svcdb/testkit'
import t from 'tap'
import { controlled, skill } from '../testing/control.ts'
import { PushSender } from './sender.ts'
import { fail, parkedPushes } from './store.ts'

const TAKEN: WebhookAttempt = { result: 'taken', reason: '' }
const BUSY: WebhookAttempt = { result: 'failed', reason: 'it answered 429', status: 429, retryAfterMs: 3_600_000 }
const FAILED: WebhookAttempt = { result: 'failed', reason: 'it answered 500', status: 500 }
const UNKNOWN: WebhookAttempt = { result: 'failed', reason: 'it answered 401', status: 401 }
const TIMEOUT: WebhookAttempt = { result: 'failed', reason: 'there was no answer within 10 s' }
const OPS: PushConfig = { id: 'operator:ops', url: 'https://ops.example' }
const HOUR = 3_600_000

interface Answer {
  attempt: WebhookAttempt
  /** That it takes. */
  ms: number
}

async function setup(answer: (config: PushConfig) => Answer, destinations: PushConfig[] = []) {
  const step = async () => null
  const long = skill('long', async (context) => {
    for (let i = 0; i < 100; i++) await context.note(`note ${i}`)
    return null
  })
  const { state, clock: runs, driver, run } = await controlled([skill('nothing', step), long])
  const clock = new ManualClock(runs.now)
  const told: string[] = []
  const held = { answer, tries: 0, wrong: 0 }
  const sender = new PushSender({
    send: async (config, { type, subject }) => {
      held.tries++
      const { attempt, ms } = held.answer(config)
      await new Promise<void>((resolve) => void clock.after(ms, resolve))
      if (attempt.result === 'taken') told.push(`${config.id} ${subject} ${type.replace('io.svc.run.', '')}`)
      return attempt
    },
    now: () => clock.now() + held.wrong,
    after: clock.after,
    random: () => 0.5,
    told: () => {},
  })
  /** As the schedule does. */
  const again = async (): Promise<void> => {
    await sender.run([{ tenant: 'default', state }])
    clock.after(1000, () => void again())
  }
  const register = async (push: PushConfig[], name = 'nothing'): Promise<string> => {
    runs.now = clock.now()
    return (await run(driver({ checkReceiver: async () => {}, destinations }), name, { push })).run
  }
  return { state, clock, told, held, begin: () => void again(), register }
}

t.test('a receiver that asks for an hour gets it: nobody is parked for having waited', async (t) => {
  const { state, clock, held, told, begin, register } = await setup(() => ({ attempt: BUSY, ms: 5 }))
  for (let i = 0; i < 20; i++) await register([{ id: 'one', url: 'https://busy.example' }])
  begin()
  await clock.advance(4 * HOUR)
  t.ok(held.tries < 20, `${held.tries} tries`)
  t.same(await parkedPushes(state, 100), [])
  held.answer = () => ({ attempt: TAKEN, ms: 5 })
  await clock.advance(2 * HOUR)
  t.equal(told.length, 40)
})

t.test('a clock that is set back while a receiver fails parks nobody', async (t) => {
  const { state, clock, held, told, begin, register } = await setup(() => ({ attempt: FAILED, ms: 5 }))
  for (let i = 0; i < 3; i++) await register([{ id: 'one', url: 'https://one.example' }])
  begin()
  await clock.advance(60_000)
  held.answer = () => ({ attempt: TAKEN, ms: 5 })
  held.wrong = -24 * HOUR
  await clock.advance(4 * HOUR)
  t.same(await parkedPushes(state, 100), [])
  t.equal(told.length, 6)
})

t.test('registrations with credentials that a receiver does not know keep it from no other: not from the operator either', async (t) => {
  const { state, clock, told, begin, register } = await setup(({ token }) => ({ attempt: token === undefined ? TAKEN : UNKNOWN, ms: 5 }), [OPS])
  for (let i = 0; i < 40; i++) await register([{ id: 'one', url: OPS.url, token: 'wrong' }])
  begin()
  await clock.advance(10_000)
  t.equal(told.length, 80, 'at once')
  await clock.advance(4 * HOUR)
  const parked = await parkedPushes(state, 100)
  t.same([...new Set(parked.map(({ row }) => row.config.id))], ['one'])
  t.match(parked[0].row, { attempts: 32, last_error: 'it answered 401' })
})

t.test('what a registration has more to tell goes on after the pause that another has brought about', async (t) => {
  const { state, clock, told, begin, register } = await setup(({ id }) => {
    if (id === 'dead') return { attempt: TIMEOUT, ms: 10_000 }
    return id === 'last' ? { attempt: FAILED, ms: 1000 } : { attempt: TAKEN, ms: 1500 }
  })
  const gone = await register([{ id: 'last', url: 'https://one.example' }])
  await state.transaction(async (tx) => {
    for (let i = 0; i < 31; i++) await fail(tx, gone, 'last', 1, 'it answered 500', clock.now())
  })
  const run = await register([{ id: 'long', url: 'https://one.example' }], 'long')
  for (let i = 0; i < 30; i++) {
    // Something is under way all the time.
    await register([{ id: 'dead', url: `https://dead-${i}.example` }])
    if (i === 0) begin()
    await clock.advance(4000)
  }
  t.same(told, [`long ${run} admitted`, `long ${run} completed`])
})
