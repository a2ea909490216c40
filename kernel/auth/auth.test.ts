import t from 'tap'
import { SvcError } from '../lib/errors/index.ts'
import { definePlugin } from '../plugin.ts'
import { boot } from '../testkit/index.ts'
import { Auth, administersServer, type CallContext, type Decision, type Identity, isForAll, namespaceListProblems, requireStanding } from './auth.ts'

const routes = definePlugin({
  id: 'routes',
  summary: 'Routes for the tests',
  stability: 'experimental',
  setup(svc) {
    const seen = async (request: Parameters<typeof svc.context>[0]) => svc.context(request)
    svc.http.get('/who', seen)
    svc.http.delete('/who', seen)
    svc.http.get('/open', { config: { action: 'public' } }, seen)
    svc.http.post('/admin', { config: { action: 'admin' } }, seen)
  },
})

function identity(principal: string, more: Partial<Identity> = {}): Identity {
  return { principal, method: 'test', claims: {}, namespaces: [], admin: false, ...more }
}

const locks = definePlugin({
  id: 'locks',
  summary: 'Two authenticators and an authorizer for the tests',
  stability: 'experimental',
  setup(svc) {
    svc.auth.authenticator(({ header }) => {
      const token = header('authorization')
      if (token === 'first') return identity('ann', { namespaces: ['red'] })
      return token === 'bad' ? new SvcError('UNAUTHORIZED', 'the token has expired') : undefined
    })
    svc.auth.authenticator(async ({ header }) => (header('authorization') === 'second' ? identity('bob', { admin: true }) : undefined))
    svc.auth.authorizer(({ context, action, resource }) =>
      action === 'delete' && resource === '/who' ? new SvcError('FORBIDDEN', `cannot delete as "${context.principal}": not allowed`) : undefined,
    )
  },
})

t.test('without authenticators everybody may do everything', async (t) => {
  const lines: string[] = []
  const node = await boot({ plugins: [routes], log: (line) => lines.push(line) })
  t.teardown(() => node.stop())
  t.match((await node.inject('/who')).json(), { principal: 'anonymous', admin: true, namespace: 'default', dataNamespace: '' })
  t.equal((await node.inject({ method: 'POST', url: '/admin' })).statusCode, 200)
  t.ok(
    lines.some((line) => JSON.parse(line).level === 'warn' && line.includes('no plugin authenticates')),
    'the start says so',
  )
})

t.test('an open node refuses a certificate that does not hold, as all others do', async (t) => {
  const auth = new Auth({ multiTenancy: false, exempt: ['/health'] })
  const shown = { protocol: 'http' as const, path: '/who', header: () => undefined, query: () => undefined, address: undefined, requestId: '' }
  const bad = { ...shown, certificate: { der: new Uint8Array(), error: 'it has expired' } }
  await t.rejects(async () => auth.admit(bad, 'read', '/who'), { code: 'UNAUTHORIZED', message: /^InvalidCertificate: .*it has expired/ })
  t.match(await auth.admit(bad, 'read', '/health'), { principal: 'anonymous', admin: false })
  t.match(await auth.admit({ ...shown, certificate: { der: new Uint8Array() } }, 'read', '/who'), { principal: 'anonymous', admin: true })
})

t.test('where data is kept apart, what needs no credentials is answered without any, under whatever name', async (t) => {
  const auth = new Auth({ multiTenancy: true, exempt: ['/health'] })
  auth.addAuthenticator(() => undefined, 0, 'keys')
  const given = { protocol: 'http' as const, path: '/', query: () => undefined, address: undefined, requestId: '' }
  const asking = (namespace?: string) => ({ ...given, header: (name: string) => (name === 'x-namespace' ? namespace : undefined) })
  t.match(await auth.admit(asking(), 'read', '/health'), { principal: 'anonymous', admin: false, namespace: 'default' })
  t.match(await auth.admit(asking('red'), 'public', '/open'), { principal: 'anonymous', admin: false, namespace: 'red' })
})

