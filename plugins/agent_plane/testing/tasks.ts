/** What the store of tasks and the desk over it do, whatever state store is below them. */
import type { StateStore } from 'svcdb'
import { type Json, OWN, ownProse, TASK_DECIDED, type Task, type TaskCaller, type TaskRequest, taskKey } from 'svcdb/agents'
import { seeded } from 'svcdb/lib/random'
import { Type } from 'svcdb/lib/schema'
import type { Test } from 'tap'
import { newRunId } from '../record/names.ts'
import { arrivedFor, beginWait } from '../store/events.ts'
import { setStatus, statusOf } from '../store/runs.ts'
import { Desk } from '../tasks/desk.ts'
import { checkedRequest } from '../tasks/request.ts'
import { backlogOf, decisionFor, indexKeys, openTask, overdueTasks, queueFor, sweepTasks, withdrawTasks } from '../tasks/store.ts'

const NOW = 1_700_000_000_000
const HOUR = 3_600_000
let next = 0

export const person = (actor: string, ...roles: string[]): TaskCaller => ({ actor, basis: 'authenticated', roles })
const BOB = person('bob', 'desk')
const CAT = person('cat', 'desk', 'lead')
const DAN = person('dan', 'lead')
const YES = { approved: true, reason: 'fine' }
const NO = { approved: false, reason: 'no' }

export function request(more: Partial<TaskRequest> = {}): TaskRequest {
  return checkedRequest({ kind: 'refund', summary: ownProse('Pay it back?'), proposed_action: { cents: 250 }, ...more })
}

/** Of a run of its own that ann has asked for. */
export function opened(state: StateStore, more: Partial<TaskRequest> = {}, now = NOW): Promise<Task> {
  const run = newRunId(NOW + next++, () => 0.25)
  return state.transaction((tx) => openTask(tx, { run, effect: 'e'.repeat(64), request: request(more), requesters: ['ann'], label: OWN, now }))
}

export function deskOver(state: StateStore, clock = { now: NOW }, argumentsOf: (tool: string) => object | undefined = () => undefined): Desk {
  return new Desk({ state, now: () => clock.now, argumentsOf })
}

