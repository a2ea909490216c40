/** Operations on runs, by HTTP, by callers of different roles: each answer is checked against the OpenAPI document by `startApi`. */
import { defineSkill, EffectError, type Json, type Skill, type StepContext } from 'svcdb/agents'
import { Type } from 'svcdb/lib/schema'
import t from 'tap'
import { startApi } from '../testing.ts'

const NONE = 'run_01ARZ3NDEKTSV4RRFFQ69G5FAV'

function skill(capability: string, invoke: (context: StepContext, input: { n: number }) => Promise<Json>, more: Partial<Skill> = {}): Skill {
  return defineSkill({ capability, summary: 'Of a test', input: Type.Object({ n: Type.Integer() }), output: Type.Any(), ...more, invoke } as never)
}

const about = [{ namespace: 'ticket', value: '7' }]
const echo = skill('echo', async (_context, { n }) => n)
const ask = skill('ask', async (context, { n }) => (await context.awaitEvent({ kind: 'answered', correlation: about, withinMs: n })).payload)
const nap = skill('nap', (context, { n }) => context.sleep(n).then(() => 'rested'))
const wordy = skill('wordy', async (context, { n }) => {
  for (let i = 0; i < n; i++) await context.note(`${i} `.padEnd(300_000, '.'))
  return n
})
const noted = skill('noted', async (context, { n }) => {
  for (let i = 0; i < n; i++) await context.note(`note ${i}`)
  return n
})
/** Nobody knows whether it has happened. */
const doubtful = skill('doubtful', (context, { n }) =>
  context.effect({ kind: 'pay', args: { n }, mutates: true }, async () => {
    throw new EffectError('no answer', { disposition: 'in_doubt' })
  }),
)

t.test('a run is shown, listed by how it ended, and its history comes in pages', async (t) => {
  const { as, run } = await startApi(t, [echo, noted, doubtful])
  const [rita, nobody] = [as('rita'), as('nobody')]
  const small = await run('echo', { n: 1 })
  const second = await run('echo', { n: 2 })
  t.same((await rita.get(`/runs/${small}`)).body, { run: small, status: 'succeeded', sealed: true, records: 5 })
  t.same((await rita.get('/runs?outcome=succeeded')).body, { outcome: 'succeeded', runs: [second, small], truncated: false }, 'newest first')
  t.same((await rita.get('/runs')).body, { outcome: 'quarantined', runs: [], truncated: false })
  for (const outcome of ['swallowed', 'running', 'a/b', '%00'])
    t.same((await rita.get(`/runs?outcome=${outcome}`)).body.runs, [], `${outcome}: nobody concluded with it`)
  t.equal((await rita.get('/runs?outcome=')).status, 400)
  t.equal((await rita.get('/runs?outcome=a&outcome=b')).status, 400)
  t.equal((await rita.get('/runs?tenant=acme')).status, 200, 'what is not declared is not looked at')
  const before = process.threadCpuUsage()
  t.equal((await rita.get(`/runs?${'a&'.repeat(40_000)}`)).status, 200)
  const { user, system } = process.threadCpuUsage(before)
  t.ok(user + system < 500_000, `one name 40,000 times took ${(user + system) / 1000} ms`)
  for (const path of ['/runs', '/runs/waiting', `/runs/${small}`, `/runs/${small}/history`]) t.equal((await nobody.get(path)).status, 403, path)

  const doubted = await run('doubtful', { n: 1 })
  t.same((await rita.get('/runs')).body.runs, [doubted])

  const long = await run('noted', { n: 250 })
  const first = (await rita.get(`/runs/${long}/history`)).body
  t.match(first, { run: long, from: 1, truncated: true, next_from: 201 })
  t.same(
    first.records.map(({ seq }: { seq: number }) => seq),
    Array.from({ length: 200 }, (_, i) => i + 1),
  )
  t.match(first.records[0], {
    seq: 1,
    run: long,
    case: null,
    step: null,
    phase: 'forward',
    effect_key: null,
    kind: 'RunAdmitted',
    record: { kind: 'RunAdmitted' },
  })
  t.match(first.records[5], { step: 's1', kind: 'Note', record: { kind: 'Note', text: /^note/ } })
  const rest = (await rita.get(`/runs/${long}/history?from=201`)).body
  t.match(rest, { from: 201, truncated: false, next_from: null })
  t.equal(rest.records.at(-1).kind, 'RunConcluded')
  t.same((await rita.get(`/runs/${long}/history?from=0`)).body, first, '0 is 1')
  for (const from of ['9999', '9007199254740991', '18446744073709551615']) {
    const { body } = await rita.get(`/runs/${long}/history?from=${from}`)
    t.match(body, { from: Number(from), records: [], truncated: false, next_from: null })
  }
  for (const from of ['18446744073709551616', '99999999999999999999', '-1', 'x', '1.5', '', '1&from=2'])
    t.equal((await rita.get(`/runs/${long}/history?from=${from}`)).status, 400, from)
  t.equal((await rita.get(`/runs/${NONE}/history`)).status, 404)
  t.same((await rita.get(`/runs/${NONE}/history?from=2`)).body.records, [], 'an empty page later is no error')
  t.equal((await rita.get('/runs/x/history')).status, 400)
})

