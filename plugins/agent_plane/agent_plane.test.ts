import { type CorrelationKey, defineSkill, EffectError, type Json, type PlanNode, type Skill, type StepContext } from 'svcdb/agents'
import { Type } from 'svcdb/lib/schema'
import { run as runCli } from 'svcdb/testkit'
import t from 'tap'
import { start } from './testing/node.ts'

const EVE = { actor: 'eve', basis: 'asserted' } as const
const about: CorrelationKey[] = [{ namespace: 'ticket', value: '7' }]

function skill(capability: string, invoke: (context: StepContext, input: { n: number }) => Promise<Json>, more: Partial<Skill> = {}): Skill {
  return defineSkill({ capability, summary: 'Of a test', input: Type.Object({ n: Type.Integer() }), output: Type.Any(), ...more, invoke } as never)
}

for (const storage of ['memory', 'embedded']) {
  t.test(`a run does its effects once, gives what it gave, and its key leads back to it (${storage})`, async (t) => {
    const done: string[] = []
    const double = skill('math.double', async (context, { n }) => {
      const at = await context.now()
      await context.note('begun')
      const given = await context.effect({ kind: 'count', args: { n }, mutates: true }, async ({ effectKey, attempt }) => {
        done.push(`${effectKey} ${attempt}`)
        return n * 2
      })
      return { given, at, chance: await context.random() }
    })
    const { run, plane, node, show } = await start(t, [double], { storage })
    const first = await run('math.double', { n: 4 }, 'one')
    t.match(first, { status: 'succeeded', concluded: true, output: { given: 8, at: Number } })
    t.same((await run('math.double', { n: 4 }, 'one')).run, first.run)
    t.equal(done.length, 1)
    t.same((await show(first.run)).body, first, 'asked again it gives the same')
    t.same((await plane.replay(first.run)).divergences, [])
    t.equal(done.length, 1)
    t.match((await node.inject('/metrics')).body, /svc_agent_plane_runs_admitted_total 1\n[\s\S]*svc_agent_plane_effects_total\{result="done"\} 1/)
    await t.rejects(run('math.double', { n: 'four' }), /is not as its skill says/)
    await t.rejects(run('math.triple', { n: 4 }), /nothing here has the capability/)
    t.equal((await show('run_01ARZ3NDEKTSV4RRFFQ69G5FAV')).status, 404)
    t.equal((await show('x')).status, 404)
  })
}

t.test('a run waits for an event, whenever that comes, and gets it once', async (t) => {
  const wait = skill('ask', async (context, { n }) => (await context.awaitEvent({ kind: 'answered', correlation: about, withinMs: n })).payload)
  const { run, plane } = await start(t, [wait])
  const first = await run('ask', { n: 60_000 })
  t.match(first, { status: 'suspended', waiting_for: /^awaiting answered for ticket=7 until \d{4}-/ })
  const event = { id: '1', source: 'bob', kind: 'answered', correlation: [...about, { namespace: 'other', value: 'x' }], payload: 'yes' }
  t.same(await plane.deliver({ ...event, id: '0', correlation: [{ namespace: 'ticket', value: '8' }] }), { delivery: 'buffered' }, 'of something else')
  t.same(await plane.deliver(event), { delivery: 'resumed', run: first.run })
  t.equal(await plane.settled(first.run), 'succeeded')
  t.equal((await plane.replay(first.run)).output, 'yes')
  t.same(await plane.deliver(event), { delivery: 'duplicate', run: first.run })
  t.same(await plane.deliver({ ...event, id: '2', payload: 'early' }), { delivery: 'buffered' })
  t.match(await run('ask', { n: 60_000 }), { status: 'succeeded', output: 'early' }, 'one that came before')
  t.match(await run('ask', { n: 0 }), { status: 'failed', reason: /no event "answered" has come by/ }, 'or none')
})

