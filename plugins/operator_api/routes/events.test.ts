/** Events by HTTP: in each of the forms that are taken, and all that is refused. Each answer is checked against the OpenAPI document by `startApi`. */

import { definePlugin } from 'svcdb'
import { AGENT_PLANES, type AgentPlanes, defineSkill } from 'svcdb/agents'
import { SvcError } from 'svcdb/lib/errors'
import { Type } from 'svcdb/lib/schema'
import t from 'tap'
import { ACTORS, startApi } from '../testing.ts'

const waits = (capability: string, namespace: string) =>
  defineSkill({
    capability,
    summary: 'Of a test',
    input: Type.Any(),
    output: Type.Any(),
    invoke: async (context, input) => {
      const { payload, source } = await context.awaitEvent({ kind: 'answered', correlation: [{ namespace, value: String(input) }], withinMs: 1_000_000 })
      return { payload, source }
    },
  })
const ticket = waits('ticket', 'ticket')
const subject = waits('subject', 'subject')

t.test('an event is handed to the run that waits, or kept, and known when it comes again', async (t) => {
  const { as, run, agents } = await startApi(t, [ticket])
  const [ann, bob] = [as('ann'), as('bob')]
  const waiting = await run('ticket', '7')
  const event = { id: '1', kind: 'answered', payload: { yes: true }, correlation: [{ namespace: 'ticket', value: '7' }], source: 'eve' }
  t.equal((await as('rita').post('/events', event)).status, 403)
  t.same((await ann.post('/events', { ...event, id: '0', correlation: [] })).body, { delivery: 'buffered' })
  t.same((await ann.post('/events', event)).body, { delivery: 'resumed', run: waiting })
  t.equal(await agents.settled(waiting), 'succeeded')
  t.same((await agents.replay(waiting)).output, { payload: { yes: true }, source: 'peer:ann' }, 'the source is the caller, whatever was said')
  t.same((await ann.post('/events', event)).body, { delivery: 'duplicate', run: waiting })
  t.same((await bob.post('/events', event)).body, { delivery: 'buffered' }, "another one's is another event")
  t.same((await as('zoe').post('/events', event)).body, { delivery: 'buffered' }, 'and so is that of another tenant')
})

t.test('CloudEvents come in one body, or with their attributes in headers', async (t) => {
  const { as, run, agents } = await startApi(t, [subject])
  const ann = as('ann')
  const type = { 'content-type': 'application/cloudevents+json; charset=utf-8' }
  const event = { specversion: '1.0', id: '1', source: '/shop', type: 'answered', subject: '7', data: 'yes', time: '2026-01-01T00:00:00Z', ext1: 1 }
  const first = await run('subject', '7')
  t.same((await ann.post('/events', event, type)).body, { delivery: 'resumed', run: first })
  await agents.settled(first)
  t.same((await agents.replay(first)).output, { payload: 'yes', source: 'peer:ann' })
  t.equal((await ann.post('/events', event, type)).body.delivery, 'duplicate')
  t.equal((await ann.post('/events', { ...event, source: '/mail' }, type)).body.delivery, 'buffered', 'the source of its producer is a part of its id')
  const alike = await ann.post('/events', { id: '/shop\u001f1', kind: 'answered', payload: null })
  t.match(alike, { status: 400, body: { error: /control characters/ } }, 'no id of the own form is taken for that of a CloudEvent')
  const headers = { 'ce-specversion': '1.0', 'ce-id': '1', 'ce-source': '/shop', 'ce-type': 'answered', 'ce-subject': 'caf%C3%A9' }
  const second = await run('subject', 'café')
  t.equal((await ann.post('/events', { no: 1 }, headers)).body.delivery, 'duplicate', 'in both modes it is the same event')
  t.same((await ann.post('/events', { no: 1 }, { ...headers, 'ce-id': '2' })).body, { delivery: 'resumed', run: second })
  t.equal((await ann.post('/events', undefined, { ...headers, 'ce-id': '3' })).body.delivery, 'buffered', 'without data')
})