t.test('a call about no namespace in particular goes by the first of the credential, if none is asked for', async (t) => {
  const auth = new Auth({ multiTenancy: true, exempt: [] })
  auth.addAuthenticator(({ header }) => identity('ann', { namespaces: (header('authorization') ?? '').split(',').filter(Boolean) }), 0, 'keys')
  const admit = async (namespaces: string, anyNamespace: boolean, asked?: string) => {
    const header = (name: string) => (name === 'authorization' ? namespaces : name === 'x-namespace' ? asked : undefined)
    const given = { protocol: 'http' as const, path: '/', header, query: () => undefined, address: undefined, requestId: '' }
    return auth.admit({ ...given, ...(anyNamespace && { anyNamespace }) }, 'read', '/')
  }
  await t.rejects(admit('red,blue', false), { code: 'FORBIDDEN' })
  t.match(await admit('red,blue', true), { namespace: 'red', dataNamespace: 'red' })
  t.match(await admit('red,blue', true, 'blue'), { namespace: 'blue' })
  t.match(await admit('red', true), { namespace: 'red' })
  await t.rejects(admit('red,blue', true, 'green'), { code: 'FORBIDDEN' })
  await t.rejects(admit('', true), { code: 'FORBIDDEN', message: /the credential is for no namespace/ })
})

t.test('authenticators are tried in order: identity, refusal, not mine', async (t) => {
  const node = await boot({ plugins: [locks, routes] })
  t.teardown(() => node.stop())
  const who = async (authorization?: string, more: Record<string, string> = {}) => {
    const answer = await node.inject({ url: '/who', headers: { ...(authorization === undefined ? {} : { authorization }), ...more } })
    return { status: answer.statusCode, ...(answer.json() as CallContext & { error: string; code: string }) }
  }
  t.match(await who('first', { 'x-namespace': 'red' }), { status: 200, principal: 'ann', namespace: 'red' })
  t.match(await who('second'), { status: 200, principal: 'bob' })
  t.match(await who('bad'), { status: 401, code: 'UNAUTHORIZED', error: 'the token has expired' })
  t.match(await who('other'), { status: 401, error: /not accepted/ })
  t.match(await who(), { status: 401, error: /no credentials/ })
  t.match(await who('first', { 'x-namespace': 'blue' }), { status: 403, error: /cannot use namespace "blue" as "ann"/ })
  t.equal((await node.inject('/open')).statusCode, 200, 'a public route needs no credentials')
  t.equal((await node.inject('/health')).statusCode, 200)
  t.equal((await node.inject('/nope')).statusCode, 404)
})

t.test('admin routes need an admin, and authorizers see the action and the route', async (t) => {
  const node = await boot({ plugins: [locks, routes] })
  t.teardown(() => node.stop())
  const call = (method: 'POST' | 'DELETE', url: string, authorization: string, namespace = 'red') =>
    node.inject({ method, url, headers: { authorization, 'x-namespace': namespace } })
  t.equal((await call('POST', '/admin', 'first')).statusCode, 403)
  t.equal((await call('POST', '/admin', 'second')).statusCode, 200)
  t.match((await call('DELETE', '/who', 'second')).json(), { error: 'cannot delete as "bob": not allowed' })
  const level = await node.inject({
    method: 'PUT',
    url: '/api/v1/admin/log-level',
    payload: { level: 'info' },
    headers: { authorization: 'first', 'x-namespace': 'red' },
  })
  t.equal(level.statusCode, 403)
})

t.test('a listener of a plugin admits its calls by the same rules', async (t) => {
  let admit: ((token: string) => Promise<CallContext>) | undefined
  const listener = definePlugin({
    id: 'listener',
    summary: 'A listener for the tests',
    stability: 'experimental',
    setup(svc) {
      admit = async (token) =>
        svc.auth.admit(
          {
            protocol: 'grpc',
            path: '/x',
            query: () => undefined,
            header: (name) => ({ authorization: token, 'x-namespace': 'red' })[name],
            address: undefined,
            requestId: 'r1',
          },
          'write',
          'Write',
        )
    },
  })
  const node = await boot({ plugins: [locks, listener] })
  t.teardown(() => node.stop())
  t.match(await admit?.('first'), { principal: 'ann', namespace: 'red', requestId: 'r1' })
  await t.rejects(admit?.('bad') as Promise<CallContext>, { code: 'UNAUTHORIZED' })
})

