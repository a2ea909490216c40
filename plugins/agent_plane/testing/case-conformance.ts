/** What the stores of cases, obligations and holds do, and the transparency log, whatever state store is below them. */
import { hash } from 'node:crypto'
import type { StateStore, StateTransaction } from 'svcdb'
import type { CaseStatus, CorrelationKey, DeadlineState } from 'svcdb/agents'
import type { Test } from 'tap'
import { attachRun, caseFaults, caseIds, caseOf, casesOf, openCase, openCaseOf, putState, runsAbout, runsOfCase } from '../cases/case-store.ts'
import { drill, lastVerdict } from '../cases/drill.ts'
import { holdOf, placeHold, releasedHolds, releaseHold, standingHolds } from '../cases/holds.ts'
import {
  acknowledge,
  changeStatus,
  deadlineFaults,
  deadlineOf,
  deadlinesOf,
  registerDeadline,
  sweepDeadlines,
  transition,
  unacknowledged,
} from '../cases/obligations.ts'
import { awaitSealing, checkpointOf, isSealed, sealRuns, unsealed } from '../log/log.ts'
import { verifyLog } from '../log/verify.ts'
import { newCaseId, newRunId } from '../record/names.ts'
import { CHAIN_START, decode } from '../record/record.ts'
import { append, headOf, recordsOf } from '../store/journal.ts'
import { takeLease } from '../store/leases.ts'
import { setStatus } from '../store/runs.ts'
import { sweptRecord, writeSealedRun } from '../store/sealed-run.ts'

const NOW = 1_700_000_000_000
const HOUR = 3_600_000
const ANN = { actor: 'ann', basis: 'asserted' } as const
let next = 0
const newRun = (): string => newRunId(NOW + next++, () => 0.5)
const newCase = (): string => newCaseId(NOW + next++, () => 0.5)
const key = (value: string): CorrelationKey => ({ namespace: 'order', value })

async function opened(state: StateStore, ...values: string[]): Promise<string> {
  const id = newCase()
  await state.transaction((tx) => void openCase(tx, id, 'support.order', values.map(key), NOW))
  return id
}

/** A run that is over, with one note. */
async function ended(state: StateStore, text: string): Promise<string> {
  const run = newRun()
  await state.transaction(async (tx) => {
    const epoch = (await takeLease(tx, run, 'a', NOW, 1)) as number
    await append(tx, run, epoch, { seq: 0, hash: CHAIN_START }, [{ kind: 'Note', payload: { text } }])
    await setStatus(tx, run, 'succeeded')
    awaitSealing(tx, run)
  })
  return run
}

const seal = async (state: StateStore): Promise<number> => {
  const runs = await unsealed(state, 100)
  return state.transaction((tx) => sealRuns(tx, runs))
}

