/** Halts, pushes, live runs and attention by HTTP, by callers of different roles. */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { defineSkill } from 'svcdb/agents'
import { Type } from 'svcdb/lib/schema'
import t from 'tap'
import { eventually } from '../../../test/support/until.ts'
import { startApi } from '../testing.ts'

const any = { summary: 'Of a test', input: Type.Any(), output: Type.Any() }
const echo = defineSkill({ ...any, capability: 'echo', invoke: async (_context, input) => input })
const doubt = defineSkill({
  ...any,
  capability: 'doubt',
  invoke: (context) =>
    context.effect({ kind: 'pay', args: null, mutates: true }, async () => {
      throw new Error('no answer')
    }),
})
const about = [{ namespace: 'n', value: 'x' }]
const wait = defineSkill({
  ...any,
  capability: 'wait',
  compensation: 'unnecessary',
  invoke: async (context) => (await context.awaitEvent({ kind: 'go', correlation: about, withinMs: 10 ** 9 })).payload,
})

/** A step that stays where it is until it is let go. */
function gated() {
  let open = (): void => {}
  const opened = new Promise<void>((resolve) => {
    open = resolve
  })
  const hold = defineSkill({
    ...any,
    capability: 'hold',
    invoke: (context) =>
      context.effect({ kind: 'hold', args: null, mutates: false }, async () => {
        await opened
        return null
      }),
  })
  return { hold, open }
}

t.test('halts: placed again, listed, lifted once, by who may', async (t) => {
  const { as } = await startApi(t, [echo])
  const [ann, bob, rita, zoe] = ['ann', 'bob', 'rita', 'zoe'].map(as)
  t.same((await rita.get('/halts')).body, { halts: [], lifted: [], truncated: false })
  t.equal((await rita.post('/halts', { scope: 'tenant', reason: 'r' })).status, 403)
  t.equal((await rita.post('/halts/lift', { scope: 'tenant' })).status, 403)
  const placed = await ann.post('/halts', { scope: 'tenant', reason: 'first' })
  t.match(placed, { status: 200, body: { scope: 'tenant', halted: true, reason: 'first', by: 'ann', basis: 'authenticated', reach: /not touched/ } })
  t.match(await bob.post('/halts', { scope: 'tenant', reason: 'second' }), { status: 200, body: { reason: 'second', by: 'bob' } })
  t.match((await bob.post('/halts', { scope: 'subject:customer-7', reason: 'look' })).body.reach, /withheld/)
  const { body } = await rita.get('/halts?state=standing')
  // Within one second they have no order.
  body.halts.sort((a: { scope: string }, b: { scope: string }) => (a.scope < b.scope ? 1 : -1))
  t.match(body.halts, [
    { scope: 'tenant', covers: /whole tenant/, reason: 'second', by: 'bob', basis: 'authenticated', thrown_at: Number },
    { scope: 'subject:customer-7', covers: /customer-7/ },
  ])
  t.equal(Number.isInteger(body.halts[0].thrown_at), true)
  t.same((await zoe.get('/halts')).body.halts, [], 'of another tenant')
  t.match(await ann.post('/halts/lift', { scope: 'tenant' }), { body: { halted: false, was_standing: true, by: 'ann', record: /^run_/, removed: true } })
  t.match(await ann.post('/halts/lift', { scope: 'tenant' }), { body: { halted: false, was_standing: false, record: null, removed: false } })
  const lifted = (await rita.get('/halts?state=lifted')).body
  t.match(lifted, { halts: [], lifted: [{ scope: 'tenant', by: 'ann', reason: 'second', thrown_by: 'bob', record: /^run_/ }], truncated: false })
  t.match(await ann.get(`/runs/${lifted.lifted[0].record}`), { status: 200, body: { status: 'halt-lifted', records: 1 } })
  t.match(await ann.get('/halts?state=all'), { status: 400, body: { error: /`state` must be/ } })
  for (const scope of ['everything', 'agent:', 'revision:1', 'subject: '])
    t.match(await ann.post('/halts', { scope, reason: 'r' }), { status: 400, body: { error: /is not a halt scope/ } }, scope)
  t.match(await ann.post('/halts', { scope: 'tenant', reason: ' ' }), { status: 400 })
  t.equal((await ann.post('/halts', { scope: 'tenant' })).status, 422)
  t.equal((await ann.post('/halts', { scope: 'tenant', reason: 'r', actor: 'bob' })).status, 422)
  t.equal((await ann.post('/halts', '{"scope":"tenant","reason":"r"}', { 'content-type': 'text/plain' })).status, 415)
  t.equal((await ann.post('/halts', '{', { 'content-type': 'application/json' })).status, 400)
})

