/** What a tenant may hold and spend, and what a run may use up. */
import type { StateStore } from 'svcdb'
import type { PlanePolicy } from 'svcdb/agents'
import t from 'tap'
import { RunJournal } from '../drive/run-journal.ts'
import { controlled, LEASE_MS, skill } from '../testing/control.ts'
import { replanExceeds } from './budgets.ts'
import { hasSlot, periodRow, type QuotaLimits, reservationOf, slots, UNBOUNDED } from './store.ts'

const DAY = 86_400_000
const quota = (more: Partial<QuotaLimits>): QuotaLimits => ({ ...UNBOUNDED, period: 'day', ...more })
const EVE = { actor: 'eve', basis: 'asserted' } as const
const wait = skill('wait', async (context) => (await context.awaitEvent({ kind: 'go', correlation: [], withinMs: 1000 * DAY })).payload)
const LIMITS = { maxSteps: 1000, maxEffects: 1000 }

t.test('a slot is taken at admission, given back at a wait and at the end, and taken again by who goes on', async (t) => {
  const { state, driver, run, records } = await controlled([wait, skill('nothing', async () => null)])
  const one = driver({ quota: quota({ maxConcurrentRuns: 1 }) })
  const first = await one.admit({ capability: 'wait', input: null, actor: 'ann', idempotencyKey: 'k' })
  t.same(
    (await slots(state, 10)).map((slot) => slot.run),
    [first.run],
  )
  await t.rejects(one.admit({ capability: 'wait', input: null, actor: 'ann' }), { code: 'RATE_LIMITED', message: /max_concurrent_runs/ })
  t.same((await state.list({ prefix: 'status/' })).length, 1, 'what is refused leaves no trace')
  t.match(await one.admit({ capability: 'wait', input: null, actor: 'ann', idempotencyKey: 'k' }), { existing: true }, 'a key gives its run, full or not')
  t.equal(await one.drive(first.run, first.epoch), 'suspended')
  t.same(await slots(state, 10), [])
  const second = await one.admit({ capability: 'wait', input: null, actor: 'ann' })
  await one.deliver({ id: '1', source: 's', kind: 'go', payload: 1 })
  t.equal(await one.drive(first.run), 'succeeded', 'what was admitted goes on')
  t.ok(await hasSlot(state, second.run))
  t.equal(await one.drive(second.run, second.epoch), 'suspended')
  const third = await run(one, 'nothing')
  t.equal(third.status, 'succeeded')
  t.same(await slots(state, 10), [])
  t.match(await records(first.run, 'QuotaPassStarted'), [{ payload: { period: '2026-11-23', release_slot: true } }], 'and the journal says so')
  t.same(await records(third.run, 'QuotaPassStarted'), [], 'its first one is its admission')
  t.match(await one.replay(first.run), { divergences: [] })
})

t.test('what an effect may spend is reserved before it, and settled after it', async (t) => {
  const seen: unknown[] = []
  const { state, driver, run, clock, records } = await controlled([
    skill('buy', async (context, input) => {
      const { most, cost } = input as { most: number; cost: number | null }
      await context.effect({ kind: 'model', args: null, mutates: false, spends: { tokens: most } }, async ({ effectKey, spend }) => {
        seen.push(await reservationOf(state, context.run, effectKey))
        if (cost !== null) spend({ tokens: cost })
        return null
      })
      return 'bought'
    }),
  ])
  const buyer = driver({ quota: quota({ maxTokens: 100 }) })
  const buy = (most: number, cost: number | null) => run(buyer, 'buy', { input: { most, cost } })
  t.equal((await buy(60, 40)).status, 'succeeded')
  t.match(seen[0], { tokens: 60, period: '2026-11-23' })
  t.same(await periodRow(state, '2026-11-23'), { settled: { tokens: 40, minor_units: 0 }, reserved: { tokens: 0, minor_units: 0 } })
  const refused = await buy(61, 1)
  t.equal(refused.status, 'exhausted')
  t.match(await records(refused.run, 'RunConcluded'), [{ payload: { exhaustion: { limit: 'tokens', allowed: 100, used: 40 } } }])
  t.match(await records(refused.run, 'BudgetRefused'), [{ payload: { limit: 'tokens', used: '40' } }])
  t.equal(seen.length, 1, 'it was not done')
  t.equal((await buy(60, 60)).status, 'succeeded')
  await t.rejects(buy(1, 1), { code: 'RATE_LIMITED', message: /the 100 tokens of 2026-11-23 are used up/ })
  clock.now += DAY
  t.equal(await buyer.resume(refused.run), 'succeeded', 'another period')
  t.match(await records(refused.run, 'BudgetReadmitted'), [{ payload: { limit: 'tokens' } }])
  t.match(await records(refused.run, 'RunConcluded'), [{}, { payload: { live_spend: { tokens: 1, minor_units: 0 } } }])
  t.match((await periodRow(state, '2026-11-24')).settled, { tokens: 1 })
})

