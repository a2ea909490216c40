/** Events for one run alone: over crashes they reach it and no other, and are dead letters when it is over. */
import { defineSkill, type Json, type StepContext } from 'svcdb/agents'
import { Type } from 'svcdb/lib/schema'
import t from 'tap'
import { start } from '../testing/node.ts'
import { deadLetters } from './events.ts'

const skill = (capability: string, invoke: (ctx: StepContext) => Promise<Json>) =>
  defineSkill({ capability, summary: 'Of a test', input: Type.Any(), output: Type.Any(), invoke })
const about = [{ namespace: 'n', value: 'x' }]
const hear = skill('hear', async (ctx) => (await ctx.awaitEvent({ kind: 'told', correlation: about, withinMs: 1e9 })).payload)
const later = skill('later', async (ctx) => {
  await ctx.awaitEvent({ kind: 'go', withinMs: 1e9 })
  return (await ctx.awaitEvent({ kind: 'told', correlation: about, withinMs: 1e9 })).payload
})
const event = (id: string, to: string, kind = 'told') => ({ id, source: 's', kind, correlation: about, payload: id, to })

t.test('an event for a run is taken by that run, and by no other', async (t) => {
  const { plane, run } = await start(t, [hear, later])
  const { run: one } = await run('hear', 1)
  const { run: two } = await run('hear', 2)
  t.same(await plane.deliver(event('1', two)), { delivery: 'resumed', run: two })
  t.equal(await plane.settled(two), 'succeeded')
  t.match(await plane.standing(one), { status: 'suspended' }, 'though it waits for such a one, and came first')
  const { run: third } = await run('later', null)
  t.same(await plane.deliver(event('2', third)), { delivery: 'buffered' })
  t.same(await plane.deliver(event('2', third)), { delivery: 'duplicate' })
  t.match(await run('hear', 3), { status: 'suspended' }, 'it is not theirs')
  t.same(await plane.deliver(event('go', third, 'go')), { delivery: 'resumed', run: third })
  t.equal(await plane.settled(third), 'succeeded')
  t.equal((await plane.replay(third)).output, '2')
})

t.test('what a run has not read is a dead letter when it is over; there is none for one that is', async (t) => {
  const { plane, run, node } = await start(t, [hear, later])
  const { run: one } = await run('later', null)
  t.same(await plane.deliver(event('1', one)), { delivery: 'buffered' })
  await plane.cancel(one, { actor: 'ann', basis: 'asserted' }, 'not needed')
  t.equal(await plane.settled(one), 'cancelled')
  const state = node.storage.state('agent_plane')
  t.match(await deadLetters(state, 10), [{ source: 's', id: '1', reason: /has ended without reading it/ }])
  t.same(await state.list({ prefix: 'addressed/' }), [])
  t.same(await state.list({ prefix: 'found/' }), [])
  await t.rejects(plane.deliver(event('2', one)), { code: 'CONFLICT', message: /it is cancelled, and waits for nothing any more/ })
  await t.rejects(plane.deliver(event('3', 'run_01ARZ3NDEKTSV4RRFFQ69G5FAV')), { code: 'NOT_FOUND', message: /there is no such run/ })
})
