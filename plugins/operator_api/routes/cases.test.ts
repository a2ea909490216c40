import { type CaseStatus, type CorrelationKey, defineSkill, type Json, type Skill, type StepContext } from 'svcdb/agents'
import { Type } from 'svcdb/lib/schema'
import t, { type Test } from 'tap'
import { lookUntil } from '../../../test/support/until.ts'
import { type ApiNode, startApi } from '../testing.ts'

const NOBODY = 'case_01ARZ3NDEKTSV4RRFFQ69G5FAV'
const RFC_3339 = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{3})?Z$/
const RUN = /^run_[0-9A-HJKMNP-TV-Z]{26}$/

function skill(capability: string, invoke: (context: StepContext, input: never) => Promise<Json>): Skill {
  return defineSkill({ capability, summary: 'Of a test', input: Type.Any(), output: Type.Any(), invoke } as never)
}

const SKILLS = [
  skill('look', async ({ caseId }) => caseId ?? null),
  skill('move', (context, to: CaseStatus) => context.setCaseStatus(to).then(() => 'done')),
  skill('late', async (context, names: string[]) => {
    for (const name of names) await context.deadline(name, { unit: 'minutes', n: 0 })
    return 'done'
  }),
  skill('owe', async (context, name: string) => {
    await context.deadline(name, { unit: 'hours', n: 4 }, { warnBeforeMs: 3_600_000 })
    const { version } = await context.caseState()
    await context.putCaseState(version, { owed: name })
    return 'done'
  }),
  skill('warn', (context, name: string) => context.deadline(name, { unit: 'hours', n: 1 }, { warnBeforeMs: 7_200_000 }).then(() => 'done')),
  skill('meet', (context, name: string) => context.meetDeadline(name).then(() => 'done')),
  skill('wordy', async (context) => {
    for (let i = 0; i < 20; i++) await context.note(`${i} `.padEnd(300_000, '.'))
    return 'done'
  }),
  skill('talk', async (context) => {
    for (let i = 0; i < 250; i++) await context.note(`${i}`)
    return 'done'
  }),
]

interface Desk extends ApiNode {
  /** A run in the case of this order. @returns the run and the case. */
  within(order: string, capability: string, input?: Json, tenant?: string): Promise<{ run: string; id: string; status: string }>
}

async function desk(t: Test, config: object = {}): Promise<Desk> {
  const api = await startApi(t, SKILLS, { config: { agent_plane: config } })
  const within: Desk['within'] = async (order, capability, input = null, tenant = 'default') => {
    const plane = api.plane(tenant)
    const correlation: CorrelationKey[] = [{ namespace: 'order', value: order }]
    const { run } = await plane.agents.run({ capability, input, actor: 'test', case: { kind: 'support.order', correlation } })
    const status = await plane.agents.settled(run)
    return { run, status, id: (await plane.runs.view(run)).case as string }
  }
  return { ...api, within }
}

t.test('cases are listed by their status, newest first, and shown with what is to be done in them', async (t) => {
  const { as, within } = await desk(t)
  const [ann, rita] = [as('ann'), as('rita')]
  t.same((await rita.get('/cases')).body, { status: 'escalated', cases: [], truncated: false }, 'those that are escalated')
  const first = await within('1', 'owe', 'answer')
  const second = await within('2', 'look')
  const again = await within('1', 'meet', 'answer')
  t.equal(again.id, first.id)
  const { body } = await rita.get('/cases?status=open')
  t.same(
    body.cases.map(({ id }: { id: string }) => id),
    [second.id, first.id],
  )
  t.match(body.cases[1], { kind: 'support.order', status: 'open', correlation: [{ namespace: 'order', value: '1' }], state: { owed: 'answer' }, version: 1 })
  t.match(body.cases[0], { state: null, version: 0, opened_at: RFC_3339, runs: [second.run] })
  t.same(body.cases[1].runs, [first.run, again.run])
  const shown = (await rita.get(`/cases/${first.id}`)).body
  t.match(shown.deadlines, [{ case: first.id, name: 'answer', state: 'met', resolved_at: RFC_3339, warn_at: RFC_3339, calendar_digest: /^[0-9a-f]{64}$/ }])
  t.equal(Date.parse(shown.deadlines[0].resolved_at) - Date.parse(shown.deadlines[0].warn_at), 3_600_000)
  t.equal(shown.history_truncated, false)
  const kinds = shown.history.map(({ kind }: { kind: string }) => kind)
  t.match(kinds, ['RunAdmitted', 'PlanFrozen', 'CaseBound', 'StepStarted', 'EffectStarted', 'DeadlineRegistered', 'EffectDone'])
  t.ok(kinds.includes('DeadlineTransition'))
  t.ok(shown.history.every((record: { case: string }) => record.case === first.id))
  t.match(shown.history[2], { seq: 3, step: null, phase: 'forward', record: { kind: 'CaseBound', opened: true, case_kind: 'support.order' } })
  await within('2', 'talk')
  const long = (await ann.get(`/cases/${second.id}`)).body
  t.equal(long.history.length, 200)
  t.equal(long.history_truncated, true)
  for (const status of ['shut', '']) t.equal((await ann.get(`/cases?status=${status}`)).status, 400)
  t.equal((await ann.get('/cases/x')).status, 400)
  t.equal((await ann.get(`/cases/${NOBODY}`)).status, 404)
  t.equal((await as('nobody').get('/cases')).status, 403)
  t.equal((await as('nobody').get('/cases/x')).status, 403, 'who may not sees no difference')
  t.equal((await as('zoe').get(`/cases/${first.id}`)).status, 404, 'of another tenant')
})

