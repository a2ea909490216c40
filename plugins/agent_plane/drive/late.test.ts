/** A process that stands still between the announcement of an effect and the effect itself, for longer than its lease. */
import type { StateStore } from 'svcdb'
import t from 'tap'
import { controlled, LEASE_MS, skill } from '../testing/control.ts'

/** A store that keeps the answer of the transaction back with which an effect is announced. */
function stalling(state: StateStore) {
  let release = (): void => {}
  const gate = new Promise<void>((resolve) => {
    release = resolve
  })
  let stalled = (): void => {}
  const reached = new Promise<void>((resolve) => {
    stalled = resolve
  })
  let isOver = false
  const store: StateStore = {
    get: (key) => state.get(key),
    list: (range) => state.list(range),
    async transaction(body) {
      const answer = await state.transaction(body)
      const isAnnounced = (await state.list<{ raw: string }>({ prefix: 'record/' })).some(({ value }) => value.raw.includes('"EffectStarted"'))
      if (isOver || !isAnnounced) return answer
      isOver = true
      stalled()
      await gate
      return answer
    },
  }
  return { store, reached, release: () => release() }
}

async function setup() {
  const landed = new Set<string>()
  const calls: string[] = []
  let by = ''
  const pay = skill('pay', async (context) => {
    const process = by
    return context.effect(
      {
        kind: 'pay',
        args: null,
        mutates: true,
        recovery: 'reconcile',
        probe: async () => (landed.has(context.run) ? { landed: true, output: 'probed' } : { landed: false }),
      },
      async () => {
        calls.push(process)
        landed.add(context.run)
        return 'paid'
      },
    )
  })
  const parts = await controlled([pay])
  const drive = (name: string, driver: ReturnType<typeof parts.driver>, run: string, epoch?: number) => {
    by = name
    return driver.drive(run, epoch)
  }
  return { ...parts, calls, drive }
}

t.test('does not do it when another process has taken the run over meanwhile', async (t) => {
  const { state, driver, calls, drive, clock, records } = await setup()
  const late = stalling(state)
  const [slow, other] = [driver({ state: late.store }), driver()]
  const { run, epoch } = await slow.admit({ capability: 'pay', input: null, actor: 'ann' })
  const pass = drive('slow', slow, run, epoch).catch((error: Error) => error.cause)
  await late.reached
  t.equal((await records(run, 'EffectStarted')).length, 1, 'it is announced')
  clock.now += LEASE_MS + 1
  t.equal(await drive('other', other, run), 'succeeded', 'its probe has found nothing')
  late.release()
  t.match(await pass, /another process has taken it over/)
  t.same(calls, ['other'], 'once')
})

t.test('nor when its clock was set back by as long meanwhile', async (t) => {
  const { state, driver, calls, drive, clock } = await setup()
  const late = stalling(state)
  let back = 0
  let passed = 0
  const slow = driver({ state: late.store, now: () => clock.now - back, monotonic: () => passed })
  const { run, epoch } = await slow.admit({ capability: 'pay', input: null, actor: 'ann' })
  const pass = drive('slow', slow, run, epoch).catch((error: Error) => error.cause)
  await late.reached
  clock.now += LEASE_MS + 1
  back = LEASE_MS + 1
  passed = LEASE_MS + 1
  t.equal(await drive('other', driver(), run), 'succeeded')
  late.release()
  t.match(await pass, /another process has taken it over/)
  t.same(calls, ['other'], 'once')
})

t.test('does it when nobody has', async (t) => {
  const { state, driver, calls, drive, clock } = await setup()
  const late = stalling(state)
  const slow = driver({ state: late.store })
  const { run, epoch } = await slow.admit({ capability: 'pay', input: null, actor: 'ann' })
  const pass = drive('slow', slow, run, epoch)
  await late.reached
  clock.now += LEASE_MS + 1
  late.release()
  t.equal(await pass, 'succeeded')
  t.same(calls, ['slow'])
})