t.test('what is refused of an event', async (t) => {
  const { as } = await startApi(t, [ticket])
  const ann = as('ann')
  const refused = async (body: unknown, headers: Record<string, string>, error: RegExp, status = 400) =>
    t.match(await ann.post('/events', body, headers), { status, body: { error } }, String(error))
  const own = { id: '1', kind: 'k', payload: null }
  const cloud = { specversion: '1.0', id: '1', source: 's', type: 'k' }
  const structured = { 'content-type': 'application/cloudevents+json' }
  const binary = { 'ce-specversion': '1.0', 'ce-id': '1', 'ce-source': 's', 'ce-type': 'k' }
  await refused({ ...own, id: ' ' }, {}, /the id of an event is not empty/)
  await refused({ ...own, kind: '' }, {}, /the kind of an event is not empty/)
  await refused({ ...own, kind: 'a\nb' }, {}, /control characters/)
  for (const id of ['a\u0000', 'a\u001fb']) await refused({ ...own, id }, {}, /control characters/)
  await refused({ ...own, id: 'x'.repeat(2000) }, {}, /at most 1024/)
  await refused({ ...own, tenant: 'acme' }, {}, /body\.tenant is not a known member/)
  await refused({ ...own, correlation: [{ namespace: 'a' }] }, {}, /correlation/)
  await refused({ id: '1', kind: 'k' }, {}, /payload/)
  await refused([], {}, /body/)
  await refused('{', { 'content-type': 'application/json' }, /not JSON/)
  await refused('hello', { 'content-type': 'text/plain' }, /Content-Type "text\/plain"/)
  await refused({ ...own, payload: 'x'.repeat(1 << 20) }, {}, /more than 1048576 bytes/, 413)
  await refused({ ...own, kind: 'svc.task.decided' }, {}, /those of the plane/, 403)
  await refused({ ...cloud, type: 'svc.x' }, structured, /those of the plane/, 403)
  await refused([], structured, /JSON object/)
  await refused({ ...cloud, specversion: '0.3' }, structured, /specversion "1\.0"/)
  for (const name of ['id', 'source', 'type']) {
    await refused({ ...cloud, [name]: undefined }, structured, new RegExp(`attribute ${name}`))
    await refused({ ...cloud, [name]: '' }, structured, new RegExp(`attribute ${name}`))
    await refused({ ...cloud, [name]: 'a\u001fb' }, structured, /control/)
  }
  await refused({ ...cloud, data_base64: 'eA==' }, structured, /data_base64/)
  await refused({ ...cloud, Bad_Name: 1 }, structured, /no name of an extension/)
  await refused({ ...cloud, subject: 7 }, structured, /subject/)
  await refused({}, { ...binary, 'ce-specversion': '2.0' }, /specversion/)
  await refused({}, { ...binary, 'ce-id': '%zz' }, /cannot decode the header ce-id/)
  await refused({}, { ...binary, 'ce-id': '%00' }, /control/)
  await refused({}, { ...binary, 'ce-bad_name': '1' }, /no name of an extension/)
  await refused({}, { ...binary, 'ce-data': '1' }, /data is the body/)
  await refused('x', { ...binary, 'content-type': 'text/plain' }, /send JSON/)
  const { 'ce-type': _type, ...untyped } = binary
  await refused({}, untyped, /attribute type/)
})

t.test('a repeated attribute is refused', async (t) => {
  const { parseEvent } = await import('../cloud-event.ts')
  const headers: [string, string][] = [
    ['ce-specversion', '1.0'],
    ['ce-id', '1'],
    ['ce-source', 's'],
    ['ce-type', 'k'],
    ['ce-id', '2'],
  ]
  t.throws(() => parseEvent({ headers, body: Buffer.from('') }, { depth: 10, members: 10 }, undefined as never), {
    status: 400,
    message: /ce-id is there more than once/,
  })
})