t.test('a halted principal: its runs are withheld, seen as that, and go on or are cancelled', async (t) => {
  const { as, plane } = await startApi(t, [wait, echo])
  const ann = as('ann')
  const { agents } = plane()
  const chain = [{ id: 'customer-7', scope: ['*'] }]
  const plan = [
    { id: 'first', capability: 'wait' },
    { id: 'second', capability: 'echo', depends_on: ['first'], terminal: true },
  ]
  const runs: string[] = []
  for (let i = 0; i < 2; i++) {
    const { run } = await agents.run({ plan, input: null, actor: 'test', chain })
    t.equal(await agents.settled(run), 'suspended')
    runs.push(run)
  }
  await ann.post('/halts', { scope: 'subject:customer-7', reason: 'look into it' })
  await t.rejects(agents.run({ capability: 'echo', input: null, actor: 'test', chain }), { code: 'FORBIDDEN', message: /look into it/ })
  for (const id of ['1', '2']) await agents.deliver({ id, source: 's', kind: 'go', correlation: about, payload: null })
  for (const run of runs) t.equal(await agents.settled(run), 'withheld')
  t.match((await as('rita').get(`/runs/${runs[0]}`)).body, { status: 'withheld', reason: /customer-7/ })
  t.match((await as('rita').get('/attention')).body, {
    needs_attention: true,
    conditions: [{ condition: 'run.withheld', found: 2, at_least: false, subjects: runs.toReversed(), unlisted: 0, remedy: /lift the halt/ }],
  })
  await agents.cancel(runs[1], { actor: 'ann', basis: 'authenticated' }, 'not wanted')
  t.equal(await agents.settled(runs[1]), 'cancelled')
  await ann.post('/halts/lift', { scope: 'subject:customer-7' })
  t.equal(await agents.resume(runs[0]), 'succeeded')
  const { conditions } = (await ann.get('/attention')).body
  t.same(
    conditions.map(({ condition }: { condition: string }) => condition),
    ['event.dead_lettered'],
    'what the cancelled run was told',
  )
})

t.test('live runs: those that hold a slot, for whom they act, filtered after the cut', async (t) => {
  const { hold, open } = gated()
  const { as, plane } = await startApi(t, [hold, echo], { config: { agent_plane: { quota: { max_concurrent_runs: 2 } } } })
  const { agents } = plane()
  const one = await agents.run({ capability: 'hold', input: null, actor: 'test', chain: [{ id: 'customer-7', scope: ['*'] }] })
  const two = await agents.run({ capability: 'hold', input: null, actor: 'test' })
  await t.rejects(agents.run({ capability: 'echo', input: null, actor: 'test' }), { code: 'RATE_LIMITED' })
  const all = (await as('rita').get('/runs/live')).body
  t.equal(all.runs.length, 2)
  t.match(
    all.runs.find(({ run }: { run: string }) => run === one.run),
    { agent: null, subject: 'customer-7', stranded: false },
  )
  t.same(
    (await as('rita').get('/runs/live?subject=customer-7')).body.runs.map(({ run }: { run: string }) => run),
    [one.run],
  )
  t.same((await as('rita').get('/runs/live?subject=nobody')).body, { runs: [], truncated: false })
  t.same((await as('zoe').get('/runs/live')).body.runs, [])
  t.equal((await as('nobody').get('/runs/live')).status, 403)
  open()
  for (const { run } of [one, two]) t.equal(await agents.settled(run), 'succeeded')
  t.same((await as('rita').get('/runs/live')).body, { runs: [], truncated: false })
})

