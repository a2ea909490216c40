/** What the stores of the plane do, whatever state store is below them. */
import type { StateStore } from 'svcdb'
import type { AgentEvent } from 'svcdb/agents'
import type { Test } from 'tap'
import { newRunId } from '../record/names.ts'
import { CHAIN_START, verified } from '../record/record.ts'
import { arrivedFor, beginWait, deadLetters, deliver, endWait, hasNews, retire } from '../store/events.ts'
import { append, headOf, recordsOf } from '../store/journal.ts'
import { isHeld, leaseOf, releaseLease, renewLease, takeLease } from '../store/leases.ts'
import { cancellationOf, claimKey, requestCancel, runOfKey, runsOf, setStatus, statusOf } from '../store/runs.ts'
import { suspendedBy, type Wait, waitOf } from '../store/waits.ts'

const TTL = 30_000
const FENCED = /another process has taken it over/
const NOW = 1_700_000_000_000
let next = 0
/** Of one millisecond each, so that they have an order. */
const newRun = (): string => newRunId(NOW + next++, () => 0.5)
const note = (text: string) => ({ kind: 'Note', payload: { text } })

const waitAt = (run: string, key: string, until: number): Wait => ({ run, key, until })

export const rules: readonly (readonly [string, (t: Test, state: StateStore) => Promise<void>])[] = [
  [
    'one holder at a time; who takes a lapsed lease over raises the epoch',
    async (t, state) => {
      const run = newRun()
      const take = (holder: string, now: number) => state.transaction((tx) => takeLease(tx, run, holder, now, TTL))
      t.equal(await take('a', NOW), 1)
      t.equal(await take('b', NOW + TTL - 1), undefined)
      t.equal(await state.transaction((tx) => renewLease(tx, run, 1, NOW + TTL - 1, TTL)), true)
      t.equal(await take('b', NOW + TTL), undefined, 'renewed')
      t.equal(await take('b', NOW + 3 * TTL), 2)
      t.equal(await state.transaction((tx) => renewLease(tx, run, 1, NOW + 3 * TTL, TTL)), false)
      await state.transaction((tx) => releaseLease(tx, run, 1))
      t.ok(isHeld(await leaseOf(state, run), NOW + 3 * TTL, TTL), 'nobody gives back what is not his')
      await state.transaction((tx) => releaseLease(tx, run, 2))
      t.equal(await take('a', NOW), 3, 'given back, and the epoch goes on')
      t.equal(await take('b', NOW - 10 * TTL), 4, 'a lease of a clock that was wrong holds nobody up')
    },
  ],
  [
    'records follow one another under the epoch of the lease, all of an append or none',
    async (t, state) => {
      const run = newRun()
      const add = (epoch: number, head: { seq: number; hash: string }, texts: string[]) =>
        state.transaction((tx) => append(tx, run, epoch, head, texts.map(note)))
      const start = { seq: 0, hash: CHAIN_START }
      await t.rejects(add(1, start, ['a']), FENCED, 'without a lease')
      await state.transaction((tx) => takeLease(tx, run, 'a', NOW, TTL))
      const { head } = await add(1, start, ['a', 'b'])
      await t.rejects(add(1, start, ['c']), FENCED, 'the end is elsewhere')
      await state.transaction((tx) => takeLease(tx, run, 'b', NOW + 2 * TTL, TTL))
      await t.rejects(add(1, head, ['c']), FENCED, 'another has taken it over')
      await t.rejects(add(2, head, ['c', 'x'.repeat(1 << 20)]), { code: 'BAD_REQUEST' })
      t.same(await headOf(state, run), head)
      const many = await add(
        2,
        head,
        Array.from({ length: 1200 }, (_, i) => `${i}`),
      )
      const sealed = await recordsOf(state, run)
      t.equal(verified(run, sealed, many.head).length, 1202)
      t.same(await recordsOf(state, run, 1200, 2), sealed.slice(1199, 1201))
      const other = newRun()
      t.same(await recordsOf(state, other), [])
    },
  ],
  [
    'runs are listed by how they stand, the newest first; a key has one run, and the first who cancels stays',
    async (t, state) => {
      const runs = [newRun(), newRun(), newRun()]
      await state.transaction(async (tx) => {
        for (const run of runs) await setStatus(tx, run, 'exhausted')
        await setStatus(tx, runs[1], 'failed')
        claimKey(tx, 'k', runs[0])
      })
      t.same(await runsOf(state, 'exhausted', 10), [runs[2], runs[0]])
      t.same(await runsOf(state, 'exhausted', 1), [runs[2]])
      t.equal(await statusOf(state, runs[1]), 'failed')
      t.equal(await runOfKey(state, 'k'), runs[0])
      t.equal(await runOfKey(state, 'l'), undefined)
      const ask = (actor: string) => state.transaction((tx) => requestCancel(tx, runs[0], { by: { actor, basis: 'asserted' }, reason: 'r' }))
      t.equal((await ask('ann')).recorded, true)
      t.match(await ask('bob'), { recorded: false, cancellation: { by: { actor: 'ann' } } })
      t.equal(await cancellationOf(state, runs[1]), undefined)
    },
  ],
  [
    'suspended runs are in the order of the waits that are over first, each once, and page by page',
    async (t, state) => {
      const runs = [newRun(), newRun(), newRun()]
      const later = NOW + 1_000_000
      await state.transaction(async (tx) => {
        for (const [index, run] of runs.entries()) {
          await beginWait(tx, waitAt(run, 'k', later + 30 - index * 10))
          await beginWait(tx, waitAt(run, 'j', later + 500))
          await setStatus(tx, run, 'running')
        }
      })
      const found = async (by: number, limit = 10) => (await suspendedBy(state, by, limit)).map(({ run }) => run).filter((run) => runs.includes(run))
      t.same(await found(later + 1000), [], 'those that go on are not')
      for (const run of runs) await state.transaction((tx) => setStatus(tx, run, 'suspended'))
      t.same(await found(later + 1000), [runs[2], runs[1], runs[0]])
      t.same(await found(later + 20), [runs[2], runs[1]])
      const [first] = await suspendedBy(state, later + 1000, 1)
      t.same((await suspendedBy(state, later + 1000, 1, first)).length, 1)
      t.not((await suspendedBy(state, later + 1000, 1, first))[0].run, first.run)
      await state.transaction((tx) => setStatus(tx, runs[1], 'cancelled'))
      t.same(await found(later + 1000), [runs[2], runs[0]])
      for (const run of [runs[0], runs[2]]) await state.transaction((tx) => setStatus(tx, run, 'cancelled'))
    },
  ],
  [
    'an event finds who waits for it, or is found, once; what nobody wants is a dead letter',
    async (t, state) => {
      const [one, other] = [newRun(), newRun()]
      const key = (value: string) => ({ namespace: 'n', value })
      const event = (id: string, more: Partial<AgentEvent> = {}): AgentEvent => ({
        id,
        source: one,
        kind: 'told',
        correlation: [key(one)],
        payload: id,
        ...more,
      })
      const wait = (run: string, correlation = [key(one)]): Wait => ({ run, key: 'k', until: NOW + 1000, event: { kind: 'told', correlation } })
      const give = (given: AgentEvent) => state.transaction((tx) => deliver(tx, given, NOW))
      t.same(await give(event('1')), { delivery: 'buffered' })
      t.same(await give(event('1')), { delivery: 'duplicate' })
      t.same(await give(event('2', { kind: 'other' })), { delivery: 'buffered' })
      t.equal(await state.transaction((tx) => beginWait(tx, wait(other, [key(one), key(other)]))), undefined, 'it has not all of the keys')
      t.match(await state.transaction((tx) => beginWait(tx, wait(one))), { id: '1' })
      t.equal(await waitOf(state, one, 'k'), undefined)
      t.same(await give(event('1')), { delivery: 'duplicate', run: one })
      t.equal(await state.transaction((tx) => beginWait(tx, wait(one))), undefined)
      await state.transaction((tx) => setStatus(tx, one, 'suspended'))
      t.same(await give(event('3')), { delivery: 'resumed', run: one })
      t.equal(await statusOf(state, one), 'running')
      t.equal(await hasNews(state, one, NOW), true)
      t.match(await arrivedFor(state, one, 'k'), { id: '3' })
      t.same(await give(event('4')), { delivery: 'buffered' }, 'it waits for one')
      await state.transaction(async (tx) => endWait(tx, (await waitOf(tx, one, 'k')) as Wait))
      t.equal(await hasNews(state, one, NOW + 5000), false)
      await state.transaction((tx) => setStatus(tx, other, 'suspended'))
      t.same(await suspendedBy(state, NOW + 999, 10), [])
      t.match(await suspendedBy(state, NOW + 1000, 10), [{ run: other, key: 'k' }])
      await state.transaction((tx) => setStatus(tx, other, 'running'))
      t.same(await suspendedBy(state, NOW + 1000, 10), [], 'it goes on')
      t.equal(await state.transaction((tx) => retire(tx, NOW, 10)), 0)
      t.equal(await state.transaction((tx) => retire(tx, NOW + 1, 10)), 2)
      t.same((await deadLetters(state, 10)).map(({ id }) => id).sort(), ['2', '4'])
      t.notMatch(JSON.stringify(await deadLetters(state, 10)), 'payload')
      t.equal(await state.transaction((tx) => beginWait(tx, wait(one))), undefined, 'it is gone')
    },
  ],
]
