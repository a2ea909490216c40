/** What the stores of quota, halts and pushes do, whatever state store is below them. */
import type { StateStore, StateTransaction } from 'svcdb'
import type { Test } from 'tap'
import { haltFor, haltOf, liftedHalts, pausing, place, remove, standingHalts } from '../halts/store.ts'
import { advance, clear, duePushes, fail, MAX_PAUSE_MS, parkedPushes, pushOf, rearm, register, touch } from '../push/store.ts'
import {
  actingOf,
  giveSlotBack,
  hasSlot,
  keepActing,
  periodRow,
  reservationOf,
  reserve,
  settle,
  settleAll,
  slots,
  takeSlot,
  use,
  usesOf,
} from '../quota/store.ts'
import { newRunId } from '../record/names.ts'
import { append, headOf } from '../store/journal.ts'
import { takeLease } from '../store/leases.ts'
import { setStatus } from '../store/runs.ts'

const NOW = 1_700_000_000_000
const EVE = { actor: 'eve', basis: 'asserted' } as const
let next = 0
/** Of one millisecond each, so that they have an order. */
const newRun = (): string => newRunId(NOW + next++, () => 0.5)

export const controlRules: readonly (readonly [string, (t: Test, state: StateStore) => Promise<void>])[] = [
  [
    'a slot is there from when it is taken until it is given back, once for a run, and not when its transaction fails',
    async (t, state) => {
      const runs = [newRun(), newRun(), newRun()]
      await state.transaction((tx) => runs.forEach((run, i) => void takeSlot(tx, run, NOW + i)))
      await state.transaction((tx) => takeSlot(tx, runs[1], NOW + 9))
      t.same(await slots(state, 10), [
        { run: runs[0], since: NOW },
        { run: runs[1], since: NOW + 9 },
        { run: runs[2], since: NOW + 2 },
      ])
      t.equal((await slots(state, 2)).length, 2)
      await state.transaction((tx) => giveSlotBack(tx, runs[1]))
      await state.transaction((tx) => giveSlotBack(tx, runs[1]))
      t.same([await hasSlot(state, runs[0]), await hasSlot(state, runs[1])], [true, false])
      const broken = (tx: StateTransaction) => {
        giveSlotBack(tx, runs[0])
        takeSlot(tx, runs[1], NOW)
        throw new Error('broken')
      }
      await t.rejects(state.transaction(broken), { message: 'broken' })
      t.same(
        (await slots(state, 10)).map(({ run }) => run),
        [runs[0], runs[2]],
      )
      const agent = { name: 'a', version: '1', digest: '0'.repeat(64) }
      await state.transaction((tx) => keepActing(tx, runs[0], { agent, subjects: ['x', 'ann'] }))
      t.same(await actingOf(state, runs[0]), { agent, subjects: ['x', 'ann'] })
      t.same(await actingOf(state, runs[1]), { subjects: [] })
    },
  ],
  [
    'what is reserved is settled once, in the period in which it was reserved',
    async (t, state) => {
      const [run, other] = [newRun(), newRun()]
      const spent = (tokens: number, minor_units = 0) => ({ tokens, minor_units })
      const inTx = (body: (tx: StateTransaction) => Promise<unknown>) => state.transaction(body)
      await inTx((tx) => reserve(tx, run, 'a', '2023-11', { tokens: 50 }))
      await inTx((tx) => reserve(tx, run, 'b', '2023-11', { tokens: 7, minor_units: 3 }))
      await inTx((tx) => reserve(tx, other, 'a', '2023-11', { tokens: 100 }))
      t.same(await periodRow(state, '2023-11'), { settled: spent(0), reserved: spent(157, 3) })
      t.same(await reservationOf(state, run, 'b'), { period: '2023-11', ...spent(7, 3) })
      await inTx((tx) => settle(tx, run, 'a', '2023-12', spent(60)))
      t.same(await periodRow(state, '2023-11'), { settled: spent(60), reserved: spent(107, 3) }, 'more than was reserved counts whole')
      t.same(await periodRow(state, '2023-12'), { settled: spent(0), reserved: spent(0) })
      t.equal(await reservationOf(state, run, 'a'), undefined)
      await inTx((tx) => settle(tx, run, 'c', '2023-12', spent(4)))
      t.same((await periodRow(state, '2023-12')).settled, spent(4), 'of what nothing was reserved')
      t.same(await inTx((tx) => settleAll(tx, run)), spent(7, 3))
      t.same(await inTx((tx) => settleAll(tx, run)), spent(0))
      t.same(await periodRow(state, '2023-11'), { settled: spent(67, 3), reserved: spent(100) }, 'that of another run stands')
    },
  ],
  [
    'uses of a grant count in a window that ends now, its end included and its beginning not',
    async (t, state) => {
      const [run, grant] = [newRun(), `tool://mail/${next}`]
      const uses = (now: number, limit = 10) => state.transaction((tx) => usesOf(tx, grant, 1000, now, limit))
      await state.transaction((tx) => [0, 1, 999].forEach((ms) => void use(tx, grant, run, `k${ms}`, NOW + ms)))
      await state.transaction((tx) => use(tx, `${grant}2`, run, 'k', NOW))
      t.equal(await uses(NOW + 999), 3)
      t.equal(await uses(NOW + 999, 2), 2, 'as many as are asked for')
      t.equal(await uses(NOW + 1000), 2)
      t.equal(await uses(NOW + 1999), 0)
      t.equal(await uses(NOW + 999), 0, 'what was out of the window is gone')
    },
  ],
  [
    'uses that a wrong clock has noted far ahead hold nobody up when it is set back',
    async (t, state) => {
      const [run, grant] = [newRun(), `tool://mail/${next}`]
      const ahead = NOW + 365 * 86_400_000
      const uses = (now: number) => state.transaction((tx) => usesOf(tx, grant, 1000, now, 10))
      await state.transaction((tx) => [0, 1].forEach((ms) => void use(tx, grant, run, `k${ms}`, ahead + ms)))
      await state.transaction((tx) => use(tx, grant, run, 'k', NOW + 500))
      t.equal(await uses(NOW), 1, 'that of a node whose clock is a little ahead counts')
      t.equal(await uses(ahead + 1), 2)
    },
  ],
  [
    'halts stand by scope until they are lifted; the narrowest one is named',
    async (t, state) => {
      const agent = { name: 'seller', version: '1', digest: 'a'.repeat(64) }
      const acting = { agent, subjects: ['customer-7', 'ann'] }
      const scopes = ['tenant', 'agent:seller', `revision:${agent.digest}`, 'subject:ann', 'subject:customer-7']
      t.equal(await haltFor(state, acting), undefined)
      for (const [i, scope] of scopes.entries()) {
        await state.transaction((tx) => place(tx, scope, scope, EVE, 100 + i))
        t.match(await haltFor(state, acting), { scope }, 'the narrower one')
      }
      t.match(await haltFor(state, { subjects: ['bob'] }), { scope: 'tenant' })
      t.match(await pausing(state, ['bob', 'ann']), { scope: 'subject:ann' })
      t.equal(await pausing(state, ['bob']), undefined, 'others are not paused')
      await state.transaction((tx) => place(tx, 'tenant', 'again', EVE, 110))
      t.same(await haltOf(state, 'tenant'), { scope: 'tenant', reason: 'again', by: 'eve', basis: 'asserted', thrown_at: 110 })
      t.same(
        (await standingHalts(state)).map(({ scope }) => scope),
        [...scopes.slice(1), 'tenant'],
        'the oldest first',
      )
      for (const [i, scope] of ['tenant', 'subject:ann'].entries()) {
        const { reason, by, basis, thrown_at } = (await haltOf(state, scope)) as NonNullable<Awaited<ReturnType<typeof haltOf>>>
        const lifted = { scope, by: 'bob', basis, lifted_at: 200 + i, reason, thrown_by: by, thrown_basis: basis, thrown_at, record: newRun() }
        await state.transaction((tx) => remove(tx, scope, lifted))
        t.same(await liftedHalts(state, 1), [lifted], 'the newest first')
      }
      t.equal((await liftedHalts(state, 10)).length, 2)
      t.equal(await haltFor(state, { subjects: ['ann'] }), undefined)
      t.equal((await standingHalts(state)).length, 3)
    },
  ],
  [
    'a push is due when something has happened, goes on from where its receiver is, and stops when it is parked or the run is over',
    async (t, state) => {
      const [run, config] = [newRun(), { id: 'one', url: 'https://a.example' }]
      const inTx = <T>(body: (tx: StateTransaction) => Promise<T>) => state.transaction(body)
      const due = async (now: number) => (await duePushes(state, now, 10)).map(({ run: of, id }) => `${of}/${id}`)
      const add = (count: number) =>
        inTx(async (tx) =>
          append(
            tx,
            run,
            1,
            await headOf(tx, run),
            Array.from({ length: count }, () => ({ kind: 'Note', payload: { text: '' } })),
          ),
        )
      await inTx(async (tx) => {
        await takeLease(tx, run, 'a', NOW, 30_000)
        await register(tx, run, config, NOW)
        await setStatus(tx, run, 'running')
      })
      await add(2)
      t.same(await due(NOW - 1), [])
      t.same(await due(NOW), [`${run}/one`])
      await inTx((tx) => advance(tx, run, 'one', 2, NOW + 5))
      t.same([await due(NOW + 4), await due(NOW + 5)], [[], [`${run}/one`]], 'there is more')
      await inTx((tx) => advance(tx, run, 'one', 3, NOW))
      t.same(await due(NOW * 2), [], 'it has had all')
      await inTx((tx) => touch(tx, run, NOW + 10))
      await inTx((tx) => advance(tx, run, 'one', 2, NOW))
      t.match(await pushOf(state, run, 'one'), { next_seq: 3, due: NOW + 10 }, 'it does not go back')
      await inTx((tx) => fail(tx, run, 'one', 2, 'late', NOW))
      await inTx((tx) => fail(tx, run, 'one', 3, 'no answer', NOW + 20))
      t.match(await pushOf(state, run, 'one'), { next_seq: 3, attempts: 1, last_error: 'no answer', due: NOW + 20 })
      t.equal(await inTx((tx) => rearm(tx, run, 'one', NOW)), false, 'it is not parked')
      await inTx((tx) => fail(tx, run, 'one', 3, 'gone', undefined))
      await inTx((tx) => touch(tx, run, NOW))
      t.same(await due(NOW * 2), [])
      t.match(await parkedPushes(state, 10), [{ run, row: { attempts: 2, last_error: 'gone', parked: true } }])
      t.equal(await inTx((tx) => rearm(tx, run, 'two', NOW)), false)
      t.equal(await inTx((tx) => rearm(tx, run, 'one', NOW + 30)), true)
      t.same([await due(NOW + 30), await parkedPushes(state, 10)], [[`${run}/one`], []])
      t.match(await pushOf(state, run, 'one'), { next_seq: 3, attempts: 0 })
      const [row] = await duePushes(state, NOW + 30, 1)
      await inTx((tx) => clear(tx, run, 'one', row.key))
      t.same(await due(NOW + 30), [`${run}/one`], 'a row that belongs to it stays')
      await inTx((tx) => register(tx, run, { ...config, url: 'https://b.example' }, NOW + 40))
      t.match(await pushOf(state, run, 'one'), { config: { url: 'https://b.example' }, next_seq: 3, due: NOW + 40 })
      t.same(await due(NOW + 39), [], 'its row of before is gone')
      await inTx((tx) => setStatus(tx, run, 'succeeded'))
      await inTx((tx) => advance(tx, run, 'one', 3, NOW + 50))
      t.equal(await pushOf(state, run, 'one'), undefined, 'nothing will follow')
      t.same([await due(NOW * 2), await parkedPushes(state, 10)], [[], []])
    },
  ],
  [
    'a push whose next try a wrong clock has noted far ahead is due when that is set back',
    async (t, state) => {
      const [run, ahead] = [newRun(), NOW + 86_400_000]
      const due = async (now: number) => (await duePushes(state, now, 10)).map(({ id }) => id)
      await state.transaction((tx) => register(tx, run, { id: 'one', url: 'https://a.example' }, ahead))
      await state.transaction((tx) => register(tx, run, { id: 'two', url: 'https://a.example' }, NOW + MAX_PAUSE_MS))
      t.same(await due(NOW), ['one'], 'no pause is so long')
      t.same(await due(ahead), ['two', 'one'])
    },
  ],
]