t.test('credentials are checked before the body is read', async (t) => {
  const node = await boot({ plugins: [locks, routes] })
  t.teardown(() => node.stop())
  const answer = await node.inject({ method: 'POST', url: '/admin', payload: 'x', headers: { 'content-type': 'nonsense/x' } })
  t.equal(answer.statusCode, 401)
})

t.test('the data namespace is the one asked for under multi_tenancy only', async (t) => {
  const node = await boot({ plugins: [routes], config: { server: { multi_tenancy: true } } })
  t.teardown(() => node.stop())
  t.match((await node.inject({ url: '/who', headers: { 'x-namespace': 'red' } })).json(), { namespace: 'red', dataNamespace: 'red' })
  t.match((await node.inject('/who')).json(), { namespace: 'default', dataNamespace: 'default' })
  t.equal((await node.inject({ url: '/who', headers: { 'x-namespace': 'x'.repeat(256) } })).statusCode, 400)
  t.equal((await node.inject({ url: '/who', headers: { 'x-namespace': 'a\u0001b' } })).statusCode, 400)
})

t.test('an exempt prefix is the whole of its stem', async (t) => {
  const auth = new Auth({ multiTenancy: false, exempt: ['/files/public*', '/health'] })
  for (const exempt of ['/files/public', '/files/public/x', '/files/publications', '/health']) t.notOk(auth.needsCredentials('read', exempt), exempt)
  for (const closed of ['/files/publi', '/files/publiX', '/files/', '/files', '/', '', '/health/x', '/healt'])
    t.ok(auth.needsCredentials('read', closed), closed)
  t.notOk(auth.needsCredentials('public', '/anything'))
})

t.test('a call that goes on ends with its credential, a minute late for clocks that differ', async (t) => {
  const context = (more: object) => ({ principal: 'ann', ...more }) as never
  t.doesNotThrow(() => requireStanding(context({}), 1e15))
  const expiresAt = 1_000_000
  for (const now of [0, expiresAt, expiresAt + 59_999]) t.doesNotThrow(() => requireStanding(context({ expiresAt, revoked: () => false }), now))
  for (const now of [expiresAt + 60_000, 1e15]) t.throws(() => requireStanding(context({ expiresAt }), now), { code: 'UNAUTHORIZED', message: /"ann"/ })
  const tolerated = context({ expiresAt, toleranceMs: 300_000 })
  t.doesNotThrow(() => requireStanding(tolerated, expiresAt + 299_999))
  t.throws(() => requireStanding(tolerated, expiresAt + 300_000), { code: 'UNAUTHORIZED' })
  t.throws(() => requireStanding(context({ revoked: () => true }), 0), { code: 'UNAUTHORIZED', message: /was revoked or has expired/ })
  t.throws(() => requireStanding(context({ expiresAt, revoked: () => true }), 0), { code: 'UNAUTHORIZED' })
})

t.test('a call that goes on is authorized anew each second, and observers hear of a refusal alone', async (t) => {
  const auth = new Auth({ multiTenancy: false, exempt: ['/health'] })
  const asked: string[] = []
  let permitted = true
  auth.addAuthenticator(() => identity('ann'), 10, 'test')
  auth.addAuthorizer(async ({ resource }) => {
    asked.push(resource)
    return permitted ? undefined : new SvcError('FORBIDDEN', 'the policies have changed')
  })
  const decisions: Decision[] = []
  auth.addObserver((decision) => void decisions.push(decision))
  let now = 5000
  const clock = { now: () => now, monotonic: () => now }
  const context = { ...identity('ann', { expiresAt: 20_000 }), namespace: 'default', requestId: 'r' } as CallContext
  const stands = auth.standing(context, 'write', '/write', clock)
  const exempt = auth.standing(context, 'write', '/health', clock)
  now += 999
  await stands()
  t.same(asked, [])
  now += 1
  await stands()
  await stands()
  t.same(asked, ['/write'])
  permitted = false
  now += 999
  await stands()
  await exempt()
  t.same([asked.length, decisions.length], [1, 0])
  now += 1
  await t.rejects(async () => stands(), { code: 'FORBIDDEN', message: 'the policies have changed' })
  t.match(decisions, [{ outcome: 'deny', action: 'write', resource: '/write', identity: { principal: 'ann' }, error: { code: 'FORBIDDEN' } }])
  await exempt()
  t.equal(asked.length, 2)
  await t.rejects(async () => auth.standing(context, 'admin', '/admin', { ...clock, monotonic: () => (now += 1000) })(), {
    code: 'FORBIDDEN',
    message: /admin credential/,
  })
  now = 80_000
  await t.rejects(async () => exempt(), { code: 'UNAUTHORIZED' })
})