t.test('attention: what is doubtful is named until it is settled, and what could not be looked at', async (t) => {
  const { as, run, node } = await startApi(t, [doubt])
  const id = await run('doubt', null)
  const seen = await as('rita').get('/attention')
  t.match(seen.body, { needs_attention: true, conditions: [{ condition: 'run.quarantined', subjects: [id] }] })
  t.match(seen.body.not_checked, [/^push registrations/], 'nothing here sends')
  t.match((await as('zoe').get('/attention')).body, { needs_attention: false, conditions: [] })
  t.equal((await as('nobody').get('/attention')).status, 403)
  for (let tries = 0; tries < 100; tries++) {
    if (/svc_agent_plane_attention\{condition="run.quarantined"\} 1/.test((await node.inject('/metrics')).body)) break
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
  t.match((await node.inject('/metrics')).body, /svc_agent_plane_attention\{condition="run.quarantined"\} 1\n/)
})

t.test('pushes: parked when the receiver is gone, listed without credentials, told after a rearm', async (t) => {
  let gone = true
  const told: { type: string; token: unknown; authorization: unknown; signature: unknown }[] = []
  const server = createServer((request, response) => {
    let text = ''
    request.on('data', (more) => (text += more))
    request.on('end', () => {
      const { headers } = request
      if (!gone)
        told.push({
          type: JSON.parse(text).type,
          token: headers['x-notification-token'],
          authorization: headers.authorization,
          signature: headers['webhook-signature'],
        })
      response.writeHead(gone ? 410 : 204).end()
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => server.close())
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook`
  const webhooks = { signing_secrets: ['whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'], allow_private_targets: true }
  const { as, plane } = await startApi(t, [echo], { plugins: ['webhooks'], config: { webhooks, agent_plane: { push: [{ id: 'ops', url }] } } })
  const { agents } = plane()
  const one = { id: 'one', url, token: 't-secret', authentication: { scheme: 'Bearer', credentials: 'c-secret' } }
  const { run } = await agents.run({ capability: 'echo', input: 'private', actor: 'test', push: [one] })
  await eventually(async () => (await as('rita').get('/push')).body.parked.length === 2)
  const { body } = await as('rita').get('/push')
  t.match(body.parked, [{ config: { id: 'one', task: run, token: '***' }, next_seq: 1, attempts: 1, last_error: /410/ }, { config: { id: 'operator:ops' } }])
  t.notMatch(JSON.stringify(body), 'secret')
  t.match((await as('rita').get('/attention')).body.conditions, [{ condition: 'push.parked', subjects: [`${run}/one`, `${run}/operator:ops`] }])
  t.same((await as('zoe').get('/push')).body.parked, [])
  gone = false
  t.equal((await as('rita').post('/push/rearm', { run, id: 'one' })).status, 403)
  t.same((await as('ann').post('/push/rearm', { run, id: 'two' })).body, { rearmed: false })
  t.same((await as('zoe').post('/push/rearm', { run, id: 'one' })).body, { rearmed: false })
  t.match(await as('ann').post('/push/rearm', { run: 'x', id: 'one' }), { status: 400, body: { error: '"x" is not a run id' } })
  t.same((await as('ann').post('/push/rearm', { run, id: 'one' })).body, { rearmed: true })
  await eventually(() => told.length >= 2)
  t.same(
    told.map(({ type }) => type),
    ['io.svc.run.admitted', 'io.svc.run.completed'],
  )
  t.match(told[0], { token: 't-secret', authorization: 'Bearer c-secret', signature: /^v1,/ })
})

t.test('without anything that sends there is no push store, and no receiver is taken', async (t) => {
  const { as, plane } = await startApi(t, [echo])
  t.match(await as('ann').get('/push'), { status: 501, body: { error: /no push store/ } })
  t.equal((await as('ann').post('/push/rearm', { run: 'run_01ARZ3NDEKTSV4RRFFQ69G5FAV', id: 'x' })).status, 501)
  await t.rejects(plane().agents.run({ capability: 'echo', input: null, actor: 'test', push: [{ id: 'a', url: 'https://a.example' }] }), {
    code: 'BAD_REQUEST',
  })
})