t.test('a list has a hundred rows, and says that there are more', async (t) => {
  const { as, plane } = await desk(t)
  for (let i = 0; i < 101; i++)
    await plane().agents.run({
      capability: 'look',
      input: null,
      actor: 'test',
      case: { kind: 'support.order', correlation: [{ namespace: 'order', value: `${i}` }] },
    })
  const { body } = await as('rita').get('/cases?status=open')
  t.equal(body.cases.length, 100)
  t.equal(body.truncated, true)
})

t.test('what is late escalates its case, is listed until somebody accounts for it, and stays breached', async (t) => {
  const { as, within, plane } = await desk(t)
  const [ann, bob, rita] = [as('ann'), as('bob'), as('rita')]
  const one = await within('1', 'late', ['first'])
  const two = await within('2', 'late', ['second'])
  await within('1', 'owe', 'later')
  const warned = await within('3', 'warn', 'soon')
  const list = () => rita.get('/obligations')
  const { body } = await lookUntil(list, (seen) => seen.body.obligations.length === 2)
  t.match(body, {
    obligations: [
      { case: one.id, name: 'first', state: 'breached' },
      { case: two.id, name: 'second' },
    ],
    truncated: false,
  })
  t.match((await rita.get('/cases')).body.cases, [{ id: two.id }, { id: one.id, status: 'escalated' }])
  const soon = await lookUntil(
    () => rita.get(`/cases/${warned.id}`),
    (seen) => seen.body.deadlines[0].state === 'warned',
  )
  t.match(soon.body, { case: { status: 'open' }, deadlines: [{ state: 'warned' }] })
  const swept = (await rita.get(`/cases/${one.id}`)).body.history.filter(({ kind }: { kind: string }) => kind === 'Swept')
  t.match(
    swept.map(({ record }: { record: { action: string } }) => record.action),
    ['deadline_breached', 'case_escalated'],
    'the history says why',
  )
  const notice = await lookUntil(
    () => plane().runs.view(swept[0].run),
    ({ sealed }) => sealed,
  )
  t.match(notice, { status: 'swept', sealed: true })
  const path = '/obligations/acknowledge'
  const asked = { case: one.id, obligation: 'first', note: 'called them' }
  t.equal((await rita.post(path, asked)).status, 403)
  t.same((await ann.post(path, asked)).body, { acknowledged_by: { actor: 'ann', basis: 'authenticated' }, obligation: 'first', recorded: true })
  t.match((await bob.post(path, { ...asked, note: 'me too' })).body, { acknowledged_by: { actor: 'ann' }, recorded: false }, 'the first note stays')
  t.same(
    (await list()).body.obligations.map(({ name }: { name: string }) => name),
    ['second'],
  )
  const { deadlines } = (await rita.get(`/cases/${one.id}`)).body
  t.match(deadlines[0], { name: 'first', state: 'breached', acknowledged: { by: { actor: 'ann' }, note: 'called them', at: RFC_3339 } })
  t.notOk('acknowledged' in deadlines[1])
  t.equal((await bob.post(path, { case: two.id, obligation: 'second' })).body.recorded, true, 'a note may be empty')
  t.match(await bob.post(path, { case: one.id, obligation: 'later' }), { status: 409, body: { error: /is pending, and not breached/ } })
  t.equal((await bob.post(path, { case: one.id, obligation: 'none' })).status, 404)
  t.equal((await bob.post(path, { case: NOBODY, obligation: 'first' })).status, 404)
  t.equal((await bob.post(path, { ...asked, case: 'x' })).status, 400)
  t.equal((await bob.post(path, { ...asked, actor: 'eve' })).status, 422)
  t.equal((await bob.post(path, { case: one.id })).status, 422)
  t.equal((await bob.post(path, '{', { 'content-type': 'application/json' })).status, 400)
  t.equal((await bob.post(path, 'x', { 'content-type': 'text/plain' })).status, 415)
  t.equal((await as('zoe').post(path, asked)).status, 404)
})

t.test('a case with an open obligation does not close; one that is closed takes no run and frees its keys', async (t) => {
  const { as, within, agents } = await desk(t)
  const { id } = await within('1', 'owe', 'answer')
  t.equal((await within('1', 'move', 'closed')).status, 'failed')
  await within('1', 'meet', 'answer')
  t.equal((await within('1', 'move', 'closed')).status, 'succeeded')
  t.match((await as('rita').get('/cases?status=closed')).body.cases, [{ id }])
  await t.rejects(agents.run({ capability: 'look', input: null, actor: 'test', case: { id } }), { code: 'CONFLICT' })
  t.not((await within('1', 'look')).id, id)
})

