import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { definePlugin, type LoadedPolicies, POLICIES, type Policies } from 'svcdb'
import { boot } from 'svcdb/testkit'
import t, { type Test } from 'tap'
import { policyFolder } from './testing.ts'

const SCHEMA = `
entity Actor; entity Resource;
action "api:run.list", "api:run.cancel" appliesTo { principal: [Actor], resource: [Resource], context: { roles: Set<String>, tenant: String } };
`

async function loaderOf(t: Test): Promise<Policies> {
  const held: { policies?: Policies } = {}
  const user = definePlugin({
    id: 'user',
    summary: 'Has policies of its own',
    stability: 'experimental',
    requires: [POLICIES],
    setup: (svc) => void (held.policies = svc.use<Policies>(POLICIES)),
  })
  // The node itself is open: no policies about its own routes.
  const node = await boot({ plugins: ['cedar', user], config: { authorization: { engine: 'none' } } })
  t.teardown(() => node.stop())
  t.equal((await node.inject('/metrics')).statusCode, 200)
  return held.policies as Policies
}

const ask = (policies: LoadedPolicies, action: string, who: { roles?: string[]; tenant?: string; actor?: string; about?: string } = {}) =>
  policies.decide({
    principal: { type: 'Actor', id: who.actor ?? 'ann' },
    action,
    resource: { type: 'Resource', id: who.about ?? '*' },
    context: { roles: who.roles ?? [], tenant: who.tenant ?? 'default' },
  })

t.test('another plugin has policies of its own, and is told permit, deny with a reason, or malformed', async (t) => {
  const loader = await loaderOf(t)
  const folder = policyFolder(t, {
    'all.cedar': `
permit (principal, action == Action::"api:run.list", resource) when { context.tenant == "default" && context.roles.contains("operator") };
permit (principal == Actor::"bob", action, resource);
@reason("cancelling is frozen")
forbid (principal, action == Action::"api:run.cancel", resource == Resource::"run_1");
forbid (principal, action, resource == Resource::"run_2");
`,
    'sums.cedar': 'forbid (principal == Actor::"eve", action, resource) when { 9223372036854775807 + 1 == 0 };',
  })
  const policies = await loader.load({ path: folder, schema: SCHEMA })
  t.equal(policies.count, 5)
  t.same(ask(policies, 'api:run.list', { roles: ['operator'] }), { outcome: 'permit' })
  t.same(ask(policies, 'api:run.list', { roles: ['operator'], tenant: 'acme' }), { outcome: 'deny', reason: 'no policy permits it' })
  t.same(ask(policies, 'api:run.cancel', { roles: ['operator'] }), { outcome: 'deny', reason: 'no policy permits it' })
  t.same(ask(policies, 'api:run.cancel', { actor: 'bob' }), { outcome: 'permit' })
  t.same(ask(policies, 'api:run.cancel', { actor: 'bob', about: 'run_1' }), { outcome: 'deny', reason: 'cancelling is frozen' })
  t.same(ask(policies, 'api:run.cancel', { actor: 'bob', about: 'run_2' }), { outcome: 'deny', reason: 'a policy forbids it' })
  t.match(ask(policies, 'api:run.list', { actor: 'eve', roles: ['operator'] }), { outcome: 'malformed', reason: /^sums\.cedar#1: .*overflow/ })
  t.match(ask(policies, 'api:run.list', { actor: '\ud800' }), { outcome: 'malformed' })
  policies.close()
  policies.close()
  t.match(ask(policies, 'api:run.list', { roles: ['operator'] }), { outcome: 'malformed' })
})

t.test('policies that cannot be used are refused, with their place', async (t) => {
  const loader = await loaderOf(t)
  const folder = policyFolder(t, {})
  const file = join(folder, 'one.cedar')
  const refused = async (text: string, message: RegExp, path = file) => {
    writeFileSync(file, text)
    await t.rejects(loader.load({ path, schema: SCHEMA }), { code: 'CONFIG_ERROR', message })
  }
  await refused('permit (principal, action == Action::"api:run.lost", resource);', /one\.cedar:1:\d+: .*api:run\.lost/)
  await refused('permit (principal, action, resource) when { context.role == "x" };', /one\.cedar:1:\d+: .*role/)
  await refused('permit (', /one\.cedar:1:\d+: /)
  await refused('', /cannot read the policies of ".*nowhere": ENOENT.*; name a folder or a file/, join(folder, 'nowhere'))
})