t.test('a store that fails: send it again', async (t) => {
  const held: { planes?: AgentPlanes } = {}
  const spy = definePlugin({
    id: 'spy',
    summary: 'Breaks the events of the plane',
    stability: 'experimental',
    requires: [AGENT_PLANES],
    setup: (svc) => void (held.planes = svc.use<AgentPlanes>(AGENT_PLANES)),
  })
  const { as } = await startApi(t, [ticket], { plugins: [spy] })
  const events = held.planes?.find('default')?.events as { deliver: unknown; deadLetters: unknown }
  const { deliver, deadLetters } = events
  const broken = () => Promise.reject(new Error('the disk is gone'))
  Object.assign(events, { deliver: broken, deadLetters: broken })
  const event = { id: '1', kind: 'k', payload: null }
  t.match(await as('ann').post('/events', event), { status: 503, body: { error: /retry/ }, headers: { 'retry-after': '1' } })
  const failed = await as('ann').get('/dead-letters')
  t.match(failed, { status: 500, body: { error: /store of the plane is unavailable/ } })
  t.notMatch(failed.body.error, /disk is gone/, 'the log has why')
  Object.assign(events, {
    deliver: () => Promise.reject(new SvcError('CONFLICT', 'cannot commit a state transaction: others came first each time; try again')),
  })
  t.match(await as('ann').post('/events', event), { status: 409, body: { error: /others came first/ } }, 'it is not known, and can be sent again')
  Object.assign(events, { deliver, deadLetters })
  t.equal((await as('ann').post('/events', event)).body.delivery, 'buffered')
})

t.test('dead letters are those for which nobody has waited in time, without what they said', async (t) => {
  const { as } = await startApi(t, [ticket], { config: { agent_plane: { event_grace_secs: 1, sweep_interval_secs: 0.05 } } })
  t.same((await as('rita').get('/dead-letters')).body, { dead_letters: [], truncated: false })
  await as('ann').post('/events', { id: 'e1', kind: 'k', payload: 'secret', correlation: [{ namespace: 'a', value: 'b' }] })
  const end = Date.now() + 30_000
  let letters: unknown[] = []
  while (letters.length === 0 && Date.now() < end) {
    await new Promise((resolve) => setTimeout(resolve, 50))
    letters = (await as('rita').get('/dead-letters')).body.dead_letters
  }
  t.match(letters, [{ source: 'peer:ann', id: 'e1', kind: 'k', correlation: [{ namespace: 'a', value: 'b' }], received_at: /^\d{4}-.*Z$/, reason: String }])
  t.notMatch(JSON.stringify(letters), /secret/)
  t.same((await as('zoe').get('/dead-letters')).body.dead_letters, [])
  t.equal((await as('nobody').get('/dead-letters')).status, 403)
})

t.test('an event that a quarantined run was handed is dead when the run is abandoned, and read when it is reopened', async (t) => {
  let kind = 'first'
  const fickle = defineSkill({
    capability: 'fickle',
    summary: 'Does something else than before',
    input: Type.Any(),
    output: Type.Any(),
    async invoke(context, input) {
      await context.effect({ kind, args: null, mutates: false }, async () => 1)
      const correlation = [{ namespace: 'ticket', value: String(input) }]
      return (await context.awaitEvent({ kind: 'answered', correlation, withinMs: 1_000_000 })).payload
    },
  })
  const { as, run, agents } = await startApi(t, [fickle])
  const ann = as('ann')
  const runs = [await run('fickle', 1), await run('fickle', 2)]
  kind = 'second'
  for (const [at, id] of runs.entries()) {
    const event = { id: `e${at}`, kind: 'answered', payload: 'secret', correlation: [{ namespace: 'ticket', value: String(at + 1) }] }
    t.same((await ann.post('/events', event)).body, { delivery: 'resumed', run: id })
    t.equal(await agents.settled(id), 'quarantined')
  }
  t.same((await ann.get('/dead-letters')).body.dead_letters, [], 'they may be read yet')
  kind = 'first'
  t.equal((await ann.post(`/runs/${runs[0]}/reopen`, { reason: 'the code is back' })).body.status, 'succeeded')
  t.equal((await agents.replay(runs[0])).output, 'secret')
  t.equal((await ann.post(`/runs/${runs[1]}/abandon`, { reason: 'nobody needs it' })).status, 200)
  const { dead_letters: letters } = (await ann.get('/dead-letters')).body
  t.match(letters, [{ source: 'peer:ann', id: 'e1', kind: 'answered', correlation: [{ namespace: 'ticket', value: '2' }], reason: /ended without reading it/ }])
  t.equal(letters.length, 1)
  t.notMatch(JSON.stringify(letters), /secret/)
  const again = { id: 'late', kind: 'answered', payload: 1, correlation: [{ namespace: 'ticket', value: '2' }] }
  t.same((await ann.post('/events', again)).body, { delivery: 'buffered' }, 'nothing of the run waits any more')
})

