/** Verbs on the store of a node that is stopped, and what becomes of it when the node starts again. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type AgentPlane, defineSkill, EffectError, type Json, type StepContext } from 'svcdb/agents'
import { Type } from 'svcdb/lib/schema'
import { run as runCli } from 'svcdb/testkit'
import t, { type Test } from 'tap'
import { startApi, tokenOf } from './testing.ts'

const any = { summary: 'Of a test', input: Type.Any(), output: Type.Any() }
const skill = (capability: string, invoke: (ctx: StepContext) => Promise<Json>, more: object = {}) => defineSkill({ ...any, capability, invoke, ...more })

/** What was done outside, over restarts of the node. */
function outside() {
  const done: string[] = []
  const skills = [
    skill('nap', async (ctx) => {
      await ctx.sleep(1e9)
      return null
    }),
    skill('pay', async (ctx) => {
      await ctx.effect({ kind: 'pay', args: null, mutates: true }, async () => {
        throw new EffectError('no answer', { disposition: 'in_doubt' })
      })
      done.push('after the payment')
      return 'paid'
    }),
    skill('ask', async (ctx) => (await ctx.task({ kind: 'ask', summary: 'May I?', proposed_action: { n: 1 }, candidate_roles: ['boss'] })).decided_by),
    skill('matter', async (ctx) => {
      await ctx.deadline('answer', { unit: 'minutes', n: 0 })
      return ctx.caseId ?? null
    }),
  ]
  return { done, skills }
}

type Said = { code: number; err: string; body: never }

async function stoppable(t: Test) {
  const dataDir = mkdtempSync(join(tmpdir(), 'svc-store-verbs-'))
  t.teardown(() => rmSync(dataDir, { recursive: true, force: true }))
  const { done, skills } = outside()
  const start = async () => startApi(t, skills, { storage: 'embedded', dataDir })
  const file = join(dataDir, 'svc.toml')
  const write = () => writeFileSync(file, `plugins = ["agent_plane"]\n[agent_plane]\ntenants = ["acme"]\n[database]\ndata_dir = ${JSON.stringify(dataDir)}\n`)
  const plane = async (...argv: string[]): Promise<Said> => {
    let [out, err] = ['', '']
    const io = { env: {}, out: (text: string) => void (out += text), err: (text: string) => void (err += text) }
    const code = await runCli(['plane', ...argv, '--config', file], io as never)
    return { code, err, body: (out === '' ? undefined : out.trimEnd().includes('\n') ? out : JSON.parse(out)) as never }
  }
  return { done, start, write, plane }
}

/** Waits until a run rests. */
const settled = async (agents: AgentPlane, run: string) => agents.settled(run)