export const taskRules: readonly (readonly [string, (t: Test, state: StateStore) => Promise<void>])[] = [
  [
    'the same effect of a run opens the same task, as it stands',
    async (t, state) => {
      const task = await opened(state)
      t.match(task, { state: 'open', priority: 'normal', excluded: ['ann'], candidate_roles: [], on_expiry: { policy: 'deny' }, digest: /^[0-9a-f]{64}$/ })
      await deskOver(state).claim(task.id, BOB)
      const { run, effect } = task
      const again = { run, effect, request: request(), requesters: ['ann'], label: OWN, now: NOW + HOUR }
      t.match(await state.transaction((tx) => openTask(tx, again)), { id: task.id, state: 'claimed', assignee: 'bob', opened: NOW })
      await state.transaction((tx) => withdrawTasks(tx, run))
      t.match(await deskOver(state).task(task.id), { state: 'withdrawn', assignee: undefined })
      t.match(await state.transaction((tx) => openTask(tx, again)), { id: task.id, state: 'open' }, 'asked for again')
      const other = await state.transaction((tx) => openTask(tx, { ...again, effect: 'f'.repeat(64) }))
      t.not(other.id, task.id)
    },
  ],
  [
    'the queue is by priority and age, for the roles of who asks; what is taken or decided is not in it',
    async (t, state) => {
      const low = await opened(state, { priority: 'low' }, NOW)
      const old = await opened(state, {}, NOW + 1)
      const young = await opened(state, { candidate_roles: ['desk', 'lead'] }, NOW + 2)
      const urgent = await opened(state, { priority: 'urgent', candidate_roles: ['lead'] }, NOW + 3)
      const high = await opened(state, { priority: 'high', candidate_roles: ['a/b', 'ü\u0000'] }, NOW + 4)
      const ids = async (roles: string[], limit = 10) => (await queueFor(state, roles, limit)).map(({ id }) => id)
      t.same(await ids([]), [old.id, low.id])
      t.same(await ids(['desk']), [old.id, young.id, low.id])
      t.same(await ids(['lead', 'desk', 'lead']), [urgent.id, old.id, young.id, low.id], 'each once')
      t.same(await ids(['ü\u0000']), [high.id, old.id, low.id])
      t.same(await ids(['lead', 'desk'], 2), [urgent.id, old.id])
      t.equal(await backlogOf(state, 100), 5)
      const desk = deskOver(state)
      t.same((await desk.queue(CAT, 2)).truncated, true)
      await desk.claim(urgent.id, CAT)
      t.same(await ids(['lead']), [old.id, young.id, low.id])
      t.equal(await backlogOf(state, 100), 5)
      await desk.decide(old.id, YES, BOB)
      t.same(await ids(['lead']), [young.id, low.id])
      t.equal(await backlogOf(state, 100), 4)
      t.equal(await backlogOf(state, 3), 3)
      await desk.release(urgent.id, CAT)
      t.same(await ids(['lead']), [urgent.id, young.id, low.id])
    },
  ],
  [
    'who waits for a decision gets it in the transaction that keeps it, and later it is still there',
    async (t, state) => {
      const task = await opened(state)
      const { run, id } = task
      const wait = { run, key: task.effect, until: NOW + HOUR, event: { kind: TASK_DECIDED, correlation: [taskKey(id)] } }
      await state.transaction(async (tx) => {
        await beginWait(tx, wait)
        await setStatus(tx, run, 'suspended')
      })
      t.equal(await decisionFor(state, [taskKey(id)]), undefined)
      const desk = deskOver(state)
      t.same(await desk.decided(id, YES, BOB), { decision: { approved: true, reason: 'fine', decided_by: 'bob', basis: 'authenticated' }, runs: [run] })
      t.equal(await statusOf(state, run), 'running')
      t.match(await arrivedFor(state, run, task.effect), { id, payload: { approved: true } })
      t.match(await decisionFor(state, [taskKey(id)]), { payload: { decided_by: 'bob' }, label: { trust: 'trusted', provenance: ['person:bob'] } })
      t.same(await state.list({ prefix: 'buffer/' }), [], 'it is kept nowhere else')
    },
  ],
  [
    'an end by time denies, lets pass or asks more roles, once; what is decided stays so',
    async (t, state) => {
      const clock = { now: NOW }
      const desk = deskOver(state, clock)
      const sweep = (limit: number) => state.transaction((tx) => sweepTasks(tx, clock.now, limit))
      const ends = (policy: object, more: object = {}) => opened(state, { withinMs: HOUR, on_expiry: policy as never, ...more })
      const denied = await opened(state, { withinMs: HOUR })
      const passed = await ends({ policy: 'proceed', allow_unattended: true })
      const widened = await ends({ policy: 'escalate', escalate_to: ['lead'] }, { candidate_roles: ['desk'], excluded: ['eve'] })
      const everybody = await ends({ policy: 'escalate', escalate_to: ['lead'] })
      const decided = await ends({ policy: 'proceed', allow_unattended: true })
      await desk.decide(decided.id, NO, BOB)
      await desk.claim(widened.id, BOB)
      await desk.claim(denied.id, BOB)
      clock.now = NOW + HOUR - 1
      t.same(await sweep(512), [])
      t.same(await overdueTasks(state, clock.now, 10), [])
      clock.now = NOW + HOUR
      t.equal((await desk.overdue(10)).rows.length, 4)
      t.equal((await sweep(3)).at(-1)?.action, 'not_applied')
      t.equal((await sweep(3)).length, 1)
      t.same(await sweep(512), [])
      t.match(await desk.task(denied.id), { state: 'expired', assignee: undefined, decision: { approved: false, expired: true, decided_by: 'svc.expiry' } })
      t.match(await desk.task(passed.id), { state: 'expired', decision: { approved: true, expired: true, reason: /^nobody has decided by 2023-/ } })
      const wide = await desk.task(widened.id)
      t.match(wide, { state: 'escalated', assignee: undefined, candidate_roles: ['desk', 'lead'], excluded: ['eve', 'ann'] })
      t.match(await desk.task(everybody.id), { state: 'escalated', candidate_roles: [] })
      t.match(await desk.task(decided.id), { state: 'completed', decision: { approved: false } })
      t.same((await desk.overdue(10)).rows.sort(), [widened.id, everybody.id].sort())
      t.ok((await desk.queue(DAN, 10)).rows.some(({ id }) => id === widened.id))
      await desk.claim(widened.id, DAN)
      clock.now += 10 * HOUR
      t.same(await sweep(512), [], 'not again, taken or not')
      await desk.release(widened.id, DAN)
      t.equal((await desk.task(widened.id)).state, 'escalated', 'as it was before it was taken')
      t.same(await sweep(512), [])
      await t.rejects(desk.decide(widened.id, YES, person('eve', 'lead')), { code: 'FORBIDDEN' })
      await desk.decide(widened.id, YES, DAN)
      t.same((await desk.overdue(10)).rows, [everybody.id])
    },
  ],
  [
    'checks come in one order: who may not at all, then what is over, then who else has it',
    async (t, state) => {
      const desk = deskOver(state)
      const task = await opened(state, { candidate_roles: ['desk'], excluded: ['eve'] })
      const verbs: Record<string, (id: string, who: TaskCaller) => Promise<unknown>> = {
        claim: (id, who) => desk.claim(id, who),
        takeOver: (id, who) => desk.takeOver(id, 'bob', who),
        decide: (id, who) => desk.decide(id, YES, who),
      }
      await desk.claim(task.id, BOB)
      for (const [name, verb] of Object.entries(verbs)) {
        await t.rejects(verb('x', CAT), { code: 'BAD_REQUEST' }, name)
        await t.rejects(verb('0'.repeat(64), CAT), { code: 'NOT_FOUND' }, name)
        await t.rejects(verb(task.id, person('ann', 'desk')), { code: 'FORBIDDEN', message: /asked for it/ }, name)
        await t.rejects(verb(task.id, person('eve')), { code: 'FORBIDDEN', message: /named by it/ }, `${name}: the excluded before the roles`)
        await t.rejects(verb(task.id, { ...CAT, acting_as: ['fay', 'ann'] }), { code: 'FORBIDDEN' }, `${name}: in the name of who asked`)
        await t.rejects(verb(task.id, DAN), { code: 'FORBIDDEN', message: /holders of desk/ }, name)
      }
      await t.rejects(desk.claim(task.id, CAT), { code: 'CONFLICT', message: /claimed by "bob"/ })
      await t.rejects(desk.decide(task.id, YES, CAT), { code: 'CONFLICT', message: /claimed by "bob"/ })
      await t.rejects(desk.takeOver(task.id, 'dan', CAT), { code: 'CONFLICT' })
      await t.rejects(desk.release(task.id, CAT), { code: 'CONFLICT' })
      t.match(await desk.claim(`task_${task.id}`, BOB), { assignee: 'bob' }, 'what is held already')
      t.match(await desk.takeOver(task.id, 'bob', CAT), { assignee: 'cat' })
      t.match(await desk.takeOver(task.id, 'bob', CAT), { assignee: 'cat' }, 'the answer was lost')
      await t.rejects(desk.takeOver(task.id, 'dan', CAT), { code: 'CONFLICT' })
      await t.rejects(desk.release(task.id, BOB), { code: 'CONFLICT' })
      await t.rejects(desk.decide(task.id, { ...YES, digest: '0'.repeat(64) }, CAT), { code: 'PRECONDITION_FAILED' })
      await t.rejects(desk.decide(task.id, { ...YES, reason: ' ' }, CAT), { code: 'BAD_REQUEST' })
      await t.rejects(desk.decide(task.id, { ...YES, digest: 'x' }, CAT), { code: 'BAD_REQUEST' })
      const decision = await desk.decide(task.id, { ...YES, digest: task.digest, amendment: null }, CAT)
      t.same(decision, { approved: true, reason: 'fine', decided_by: 'cat', basis: 'authenticated' })
      t.same(await desk.decide(task.id, YES, CAT), decision, 'the answer was lost')
      await t.rejects(desk.decide(task.id, NO, CAT), { code: 'CONFLICT', message: /it is completed/ })
      await t.rejects(desk.decide(task.id, YES, BOB), { code: 'CONFLICT' })
      await t.rejects(desk.claim(task.id, CAT), { code: 'CONFLICT' })
      await t.rejects(desk.claim(task.id, DAN), { code: 'FORBIDDEN' })
      await t.rejects(desk.release(task.id, CAT), { code: 'CONFLICT' })
      await t.rejects(desk.takeOver(task.id, 'cat', BOB), { code: 'CONFLICT', message: /it is completed/ })
    },
  ],
  [
    'an amendment is what the schema says, and what is withheld is only rejected',
    async (t, state) => {
      const schema = Type.Object({ cents: Type.Integer({ minimum: 1 }) }, { additionalProperties: false })
      const desk = deskOver(state, { now: NOW }, (tool) => (tool === 'bank.pay' ? schema : undefined))
      const decide = (id: string, amendment: unknown, more: object = {}) => desk.decide(id, { ...YES, amendment: amendment as never, ...more }, BOB)
      for (const more of [{ schema }, { tool: 'bank.pay' }]) {
        const { id } = await opened(state, more)
        await t.rejects(decide(id, { cents: 0 }), { code: 'INVALID_BODY', message: /\/cents/ })
        await t.rejects(decide(id, { cents: 1, to: 'me' }), { code: 'INVALID_BODY' })
        await t.rejects(decide(id, 'x'.repeat(70_000)), { code: 'INVALID_BODY', message: /65536/ })
        t.match(await decide(id, { cents: 5 }), { amendment: { cents: 5 } })
      }
      const { id: unknown } = await opened(state, { tool: 'shop.pay' })
      await t.rejects(decide(unknown, { cents: 5 }), { code: 'INVALID_BODY', message: /nothing here knows/ })
      t.match(await decide(unknown, 'less', { approved: false }), { approved: false, amendment: 'less' }, 'advice')
      const { id: free } = await opened(state)
      t.match(await decide(free, { later: true }), { amendment: { later: true } })
      const deep = (levels: number): Json => JSON.parse('['.repeat(levels) + ']'.repeat(levels))
      const { id: nested } = await opened(state)
      await t.rejects(decide(nested, deep(511)), { code: 'INVALID_BODY', message: /nested more than 512 deep/ }, 'the run has it within an event')
      t.match(await decide(nested, deep(510)), { approved: true })
      const hidden = await opened(state, { proposed_action: 'a secret', schema: { const: 'a secret' } })
      await desk.withhold(hidden.id, 'erased')
      t.notMatch(JSON.stringify(await desk.task(hidden.id)), /a secret/)
      t.match(await desk.task(hidden.id), { withheld: 'erased', digest: hidden.digest, justification: { proposed_action: null } })
      await t.rejects(decide(hidden.id, null), { code: 'INVALID_BODY', message: /erased/ })
      t.match(await decide(hidden.id, null, { approved: false }), { approved: false })
      const damaged = await opened(state)
      await state.transaction((tx) =>
        tx.put(`task/${damaged.id}`, { ...damaged, justification: { ...damaged.justification, proposed_action: { cents: 9999 } } }),
      )
      await t.rejects(decide(damaged.id, null), { code: 'INVALID_BODY', message: /undecodable/ })
    },
  ],
  [
    'an end by time lets nothing pass that nobody may approve',
    async (t, state) => {
      const clock = { now: NOW }
      const desk = deskOver(state, clock)
      const ends = () => opened(state, { withinMs: HOUR, on_expiry: { policy: 'proceed', allow_unattended: true } })
      const [shown, hidden, damaged] = [await ends(), await ends(), await ends()]
      await desk.withhold(hidden.id, 'erased')
      const { justification } = damaged
      await state.transaction((tx) => tx.put(`task/${damaged.id}`, { ...damaged, justification: { ...justification, proposed_action: { cents: 9999 } } }))
      clock.now = NOW + HOUR
      await state.transaction((tx) => sweepTasks(tx, clock.now, 512))
      t.match(await desk.task(shown.id), { state: 'expired', decision: { approved: true } })
      t.match(await desk.task(hidden.id), { state: 'expired', decision: { approved: false, reason: /and its proposal is erased/ } })
      t.match(await desk.task(damaged.id), { state: 'expired', decision: { approved: false, reason: /and its proposal is undecodable/ } })
    },
  ],
  [
    'many who act at one time act one after the other: one decision, and none is lost',
    async (t, state) => {
      const seed = Number(process.env.SVC_SEED ?? 7)
      const random = seeded(seed)
      t.comment(`SVC_SEED=${seed}`)
      const pick = <T>(from: readonly T[]): T => from[Math.floor(random() * from.length)]
      const actors = Array.from({ length: 8 }, (_, i) => person(`p${i}`, ...(i % 4 === 3 ? [] : ['desk'])))
      const desk = deskOver(state)
      for (let round = 0; round < 12; round++) {
        const { id } = await opened(state, { candidate_roles: ['desk'], excluded: ['p0'] })
        const said: { who: TaskCaller; answer: unknown }[] = []
        const claims: string[] = []
        const act = async (): Promise<void> => {
          const who = pick(actors)
          const verb = random()
          const barred = who.roles.length === 0 || who.actor === 'p0'
          try {
            if (verb < 0.35) claims.push((await desk.claim(id, who)).assignee as string)
            else if (verb < 0.5) await desk.release(id, who)
            else if (verb < 0.7) claims.push((await desk.takeOver(id, pick(actors).actor, who)).assignee as string)
            else said.push({ who, answer: await desk.decide(id, { approved: random() < 0.5, reason: `${random()}` }, who) })
            t.notOk(barred, `${who.actor} may not`)
            if (verb < 0.35 || (verb >= 0.5 && verb < 0.7)) t.equal(claims.at(-1), who.actor)
          } catch (error) {
            const { code } = error as { code?: string }
            if (code !== 'CONFLICT' && !(barred && code === 'FORBIDDEN')) throw error
          }
        }
        await Promise.all(Array.from({ length: 40 }, act))
        const task = await desk.task(id)
        t.ok(said.length <= 1, `${said.length} decisions`)
        t.equal(task.state === 'completed', said.length === 1, `round ${round}: ${task.state}`)
        if (said.length === 1) t.match(task.decision, said[0].answer as object)
        if (said.length === 1) t.equal(task.decision?.decided_by, said[0].who.actor)
        const keys = (await Promise.all(['task_queue/', 'task_run/'].map((prefix) => state.list<string>({ prefix })))).flat()
        t.same(
          keys
            .filter(({ value }) => value === id)
            .map(({ key }) => key)
            .sort(),
          indexKeys(task).sort(),
        )
      }
    },
  ],
]