t.test('a key that has begun a run begins no other one, and is no answer to who asks for something else', async (t) => {
  const { node, run } = await start(t, [skill('pay', async (_context, { n }) => n), skill('refund', async (_context, { n }) => n)])
  const first = await run('pay', { n: 1 }, 'order-7')
  const ask = async (payload: object) => {
    const answer = await node.inject({ method: 'POST', url: '/api/v1/admin/agents/runs', payload: { idempotency_key: 'order-7', ...payload } })
    return { ...(answer.json() as object), status: answer.statusCode }
  }
  t.match(await ask({ capability: 'pay', input: { n: 1 } }), { status: 202, run: first.run, existing: true })
  const refused = { status: 409, code: 'CONFLICT', error: `cannot begin a run: its idempotency key has begun "${first.run}" already` }
  t.match(await ask({ capability: 'pay', input: { n: 2 } }), { ...refused, error: new RegExp(`${refused.error}, with another input; `) })
  t.match(await ask({ capability: 'refund', input: { n: 1 } }), { ...refused, error: new RegExp(`${refused.error}, of "pay"; `) })
})

t.test('a run sleeps, and goes on by itself', async (t) => {
  const { run, plane } = await start(t, [skill('nap', (context, { n }) => context.sleep(n).then(() => 'rested'))])
  const { run: id, status } = await run('nap', { n: 300 })
  t.equal(status, 'suspended')
  const end = Date.now() + 20_000
  while ((await plane.settled(id)) === 'suspended' && Date.now() < end) await new Promise((resolve) => setTimeout(resolve, 20))
  t.match(await plane.replay(id), { status: 'succeeded', output: 'rested', divergences: [] })
})

t.test('what did not happen is tried again; what may have happened is asked about, once', async (t) => {
  const tries: Record<string, number> = {}
  const flaky = (kind: string, disposition: 'did_not_happen' | 'in_doubt', more: object) =>
    skill(kind, (context, { n }) =>
      context.effect({ kind, args: null, mutates: true, ...more }, async () => {
        tries[kind] = (tries[kind] ?? 0) + 1
        if (tries[kind] <= n) throw new EffectError('not now', { disposition })
        return tries[kind]
      }),
    )
  const probe = async () => ({ landed: true, output: 'probed' }) as const
  const { run, plane } = await start(t, [
    flaky('again', 'did_not_happen', {}),
    flaky('never', 'did_not_happen', {}),
    flaky('probed', 'in_doubt', { recovery: 'reconcile', probe }),
    flaky('keyed', 'in_doubt', { recovery: 'idempotent' }),
    flaky('doubt', 'in_doubt', {}),
  ])
  t.match(await run('again', { n: 2 }), { status: 'succeeded', output: 3 })
  t.match(await run('never', { n: 3 }), { status: 'failed', reason: 'not now', undecided: [] })
  t.match(await run('probed', { n: 1 }), { status: 'succeeded', output: 'probed' })
  t.match(await run('keyed', { n: 1 }), { status: 'succeeded', output: 2 })
  const { run: id, ...standing } = await run('doubt', { n: 1 })
  t.match(standing, { status: 'quarantined', undecided: [{ kind: 'doubt', doubt: 'inconclusive', phase: 'forward', step: 1 }] })
  await t.rejects(plane.resume(id), { code: 'CONFLICT' })
  await t.rejects(plane.cancel(id, EVE, 'why not'), { code: 'CONFLICT' })
  const { effect } = (standing.undecided as { effect: string }[])[0]
  await t.rejects(plane.reconcile(id, effect, { disposition: 'landed', note: '' }, EVE), { code: 'BAD_REQUEST' })
  await t.rejects(plane.reconcile(id, '0'.repeat(64), { disposition: 'did_not_happen', note: '' }, EVE), { code: 'CONFLICT' })
  await plane.reconcile(id, effect, { disposition: 'landed', output: 'seen', note: 'in their list' }, EVE)
  t.equal(await plane.decide(id, 'reopen', EVE, 'settled'), 'succeeded')
  t.match(await plane.replay(id), { output: 'seen', divergences: [] })
  t.equal(tries.doubt, 1)
  tries.doubt = 0
  const other = await run('doubt', { n: 1 })
  t.equal(await plane.decide(other.run, 'abandon', EVE, 'nobody needs it'), 'abandoned')
  await t.rejects(plane.decide(other.run, 'reopen', EVE, 'or is it?'), { code: 'CONFLICT' })
})