t.test('a stopped node is steered by its store; it goes on when it starts', async (t) => {
  const { done, start, write, plane } = await stoppable(t)
  const first = await start()
  const [nap, paid, asks, kept] = [await first.run('nap', null), await first.run('pay', null), await first.run('ask', null), await first.run('nap', null)]
  const matter = { kind: 'claim', correlation: [{ namespace: 'claim', value: '7' }] }
  const { run: opener } = await first.agents.run({ capability: 'matter', input: null, actor: 'test', case: matter })
  await first.agents.settled(opener)
  const until = Date.now() + 60_000
  while ((await first.as('ann').get('/obligations')).body.obligations.length === 0 && Date.now() < until)
    await new Promise((resolve) => setTimeout(resolve, 50))
  const [{ case: caseId }] = (await first.as('ann').get('/obligations')).body.obligations
  const [{ effect }] = (await first.as('ann').get(`/runs/${paid}`)).body.undecided
  const shown = await first.plane().tasks?.list({ actor: 'x', basis: 'asserted', roles: ['boss'] }, 1)
  const [{ id: task, digest }] = shown?.rows ?? []
  write()
  t.match(await plane('cancel', nap, '--reason', 'x', '--actor', 'olga'), { code: 4, err: /cannot open data directory/ }, 'not while a server runs')
  await first.node.stop()
  const act = (...argv: string[]) => plane(...argv, '--actor', 'olga')

  t.match(await act('waiting'), { code: 0, body: { runs: { length: 3 } } })
  t.match(await act('attention'), { code: 1, body: { needs_attention: true } })
  t.match(await act('cancel', nap), { code: 2, err: /without a reason/ })
  t.match(await act('cancel', nap, '--reason', 'not needed'), { code: 0, body: { requested_by: 'olga', recorded: true } })
  t.match(await act('cancel', nap, '--reason', 'not needed'), { code: 0, body: { requested_by: 'olga', recorded: false } })
  t.match(await act('cancel', 'run_01ARZ3NDEKTSV4RRFFQ69G5FAV', '--reason', 'x'), { code: 1, err: /cannot find run/ })
  t.match(await act('reconcile', paid, 'f'.repeat(64), '--note', 'x'), { code: 1, err: /not in doubt/ })
  t.match(await act('reconcile', paid, effect, '--output', '{"receipt":1}', '--note', 'seen at the bank'), { code: 0, body: { asserted_by: 'olga', effect } })
  t.match(await act('quarantine', paid, 'reopen', '--reason', 'settled'), { code: 0, body: { decided_by: 'olga', status: 'running' } })
  t.match(await act('tasks'), { code: 0, body: { tasks: { length: 0 } } }, 'olga has no role')
  t.match(await act('decide', task, '--approve', '--reason', 'x'), { code: 4, err: /holders of boss/ })
  t.match(await act('tasks', '--roles', 'boss'), { code: 0, body: { tasks: [{ id: task }] } })
  t.match(await act('tasks', task, '--roles', 'boss', '--claim'), { code: 0, body: { assignee: 'olga' } })
  t.match(await act('decide', task, '--approve', '--reason', 'fine', '--digest', '0'.repeat(64), '--roles', 'boss'), { code: 1, err: /digest/ })
  t.match(await act('decide', task, '--approve', '--reason', 'fine', '--digest', digest, '--roles', 'boss'), {
    code: 0,
    body: { decided_by: 'olga', approved: true },
  })
  t.match(await act('acknowledge', caseId, 'answer', '--note', 'late'), {
    code: 0,
    body: { acknowledged_by: { actor: 'olga', basis: 'asserted' }, recorded: true },
  })
  t.match(await act('hold', caseId, '--reason', 'a lawsuit'), { code: 0, body: { placed: true, in_force: { by: 'olga', basis: 'asserted' } } })
  t.match(await act('hold'), { code: 0, body: { holds: [{ case: caseId }] } })
  t.match(await act('hold', caseId, '--release'), { code: 0, body: { lifted: true, record: /^run_/ } })
  t.match(await act('hold', '--released'), { code: 0, body: { released: [{ case: caseId, by: 'olga' }] } })
  t.match(await act('halt', 'agent:mailer', '--reason', 'a flood'), { code: 0, body: { halted: true, basis: 'asserted' } })
  t.match(await act('halt', 'all', '--reason', 'x'), { code: 4, err: /a scope is tenant/ })
  t.match(await act('halt'), { code: 0, body: { halts: [{ scope: 'agent:mailer' }] } })
  t.match(await act('halt', 'agent:mailer', '--lift'), { code: 0, body: { was_standing: true } })
  t.match(await act('halt', '--lifted'), { code: 0, body: { lifted: [{ scope: 'agent:mailer', by: 'olga', thrown_by: 'olga' }] } })
  t.match(await act('rearm', kept, 'one'), { code: 1, body: { rearmed: false } })
  t.match(await act('history', kept), { code: 0, body: /RunSuspended/ })
  t.match(await plane('waiting', '--actor', ' '), { code: 4, err: /--actor names who does/ })
  t.match(await act('waiting', '--url', 'http://localhost:1'), { code: 4, err: /leave out --actor, or --url/ })
  t.match(await act('waiting', '--tenant', 'nobody'), { code: 4, err: /name it in agent_plane.tenants/ })
  t.match(await act('waiting', '--tenant', 'acme'), { code: 0, body: { runs: [] } }, 'each tenant has its own')
  t.same(done, [], 'nothing was driven')

  const second = await start()
  t.equal(await settled(second.agents, nap), 'cancelled')
  t.equal(await settled(second.agents, paid), 'succeeded')
  t.equal(await settled(second.agents, asks), 'succeeded')
  t.equal(await settled(second.agents, kept), 'suspended')
  t.same(done, ['after the payment'])
  const ann = second.as('ann')
  t.match((await ann.get(`/runs/${nap}`)).body, { decided_by: { actor: 'olga', basis: 'asserted' } })
  const records = (await ann.get(`/runs/${paid}/history`)).body.records as { kind: string; record: object }[]
  t.match(records.find(({ kind }) => kind === 'EffectReconciled')?.record, { asserted_by: { actor: 'olga', basis: 'asserted' }, note: 'seen at the bank' })
  t.match(records.find(({ kind }) => kind === 'QuarantineDecided')?.record, { decider: { actor: 'olga', basis: 'asserted' }, decision: 'reopen' })
  t.match((await ann.get(`/cases/${caseId}`)).body.deadlines, [{ acknowledged: { by: { actor: 'olga' }, note: 'late' } }])
  t.match((await ann.get('/halts?state=lifted')).body.lifted, [{ by: 'olga', basis: 'asserted' }])
  t.same((await second.agents.replay(paid)).divergences, [])
})

