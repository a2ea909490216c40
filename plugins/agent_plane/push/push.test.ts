/** Those who are told what becomes of runs: at least once, in the order of the journal, however often the receiver fails. */
import type { WebhookAttempt, WebhookEvent } from 'svcdb'
import type { PushConfig } from 'svcdb/agents'
import t from 'tap'
import { controlled, skill } from '../testing/control.ts'
import { checkPush, headersOf, redacted } from './config.ts'
import { pauseAfter } from './receiver.ts'
import { PushSender } from './sender.ts'
import { parkedPushes, pushOf, rearm } from './store.ts'

const EVE = { actor: 'eve', basis: 'asserted' } as const
const CONFIG: PushConfig = {
  id: 'one',
  url: 'https://receiver.example/hook?key=k',
  token: 't-secret',
  authentication: { scheme: 'Bearer', credentials: 'c-secret' },
}
const TAKEN: WebhookAttempt = { result: 'taken', reason: '' }
const FAILED: WebhookAttempt = { result: 'failed', reason: 'it answered 500' }
const wait = skill('wait', async (context) => (await context.awaitEvent({ kind: 'go', correlation: [], withinMs: 10 ** 9 })).payload)

const after = (ms: number, act: () => void) => {
  const timer = setTimeout(act, ms)
  return () => clearTimeout(timer)
}

async function setup(answer: () => WebhookAttempt = () => TAKEN) {
  const parts = await controlled([wait, skill('nothing', async () => null)])
  const told: WebhookEvent[] = []
  const held = { answer }
  const sender = new PushSender({
    send: async (_, event) => {
      const attempt = held.answer()
      if (attempt.result === 'taken') told.push(event)
      return attempt
    },
    now: () => parts.clock.now,
    after,
    random: () => 0,
    told: () => {},
  })
  const drain = () => sender.run([{ tenant: 'default', state: parts.state }])
  const driverOf = (more: Parameters<typeof parts.driver>[0] = {}) =>
    parts.driver({ checkReceiver: async () => {}, destinations: [{ id: 'operator:ops', url: 'https://ops.example' }], ...more })
  return { ...parts, driver: driverOf(), driverOf, drain, told, held }
}

const types = (events: readonly WebhookEvent[]) => events.map(({ type }) => type.replace('io.svc.run.', ''))

t.test('a receiver is told of the beginning, of waits and of the end, each once when it takes them', async (t) => {
  const { driver, run, drain, told, state } = await setup()
  const { run: id } = await run(driver, 'wait', { push: [CONFIG] })
  await drain()
  t.same(types(told).sort(), ['admitted', 'admitted', 'suspended', 'suspended'], 'the operator is told of every run')
  t.match(await pushOf(state, id, 'one'), { attempts: 0, config: CONFIG })
  await drain()
  t.equal(told.length, 4)
  await driver.deliver({ id: '1', source: 's', kind: 'go', payload: 'secret' })
  t.equal(await driver.drive(id), 'succeeded')
  await drain()
  t.match(told.at(-1), { type: 'io.svc.run.completed', subject: id, source: '/svc/plane/default', data: { run: id, status: 'succeeded' } })
  t.equal(new Set(told.map((event) => event.id)).size, 3)
  t.notMatch(JSON.stringify(told), 'secret')
  t.same(await state.list({ prefix: 'push/' }), [], 'nothing is left of a registration whose run is over')
})

t.test('a receiver that fails is asked again later and later, parked after 32 failures, and rearmed where it was', async (t) => {
  const { driver, run, drain, told, state, held, clock } = await setup(() => FAILED)
  const { run: id } = await run(driver, 'nothing', { push: [CONFIG] })
  const pauses: number[] = []
  for (let tries = 0; tries < 40; tries++) {
    await drain()
    const row = await pushOf(state, id, 'one')
    if (row?.due === undefined) break
    pauses.push((row.due - clock.now) / 1000)
    clock.now = row.due
  }
  t.same(pauses.slice(0, 9), [2, 4, 8, 16, 32, 64, 128, 256, 256])
  t.equal(pauses.length, 31)
  t.match(
    (await parkedPushes(state, 10)).map(({ row }) => row),
    [{ attempts: 32, next_seq: 1, last_error: 'it answered 500', config: { id: 'one' } }, { config: { id: 'operator:ops' } }],
  )
  held.answer = () => TAKEN
  clock.now += 10 ** 9
  await drain()
  t.same(told, [], 'nothing is sent to one that is parked')
  t.equal(await state.transaction((tx) => rearm(tx, id, 'one', clock.now)), true)
  t.equal(await state.transaction((tx) => rearm(tx, id, 'one', clock.now)), false, 'it is not parked any more')
  t.equal(await state.transaction((tx) => rearm(tx, id, 'two', clock.now)), false)
  await drain()
  t.same(types(told), ['admitted', 'completed'])
})

t.test('a run has so many receivers and no more, beside those of the operator', async (t) => {
  const parts = await setup()
  const driver = parts.driverOf({ maxPushes: 2 })
  const named = (id: string): PushConfig => ({ id, url: CONFIG.url })
  const refused = { code: 'BAD_REQUEST', message: /it has 2 already; see agent_plane.max_pushes_per_run/ }
  await t.rejects(parts.run(driver, 'wait', { push: ['a', 'b', 'c'].map(named) }), refused)
  const { run } = await parts.run(driver, 'wait', { push: [named('a')] })
  await driver.registerPush(run, named('b'))
  await driver.registerPush(run, named('b'))
  await t.rejects(driver.registerPush(run, named('c')), refused)
  t.same(
    (await parts.state.list({ prefix: `push/of/${run}/` })).map(({ key }) => key.slice(key.lastIndexOf('/') + 1)),
    ['a', 'b', 'operator:ops'],
  )
})

