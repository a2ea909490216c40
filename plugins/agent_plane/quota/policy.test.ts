/** Policies of a node: what they do not allow is not done. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { defineAgent, type EffectError } from 'svcdb/agents'
import { Type } from 'svcdb/lib/schema'
import { boot } from 'svcdb/testkit'
import t, { type Test } from 'tap'
import { skill } from '../testing/control.ts'
import { start } from '../testing/node.ts'

const POLICY = `
permit (principal, action == Action::"run:admit", resource) when { context.tenant == "default" };
@reason("no refunds today")
forbid (principal, action == Action::"run:admit", resource) when { context.capabilities.contains("refund") };
permit (principal, action == Action::"effect:perform", resource) unless { context.mutates && context.args like "*\\"wipe\\"*" };
`

function fileOf(t: Test, text: string): string {
  const folder = mkdtempSync(join(tmpdir(), 'svc-plane-policy-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  writeFileSync(join(folder, 'plane.cedar'), text)
  return folder
}

const config = (policy: string, more: object = {}) => ({ agent_plane: { policy, tenants: ['acme'], ...more }, authorization: { engine: 'none' } })

t.test('a run that the policies refuse leaves no trace; an effect that they refuse is journalled, up to a budget', async (t) => {
  const done: unknown[] = []
  const work = skill('work', async (context, input) => {
    const errors: string[] = []
    for (const what of input as string[])
      await context
        .effect({ kind: 'act', args: { what }, mutates: true }, async () => done.push(what))
        .catch((error: EffectError) => void errors.push(error.message))
    return errors
  })
  const plane = await start(t, [work, skill('refund', async () => null)], { plugins: ['cedar'], config: config(fileOf(t, POLICY), { max_denials: 1 }) })
  const state = plane.node.storage.state('agent_plane')
  await t.rejects(plane.run('refund', null), { message: /no refunds today/ })
  await t.rejects(plane.plane.run({ capability: 'refund', input: null, actor: 'ann' }), { code: 'FORBIDDEN' })
  const answer = await plane.node.inject({ method: 'POST', url: '/api/v1/admin/agents/runs?tenant=acme', payload: { capability: 'work', input: [] } })
  t.match([answer.statusCode, answer.json().error], [403, /no policy permits it/], 'of another tenant')
  t.same(await state.list({}), [])
  t.match(await plane.run('work', ['look', 'wipe', 'tell']), { status: 'succeeded', output: [/the policies do not allow it: no policy permits it/] })
  t.same(done, ['look', 'tell'])
  const over = await plane.run('work', ['wipe', 'wipe', 'tell'])
  t.equal(over.status, 'exhausted')
  t.same(done, ['look', 'tell'], 'the budget of refusals is used up')
  const records = (await state.list<string>({ prefix: `record/${over.run}/` })).map(({ value }) => JSON.stringify(value))
  t.equal(records.filter((record) => record.includes('PolicyDenied')).length, 2)
})

t.test('policies that cannot be used end the start, and without any all may be done', async (t) => {
  const boots = (plugins: string[], given: object) => boot({ plugins: ['agent_plane', ...plugins], config: given as never })
  await t.rejects(boots(['cedar'], config(fileOf(t, 'permit (principal, action == Action::"run:begin", resource);'))), { message: /plane\.cedar.*run:begin/s })
  await t.rejects(boots(['cedar'], config('/nowhere/at/all')), { message: /cannot read the policies of "\/nowhere\/at\/all"/ })
  await t.rejects(boots([], { agent_plane: { policy: fileOf(t, POLICY) } }), { message: /agent_plane\.policy.*select the plugin cedar/ })
  const open = await start(t, [skill('refund', async () => null)])
  t.match(await open.run('refund', null), { status: 'succeeded' })
})

t.test('a run goes on under the policies that it was admitted under, and no others', async (t) => {
  const done: string[] = []
  const nap = skill('nap', async (context) => {
    await context.awaitEvent({ kind: 'go', withinMs: 1e9 })
    await context.effect({ kind: 'act', args: null, mutates: true, recovery: 'idempotent' }, async () => done.push('act'))
    return 'done'
  })
  const dataDir = mkdtempSync(join(tmpdir(), 'svc-plane-bundle-'))
  t.teardown(() => rmSync(dataDir, { recursive: true, force: true }))
  const folder = fileOf(t, POLICY)
  const given = { plugins: ['cedar'], config: config(folder), storage: 'embedded', dataDir }
  const first = await start(t, [nap], given)
  const { run } = await first.run('nap', null)
  const records = async (plane: typeof first) =>
    (await plane.node.storage.state('agent_plane').list<{ raw: string }>({ prefix: `record/${run}/` })).map(({ value }) => JSON.parse(value.raw))
  const [{ policy_bundle: bundle }] = await records(first)
  t.match(bundle, { rules: /^[0-9a-f]{64}$/, evaluator: /^cedar \d/, schema: /^[0-9a-f]{64}$/ })
  await first.node.stop()

  writeFileSync(join(folder, 'plane.cedar'), `${POLICY}permit (principal, action, resource);`)
  const second = await start(t, [nap], given)
  t.match(await second.plane.deliver({ id: '1', source: 'x', kind: 'go', payload: null }), { delivery: 'resumed', run })
  t.equal(await second.plane.settled(run), 'quarantined')
  t.match(await second.plane.standing(run), { reason: /the policies about runs and effects are others than when the run was admitted/ })
  t.same(done, [])
  await second.node.stop()

  writeFileSync(join(folder, 'other.cedar'), POLICY)
  rmSync(join(folder, 'plane.cedar'))
  const third = await start(t, [nap], given)
  t.equal(await third.plane.decide(run, 'reopen', { actor: 'eve', basis: 'asserted' }, 'they are back'), 'succeeded', 'the file may be another one')
  t.same(done, ['act'])
  await third.node.stop()
  const bare = await start(t, [nap], { storage: 'embedded', dataDir })
  t.match((await bare.run('nap', null)).status, 'suspended', 'without policies there is no bundle')
})

t.test('the policies are asked before a value goes out, and before a person is asked to release one', async (t) => {
  const policy = `
permit (principal, action in [Action::"run:admit", Action::"effect:perform"], resource);
permit (principal, action == Action::"data:release", resource == Resource::"tool://mail/send") when { context.sensitivity != "secret" };
permit (principal, action == Action::"data:release", resource == Resource::"orders") when { context.provenance.contains("actor:ann") };
@reason("nothing of a web page")
forbid (principal, action == Action::"data:release", resource) when { context.provenance.contains("web") };
`
  const sent: unknown[] = []
  const label = (sensitivity: 'public' | 'secret', provenance: string[] = []) => ({ trust: 'trusted' as const, sensitivity, provenance })
  const sends = skill('sends', async (context, input) => {
    const { grant, of } = input as { grant?: string; of: 'public' | 'secret' }
    return context
      .sink({ kind: 'send', args: null, accepts: 'secret', label: label(of), ...(grant === undefined ? {} : { grant }) }, async () => sent.push(grant ?? null))
      .catch((error: EffectError) => error.message)
  })
  const agent = defineAgent({
    manifest: {
      apiVersion: 'svc/v1alpha1',
      kind: 'Agent',
      metadata: { name: 'orders', version: '1' },
      spec: { capabilities: { provides: ['orders.do'] }, budgets: {} },
    },
    skills: (skill) => [
      skill({
        capability: 'orders.do',
        summary: 'Of a test',
        input: Type.Any(),
        output: Type.Any(),
        async invoke(ctx) {
          return ctx.release('a value', { summary: 'Let it out' }).catch((error: EffectError) => error.message)
        },
      }),
    ],
  })
  const plane = await start(t, [sends], { agents: [agent], plugins: ['cedar'], config: config(fileOf(t, policy)) })
  t.match(await plane.run('sends', { grant: 'tool://mail/send', of: 'public' }), { status: 'succeeded', output: 1 })
  t.match(await plane.run('sends', { grant: 'tool://mail/send', of: 'secret' }), { output: 'it does not go out: no policy permits it' })
  const other = await plane.run('sends', { of: 'public' })
  t.match(other, { output: 'it does not go out: no policy permits it' }, 'by what it is done by, or its kind')
  t.same(sent, ['tool://mail/send'])
  const records = async (run: string) =>
    (await plane.node.storage.state('agent_plane').list<{ raw: string }>({ prefix: `record/${run}/` })).map(({ value }) => JSON.parse(value.raw))
  t.match(
    (await records(other.run)).find(({ kind }) => kind === 'PolicyDenied'),
    { action: 'data:release', resource: 'send', reason: 'no policy permits it' },
  )
  const { run } = await plane.plane.run({ capability: 'orders.do', input: null, actor: 'ann' })
  t.equal(await plane.plane.settled(run), 'suspended', 'a person is asked')
  const denied = await plane.plane.run({ capability: 'orders.do', input: null, actor: 'ann', label: label('public', ['web', 'actor:ann']) })
  t.equal(await plane.plane.settled(denied.run), 'succeeded', 'nobody is asked')
  t.match(await plane.plane.replay(denied.run), { divergences: [], output: 'it does not go out: nothing of a web page' })
  t.match(
    (await records(denied.run)).find(({ kind }) => kind === 'PolicyDenied'),
    { action: 'data:release', resource: 'orders' },
  )
})