t.test('a drill of a stopped store is kept, and a later one clears what it has found', async (t) => {
  const { start, write, plane } = await stoppable(t)
  const first = await start()
  const matter = { kind: 'claim', correlation: [{ namespace: 'claim', value: '7' }] }
  const { run } = await first.agents.run({ capability: 'nap', input: null, actor: 'test', case: matter })
  await first.agents.settled(run)
  t.match(await first.as('ann').get('/drill'), { status: 200, body: { drilled: false } })
  const key = `record/${run}/000000000002`
  const rows = first.node.storage.state('agent_plane')
  const kept = await rows.get(key)
  await rows.transaction((tx) => tx.delete(key))
  write()
  t.match(await plane('drill'), { code: 1, body: { sound: false } }, 'while a server runs it is only read')
  t.match(await first.as('ann').get('/drill'), { body: { drilled: false } })
  t.match(await plane('drill', '--actor', 'olga'), { code: 4, err: /cannot open data directory/ }, 'not while a server runs')
  await first.node.stop()
  const found = await plane('drill', '--actor', 'olga')
  t.match(found, { code: 1, err: /^finding: case "case_\w+": cannot use the journal/, body: { drilled: true, sound: false, findings: 1 } })

  const second = await start()
  const ann = second.as('ann')
  t.match(await ann.get('/drill'), { body: { drilled: true, sound: false, findings: 1 } })
  const conditions = async (one: typeof ann) => ((await one.get('/attention')).body.conditions as { condition: string }[]).map(({ condition }) => condition)
  t.ok((await conditions(ann)).includes('drill.failed'))
  await second.node.storage.state('agent_plane').transaction((tx) => tx.put(key, kept))
  await second.node.stop()
  t.match(await plane('drill', '--actor', 'olga'), { code: 0, err: '', body: { sound: true, findings: 0 } })

  const third = await start()
  t.match(await third.as('ann').get('/drill'), { body: { drilled: true, sound: true } })
  t.notOk((await conditions(third.as('ann'))).includes('drill.failed'))
})

t.test('a run of a node is replayed, resumed and read over its API', async (t) => {
  let limit = true
  const work = skill('work', async (ctx) => {
    for (let i = 0; i < 130; i++) await ctx.note(`note ${i}`)
    if (limit) throw new Error('not yet')
    return 'done'
  })
  const { node, run } = await startApi(t, [work])
  const plane = async (env: Record<string, string>, ...argv: string[]) => {
    let [out, err] = ['', '']
    const code = await runCli(['plane', ...argv, '--url', node.url], {
      env,
      out: (text: string) => void (out += text),
      err: (text: string) => void (err += text),
    } as never)
    return { code, out, err }
  }
  const id = await run('work', null)
  const strict = await plane({}, 'replay', id)
  t.match([strict.code, JSON.parse(strict.out)], [0, { run: id, status: 'failed', divergences: [] }])
  t.match(await plane({}, 'replay', id, '--resume'), { code: 1, out: /"status":"failed"/ })
  limit = false
  t.match(await plane({}, 'replay', id, '--resume'), { code: 0, out: /"status":"succeeded","divergences":\[\],"output":"done"/ })
  limit = true
  t.match(await plane({}, 'replay', id), { code: 1, out: /succeeded, and now fails: not yet/ }, 'the code is another one now')
  t.match(await plane({}, 'replay', 'run_01ARZ3NDEKTSV4RRFFQ69G5FAV'), { code: 4, err: /cannot find run/ })
  t.match(await plane({}, 'replay'), { code: 2, err: /name a run/ })
  const rita = { SVC_TOKEN: tokenOf('rita') }
  const history = await plane(rita, 'history', id)
  const records = history.out
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as { seq: number; kind: string })
  t.equal(history.code, 0)
  t.same(
    records.map(({ seq }) => seq),
    records.map((_, i) => i + 1),
    'all pages, in order',
  )
  t.match([records[0].kind, records.at(-1)?.kind], ['RunAdmitted', 'RunConcluded'])
  t.match(await plane({ SVC_TOKEN: tokenOf('nobody') }, 'history', id), { code: 4, err: /may not do "api:run.history"/ })
  t.match(await plane(rita, 'history', 'run_01ARZ3NDEKTSV4RRFFQ69G5FAV'), { code: 1, err: /there is no run/ })
})