t.test('a page of large records ends where they are too many bytes, and the next one begins there', async (t) => {
  const { as, run } = await startApi(t, [wordy], { config: { agent_plane: { max_history_mb: 1 } } })
  const id = await run('wordy', { n: 20 })
  const { records } = (await as('rita').get(`/runs/${id}`)).body
  const seen: number[] = []
  let pages = 0
  for (let from: number | null = 1; from !== null; pages++) {
    const { body } = await as('rita').get(`/runs/${id}/history?from=${from}`)
    t.ok(JSON.stringify(body).length < 1_200_000, `${body.records.length} records`)
    t.ok(body.records.length > 0)
    t.equal(body.truncated, body.next_from !== null)
    seen.push(...body.records.map(({ seq }: { seq: number }) => seq))
    from = body.next_from
  }
  t.same(
    seen,
    Array.from({ length: records }, (_, i) => i + 1),
    'all, each once',
  )
  t.ok(pages > 6, `${pages} pages`)
})

t.test('what an effect gives is nested as deep as can be read again, or is no record', async (t) => {
  const nested = (depth: number, open: string, inner: string, close: string) => JSON.parse(open.repeat(depth) + inner + close.repeat(depth)) as Json
  const deep = skill('deep', async (context, { n }) => {
    for (const [i, given] of [nested(n, '[', '', ']'), nested(n, '{"a":', '1', '}')].entries())
      await context.effect({ kind: 'ask', args: i, mutates: false }, async () => given)
    return n
  })
  const { as, run, agents } = await startApi(t, [deep])
  const rita = as('rita')
  for (const n of [64, 511, 513, 1000, 2000, 4000, 5000, 6000, 7000, 20_000]) {
    const id = await run('deep', { n })
    const isKept = n < 512
    t.match((await rita.get(`/runs/${id}`)).body, isKept ? { status: 'succeeded' } : { status: 'failed', reason: /it is nested more than 512 deep/ }, `${n}`)
    const { status, body } = await rita.get(`/runs/${id}/history`)
    t.equal(status, 200, `the history of ${n}`)
    t.equal(body.records.filter(({ kind }: { kind: string }) => kind === (isKept ? 'EffectDone' : 'EffectFailed')).length, isKept ? 2 : 1)
    t.same((await agents.replay(id)).divergences, [])
  }
})