t.test('a hold stands until it is released, and its release is a sealed run that does not say why it stood', async (t) => {
  const { as, within, plane } = await desk(t)
  const [ann, bob, rita] = [as('ann'), as('bob'), as('rita')]
  const { id } = await within('1', 'look')
  const other = await within('2', 'look')
  const before = Math.floor(Date.now() / 1000)
  const asked = { case: id, reason: 'the suit of order 1' }
  t.equal((await rita.post('/holds', asked)).status, 403)
  const placed = (await ann.post('/holds', asked)).body
  t.match(placed, { case: id, placed: true, in_force: { reason: 'the suit of order 1', by: 'ann', basis: 'authenticated' } })
  t.ok(Number.isInteger(placed.in_force.placed_at) && placed.in_force.placed_at >= before, 'whole seconds')
  t.same((await bob.post('/holds', { case: id, reason: 'another' })).body, { ...placed, placed: false }, 'the first one stays')
  await bob.post('/holds', { case: other.id, reason: 'audit' })
  const standing = (await rita.get('/holds')).body
  t.match(standing, { released: [], truncated: false })
  // Those of one second come in no order.
  t.same(
    standing.holds.map((hold: { case: string; by: string }) => [hold.case, hold.by]).sort(),
    [
      [id, 'ann'],
      [other.id, 'bob'],
    ].sort(),
  )
  t.equal((await within('1', 'move', 'closed')).status, 'succeeded', 'what is held can be closed')
  t.equal((await rita.post('/holds/release', { case: id })).status, 403)
  const released = (await bob.post('/holds/release', { case: id })).body
  t.match(released, { case: id, lifted: true, by: 'bob', basis: 'authenticated', record: RUN, removed: true })
  t.same((await bob.post('/holds/release', { case: id })).body, { case: id, lifted: false, by: 'bob', basis: 'authenticated', record: null, removed: false })
  t.match((await rita.get('/holds?state=standing')).body.holds, [{ case: other.id }])
  t.match((await rita.get('/holds?state=released')).body, {
    holds: [],
    released: [{ case: id, by: 'bob', placed_by: 'ann', placed_basis: 'authenticated', placed_at: placed.in_force.placed_at, record: released.record }],
  })
  const view = await lookUntil(
    () => plane().runs.view(released.record),
    ({ sealed }) => sealed,
  )
  t.match(view, { status: 'hold-released', sealed: true, records: 1 })
  const { rows } = await plane().runs.history(released.record, 1, 10)
  t.match(rows, [{ kind: 'HoldReleased', case: id }])
  t.notMatch(JSON.stringify(rows), 'suit')
  t.match((await rita.get(`/cases/${id}`)).body.history.at(-1), { kind: 'HoldReleased' })
  for (const path of ['/holds', '/holds/release']) {
    const body = path === '/holds' ? { reason: 'x' } : {}
    t.equal((await ann.post(path, { ...body, case: NOBODY })).status, 404)
    t.equal((await ann.post(path, { ...body, case: 'x' })).status, 400)
    t.equal((await ann.post(path, { ...body, case: id, tenant: 'acme' })).status, 422)
    t.equal((await as('zoe').post(path, { ...body, case: id })).status, 404)
  }
  t.equal((await ann.post('/holds', { case: id, reason: '  ' })).status, 400)
  t.equal((await ann.post('/holds', { case: id })).status, 422)
  t.equal((await ann.get('/holds?state=both')).status, 400)
})

t.test('the drill says what it has found last, and that nothing was drilled before', async (t) => {
  const { as, within, plane } = await desk(t)
  t.same((await as('rita').get('/drill')).body, { drilled: false })
  const { run } = await within('1', 'look')
  await lookUntil(
    () => plane().runs.view(run),
    ({ sealed }) => sealed,
  )
  await plane().drill?.run()
  t.match((await as('rita').get('/drill')).body, {
    drilled: true,
    at: RFC_3339,
    cases: 1,
    findings: 0,
    log_size: 1,
    not_checked: 0,
    origin: 'svc/agent_plane/default',
    sound: true,
  })
  t.same((await as('zoe').get('/drill')).body, { drilled: false }, 'each tenant has its own')
  t.equal((await as('nobody').get('/drill')).status, 403)
})

t.test('the drill goes by itself when it is asked to', async (t) => {
  const { as } = await desk(t, { drill_every_secs: 0.05 })
  const { body } = await lookUntil(
    () => as('rita').get('/drill'),
    (seen) => seen.body.drilled,
  )
  t.match(body, { drilled: true, sound: true, cases: 0 })
})

t.test('a history of large records is cut where they are too many bytes', async (t) => {
  const { as, within } = await desk(t, { max_history_mb: 1 })
  const { id } = await within('7', 'wordy')
  await within('7', 'look')
  const { body } = await as('rita').get(`/cases/${id}`)
  t.equal(body.history_truncated, true)
  t.ok(body.history.length > 3 && JSON.stringify(body).length < 1_200_000, `${body.history.length} records`)
  const { id: small } = await within('8', 'look')
  t.equal((await as('rita').get(`/cases/${small}`)).body.history_truncated, false)
})