t.test('an effect of which nobody knows the end has spent what was reserved for it', async (t) => {
  const { state, driver, run } = await controlled([
    skill('pay', (context) =>
      context.effect({ kind: 'pay', args: null, mutates: true, spends: { minor_units: 70 } }, async () => {
        throw new Error('no answer')
      }),
    ),
  ])
  const payer = driver()
  const { run: id, status } = await run(payer, 'pay')
  t.equal(status, 'quarantined')
  t.match(await periodRow(state, '2026-11'), { settled: { minor_units: 70 }, reserved: { minor_units: 0 } })
  t.equal(await payer.decide(id, 'abandon', EVE, 'enough'), 'abandoned')
  t.match(await periodRow(state, '2026-11'), { settled: { minor_units: 70 }, reserved: { minor_units: 0 } }, 'and once')
})

t.test('what is reserved for a run whose journal is damaged is spent once when it is abandoned', async (t) => {
  let dead = false
  const { state, clock, driver, records } = await controlled([
    skill('pay', (context) =>
      context.effect({ kind: 'pay', args: null, mutates: true, spends: { tokens: 16 } }, async () => {
        dead = true
        return null
      }),
    ),
  ])
  const transaction: StateStore['transaction'] = async (body) => (dead ? Promise.reject(new Error('the process is dead')) : state.transaction(body))
  const one = driver({ state: { get: (key) => state.get(key), list: (range) => state.list(range), transaction } })
  const { run: id, epoch } = await one.admit({ capability: 'pay', input: null, actor: 'ann' })
  await t.rejects(one.drive(id, epoch), /a pass over a run has ended before its time/)
  const [{ key, value }] = await state.list<{ raw: string }>({ prefix: `record/${id}/`, limit: 1 })
  await state.transaction((tx) => tx.put(key, { ...value, raw: value.raw.replace('ann', 'eve') }))
  clock.now += LEASE_MS + 1
  const other = driver()
  t.equal(await other.drive(id), 'quarantined')
  t.equal(await other.decide(id, 'abandon', EVE, 'its journal is damaged'), 'abandoned')
  t.match((await records(id, 'RunConcluded')).at(-1)?.payload, { live_spend: { tokens: 16 } })
  t.match(await periodRow(state, '2026-11'), { settled: { tokens: 16 }, reserved: { tokens: 0 } })
})