t.test('what an event begins acts for whoever delivered it, within the scope of the token and its time', async (t) => {
  const begun = (capability: string) => defineSkill({ capability, summary: 'Of a test', input: Type.Any(), output: Type.Any(), invoke: async () => capability })
  const asking = defineSkill({
    capability: 'support.ask',
    summary: 'Of a test',
    input: Type.Any(),
    output: Type.Any(),
    invoke: async (context) => (await context.task({ kind: 'ask', summary: 'May I?', proposed_action: null })).decided_by,
  })
  const rules = [
    { kind: 'called', capability: 'support.call' },
    { kind: 'paid', capability: 'bank.pay' },
    { kind: 'asked', capability: 'support.ask' },
  ]
  const actors = { ...ACTORS, sue: { roles: ['admin'], scope: ['support.*'] } }
  const { as, agents } = await startApi(t, [begun('support.call'), begun('bank.pay'), asking], { actors, config: { agent_plane: { on_event: rules } } })
  const [ann, sue] = [as('ann'), as('sue')]
  const called = (await sue.post('/events', { id: '1', kind: 'called', payload: null })).body
  t.match(called, { delivery: 'buffered', run: /^run_/ })
  t.equal(await agents.settled(called.run), 'succeeded')
  const { records } = (await ann.get(`/runs/${called.run}/history`)).body as { records: { kind: string; record: object }[] }
  t.match(records.find(({ kind }) => kind === 'IdentityBound')?.record, { chain: [{ id: 'sue', scope: ['support.*'] }] })
  t.same((await sue.post('/events', { id: '2', kind: 'paid', payload: null })).body, { delivery: 'buffered' }, 'it begins nothing beyond her scope')
  const paid = (await ann.post('/events', { id: '2', kind: 'paid', payload: null })).body
  t.equal(await agents.settled(paid.run), 'succeeded', 'a token without a scope is not bounded')
  t.same((await ann.get('/runs?outcome=succeeded')).body.runs.sort(), [called.run, paid.run].sort())
  const { run } = (await sue.post('/events', { id: '3', kind: 'asked', payload: null })).body
  t.equal(await agents.settled(run), 'suspended')
  const [task] = (await sue.get('/tasks')).body.tasks
  t.match(task, { run, decidable_by_you: false }, 'who asked for it does not decide it')
  t.equal((await sue.post(`/tasks/${task.id}/claim`)).status, 403)
  t.equal((await ann.post(`/tasks/${task.id}/decide`, { approved: true, reason: 'fine' })).status, 200)
  const late = { actor: 'sue', scope: ['support.*'], notAfter: Date.now() - 1 }
  t.same(await agents.deliver({ id: '4', source: 'peer:sue', kind: 'called', payload: null }, late), { delivery: 'buffered' }, 'her time is over')
})