t.test('a plan goes through its nodes, and a failure undoes what was done, the newest first', async (t) => {
  const did: string[] = []
  const act = (name: string, compensation?: 'pivot') =>
    defineSkill({
      capability: name,
      summary: 'Of a test',
      input: Type.Object({ of: Type.Any() }),
      output: Type.Any(),
      ...(compensation === undefined ? {} : { compensation }),
      invoke: async (context, { of }) =>
        context.effect({ kind: name, args: of as Json, mutates: true, recovery: 'idempotent' }, async () => [did.push(name), of as Json]),
      ...(compensation === undefined
        ? {
            compensate: async (context) =>
              void (await context.effect({ kind: `${name}.back`, args: null, mutates: true, recovery: 'idempotent' }, async () => did.push(`-${name}`))),
          }
        : {}),
    })
  const fail = skill('fail', async (context, { n }) => {
    if ((await context.effect({ kind: 'look', args: n, mutates: false }, async () => n)) > 0) throw new Error('no stock')
    return 'fine'
  })
  const { plane } = await start(t, [act('pay'), act('book'), act('mail', 'pivot'), fail])
  const of = (node: string) => ({ of: { from: 'node' as const, node } })
  const plan = (second: string, n: number): PlanNode[] => [
    { id: 'pay', capability: 'pay', args: { of: { from: 'run_input' as const, field: 'who' } } },
    { id: 'second', capability: second, depends_on: ['pay'], args: of('pay') },
    { id: 'last', capability: 'fail', depends_on: ['second'], args: { n: { from: 'const' as const, value: n } }, terminal: true },
  ]
  const whole = await plane.run({ plan: plan('book', 0), input: { who: 'ann' }, actor: 'ann' })
  t.equal(await plane.settled(whole.run), 'succeeded')
  t.match(await plane.replay(whole.run), { output: 'fine', divergences: [] })
  t.same(did.splice(0), ['pay', 'book'])
  const failed = await plane.run({ plan: plan('book', 1), input: { who: 'ann' }, actor: 'ann' })
  t.equal(await plane.settled(failed.run), 'failed')
  t.same(did.splice(0), ['pay', 'book', '-book', '-pay'])
  await t.rejects(plane.resume(failed.run), { code: 'CONFLICT' }, 'what was undone does not go forward')
  const stuck = await plane.run({ plan: plan('mail', 1), input: { who: 'ann' }, actor: 'ann' })
  t.equal(await plane.settled(stuck.run), 'failed')
  t.same(did.splice(0), ['pay', 'mail'], 'nothing before a point of no return')
  for (const bad of [[], [{ id: 'a', capability: 'pay' }], [{ id: 'a', capability: 'pay', depends_on: ['a'], terminal: true }]])
    await t.rejects(plane.run({ plan: bad, input: {}, actor: 'ann' }), { code: 'BAD_REQUEST' })
})

t.test('a cancelled run stops at its next step and is undone', async (t) => {
  const did: string[] = []
  const hold = defineSkill({
    capability: 'hold',
    summary: 'Of a test',
    input: Type.Null(),
    output: Type.Any(),
    async invoke(context) {
      await context.effect({ kind: 'take', args: null, mutates: true, recovery: 'idempotent' }, async () => did.push('take'))
      await context.sleep(3_600_000)
    },
    compensate: async (context) =>
      void (await context.effect({ kind: 'give', args: null, mutates: true, recovery: 'idempotent' }, async () => did.push('give'))),
  })
  const { run, plane, node, show } = await start(t, [hold])
  const { run: id, status } = await run('hold', null)
  t.equal(status, 'suspended')
  const cancel = (reason: string) => node.inject({ method: 'POST', url: `/api/v1/admin/agents/runs/${id}/cancel`, payload: { reason } })
  t.equal((await cancel(' ')).statusCode, 400)
  const answer = await cancel('too late')
  t.equal(answer.statusCode, 202)
  t.equal(answer.json().recorded, true)
  t.equal(await plane.settled(id), 'cancelled')
  t.same(did, ['take', 'give'])
  t.match((await show(id)).body, { concluded: true, reason: 'too late' })
  t.equal((await cancel('again')).statusCode, 409)
})