t.test('lists are cut at 100', async (t) => {
  const { as, run } = await startApi(t, [echo, nap])
  const begin = async (capability: string, count: number) => {
    for (let i = 0; i < count; i++) await run(capability, { n: 100_000 + ((i * 7919) % 1000) * 1000 })
  }
  await begin('nap', 100)
  await begin('echo', 100)
  const [waiting, ended] = [async () => (await as('rita').get('/runs/waiting')).body, async () => (await as('rita').get('/runs?outcome=succeeded')).body]
  const untils = (await waiting()).runs.map(({ until }: { until: string }) => Date.parse(until))
  t.equal(untils.length, 100)
  t.same(
    untils,
    [...untils].sort((a, b) => a - b),
    'soonest due first',
  )
  t.equal((await waiting()).truncated, false)
  t.match(await ended(), { truncated: false, runs: { length: 100 } })
  await begin('nap', 1)
  await begin('echo', 1)
  t.match(await waiting(), { truncated: true, runs: { length: 100 } })
  const { runs, truncated } = await ended()
  t.same([runs.length, truncated], [100, true])
})

t.test('a run that waits says for what', async (t) => {
  const { as, run } = await startApi(t, [ask, nap])
  const asking = await run('ask', { n: 100_000 })
  const napping = await run('nap', { n: 50_000 })
  const { runs, truncated } = (await as('rita').get('/runs/waiting')).body
  t.match(runs, [
    { run: napping, waiting_for: { reason: 'awaiting_time' } },
    { run: asking, waiting_for: { reason: 'awaiting_event', kind: 'answered', correlation: about } },
  ])
  t.notOk(truncated)
  t.match((await as('rita').get(`/runs/${asking}`)).body, { status: 'suspended', waiting_for: /^awaiting answered for ticket=7 until \d{4}-/ })
  t.match((await as('rita').get(`/runs/${napping}`)).body, { status: 'suspended', waiting_for: /^sleeping until \d{4}-/ })
})

t.test('a run is cancelled once; who asked first stays on record', async (t) => {
  const { as, run, agents } = await startApi(t, [echo, nap, doubtful])
  const [ann, bob, rita] = [as('ann'), as('bob'), as('rita')]
  const napping = await run('nap', { n: 100_000 })
  const path = `/runs/${napping}/cancel`
  t.equal((await rita.post(path, { reason: 'x' })).status, 403)
  for (const reason of ['', '  ', 'x'.repeat(5000)]) t.equal((await ann.post(path, { reason })).status, 400)
  for (const body of [{}, { reason: 1 }, { reason: 'x', actor: 'eve' }, { reason: 'x', tenant: 'acme' }, [], 'null'])
    t.equal((await ann.post(path, body, { 'content-type': 'application/json' })).status, 422, JSON.stringify(body))
  for (const body of ['{', '', '\xff', '[['.repeat(1000)]) t.equal((await ann.post(path, body, { 'content-type': 'application/json' })).status, 400)
  t.equal((await ann.post(path, '{}', { 'content-type': 'text/plain' })).status, 415)
  t.equal((await ann.post(path)).status, 415)
  t.equal((await ann.post(path, { reason: 'x'.repeat(1 << 20) })).status, 413)
  t.equal((await ann.post(`/runs/${NONE}/cancel`, { reason: 'x' })).status, 404)
  t.equal((await ann.post('/runs/x/cancel', { reason: 'x' })).status, 400)
  t.same((await ann.post(path, { reason: 'no need' })).status, 202)
  await agents.settled(napping)
  t.match((await rita.get(`/runs/${napping}`)).body, { status: 'cancelled', decided_by: { actor: 'ann', basis: 'authenticated' } })
  t.match(await bob.post(path, { reason: 'me too' }), { status: 409, body: { error: /it is cancelled/ } })
  t.match(await bob.post(`/runs/${await run('echo', { n: 1 })}/cancel`, { reason: 'late' }), { status: 409, body: { error: /it is succeeded/ } })
  const doubted = await run('doubtful', { n: 1 })
  t.match(await bob.post(`/runs/${doubted}/cancel`, { reason: 'stop' }), { status: 409, body: { error: /quarantined; reopen or abandon/ } })
})