export const caseRules: readonly (readonly [string, (t: Test, state: StateStore) => Promise<void>])[] = [
  [
    'a key has one open case; closed it frees its keys, and opened again it takes back those that are free',
    async (t, state) => {
      const within = <T>(body: (tx: StateTransaction) => Promise<T>): Promise<T> => state.transaction(body)
      const first = await opened(state, '1', '2')
      t.match(await caseOf(state, first), { status: 'open', version: 0, state: null, opened: NOW, correlation: [key('1'), key('2')] })
      t.equal(await openCaseOf(state, [key('9'), key('2')]), first)
      t.equal(await openCaseOf(state, [key('9')]), undefined)
      t.equal(await within((tx) => putState(tx, first, 0, { step: 1 })), 1)
      await t.rejects(
        within((tx) => putState(tx, first, 0, { step: 2 })),
        { code: 'CONFLICT' },
      )
      await t.rejects(
        within((tx) => putState(tx, first, 1, 'x'.repeat(1 << 18))),
        { code: 'BAD_REQUEST' },
      )
      t.equal((await within((tx) => changeStatus(tx, first, 'awaiting_human'))).version, 2)
      t.equal((await within((tx) => changeStatus(tx, first, 'awaiting_human'))).version, 2, 'the same is no change')
      await within((tx) => changeStatus(tx, first, 'closed'))
      t.equal(await openCaseOf(state, [key('1'), key('2')]), undefined)
      const second = await opened(state, '2')
      t.match(await within((tx) => changeStatus(tx, first, 'open')), { version: 4, correlation: [key('1')], state: { step: 1 } })
      t.equal(await openCaseOf(state, [key('1')]), first)
      t.equal(await openCaseOf(state, [key('2')]), second)
      const third = await opened(state, '3')
      t.same(
        (await casesOf(state, 'open', 10)).map(({ id }) => id),
        [third, second, first],
        'newest first',
      )
      t.equal((await casesOf(state, 'open', 1)).length, 1)
      t.same(await casesOf(state, 'closed', 10), [])
      t.same(await caseIds(state, first, 1), [second])
      const [run, other] = [newRun(), newRun()]
      await within(async (tx) => {
        attachRun(tx, first, other)
        attachRun(tx, first, run)
      })
      t.same(await runsOfCase(state, first, 10), [run, other])
      t.equal((await caseOf(state, first))?.version, 4, 'a run that joins writes nothing of the case')
      for (const id of [first, second, third]) t.same(await caseFaults(state, id), [])
      await t.rejects(
        within((tx) => changeStatus(tx, newCase(), 'open')),
        { code: 'NOT_FOUND' },
      )
    },
  ],
  [
    'obligations are warned of, breached and met; a breach escalates its case and stays until somebody accounts for it',
    async (t, state) => {
      const id = await opened(state, '1')
      const add = (name: string, resolved: number, warn?: number) =>
        state.transaction((tx) => registerDeadline(tx, { case: id, name, resolved, calendar_digest: 'd', ...(warn === undefined ? {} : { warn }) }))
      const move = (name: string, to: Exclude<DeadlineState, 'pending'>) => state.transaction((tx) => transition(tx, id, name, to))
      const close = (to: CaseStatus) => state.transaction((tx) => changeStatus(tx, id, to))
      const sweep = (now: number, limit = 512) => state.transaction((tx) => sweepDeadlines(tx, now, limit))
      await add('late', NOW + 2 * HOUR, NOW + HOUR)
      t.match(await add('late', NOW + 9 * HOUR), { resolved: NOW + 2 * HOUR }, 'computed once')
      await add('soon', NOW + HOUR)
      await add('never', NOW + 5 * HOUR, NOW + 6 * HOUR)
      await t.rejects(add('Not/a name', NOW), { code: 'BAD_REQUEST' })
      t.same(
        (await deadlinesOf(state, id)).map(({ name }) => name),
        ['soon', 'late', 'never'],
      )
      await t.rejects(close('closed'), { code: 'CONFLICT', message: /"soon" is open/ })
      t.same(await sweep(NOW + HOUR - 1), [])
      t.equal(await move('soon', 'met'), 'pending')
      t.equal(await move('soon', 'met'), 'met', 'again it is nothing new')
      await t.rejects(move('soon', 'cancelled'), { code: 'CONFLICT' })
      await t.rejects(move('none', 'met'), { code: 'NOT_FOUND' })
      t.match(await sweep(NOW + HOUR), [{ action: 'deadline_warned', subject: `${id}/late`, case: id }])
      t.same(await sweep(NOW + HOUR), [], 'once')
      t.match(await sweep(NOW + 2 * HOUR), [
        { action: 'deadline_breached', subject: `${id}/late` },
        { action: 'case_escalated', subject: id },
      ])
      t.equal((await caseOf(state, id))?.status, 'escalated')
      t.match(
        await sweep(NOW + 6 * HOUR),
        [{ action: 'deadline_breached', subject: `${id}/never` }],
        'without a warning that would come too late; the case is escalated already',
      )
      t.same(
        (await unacknowledged(state, 10)).map(({ name }) => name),
        ['late', 'never'],
      )
      t.equal((await unacknowledged(state, 1)).length, 1)
      const say = (name: string, actor: string) => state.transaction((tx) => acknowledge(tx, id, name, { by: { actor, basis: 'asserted' }, note: '', at: NOW }))
      t.match(await say('late', 'ann'), { recorded: true })
      t.match(await say('late', 'bob'), { recorded: false, by: { actor: 'ann' } })
      await t.rejects(say('soon', 'ann'), { code: 'CONFLICT' })
      await t.rejects(say('none', 'ann'), { code: 'NOT_FOUND' })
      t.same(
        (await unacknowledged(state, 10)).map(({ name }) => name),
        ['never'],
      )
      t.match(await deadlineOf(state, id, 'late'), { state: 'breached', acknowledged: { by: ANN } })
      await close('closed')
      await t.rejects(add('new', NOW + 9 * HOUR), { code: 'CONFLICT' })
      t.same([...(await caseFaults(state, id)), ...(await deadlineFaults(state, id))], [])
      const many = await opened(state, 'many')
      await state.transaction(async (tx) => {
        for (let i = 0; i < 5; i++) await registerDeadline(tx, { case: many, name: `d${i}`, resolved: NOW + i, calendar_digest: 'd' })
      })
      const actions = (await sweep(NOW + HOUR, 3)).map(({ action }) => action)
      t.same(actions, ['deadline_breached', 'case_escalated', 'deadline_breached', 'deadline_breached', 'not_applied'])
      t.equal((await sweep(NOW + HOUR, 3)).length, 2)
    },
  ],
  [
    'a hold stands once, and its release is the only record of a sealed run',
    async (t, state) => {
      const [id, other] = [await opened(state, '1'), await opened(state, '2')]
      const place = (of: string, placed: number, actor = 'ann') =>
        state.transaction((tx) => placeHold(tx, { case: of, placed, reason: 'a suit', by: { actor, basis: 'asserted' } }))
      t.match(await place(other, 20), { placed: true })
      t.match(await place(id, 10), { placed: true, inForce: { placed: 10 } })
      t.match(await place(id, 30, 'bob'), { placed: false, inForce: { placed: 10, by: { actor: 'ann' } } })
      await t.rejects(place(newCase(), 1), { code: 'NOT_FOUND' })
      t.same(
        (await standingHolds(state, 10)).map((hold) => hold.case),
        [id, other],
        'oldest first',
      )
      const [run, later] = [newRun(), newRun()]
      const release = (of: string, record: string) => state.transaction((tx) => releaseHold(tx, of, ANN, record, NOW))
      t.equal(await release(id, run), true)
      t.equal(await release(id, newRun()), false)
      t.equal(await holdOf(state, id), undefined)
      const sealed = await recordsOf(state, run)
      t.equal(sealed.length, 1)
      t.notMatch(sealed[0].raw, 'a suit', 'not why')
      t.match(decode(sealed[0].raw), { kind: 'HoldReleased', case: id, payload: { by: ANN, at: NOW / 1000, placed_by: ANN, placed_at: 10 } })
      t.same(await runsAbout(state, id, 10), [run], 'in the history of the case')
      await release(other, later)
      t.match(await releasedHolds(state, 10), [
        { case: other, record: later, placed: 20 },
        { case: id, record: run, at: NOW / 1000 },
      ])
      t.equal((await releasedHolds(state, 1)).length, 1)
      t.equal(await seal(state), 2)
      t.equal(await isSealed(state, run), true)
    },
  ],
  [
    'the log is the Merkle tree of the last hashes of ended runs; what was changed, taken away or put in between is found',
    async (t, state) => {
      t.match(await checkpointOf(state, 'here'), { origin: 'here', size: 0, root: hash('sha256', '') })
      const runs: string[] = []
      for (let i = 0; i < 11; i++) {
        runs.push(await ended(state, `${i}`))
        if (i % 3 === 0) t.equal(await seal(state), i === 0 ? 1 : 3)
      }
      t.equal(await isSealed(state, runs[10]), false)
      t.match(await verifyLog(state), { size: 10, waiting: 1, faults: [] })
      t.equal(await seal(state), 1)
      t.equal(await seal(state), 0)
      t.equal(await isSealed(state, runs[10]), true)
      const heads = await Promise.all(runs.map(async (run) => (await headOf(state, run)).hash))
      t.equal((await checkpointOf(state, '')).root, treeOf(heads), 'as RFC 6962 defines it')
      t.match(await verifyLog(state), { size: 11, waiting: 0, faults: [] })
      const spoilt = async (spoil: (tx: StateTransaction) => Promise<void>): Promise<string[]> => {
        const before = await state.list<unknown>()
        await state.transaction(spoil)
        const { faults } = await verifyLog(state)
        const after = await state.list<unknown>()
        await state.transaction((tx) => {
          for (const { key: one } of after) tx.delete(one)
          for (const { key: one, value } of before) tx.put(one, value)
        })
        return faults
      }
      t.match(await spoilt(async (tx) => tx.delete(`head/${runs[4]}`)), [/is in the log, and is not there/])
      t.match(await spoilt(async (tx) => tx.put(`head/${runs[4]}`, { seq: 1, hash: heads[3] })), [/is not as the log has it/])
      t.match(await spoilt(async (tx) => tx.delete('log/leaf/000000000010')), [/has 10 entries, and its size is 11/])
      t.match(await spoilt(async (tx) => tx.delete(`log/run/${runs[2]}`)), [/entry 2 .* is not where/, /is succeeded, and is not in the log/])
      const swapped = await spoilt(async (tx) => {
        const [two, three] = [await tx.get('log/leaf/000000000002'), await tx.get('log/leaf/000000000003')]
        tx.put('log/leaf/000000000002', three)
        tx.put('log/leaf/000000000003', two)
      })
      t.match(swapped, [/entry 2/, /entry 3/, /do not come to its root/])
      t.match((await verifyLog(state)).faults, [])
    },
  ],
  [
    'a drill reads every case and what belongs to it; a loss is a finding',
    async (t, state) => {
      t.equal(await lastVerdict(state), undefined)
      const id = await opened(state, '1')
      const run = await ended(state, 'in it')
      await state.transaction(async (tx) => {
        attachRun(tx, id, run)
        await registerDeadline(tx, { case: id, name: 'answer', resolved: NOW + HOUR, calendar_digest: 'd' })
        await writeSealedRun(tx, newRun(), 'swept', [sweptRecord({ subject: `${id}/answer`, action: 'deadline_warned', case: id })], NOW)
      })
      await opened(state, '2')
      t.match(await drill(state, 'here', NOW), { at: NOW, cases: 2, findings: 0, first: [], notChecked: 2, origin: 'here', logSize: 0 })
      await seal(state)
      t.match(await drill(state, 'here', NOW), { findings: 0, notChecked: 0, logSize: 2 })
      await state.transaction(async (tx) => {
        tx.delete(`record/${run}/000000000001`)
        for (const { key: due } of await tx.list({ prefix: 'due/' })) tx.delete(due)
      })
      const verdict = await drill(state, 'here', NOW + 1)
      t.match(verdict, { findings: 2, first: [/"answer" is pending, and not listed as due/, /cannot use the journal/] })
      t.same(await lastVerdict(state), verdict)
    },
  ],
]

/** The root by the definition: the tree of the largest power of two below the size, and the tree of the rest. */
function treeOf(heads: readonly string[]): string {
  const node = (prefix: number, ...parts: string[]) => hash('sha256', Buffer.concat([Buffer.of(prefix), ...parts.map((part) => Buffer.from(part, 'hex'))]))
  if (heads.length === 1) return node(0, heads[0])
  const split = 2 ** Math.floor(Math.log2(heads.length - 1))
  return node(1, treeOf(heads.slice(0, split)), treeOf(heads.slice(split)))
}