t.test('calls that are turned away are those for data', async (t) => {
  const auth = new Auth({ multiTenancy: false, metricsPath: '/metrics', exempt: ['/health'] })
  const call = { protocol: 'http', path: '/', header: () => undefined, query: () => undefined, address: undefined, requestId: '' }
  const turned = (action: 'read' | 'write' | 'delete' | 'admin' | 'public', resource: string): boolean => {
    try {
      auth.admit(call, action, resource)
      return false
    } catch (error) {
      t.match(error, { code: 'OVERLOADED' })
      return true
    }
  }
  t.notOk(turned('write', '/write'))
  auth.turnAway(new SvcError('OVERLOADED', 'it is decommissioned'))
  for (const action of ['read', 'write', 'delete'] as const) t.ok(turned(action, '/x'), action)
  t.notOk(turned('admin', '/x'), 'who brings it back')
  t.notOk(turned('public', '/x'))
  t.notOk(turned('read', '/metrics'))
  t.notOk(turned('read', '/health'))
  await t.rejects(auth.admitCaller(call, 'write', '/x'), { code: 'OVERLOADED' })
  auth.turnAway(undefined)
  t.notOk(turned('write', '/write'))
  t.match(await auth.admitCaller(call, 'write', '/x'), { context: { principal: 'anonymous' } })
})

t.test('an open node asks limiters and tells observers, one without the other', async (t) => {
  const call = { protocol: 'http', path: '/', header: () => undefined, query: () => undefined, address: undefined, requestId: '' }
  const limited = new Auth({ multiTenancy: false, exempt: [] })
  limited.addLimiter({ arrival: () => new SvcError('RATE_LIMITED', 'too many') })
  await t.rejects(async () => limited.admit(call, 'read', '/x'), { code: 'RATE_LIMITED' })
  const observed = new Auth({ multiTenancy: false, exempt: [] })
  const decisions: Decision[] = []
  observed.addObserver((decision) => void decisions.push(decision))
  await observed.admit(call, 'read', '/x')
  t.match(decisions, [{ outcome: 'allow', resource: '/x' }])
})

t.test('a caller whose call says later what it does', async (t) => {
  const call = { protocol: 'http', path: '/', header: () => undefined, query: () => undefined, address: undefined, requestId: '' }
  const auth = new Auth({ multiTenancy: false, exempt: [] })
  auth.addAuthenticator(() => identity('ann'), 10, 'test')
  const told: string[] = []
  auth.addObserver(({ outcome, action, resource, identity }) => void told.push([outcome, action, resource, identity?.principal].join(' ')))
  const { context, require } = await auth.admitCaller(call, 'read', '/x')
  t.equal(context.principal, 'ann')
  await require('write')
  await t.rejects(require('admin'), { code: 'FORBIDDEN' })
  t.same(told, ['allow write /x ann', 'deny admin /x ann'], 'observers are told what it did')
})

t.test('who administers the server: no admin of some namespaces where data is kept apart', (t) => {
  const administers = (admin: boolean, namespaces: string[], dataNamespace: string) => administersServer({ admin, namespaces, dataNamespace } as never)
  for (const apart of ['', 'red']) {
    t.ok(administers(true, [], apart))
    t.notOk(administers(false, [], apart))
    t.equal(administers(true, ['red'], apart), apart === '')
    t.notOk(administers(false, ['red'], apart))
  }
  t.end()
})

t.test('lists of namespaces: "*" alone stands for all', async (t) => {
  t.same([['*'], ['red'], [], ['*', 'red'], ['*', '*']].map(isForAll), [true, false, false, false, false])
  for (const good of [['*'], ['red'], [], ['red', 'blue-1']]) t.same(namespaceListProblems(good), [])
  t.match(namespaceListProblems(['*', 'red']), [/stands for all/])
  t.match(namespaceListProblems(['red', 'Blue', '']), [/"Blue"/, /""/])
})
