/** Emergency stops: what they keep from beginning, what they pause, and how they end. */
import t from 'tap'
import { statusOf } from '../store/runs.ts'
import { controlled, skill } from '../testing/control.ts'
import { coversOf, isScope, liftedHalts, reachOf, standingHalts } from './store.ts'

const EVE = { actor: 'eve', basis: 'authenticated' } as const
const BOB = { actor: 'bob', basis: 'asserted' } as const
const DIGEST = 'ab'.repeat(32)
const agent = { name: 'refunder', version: '1', digest: DIGEST }
const about = [{ namespace: 'n', value: 'x' }]
const plan = [
  { id: 'first', capability: 'wait' },
  { id: 'second', capability: 'act', depends_on: ['first'], terminal: true },
]

async function setup() {
  const done: string[] = []
  const parts = await controlled([
    skill('nothing', async () => null),
    skill('wait', async (context) => (await context.awaitEvent({ kind: 'go', correlation: about, withinMs: 10 ** 9 })).payload, {
      compensation: 'unnecessary',
    }),
    skill('act', (context) => context.effect({ kind: 'act', args: null, mutates: true, recovery: 'idempotent' }, async () => done.push('act'))),
  ])
  return { ...parts, done }
}

t.test('scopes are independent, and a refusal names the narrowest', async (t) => {
  const { driver, run, clock, state } = await setup()
  const one = driver({ governing: () => agent })
  const request = { agent, chain: [{ id: 'customer-7', scope: ['*'] }] }
  const scopes = ['tenant', 'agent:refunder', `revision:${DIGEST}`, 'subject:customer-7']
  for (const scope of scopes) {
    clock.now += 1000
    await one.halt(scope, `because of ${scope}`, EVE)
    const error = await run(one, 'nothing', request).catch((thrown: Error) => thrown.message)
    t.match(error, `because of ${scope}`, 'the narrowest of those that stand')
  }
  t.same(
    (await standingHalts(state)).map(({ scope }) => scope),
    scopes,
    'oldest first',
  )
  for (const scope of scopes.toReversed()) {
    t.match(await run(one, 'nothing', request).catch((thrown: Error) => thrown.message), `because of ${scope}`)
    await one.lift(scope, BOB)
  }
  t.equal((await run(one, 'nothing', request)).status, 'succeeded')
  await one.halt('agent:other', 'r', EVE)
  await one.halt('subject:somebody', 'r', EVE)
  t.equal((await run(one, 'nothing', request)).status, 'succeeded', 'of others')
  t.equal((await run(one, 'nothing')).status, 'succeeded')
  await one.halt('subject:ann', 'r', EVE)
  await t.rejects(run(one, 'nothing'), { code: 'FORBIDDEN' }, 'who asks is a principal as well')
})

t.test('a halt placed again has another reason and instant; a lift is a sealed run', async (t) => {
  const { driver, state, clock, records } = await setup()
  const one = driver()
  await one.halt('tenant', 'first', EVE)
  clock.now += 5000
  await one.halt('tenant', 'second', BOB)
  t.match(await standingHalts(state), [{ scope: 'tenant', reason: 'second', by: 'bob', basis: 'asserted', thrown_at: clock.now / 1000 }])
  clock.now += 5000
  const lifted = await one.lift('tenant', EVE)
  t.match(lifted, { reason: 'second', by: 'eve', thrown_by: 'bob', thrown_basis: 'asserted', lifted_at: clock.now / 1000 })
  const record = lifted?.record as string
  t.match(await records(record), [
    {
      kind: 'HaltLifted',
      payload: { scope: 'tenant', by: { actor: 'eve' }, at: lifted?.lifted_at, thrown_at: lifted?.thrown_at, thrown_by: { actor: 'bob' } },
    },
  ])
  t.equal(await statusOf(state, record), 'halt-lifted')
  t.match(await one.replay(record), { status: 'halt-lifted', divergences: [] })
  t.equal(await one.lift('tenant', EVE), undefined, 'nothing stands')
  await one.halt('tenant', 'third', EVE)
  clock.now += 1000
  await one.lift('tenant', EVE)
  t.same(
    (await liftedHalts(state, 10)).map(({ reason }) => reason),
    ['third', 'second'],
    'newest first',
  )
  for (const scope of ['', 'everything', 'agent:', 'agent:a b', 'revision:1', 'subject:', 'subject: ', `subject:${'x'.repeat(257)}`])
    await t.rejects(one.halt(scope, 'r', EVE), { code: 'BAD_REQUEST' }, scope)
  await t.rejects(one.halt('tenant', ' ', EVE), { code: 'BAD_REQUEST' })
})

t.test('a halt of a principal pauses its runs at their next step, and nothing else is touched', async (t) => {
  const { driver, run, records, state, done } = await setup()
  const one = driver()
  const begun = async (id: string) => (await run(one, undefined as never, { plan, chain: [{ id, scope: ['*'] }] })).run
  const [halted, other] = [await begun('customer-7'), await begun('customer-8')]
  await one.halt('subject:customer-7', 'look into it', EVE)
  await one.halt('tenant', 'and all', EVE)
  for (const [id, status] of [
    [halted, 'withheld'],
    [other, 'succeeded'],
  ]) {
    await one.deliver({ id, source: 's', kind: 'go', correlation: about, payload: null })
    await one.deliver({ id: `${id}2`, source: 's', kind: 'go', correlation: about, payload: null })
    for (const due of await one.due(10)) await one.drive(due)
    t.equal(await statusOf(state, id), status, 'a halt of the tenant does not touch what is under way')
  }
  t.same(done, ['act'])
  t.match(await records(halted, 'AuthorityWithheld'), [{ payload: { subject: 'customer-7', reason: 'look into it', by: 'eve' } }])
  t.match(await records(halted, 'RunConcluded'), [{ payload: { outcome: 'withheld' } }])
  t.equal(await one.resume(halted), 'withheld', 'it still stands')
  t.equal((await records(halted, 'AuthorityWithheld')).length, 1)
  await one.lift('subject:customer-7', EVE)
  t.equal(await statusOf(state, halted), 'withheld', 'somebody resumes it')
  t.equal(await one.resume(halted), 'succeeded')
  t.same(done, ['act', 'act'])
  t.match(await records(halted, 'AuthorityRestored'), [{ payload: { subject: 'customer-7' } }])
  t.match(await one.replay(halted), { divergences: [] })
})

t.test('a withheld run can be cancelled while the halt stands', async (t) => {
  const { driver, run } = await setup()
  const one = driver()
  const { run: id } = await run(one, undefined as never, { plan, chain: [{ id: 'customer-7', scope: ['*'] }] })
  await one.halt('subject:customer-7', 'look into it', EVE)
  await one.deliver({ id: '1', source: 's', kind: 'go', correlation: about, payload: null })
  t.equal(await one.drive(id), 'withheld')
  await one.cancel(id, EVE, 'not wanted')
  t.equal(await one.drive(id), 'cancelled')
})

t.test('scopes say what they cover, and how far a halt reaches', async (t) => {
  t.same(['tenant', 'agent:a', `revision:${DIGEST}`, 'subject:x'].map(isScope), [true, true, true, true])
  t.match(coversOf('tenant'), /whole tenant/)
  t.match(coversOf('agent:a'), /agent a$/)
  t.match(coversOf(`revision:${DIGEST}`), DIGEST)
  t.match(coversOf('subject:x:y'), /acts for x:y$/)
  t.match(reachOf('subject:x'), /withheld/)
  for (const scope of ['tenant', 'agent:a', `revision:${DIGEST}`]) t.match(reachOf(scope), /not touched/)
})