t.test('a run that has used up its budget goes on when it is raised', async (t) => {
  const many = skill('many', async (context, { n }) => {
    for (let i = 0; i < n; i++) await context.effect({ kind: 'one', args: i, mutates: false }, async () => i)
    return n
  })
  const { run } = await start(t, [many], { config: { agent_plane: { max_effects: 3 } } })
  t.match(await run('many', { n: 3 }), { status: 'succeeded' })
  t.match(await run('many', { n: 4 }), { status: 'exhausted', concluded: false, reason: 'a budget is used up' })
})

t.test('code that does something else than before is noticed', async (t) => {
  let kind = 'first'
  const { run, plane } = await start(t, [
    skill('fickle', async (context) => {
      await context.effect({ kind, args: null, mutates: false }, async () => 1)
      return (await context.awaitEvent({ kind: 'go', correlation: about, withinMs: 60_000 })).payload
    }),
  ])
  const { run: id } = await run('fickle', { n: 1 })
  kind = 'second'
  t.match(await plane.replay(id), { divergences: [/another one than in the journal/] })
  await plane.deliver({ id: '1', source: 'bob', kind: 'go', correlation: about, payload: 1 })
  t.equal(await plane.settled(id), 'quarantined')
  kind = 'first'
  t.equal(await plane.decide(id, 'reopen', EVE, 'the code is back'), 'succeeded')
})

t.test('svc plane begins runs on a node, shows their records and checks their chains', async (t) => {
  const { node } = await start(t, [skill('plus', async (_context, { n }) => n + 1)], { storage: 'embedded' })
  const { mkdtemp, rm, writeFile } = await import('node:fs/promises')
  const folder = await mkdtemp('/tmp/svc-plane-')
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  await writeFile(`${folder}/svc.toml`, `plugins = ["agent_plane"]\n[agent_plane]\n[database]\ndata_dir = ${JSON.stringify(node.dataDir)}\n`)
  const svc = async (...argv: string[]) => {
    let [out, err] = ['', '']
    const io = { env: {}, out: (text: string) => void (out += text), err: (text: string) => void (err += text) }
    const code = await runCli([...argv, '--config', `${folder}/svc.toml`], io as never)
    return { code, out, err }
  }
  const begun = await svc('plane', 'run', 'plus', '--input', '{"n":1,"of":"a\u2028b"}', '--url', node.url)
  t.match(begun, { code: 0, err: '' })
  const { run, output } = JSON.parse(begun.out)
  t.equal(output, 2)
  t.match(await svc('plane', 'run', 'minus', '--url', node.url), { code: 4, err: /nothing here has the capability "minus"; name the file of an agent / })
  t.match(await svc('plane', 'run', 'plus', '--input', '{', '--url', node.url), { code: 2 })
  // A negative answer would say that something needs a person, or that there is no such run.
  for (const verb of [['attention'], ['waiting'], ['cancel', run, '--reason', 'x']])
    t.match(await svc('plane', ...verb, '--url', node.url), { code: 4, err: /is that of plugin "operator_api"/ }, verb[0])
  t.match(await svc('plane', 'run', 'plus', '--url', 'http://127.0.0.1:1'), { code: 4, err: /cannot reach the node/ })
  t.match(await svc('plane', 'dance'), { code: 2 })
  t.match(await svc('plane', 'verify', '--fiel', 'x'), { code: 2, err: /^svc: cannot use flag "--fiel": .*"--file"\?\n$/ }, 'nothing was found')
  const { out } = await svc('plane', 'history', run)
  t.same(
    out
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line).kind),
    ['RunAdmitted', 'PlanFrozen', 'StepStarted', 'StepFinished', 'RunConcluded'],
  )
  t.match(await svc('plane', 'history', 'run_01ARZ3NDEKTSV4RRFFQ69G5FAV'), { code: 1 })
  t.match(await svc('plane', 'dead-letters'), { code: 0, out: '' })
  const exported = await svc('plane', 'export')
  t.equal(exported.code, 0)
  const lines = exported.out.trimEnd().split('\n')
  t.match(
    lines.map((line) => JSON.parse(line)),
    [
      { kind: 'svc.export', v: 1, tenant: 'default', log: { origin: 'svc/agent_plane/default' } },
      { kind: 'run', run, status: 'succeeded', records: 5 },
      { seq: 1, body: { kind: 'RunAdmitted' }, prev_hash: '0'.repeat(64), signature: null },
      ...[2, 3, 4, 5].map((seq) => ({ seq, hash: /^[0-9a-f]{64}$/ })),
      { kind: 'trailer', runs: 1, records: 5, cases: 0 },
    ],
  )
  t.same((await svc('plane', 'export', run)).out.split('\n').slice(1), exported.out.split('\n').slice(1), 'one run, and there is only one')
  t.match(await svc('plane', 'export', 'run_01ARZ3NDEKTSV4RRFFQ69G5FAV'), { code: 1, err: /there is none; check the id, and --tenant/ })
  const checked = async (text: string) => {
    await writeFile(`${folder}/export.jsonl`, text)
    return svc('plane', 'verify', '--file', `${folder}/export.jsonl`)
  }
  t.match(await checked(exported.out), { code: 0, out: /^1 runs, 5 records, 0 cases: whole/ })
  for (const [text, why] of [
    [exported.out.replaceAll('"n":1', '"n":2').replaceAll('\\"n\\":1', '\\"n\\":2'), /record 1 does not follow/],
    [exported.out.replaceAll('\\"n\\":1', '\\"n\\":2'), /its body is another one than its text/],
    [lines.filter((_, i) => i !== 4).join('\n'), /says 5 records, and there are 4/],
    [lines.slice(0, -1).join('\n'), /ends without its trailer/],
    [`${exported.out}{}`, /behind the trailer/],
    [lines.slice(1).join('\n'), /no header of an export/],
    [exported.out.replace('"prev_hash":"0', '"prev_hash":"1'), /another hash before it/],
    ['', /it is empty/],
    ['x', /line 1: it is not JSON/],
  ] as const)
    t.match(await checked(text), { code: 6, err: why }, String(why))
  t.match(await svc('plane', 'verify', '--file', `${folder}/nowhere`), { code: 4, err: /cannot read export/ })
  t.match(await svc('plane', 'verify', run, '--file', 'x'), { code: 2 })
  t.match(await svc('plane', 'verify'), {
    code: 0,
    out: /^1 of 1 runs whole, 5 records\nlog svc\/agent_plane\/default: [01] entries, [01] waiting, root [0-9a-f]{64}\n$/,
  })
})