t.test('who delivers an event has asked for the run that it begins, and does not decide in it; runs of one matter are in one case', async (t) => {
  const asks = defineSkill({
    capability: 'asks',
    summary: 'Of a test',
    input: Type.Object({ payload: Type.Any() }),
    output: Type.Any(),
    invoke: async (context, { payload }) => (await context.task({ kind: 'ask', summary: 'May I?', proposed_action: payload })).decided_by,
  })
  const on_event = [{ kind: 'asked', capability: 'asks', case: { kind: 'matter' } }]
  const { as, agents } = await startApi(t, [asks], { config: { agent_plane: { on_event } } })
  const [ann, bob] = [as('ann'), as('bob')]
  const ask = async (id: string, correlation: object[]) => (await ann.post('/events', { id, kind: 'asked', payload: id, correlation })).body.run
  const correlation = [{ namespace: 'order', value: '7' }]
  const [one, two] = [await ask('1', correlation), await ask('2', correlation)]
  for (const run of [one, two]) t.equal(await agents.settled(run), 'suspended')
  t.equal(await ask('3', []), undefined, 'without a key there is no case that it could be in, and it is kept')
  const { tasks } = (await bob.get('/tasks')).body
  t.same(new Set(tasks.map(({ case: matter }: { case: string }) => matter)).size, 1)
  t.match((await ann.get(`/cases/${tasks[0].case}`)).body.case, { kind: 'matter', correlation, runs: [one, two] })
  const { id } = tasks.find(({ run }: { run: string }) => run === one)
  const said = { approved: true, reason: 'fine' }
  t.match(await ann.post(`/tasks/${id}/decide`, said), { status: 403, body: { error: /asked for it/ } })
  t.equal((await bob.post(`/tasks/${id}/decide`, said)).status, 200)
  t.equal(await agents.settled(one), 'succeeded')
})

t.test('an event has so many correlation keys at most, and none is long', async (t) => {
  const { as } = await startApi(t, [ticket], { config: { agent_plane: { max_event_keys: 3 } } })
  const keys = (count: number) => Array.from({ length: count }, (_, i) => ({ namespace: 'a', value: `${i}` }))
  const give = (id: string, correlation: unknown) => as('ann').post('/events', { id, kind: 'k', payload: null, correlation })
  t.equal((await give('1', keys(3))).status, 200)
  t.match(await give('2', keys(4)), { status: 400, body: { error: /4 correlation keys, and 3 are the limit; see agent_plane\.max_event_keys/ } })
  t.equal((await give('3', [{ namespace: 'a', value: 'x'.repeat(1024) }])).status, 200)
  t.match(await give('4', [{ namespace: 'a', value: 'x'.repeat(1025) }]), { status: 400, body: { error: /at most 1024 characters/ } })
})

t.test('events that nobody waits for are kept up to a bound, and there is room again when they have gone', async (t) => {
  const config = { agent_plane: { max_buffered_events: 3, max_buffered_mb: 1, event_grace_secs: 2 } }
  const { as, run, agents } = await startApi(t, [ticket], { config })
  const ann = as('ann')
  const give = (id: string, payload: unknown = null) =>
    ann.post('/events', { id, kind: 'answered', payload, correlation: [{ namespace: 'ticket', value: id }] })
  const half = 'x'.repeat(400_000)
  for (const id of ['1', '2']) t.same((await give(id, half)).body, { delivery: 'buffered' })
  const full = { status: 503, body: { error: /cannot keep an event.*max_buffered_events and max_buffered_mb/ }, headers: { 'retry-after': '1' } }
  t.match(await give('3', half), full, 'of bytes')
  t.same((await give('4')).body, { delivery: 'buffered' })
  t.match(await give('5'), full, 'of events')
  t.same((await give('1')).body, { delivery: 'duplicate' }, 'one that is known needs none')
  t.same((await as('zoe').post('/events', { id: '1', kind: 'answered', payload: half })).body, { delivery: 'buffered' }, 'another tenant has its own')
  const waiting = await run('ticket', '6')
  t.same((await give('6')).body, { delivery: 'resumed', run: waiting }, 'nor does one that is waited for')
  t.equal(await agents.settled(await run('ticket', '2')), 'succeeded', 'one is taken')
  t.same((await give('3', half)).body, { delivery: 'buffered' }, 'one that was refused is not known')
  const since = performance.now()
  while ((await ann.get('/dead-letters')).body.dead_letters.length < 3 && performance.now() - since < 30_000) await new Promise((done) => setTimeout(done, 50))
  for (const id of ['7', '8', '9']) t.same((await give(id)).body, { delivery: 'buffered' }, 'dead letters take none')
})
