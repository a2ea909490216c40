import { type CaseStatus, type CorrelationKey, defineSkill, type Json, type Skill, type StepContext } from 'svcdb/agents'
import { Type } from 'svcdb/lib/schema'
import t from 'tap'
import { start } from '../testing/node.ts'
import { wallClock } from './calendar.ts'

function skill(capability: string, invoke: (context: StepContext, input: Json) => Promise<Json>): Skill {
  return defineSkill({ capability, summary: 'Of a test', input: Type.Any(), output: Type.Any(), invoke } as never)
}

const order = (value: string): CorrelationKey => ({ namespace: 'order', value })

t.test('runs with a key meet in its open case, and share its state by versions', async (t) => {
  const count = skill('count', async (context) => {
    const { state, version } = await context.caseState()
    const n = ((state as { n: number } | null)?.n ?? 0) + 1
    const next = await context.putCaseState(version, { n })
    const stale = await context.putCaseState(version, { n: 99 }).catch((error: Error) => error.message)
    return { id: context.caseId as string, keys: [...context.correlation], n, next, stale } as unknown as Json
  })
  const close = skill('close', async (context, to) => context.setCaseStatus(to as CaseStatus).then(() => 'done'))
  const { plane } = await start(t, [count, close])
  const run = async (capability: string, keys: CorrelationKey[], input: Json = null) => {
    const { run } = await plane.run({ capability, input, actor: 'ann', case: { kind: 'support.order', correlation: keys } })
    const status = await plane.settled(run)
    const { divergences, output } = await plane.replay(run)
    t.same(divergences, [])
    return { run, status, output: output as { id: string; n: number; next: number; stale: string } }
  }
  const first = await run('count', [order('2'), order('1')])
  t.match(first.output, { n: 1, next: 1, keys: [order('1'), order('2')], stale: /it is at version 1, and not at 0/ })
  const second = await run('count', [order('9'), order('2')])
  t.match(second.output, { id: first.output.id, n: 2, next: 2, keys: [order('1'), order('2')] }, 'it has the keys of the case')
  const named = await plane.run({ capability: 'count', input: null, actor: 'ann', case: { id: first.output.id } })
  t.equal(await plane.settled(named.run), 'succeeded')
  t.equal((await run('close', [order('1')], 'closed')).status, 'succeeded')
  await t.rejects(plane.run({ capability: 'count', input: null, actor: 'ann', case: { id: first.output.id } }), { code: 'CONFLICT', message: /is closed/ })
  await t.rejects(plane.run({ capability: 'count', input: null, actor: 'ann', case: { id: 'case_01HF7YAT003MQHVMK0TR0T4D8Z' } }), { code: 'NOT_FOUND' })
  for (const bad of [
    { kind: 'Support', correlation: [order('1')] },
    { kind: 'support', correlation: [] },
    { kind: 'support', correlation: [order('')] },
  ])
    await t.rejects(plane.run({ capability: 'count', input: null, actor: 'ann', case: bad }), { code: 'BAD_REQUEST' })
  const anew = await run('count', [order('1')])
  t.not(anew.output.id, first.output.id, 'a closed case is not found by its keys')
  t.equal(anew.output.n, 1)
})

t.test('a run in a case waits for an event with any of its keys, until an obligation is due', async (t) => {
  const ask = skill('ask', async (context, input) => {
    await context.deadline('answer', input as never, { warnBeforeMs: 1000 })
    const answer = await context.awaitEvent({ kind: 'answered', obligation: 'answer' })
    await context.meetDeadline('answer')
    await context.setCaseStatus('closed')
    return answer.payload
  })
  const lost = skill('lost', (context) => context.awaitEvent({ kind: 'answered', obligation: 'none' }).then(() => 'no'))
  const { plane } = await start(t, [ask, lost])
  const begin = (capability: string, input: Json, value: string) =>
    plane.run({ capability, input, actor: 'ann', case: { kind: 'support.order', correlation: [order(value), { namespace: 'mail', value: `${value}@x` }] } })
  const { run } = await begin('ask', { unit: 'hours', n: 4 }, '1')
  t.equal(await plane.settled(run), 'suspended')
  t.match((await plane.standing(run)).waiting_for, /^awaiting answered for mail=1@x, order=1 until /)
  const event = { source: 'bob', kind: 'answered', payload: 'yes' }
  t.same(await plane.deliver({ ...event, id: '0', correlation: [order('2')] }), { delivery: 'buffered' })
  t.same(await plane.deliver({ ...event, id: '1', correlation: [order('1')] }), { delivery: 'resumed', run })
  t.equal(await plane.settled(run), 'succeeded')
  t.match(await plane.replay(run), { output: 'yes', divergences: [] })
  t.same(await plane.deliver({ ...event, id: '2', correlation: [order('1')] }), { delivery: 'buffered' }, 'nobody waits any more')
  const early = await begin('ask', { unit: 'days', n: 1 }, '2')
  t.equal(await plane.settled(early.run), 'succeeded', 'by an event that had come before')
  const bad = await begin('ask', { unit: 'working_days', n: 4 }, '3')
  t.equal(await plane.settled(bad.run), 'failed')
  t.match((await plane.standing(bad.run)).reason, /no unit "working_days"/)
  const none = await begin('lost', null, '4')
  t.equal(await plane.settled(none.run), 'failed')
  t.match((await plane.standing(none.run)).reason, /register it before/)
})