t.test('each tenant has a plane of its own, and all have the same skills', async (t) => {
  const { node } = await start(t, [skill('echo', async (_context, { n }) => n)], { config: { agent_plane: { tenants: ['acme'], max_driving: 1 } } })
  const ask = async (query: string, n: number, key = 'one') => {
    const payload = { capability: 'echo', input: { n }, idempotency_key: key }
    const answer = await node.inject({ method: 'POST', url: `/api/v1/admin/agents/runs${query}`, payload })
    return { status: answer.statusCode, ...(answer.json() as { run: string; existing?: boolean; error?: string }) }
  }
  const ours = await ask('', 1)
  const theirs = await ask('?tenant=acme', 2)
  t.not(ours.run, theirs.run, 'the same key is another one')
  t.match(await ask('?tenant=default', 1), { run: ours.run, existing: true })
  t.match(await ask('?tenant=acme', 2), { run: theirs.run, existing: true })
  const show = async (run: string, query: string) => (await node.inject(`/api/v1/admin/agents/runs/${run}${query}`)).statusCode
  t.same(await Promise.all([show(theirs.run, ''), show(theirs.run, '?tenant=acme'), show(ours.run, '?tenant=acme')]), [404, 200, 404])
  t.match(await ask('?tenant=nobody', 1), { status: 400, error: /cannot find tenant "nobody": it has no plane here; name it in agent_plane.tenants/ })
  const twenty = await Promise.all(Array.from({ length: 20 }, (_, n) => ask(n % 2 === 0 ? '' : '?tenant=acme', n, `k${n}`)))
  t.equal(new Set(twenty.map(({ run }) => run)).size, 20)
})

t.test('verbs of the operator API are told which plugin has it', async (t) => {
  const { node } = await start(t, [])
  const answer = await node.inject('/api/v1/plane/attention')
  t.equal(answer.statusCode, 404)
  t.match(answer.json().error, /; the operator API is that of plugin "operator_api", with a section of its own, below its base_path$/)
})