t.test('what was taken before a failure is not told again; one that is gone is parked at once', async (t) => {
  const answers: WebhookAttempt[] = [TAKEN, { ...FAILED, retryAfterMs: 10_000_000 }]
  const { driver, run, drain, told, state, held, clock } = await setup(() => answers.shift() ?? TAKEN)
  const lone = driver
  const { run: id } = await run(lone, 'nothing', { push: [] })
  await lone.registerPush(id, CONFIG)
  await state.transaction((tx) => {
    for (const key of [`push/of/${id}/operator:ops`]) tx.delete(key)
  })
  await drain()
  t.same(types(told), ['admitted'])
  const row = await pushOf(state, id, 'one')
  t.match(row, { attempts: 1, next_seq: Number })
  t.equal((row?.due ?? 0) - clock.now, 3_600_000, 'as long as it asks for, and an hour at most')
  held.answer = () => ({ result: 'refused', reason: 'it answered 410 Gone' })
  clock.now = row?.due as number
  await drain()
  t.match(await parkedPushes(state, 10), [{ run: id, row: { next_seq: row?.next_seq, last_error: 'it answered 410 Gone' } }])
})

t.test('a process that dies between the answer and the note tells again, under the same id, and loses nothing', async (t) => {
  const { driver, run, state, clock, drain, told } = await setup()
  const { run: id } = await run(driver, 'wait', { push: [CONFIG] })
  for (let dieAt = 1; dieAt <= 30; dieAt++) {
    let calls = 0
    const point = () => {
      if (++calls === dieAt) throw new Error('dead')
    }
    const dying = {
      ...state,
      get: async (key: string) => {
        point()
        return state.get(key)
      },
      list: async (range: object) => {
        point()
        return state.list(range)
      },
      transaction: async (body: never) => {
        point()
        const answer = await state.transaction(body)
        point()
        return answer
      },
    } as never
    await new PushSender({
      send: async (_, event) => {
        told.push(event)
        return TAKEN
      },
      now: () => clock.now,
      after,
      random: () => 0,
      told: () => {},
    })
      .run([{ tenant: 'default', state: dying }])
      .catch(() => {})
  }
  await driver.cancel(id, EVE, 'enough')
  t.equal(await driver.drive(id), 'cancelled')
  await drain()
  t.same([...new Set(told.map((event) => `${event.id} ${event.type}`))].length, 3)
  for (const type of ['admitted', 'suspended', 'cancelled']) t.ok(types(told).filter((each) => each === type).length >= 2, `${type} to both`)
  t.same(await state.list({ prefix: 'push/' }), [])
})

t.test('a record that cannot be read parks its registration, and does not keep others from being told', async (t) => {
  const { driver, run, drain, told, state } = await setup()
  const [bad, good] = [await run(driver, 'wait', { push: [CONFIG] }), await run(driver, 'wait', { push: [CONFIG] })]
  const [{ key, value }] = await state.list<{ raw: string }>({ prefix: `record/${bad.run}/`, limit: 1 })
  await state.transaction((tx) => tx.put(key, { ...value, raw: '{"v":99}' }))
  await t.resolves(drain())
  t.match(await pushOf(state, bad.run, 'one'), { parked: true, next_seq: 1, last_error: /record 1 of its run cannot be read: .*its version is 99/ })
  t.same(
    told.map(({ subject }) => subject),
    Array(4).fill(good.run),
  )
  await state.transaction((tx) => tx.put(key, value))
  t.ok(await state.transaction((tx) => rearm(tx, bad.run, 'one', 0)), 'it goes on when the record is restored')
  await drain()
  t.equal(told.filter(({ subject }) => subject === bad.run).length, 2)
})

t.test('registrations are checked, and shown without what is secret', async (t) => {
  const { driver, run } = await setup()
  for (const bad of [
    { ...CONFIG, id: '' },
    { ...CONFIG, id: 'a/b' },
    { ...CONFIG, id: 'operator:x' },
    { ...CONFIG, token: 'a\r\nb' },
    { ...CONFIG, authentication: { scheme: 'a b' } },
  ])
    await t.rejects(run(driver, 'nothing', { push: [bad] }), { code: 'BAD_REQUEST' }, JSON.stringify(bad))
  checkPush(CONFIG)
  t.same(headersOf(CONFIG), { 'x-notification-token': 't-secret', authorization: 'Bearer c-secret' })
  const shown = redacted('run_1', CONFIG)
  t.same(shown, {
    id: 'one',
    task: 'run_1',
    url: 'https://receiver.example/***',
    token: '***',
    authentication: { scheme: 'Bearer', credentials: '***' },
  })
  t.equal(redacted('run_1', { id: 'a', url: 'https://a.example' }) !== undefined, true)
})

t.test('pauses double up to 256 s, by chance down to half', async (t) => {
  t.same(
    [1, 2, 8, 9, 31].map((failures) => pauseAfter(failures, 0)),
    [2000, 4000, 256_000, 256_000, 256_000],
  )
  t.equal(pauseAfter(3, 1), 4000)
  t.equal(pauseAfter(1, 0, 5000), 5000)
})