t.test('two who cancel at once: one is on record', async (t) => {
  let release = (): void => {}
  const held = new Promise<void>((resolve) => {
    release = resolve
  })
  const slow = skill('slow', (context) => context.effect({ kind: 'hold', args: null, mutates: false }, () => held.then(() => 1)))
  const { as, agents } = await startApi(t, [slow])
  const { run } = await agents.run({ capability: 'slow', input: { n: 1 }, actor: 'test' })
  const path = `/runs/${run}/cancel`
  const first = await as('ann').post(path, { reason: 'one' })
  const second = await as('bob').post(path, { reason: 'two' })
  t.match(
    [first, second],
    [
      { status: 202, body: { requested_by: 'ann', recorded: true } },
      { status: 202, body: { requested_by: 'ann', recorded: false } },
    ],
  )
  t.match((await as('rita').get(`/runs/${run}`)).body, { status: 'running', cancellation_requested_by: { actor: 'ann' } })
  release()
  await agents.settled(run)
})

t.test('a quarantined run: what is in doubt is said, it goes on for a pass, or it is given up', async (t) => {
  const { as, run } = await startApi(t, [echo, doubtful])
  const [ann, rita] = [as('ann'), as('rita')]
  const ended = await run('echo', { n: 1 })
  for (const word of ['reopen', 'abandon']) {
    t.equal((await ann.post(`/runs/${ended}/${word}`, { reason: 'x' })).status, 409)
    t.equal((await ann.post(`/runs/${NONE}/${word}`, { reason: 'x' })).status, 404)
    t.equal((await ann.post(`/runs/x/${word}`, { reason: 'x' })).status, 400)
    t.equal((await ann.post(`/runs/${ended}/${word}`, { reason: ' ' })).status, 400)
    t.equal((await ann.post(`/runs/${ended}/${word}`, { reason: 'x', decision: 'reopen' })).status, 422)
    t.equal((await ann.post(`/runs/${ended}/${word}`, 'x', { 'content-type': 'text/plain' })).status, 415)
    t.equal((await ann.post(`/runs/${ended}/${word}`, { reason: 'x'.repeat(1 << 20) })).status, 413)
    t.equal((await rita.post(`/runs/${ended}/${word}`, { reason: 'x' })).status, 403)
  }
  const doubted = await run('doubtful', { n: 1 })
  const { undecided, reason } = (await rita.get(`/runs/${doubted}`)).body
  t.match(undecided, [{ step: 1, phase: 'forward', kind: 'pay', doubt: 'inconclusive' }])
  t.match(reason, /is not known/)
  const [{ effect }] = undecided
  const path = `/runs/${doubted}/reconcile`
  const landed = { effect, disposition: 'landed', note: 'seen at the bank', output: { paid: 1 } }
  t.equal((await rita.post(path, landed)).status, 403)
  for (const [body, status] of [
    [{ ...landed, effect: 'x' }, 400],
    [{ ...landed, effect: 'f'.repeat(64) }, 409],
    [{ ...landed, disposition: 'maybe' }, 400],
    [{ effect, disposition: 'landed', note: 'x' }, 400],
    [{ ...landed, output: null }, 400],
    [{ ...landed, disposition: 'did_not_happen' }, 400],
    [{ ...landed, by: 'eve' }, 422],
    [{ effect, disposition: 'landed', output: 1 }, 422],
    [{ ...landed, output: 'x'.repeat(1 << 20) }, 413],
  ] as const)
    t.equal((await ann.post(path, body)).status, status, JSON.stringify(body).slice(0, 100))
  t.equal((await ann.post(path, '{}', { 'content-type': 'text/plain' })).status, 415)
  t.equal((await ann.post(`/runs/${NONE}/reconcile`, landed)).status, 404)
  t.match(await ann.post(`/runs/${ended}/reconcile`, landed), { status: 409 })

  t.match((await ann.post(`/runs/${doubted}/reopen`, { reason: 'try' })).body, {
    decided_by: 'ann',
    decision: 'reopen',
    status: 'quarantined',
    reason: /not known/,
  })
  t.same((await ann.post(path, landed)).body, { asserted_by: 'ann', effect })
  t.match((await rita.get(`/runs/${doubted}`)).body, { status: 'quarantined', undecided: undefined }, 'until it is reopened')
  t.equal((await ann.post(path, landed)).status, 409, 'it is in doubt no more')
  t.same((await ann.post(`/runs/${doubted}/reopen`, { reason: 'settled' })).body, { decided_by: 'ann', decision: 'reopen', status: 'succeeded', reason: null })
  const { records } = (await rita.get(`/runs/${doubted}/history`)).body
  t.match(
    records.find(({ kind }: { kind: string }) => kind === 'EffectReconciled'),
    { effect_key: effect, record: { note: 'seen at the bank', asserted_by: { actor: 'ann', basis: 'authenticated' }, declared: { trust: 'untrusted' } } },
  )
  const lost = await run('doubtful', { n: 2 })
  t.match((await as('bob').post(`/runs/${lost}/abandon`, { reason: 'given up' })).body, {
    decided_by: 'bob',
    decision: 'abandon',
    status: 'abandoned',
    reason: 'given up',
  })
  t.match((await rita.get(`/runs/${lost}`)).body, { status: 'abandoned', decided_by: { actor: 'bob' } })
  t.equal((await ann.post(`/runs/${lost}/abandon`, { reason: 'again' })).status, 409)
})