t.test('each budget refuses, says so in the journal and in the standing, and lets the run go on when it is raised', async (t) => {
  const work = skill('work', async (context, input) => {
    const { egress } = input as { egress?: number }
    for (let i = 0; i < 3; i++)
      await context
        .effect(
          {
            kind: 'call',
            args: i,
            mutates: false,
            spends: { tokens: 10, minor_units: 5 },
            ...(egress === undefined ? {} : { outboundBytes: egress }),
            grant: 'tool://mail/send',
          },
          async ({ spend }) => {
            spend({ tokens: 10, minor_units: 5 })
            return i
          },
        )
        .catch(() => null)
    return 'done'
  })
  const nap = skill('nap', async (context) => {
    await context.sleep(5000)
    return context.effect({ kind: 'after', args: null, mutates: false }, async () => null)
  })
  const denied: PlanePolicy = async ({ action }) => (action === 'run:admit' ? { outcome: 'permit' } : { outcome: 'deny', reason: 'not at night' })
  const rates = new Map([['tool://mail/send', [{ allowed: 2, windowMs: 60_000 }]]])
  const cases = [
    { limits: { maxEffects: 2 }, exceeded: { limit: 'effects', allowed: 2, used: 2 } },
    { limits: { maxTokens: 20 }, exceeded: { limit: 'tokens', allowed: 20, used: 20 } },
    { limits: { maxMinorUnits: 6 }, exceeded: { limit: 'money', allowed: 6, used: 10 } },
    { limits: { maxEgressBytes: 100 }, input: { egress: 40 }, exceeded: { limit: 'egress', allowed: 100, used: 80, attempted: 40 } },
    { limits: { maxDenials: 1 }, policy: denied, exceeded: { limit: 'denials', allowed: 1 } },
    { limits: { rates }, exceeded: { limit: 'rate', grant: 'tool://mail/send', allowed: 2, window_seconds: 60, reached: 2 } },
    { limits: { maxWallclockMs: 4000 }, capability: 'nap', exceeded: { limit: 'wallclock', allowed: 4, used: 5 } },
    { limits: { maxSteps: 0 }, exceeded: { limit: 'steps', allowed: 0 } },
    { limits: { maxJournalBytes: 1500 }, exceeded: { limit: 'recorded', recorded_limit: 'journal_bytes', used: /^(1[5-9]|2.)../ } },
  ]
  for (const { limits, exceeded, policy, input = {}, capability = 'work' } of cases) {
    const { driver, run, records, clock } = await controlled([work, nap])
    const bounded = driver({ limits: { ...LIMITS, ...limits }, ...(policy === undefined ? {} : { policy }) })
    let { run: id, status } = await run(bounded, capability, { input })
    if (status === 'suspended') {
      clock.now += 5000
      await bounded.due(10)
      status = await bounded.drive(id)
    }
    const name = exceeded.recorded_limit ?? exceeded.limit
    t.equal(status, 'exhausted', name)
    t.match(await records(id, 'RunConcluded'), [{ payload: { exhaustion: exceeded } }])
    t.match(await records(id, 'BudgetRefused'), [{ payload: { limit: name } }])
    const [{ payload }] = await records(id, 'BudgetRefused')
    t.match(await bounded.replay(id), { divergences: [], exhaustion: { limit: 'recorded', recorded_limit: name, used: payload.used } })
    t.equal(await bounded.resume(id), 'exhausted', 'nothing was raised')
    t.equal((await records(id, 'BudgetRefused')).length, 1, 'it is written once')
    const raised = driver({ limits: LIMITS, ...(policy === undefined ? {} : { policy }) })
    t.equal(await raised.resume(id), 'succeeded')
    t.match(await records(id, 'BudgetReadmitted'), [{ payload: { limit: name } }])
    t.match(await raised.replay(id), { divergences: [], status: 'succeeded' })
  }
})

t.test('a rate counts over all runs of the tenant, in a window that slides', async (t) => {
  const send = skill('send', (context) => context.effect({ kind: 'send', args: null, mutates: false, grant: 'g' }, async () => null))
  const { driver, run, clock } = await controlled([send])
  const bounded = driver({ limits: { ...LIMITS, rates: new Map([['g', [{ allowed: 2, windowMs: 60_000 }]]]) } })
  t.equal((await run(bounded, 'send')).status, 'succeeded')
  clock.now += 40_000
  t.equal((await run(bounded, 'send')).status, 'succeeded')
  const third = await run(bounded, 'send')
  t.equal(third.status, 'exhausted')
  clock.now += 20_000
  t.equal(await bounded.resume(third.run), 'succeeded', 'the first use is out of the window')
  t.equal((await run(bounded, 'send')).status, 'exhausted', 'the second is not')
})

