import type { Identity } from 'svcdb'
import { boot } from 'svcdb/testkit'
import t from 'tap'
import plugin from './index.ts'
import { CAPABILITIES } from './model.ts'
import { believer, policyFolder, routesPlugin, startPolicies } from './testing.ts'

const DATA = routesPlugin([
  { method: 'GET', url: '/data' },
  { method: 'POST', url: '/data' },
  { method: 'DELETE', url: '/data' },
])
const METHODS = ['GET', 'POST', 'DELETE'] as const
const MODEL = `
permit(principal in Svc::Role::"reader", action == Svc::Action::"Read", resource);
permit(principal in Svc::Role::"writer", action in [Svc::Action::"Read", Svc::Action::"Write"], resource == Svc::Namespace::"red");
permit(principal == Svc::User::"ann", action, resource is Svc::Namespace) when { principal.name == "ann" && resource.name == "blue" };
forbid(principal in Svc::Role::"suspended", action, resource);
`

t.test('roles, users and namespaces; what no policy permits is refused', async (t) => {
  const { as, metric, lines } = await startPolicies(t, MODEL, { plugins: [DATA] })
  /** Statuses of GET, POST and DELETE. */
  const may = async (who: Partial<Identity> & { principal: string }, namespace: string) => {
    const headers = { 'x-namespace': namespace }
    return (await Promise.all(METHODS.map((method) => as(who, { method, url: '/data', headers })))).map(({ status }) => status)
  }
  t.same(await may({ principal: 'bob', roles: ['reader'] }, 'red'), [200, 403, 403])
  t.same(await may({ principal: 'bob', roles: ['reader'] }, 'blue'), [200, 403, 403])
  t.same(await may({ principal: 'bob', roles: ['other', 'writer'] }, 'red'), [200, 200, 403])
  t.same(await may({ principal: 'bob', roles: ['writer'] }, 'blue'), [403, 403, 403])
  t.same(await may({ principal: 'ann' }, 'blue'), [200, 200, 200])
  t.same(await may({ principal: 'ann' }, 'red'), [403, 403, 403])
  t.same(await may({ principal: 'ann', roles: ['suspended'] }, 'blue'), [403, 403, 403], 'a forbid wins')
  t.same(await may({ principal: 'nobody' }, 'blue'), [403, 403, 403])
  t.same(await may({ principal: 'nobody', admin: true }, 'blue'), [403, 403, 403], 'nor may an admin')
  t.same(await may({ principal: 'bob', roles: ['reader'], namespaces: ['blue'] }, 'red'), [403, 403, 403], 'the credential is for other namespaces')

  const refused = await as({ principal: 'bob', roles: ['writer'] }, { method: 'DELETE', url: '/data', headers: { 'x-namespace': 'red' } })
  t.match(refused, { status: 403, code: 'FORBIDDEN', error: /^cannot authorize "Delete" on namespace "red" for "bob": the policies do not permit it; / })
  t.notMatch(JSON.stringify(refused), /writer|permit\(|cedar/)
  t.ok((await metric('svc_policies_loaded')) === 4)
  t.equal(await metric('svc_policy_reloads_total{result="applied"}'), 1)
  t.ok((await metric('svc_policy_decisions_total{outcome="allow"}')) > 5)
  t.ok((await metric('svc_policy_decisions_total{outcome="deny"}')) > 10)
  t.ok((await metric('svc_policy_cache_hits_total')) >= 1)
  t.equal(await metric('svc_policy_evaluation_seconds_count'), await metric('svc_policy_cache_entries'), 'each question was evaluated once')
  t.notOk(lines.some((line) => JSON.parse(line).level === 'error'))
})

const GROUPS: [method: 'GET' | 'POST' | 'PUT' | 'DELETE', url: string, capability: string][] = [
  ['POST', '/api/v1/admin/auth/keys', 'ManageKeys'],
  ['DELETE', '/api/v1/admin/auth/keys/some', 'ManageKeys'],
  ['POST', '/api/v1/admin/backup', 'ManageBackups'],
  ['POST', '/api/v1/admin/backup/verify', 'ManageBackups'],
  ['POST', '/api/v1/admin/restore', 'ManageBackups'],
  ['PUT', '/api/v1/admin/log-level', 'ManageConfig'],
  ['GET', '/api/v1/admin/analytics/models', 'ManageModels'],
  ['DELETE', '/api/v1/admin/analytics/models/m/n', 'ManageModels'],
  ['GET', '/api/v1/namespaces', 'ManageNamespaces'],
  ['DELETE', '/api/v1/namespaces/red', 'ManageNamespaces'],
  ['GET', '/api/v1/admin/nodes', 'ManageNodes'],
  ['POST', '/api/v1/admin/nodes/7/decommission', 'ManageNodes'],
  ['POST', '/api/v1/admin/heartbeat', 'ManageNodes'],
  ['PUT', '/api/v1/admin/regions/7/state', 'ManageRegions'],
  ['GET', '/api/v1/admin/routing', 'ViewCluster'],
  ['GET', '/api/v1/admin/health', 'ViewCluster'],
  ['GET', '/api/v1/admin/topology', 'ViewCluster'],
  ['GET', '/metrics', 'ViewCluster'],
  ['POST', '/api/v1/admin/rebalance', 'ManageCluster'],
  ['POST', '/third/party', 'ManageConfig'],
  ['GET', '/api/v1/admin/health/more', 'ManageConfig'],
]

t.test('each group of routes needs its capability, and Admin grants them all', async (t) => {
  const policies = [
    ...CAPABILITIES.map((name) => `permit(principal == Svc::User::"${name}", action == Svc::Action::"${name}", resource == Svc::System::"svc");`),
    'permit(principal in Svc::Role::"ops", action in Svc::Action::"Admin", resource);',
    'permit(principal in Svc::Role::"reader", action in [Svc::Action::"Read", Svc::Action::"Write", Svc::Action::"Delete"], resource);',
  ].join('\n')
  const own = ['/metrics', '/api/v1/admin/log-level']
  const routes = GROUPS.filter(([, url]) => !own.includes(url)).map(([method, url]) => ({ method, url, action: 'admin' as const }))
  const config = { server: { multi_tenancy: true, metrics_require_auth: true } }
  const { as } = await startPolicies(t, policies, { plugins: [routesPlugin(routes)], config })
  for (const [method, url, capability] of GROUPS) {
    const call = async (who: Partial<Identity> & { principal: string }) => {
      const request = method === 'PUT' ? { method, url, payload: { level: 'debug' } } : { method, url }
      return (await as({ admin: true, ...who }, request)).status
    }
    t.equal(await call({ principal: capability }), 200, `${method} ${url}`)
    for (const other of CAPABILITIES.filter((name) => name !== capability)) t.equal(await call({ principal: other }), 403, `${method} ${url} as ${other}`)
    t.equal(await call({ principal: 'bob', roles: ['ops'] }), 200)
    t.equal(await call({ principal: 'bob', roles: ['reader'] }), 403, 'what is permitted on data is not on the system')
    t.equal(await call({ principal: capability, admin: false, namespaces: ['red'] }), 403, 'a policy makes nobody an admin')
  }
  const refused = await as({ principal: 'ViewCluster', admin: true }, { method: 'POST', url: '/api/v1/admin/backup' })
  t.match(refused.error, /^cannot authorize "ManageBackups" on the system for "ViewCluster": /)
})

t.test('metrics with credentials need ViewCluster, whoever reads data', async (t) => {
  const policies =
    'permit(principal == Svc::User::"prometheus", action == Svc::Action::"ViewCluster", resource);\npermit(principal, action == Svc::Action::"Read", resource);'
  const { as } = await startPolicies(t, policies, { plugins: [DATA], config: { server: { metrics_require_auth: true } } })
  t.equal((await as({ principal: 'prometheus' }, { url: '/metrics' })).status, 200)
  t.equal((await as({ principal: 'bob' }, { url: '/metrics' })).status, 403)
  t.equal((await as({ principal: 'bob' }, { url: '/data' })).status, 200)
})

t.test('calls that need no credentials need no policy', async (t) => {
  const { node } = await startPolicies(t, {}, { plugins: [DATA] })
  t.equal((await node.inject('/health')).statusCode, 200)
  t.equal((await node.inject('/data')).statusCode, 401)
})

t.test('an empty set refuses everything, and the start says so', async (t) => {
  const { as, lines } = await startPolicies(t, { 'notes.txt': 'permit(principal, action, resource);' }, { plugins: [DATA] })
  t.equal((await as({ principal: 'ann', admin: true }, { url: '/data' })).status, 403)
  t.ok(lines.some((line) => JSON.parse(line).level === 'warn' && line.includes('there are no policies')))
})

t.test('one file in place of a folder', async (t) => {
  const folder = policyFolder(t, { 'mine.txt': 'permit(principal, action, resource);', 'other.cedar': 'nonsense' })
  const { as } = await startPolicies(t, {}, { plugins: [DATA], section: { policy_dir: '', policy_file: `${folder}/mine.txt`, engine: 'cedar' } })
  t.equal((await as({ principal: 'ann' }, { url: '/data' })).status, 200)
})

t.test('what the start refuses', async (t) => {
  const start = (authorization: Record<string, unknown>, plugins = [plugin, believer]) => boot({ plugins, config: { authorization } })
  const folder = policyFolder(t, { 'a.cedar': 'permit(principal, action, resource);' })
  await t.rejects(start({ policy_dir: folder, policy_file: 'x' }), /policy_file ".*x": the folder ".*" is set too/)
  const twice = { authorization: { policy_dir: folder }, server: { authz_policy_dir: '/elsewhere' } }
  await t.rejects(boot({ plugins: [plugin, believer], config: twice }), /authz_policy_dir "\/elsewhere": authorization.policy_dir is another/)
  const named = await boot({ plugins: [plugin, believer], config: { server: { authz_policy_dir: folder } } })
  t.teardown(() => named.stop())
  for (const section of [{}, { engine: 'cedar' }])
    await t.rejects(start(section), /cannot authorize callers: there are no policies; set authorization\.policy_dir or authorization\.policy_file/)
  await t.rejects(start({ engine: 'opa' }), /must be .*cedar/)
  await t.rejects(start({ policy_dir: `${folder}/none` }), /cannot read the policies of ".*none": ENOENT/)
  await t.rejects(start({ policy_file: folder }), /it is not a file/)
  await t.rejects(start({ policy_dir: folder }, [plugin]), /cannot authorize callers that nothing authenticates/)
  const bad = policyFolder(t, {
    'a.cedar': 'permit(principal, action, resource);',
    'b.cedar': '\npermit(principal,\n  action == Svc::Action::"Raed", resource);\npermit(principal is Svc::Usr, action, resource);',
  })
  await t.rejects(start({ policy_dir: bad }), /b\.cedar:3:13: unrecognized action `Svc::Action::"Raed"`; did you mean `Svc::Action::"Read"`\?\nb\.cedar:4:/)
})

t.test('a policy that names a namespace is warned of where namespaces are the same data', async (t) => {
  const warned = async (policies: string, multi_tenancy: boolean) => {
    const { lines } = await startPolicies(t, policies, { plugins: [DATA], config: { server: { multi_tenancy } } })
    return lines.map((line) => JSON.parse(line)).filter(({ level, msg }) => level === 'warn' && msg.includes('names a namespace'))
  }
  const all = 'permit(principal, action, resource);'
  const naming = [
    'forbid(principal, action == Svc::Action::"Delete", resource == Svc::Namespace::"default");',
    'permit(principal, action, resource is Svc::Namespace) when { resource.name == "a" };',
  ]
  for (const policy of naming) {
    t.match(
      await warned(`${all}\n${policy}`, false),
      [{ policy: 'all.cedar#2', msg: /set server\.multi_tenancy, or name the namespaces in each credential$/ }],
      policy,
    )
    t.same(await warned(`${all}\n${policy}`, true), [], 'they are apart')
  }
  t.same(await warned(`${all}\nforbid(principal in Svc::Role::"guest", action, resource is Svc::Namespace);`, false), [], 'all are alike to it')
})