t.test("no tenant sees or changes what is another one's", async (t) => {
  const { as, run } = await startApi(t, [nap, doubtful])
  const [ann, zoe] = [as('ann'), as('zoe')]
  const napping = await run('nap', { n: 100_000 }, 'acme')
  const doubted = await run('doubtful', { n: 1 }, 'acme')
  t.same([(await ann.get('/runs')).body.runs, (await zoe.get('/runs')).body.runs], [[], [doubted]])
  t.same([(await ann.get('/runs/waiting')).body.runs.length, (await zoe.get('/runs/waiting')).body.runs.length], [0, 1])
  const effect = (await zoe.get(`/runs/${doubted}`)).body.undecided[0].effect
  for (const [path, body] of [
    [`/runs/${napping}/cancel`, { reason: 'x' }],
    [`/runs/${doubted}/reopen`, { reason: 'x' }],
    [`/runs/${doubted}/abandon`, { reason: 'x' }],
    [`/runs/${doubted}/reconcile`, { effect, disposition: 'did_not_happen', note: 'x' }],
  ] as const) {
    const missing = await ann.post(path.replace(/run_\w+/, NONE), body)
    const theirs = await ann.post(path, body)
    t.equal(theirs.status, 404)
    t.equal(theirs.body.error.replaceAll(/run_\w+/g, ''), missing.body.error.replaceAll(/run_\w+/g, ''), 'as if there were none')
  }
  t.equal((await ann.get(`/runs/${napping}/history`)).status, 404)
  t.match((await zoe.get(`/runs/${doubted}`)).body, { status: 'quarantined' })
})

t.test('where the store fails it is the fault of the server, and the answer says no more', async (t) => {
  const { as, run, plane } = await startApi(t, [ask])
  const ann = as('ann')
  const waiting = await run('ask', { n: 1_000_000 })
  const runs = plane().runs as unknown as Record<string, unknown>
  const names = ['list', 'waiting', 'view', 'history', 'cancel', 'decide', 'reconcile']
  for (const name of names) runs[name] = () => Promise.reject(new Error('the disk is gone'))
  const said = { effect: '0'.repeat(64), disposition: 'did_not_happen', note: '' }
  for (const answer of [
    ...['/runs', '/runs/waiting', `/runs/${waiting}`, `/runs/${waiting}/history`].map((path) => ann.get(path)),
    ...['cancel', 'reopen', 'abandon'].map((verb) => ann.post(`/runs/${waiting}/${verb}`, { reason: 'r' })),
    ann.post(`/runs/${waiting}/reconcile`, said),
  ]) {
    const { status, body } = await answer
    t.match({ status, body }, { status: 500, body: { error: /store of the plane is unavailable/ } })
    t.notMatch(body.error, /disk is gone/, 'the log has why')
  }
  for (const name of names) delete runs[name]
  t.match(await ann.get(`/runs/${waiting}`), { status: 200, body: { status: 'suspended' } })
})