t.test('of two rates of a grant both hold, that of the node and that of a manifest, and neither forgets what the other one counts', async (t) => {
  const send = skill('send', (context) => context.effect({ kind: 'send', args: null, mutates: false, grant: 'g' }, async () => null))
  const { driver, run, clock } = await controlled([send])
  const rated = (allowed: number, windowMs: number) => new Map([['g', [{ allowed, windowMs }]]])
  const hourly = { ...LIMITS, rates: rated(3, 3_600_000) }
  const both = driver({ limits: hourly, limitsOf: () => ({ rates: rated(2, 1000) }) })
  const by = async (one: typeof both) => (await run(one, 'send')).status
  t.same([await by(both), await by(both)], ['succeeded', 'succeeded'])
  t.equal(await by(both), 'exhausted', 'the narrow one')
  clock.now += 2000
  t.equal(await by(both), 'succeeded')
  t.equal(await by(both), 'exhausted', 'the wide one, which the manifest does not loosen')
  clock.now += 2000
  t.equal(await by(driver({ limits: { ...LIMITS, rates: rated(2, 1000) } })), 'succeeded', 'one that looks back a second only')
  t.equal(await by(driver({ limits: hourly })), 'exhausted', 'has taken nothing away')
})

t.test('what the policies do not allow is journalled, fails for the step, and is the same when it is run again', async (t) => {
  const policy: PlanePolicy = async ({ action, resource }) =>
    action === 'effect:perform' && resource.id === 'wipe' ? { outcome: 'deny', reason: 'never' } : { outcome: 'permit' }
  const done: string[] = []
  const careful = skill('careful', async (context) => {
    const tried = await context.effect({ kind: 'wipe', args: null, mutates: true }, async () => done.push('wipe')).catch((error) => error.message)
    await context.effect({ kind: 'look', args: null, mutates: false }, async () => done.push('look'))
    return tried
  })
  const { driver, run, records } = await controlled([careful])
  const governed = driver({ policy })
  const { run: id, status } = await run(governed, 'careful')
  t.equal(status, 'succeeded')
  t.same(done, ['look'])
  t.match(await records(id, 'PolicyDenied'), [{ payload: { reason: 'never', action: 'effect:perform', resource: 'wipe' } }])
  t.match(await governed.replay(id), { divergences: [], output: /the policies do not allow it: never/ })
})

t.test('a run is admitted when the policies permit it, and its chain covers what it does', async (t) => {
  const asked: unknown[] = []
  const { state, driver, records } = await controlled([skill('orders.refund', async () => null)])
  const answers = [
    { outcome: 'deny' as const, reason: 'no refunds today' },
    { outcome: 'malformed' as const, reason: 'broken' },
    { outcome: 'permit' as const },
  ]
  const governed = driver({
    policy: async (question) => {
      asked.push(question)
      return answers.shift() ?? { outcome: 'permit' }
    },
  })
  const chain = [{ id: 'customer-7', scope: ['orders.*'] }]
  const request = { capability: 'orders.refund', input: null, actor: 'ann', chain }
  await t.rejects(governed.admit(request), { code: 'FORBIDDEN', message: /no refunds today/ })
  await t.rejects(governed.admit(request), { code: 'INTERNAL_ERROR' })
  await t.rejects(governed.admit({ ...request, chain: [{ id: 'x', scope: ['orders.read'] }] }), {
    code: 'FORBIDDEN',
    message: /the scope of "x" does not cover/,
  })
  for (const bad of [[], [1, 2, 3, 4].map((n) => ({ id: `p${n}`, scope: ['*'] })), [{ id: ' ', scope: ['*'] }], [{ id: 'x', scope: ['Orders'] }]])
    await t.rejects(governed.admit({ ...request, chain: bad }), { code: 'BAD_REQUEST' })
  t.same(await state.list(), [], 'what is refused leaves no trace')
  const { run } = await governed.admit(request)
  t.match(asked[0], {
    principal: { type: 'Actor', id: 'customer-7' },
    action: 'run:admit',
    resource: { type: 'Resource', id: 'orders.refund' },
    context: { subjects: ['customer-7', 'ann'] },
  })
  t.match(await records(run, 'IdentityBound'), [{ payload: { chain } }])
})

t.test('another plan than the first one counts as a replan', async (t) => {
  const { state, driver, run } = await controlled([skill('nothing', async () => null)])
  const { run: id } = await run(driver(), 'nothing')
  const journal = await RunJournal.read(state, id)
  t.equal(replanExceeds({ ...LIMITS, maxReplans: 1 }, journal), undefined)
  t.same(replanExceeds({ ...LIMITS, maxReplans: 0 }, journal), { limit: 'replans', allowed: 0 })
})