t.test('a run is begun in a case by HTTP', async (t) => {
  const { node, plane } = await start(t, [skill('look', async (context) => context.caseId ?? null)])
  const begin = (matter: unknown) => node.inject({ method: 'POST', url: '/api/v1/admin/agents/runs', payload: { capability: 'look', case: matter } })
  const seen = async (matter: unknown) => {
    const { run } = (await begin(matter)).json() as { run: string }
    await plane.settled(run)
    return (await plane.replay(run)).output as string
  }
  const id = await seen({ kind: 'support.order', correlation: [order('1')] })
  t.match(id, /^case_/)
  t.equal(await seen({ kind: 'support.order', correlation: [order('1'), order('2')] }), id)
  t.equal(await seen({ id }), id)
  const shapeless = [{}, { kind: 'support.order' }, { kind: 'support.order', correlation: [] }, { id, kind: 'x' }, 7]
  for (const bad of shapeless) t.equal((await begin(bad)).statusCode, 422, JSON.stringify(bad))
  t.equal((await begin({ kind: 'NO', correlation: [order('1')] })).statusCode, 400)
  t.equal((await begin({ id: 'case_01HF7YAT003MQHVMK0TR0T4D8Z' })).statusCode, 404)
})

t.test('a run without a case has none, and what asks for one fails', async (t) => {
  const ask = skill('ask', (context) => context.setCaseStatus('closed').then(() => 'no'))
  const look = skill('look', async (context) => [context.caseId ?? null, context.correlation.length])
  const { plane } = await start(t, [ask, look])
  const { run } = await plane.run({ capability: 'ask', input: null, actor: 'ann' })
  t.equal(await plane.settled(run), 'failed')
  t.match((await plane.standing(run)).reason, /is in no case/)
  const { run: other } = await plane.run({ capability: 'look', input: null, actor: 'ann' })
  await plane.settled(other)
  t.same((await plane.replay(other)).output, [null, 0])
})

t.test('a case with an open obligation does not close; what came out of a calendar stays', async (t) => {
  const plan = skill('plan', async (context) => {
    const first = await context.deadline('audit', { unit: 'fridays', n: 2 }, { calendar: 'office' })
    const again = await context.deadline('audit', { unit: 'fridays', n: 9 }, { calendar: 'office' })
    const refused = await context.setCaseStatus('closed').catch((error: Error) => error.message)
    await context.cancelDeadline('audit')
    const over = await context.meetDeadline('audit').catch((error: Error) => error.message)
    await context.setCaseStatus('closed')
    const late = await context.deadline('more', { unit: 'hours', n: 1 }).catch((error: Error) => error.message)
    return { first, again, refused, over, late } as unknown as Json
  })
  const unknown = skill('unknown_calendar', (context) => context.deadline('x', { unit: 'hours', n: 1 }, { calendar: 'moon' }).then(() => 'no'))
  const { plane } = await start(t, [plan, unknown])
  const at = 2_000_000_000_000
  plane.calendar({ name: 'office', digest: 'ab'.repeat(32), resolve: (_from, { n }) => at + (n as number) })
  t.throws(() => plane.calendar(wallClock), /there is one of this name/)
  const { run } = await plane.run({ capability: 'plan', input: null, actor: 'ann', case: { kind: 'support.order', correlation: [order('1')] } })
  t.equal(await plane.settled(run), 'succeeded')
  t.match(await plane.replay(run), {
    divergences: [],
    output: {
      first: { name: 'audit', resolvedAt: at + 2, calendarDigest: 'ab'.repeat(32) },
      again: { resolvedAt: at + 2 },
      refused: /"audit" is open/,
      over: /it is cancelled/,
      late: /is closed/,
    },
  })
  const other = await plane.run({ capability: 'unknown_calendar', input: null, actor: 'ann', case: { kind: 'support.order', correlation: [order('2')] } })
  t.equal(await plane.settled(other.run), 'failed')
  t.match((await plane.standing(other.run)).reason, /no calendar "moon" here/)
})

t.test('the shipped calendar counts minutes, hours and days, and guesses at nothing', async (t) => {
  const now = 1_700_000_000_000
  t.equal(wallClock.resolve(now, { unit: 'minutes', n: 5 }), now + 300_000)
  t.equal(wallClock.resolve(now, { unit: 'hours', n: 24 }), wallClock.resolve(now, { unit: 'days', n: 1 }))
  t.match(wallClock.digest, /^[0-9a-f]{64}$/)
  for (const bad of [
    { unit: 'weeks', n: 1 },
    { unit: 'hours' },
    { unit: 'hours', n: -1 },
    { unit: 'hours', n: 1.5 },
    { unit: 'days', n: 1e12 },
    { unit: 'toString', n: 1 },
  ])
    t.throws(() => wallClock.resolve(now, bad as never), { code: 'BAD_REQUEST' })
})
