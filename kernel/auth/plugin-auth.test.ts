/** What plugins add to auth: sources, limiters, ranks, observers. */
import t, { type Test } from 'tap'
import { SvcError } from '../lib/errors/index.ts'
import { definePlugin, type PluginAuth } from '../plugin.ts'
import { type BootOptions, boot } from '../testkit/index.ts'
import { AUTH_RANK, type CallContext, type Credentials, type Decision, type Identity } from './auth.ts'
import { tokenOf } from './token.ts'

const identity = (principal: string, more: Partial<Identity> = {}): Identity => ({
  principal,
  method: 'test',
  claims: {},
  namespaces: [],
  admin: false,
  ...more,
})

/** A node with routes, and what `declare` adds to auth. */
async function start(t: Test, declare: (auth: PluginAuth) => void, config: BootOptions['config'] = {}, others: BootOptions['plugins'] = []) {
  const plugin = definePlugin({
    id: 'adding',
    summary: 'Adds to auth',
    stability: 'stable',
    setup(svc) {
      declare(svc.auth)
      svc.http.get('/who', async (request) => svc.context(request))
      svc.http.get('/open', { config: { action: 'public' } }, async (request) => svc.context(request))
      svc.http.post('/admin', { config: { action: 'admin' } }, async (request) => svc.context(request))
    },
  })
  const node = await boot({ plugins: [plugin, ...others], config })
  t.teardown(() => node.stop())
  const get = async (url: string, headers: Record<string, string> = {}, method: 'GET' | 'POST' = 'GET') => {
    const answer = await node.inject({ method, url, headers })
    return { status: answer.statusCode, headers: answer.headers, ...(answer.json() as CallContext & { error: string; code: string }) }
  }
  return { node, get }
}

const byToken = ({ header }: Credentials) => (header('authorization') === undefined ? undefined : identity(header('authorization') as string))

t.test('sources rewrite credentials in turn, before anybody looks at them', async (t) => {
  const seen: (string | undefined)[] = []
  const told: (string | undefined)[] = []
  const { get } = await start(t, (auth) => {
    auth.source((given) => ({ ...given, address: given.header('x-forwarded-for') ?? given.address }))
    auth.source((given) => {
      const token = given.query('token')
      return token === undefined ? given : { ...given, header: (name) => (name === 'authorization' ? `${token}@${given.address}` : given.header(name)) }
    })
    auth.limiter({ arrival: ({ address }) => void seen.push(address) })
    auth.authenticator(byToken)
    auth.observer(({ credentials }) => void told.push(credentials.address))
  })
  t.match(await get('/who?token=ann', { 'x-forwarded-for': '192.0.2.7' }), { principal: 'ann@192.0.2.7', address: '192.0.2.7' })
  t.same([seen, told], [['192.0.2.7'], ['192.0.2.7']])
  t.match(await get('/who?token=a&token=b'), { status: 401 }, 'of two values none counts')
})

t.test('sources count on an open node too', async (t) => {
  const { get } = await start(t, (auth) => auth.source((given) => ({ ...given, address: given.header('x-forwarded-for') })))
  t.match(await get('/who', { 'x-forwarded-for': '192.0.2.7' }), { status: 200, principal: 'anonymous', address: '192.0.2.7' })
})

t.test('a source that throws has the call refused, and observers told', async (t) => {
  const decisions: Decision[] = []
  const { get } = await start(t, (auth) => {
    auth.source(() => {
      throw new SvcError('BAD_REQUEST', 'cannot tell who forwards')
    })
    auth.authenticator(() => identity('ann'))
    auth.observer((decision) => void decisions.push({ ...decision }))
  })
  t.match(await get('/who'), { status: 400, error: 'cannot tell who forwards' })
  t.match(decisions, [{ outcome: 'deny', stage: 'arrival', error: { code: 'BAD_REQUEST' } }])
})

t.test('limiters turn away on arrival, before credentials cost anything, and once it is known who calls', async (t) => {
  let asked = 0
  const limited = (text: string) => new SvcError('RATE_LIMITED', text, { headers: { 'retry-after': '7', 'x-ratelimit-limit': '20' } })
  const { get } = await start(t, (auth) => {
    auth.limiter({ arrival: ({ header }, action, resource) => (header('x-early') === undefined ? undefined : limited(`early ${action} ${resource}`)) })
    auth.limiter({ admitted: ({ context }) => (context.principal === 'greedy' ? limited(`enough of ${context.principal}`) : undefined) })
    auth.authenticator((credentials) => {
      asked++
      return byToken(credentials)
    })
  })
  const headers = { 'retry-after': '7', 'x-ratelimit-limit': '20' }
  t.match(await get('/who', { 'x-early': '1', authorization: 'ann' }), { status: 429, code: 'RATE_LIMITED', error: 'early read /who', headers })
  t.equal(asked, 0)
  t.match(await get('/who', { authorization: 'greedy' }), { status: 429, error: 'enough of greedy', headers })
  t.match(await get('/who', { authorization: 'ann' }), { status: 200 })
  t.equal((await get('/open', { 'x-early': '1' })).status, 200, 'what needs no credentials is not limited')
})

t.test('limiters and observers count on a node without authenticators too', async (t) => {
  const decisions: Decision[] = []
  const { get } = await start(t, (auth) => {
    auth.limiter({ admitted: ({ context }) => (context.namespace === 'full' ? new SvcError('RATE_LIMITED', 'enough') : undefined) })
    auth.observer((decision) => void decisions.push({ ...decision }))
  })
  t.match(await get('/who'), { status: 200, principal: 'anonymous', admin: true })
  t.match(await get('/who', { 'x-namespace': 'full' }), { status: 429, headers: { 'retry-after': '1' } })
  t.match(decisions, [{ outcome: 'allow' }, { outcome: 'deny', stage: 'limit' }])
})

t.test('authenticators are asked by rank, those of one rank in the order of the plugins', async (t) => {
  const order: string[] = []
  const note = (name: string) => () => {
    order.push(name)
    return undefined
  }
  const { get } = await start(t, (auth) => {
    auth.authenticator(note('other'))
    auth.authenticator(note('key 1'), AUTH_RANK.key)
    auth.authenticator(note('certificate'), AUTH_RANK.certificate)
    auth.authenticator(note('key 2'), AUTH_RANK.key)
    auth.authenticator(note('token'), AUTH_RANK.token)
  })
  t.match(await get('/who', { authorization: 'x' }), { status: 401 })
  t.same(order, ['certificate', 'token', 'key 1', 'key 2', 'other'])
})

t.test('a refusal is final: nobody else is asked', async (t) => {
  const { get } = await start(t, (auth) => {
    auth.authenticator(() => new SvcError('UNAUTHORIZED', 'the key was revoked'), AUTH_RANK.key)
    auth.authenticator(() => identity('anybody'), AUTH_RANK.other)
  })
  t.match(await get('/who'), { status: 401, error: 'the key was revoked', headers: { 'www-authenticate': 'Bearer' } })
})

t.test('a certificate that does not hold is refused whatever else is given', async (t) => {
  let asked = 0
  const { node } = await start(t, (auth) => {
    auth.authenticator(() => {
      asked++
      return identity('ann')
    })
  })
  const credentials = { protocol: 'grpc', path: '/x', header: () => undefined, query: () => undefined, address: undefined, requestId: 'r' } as const
  const certificate = { der: new Uint8Array(1), error: 'CERT_HAS_EXPIRED' }
  await t.rejects(async () => node.node.auth.admit({ ...credentials, certificate }, 'read', '/x'), {
    code: 'UNAUTHORIZED',
    message: /^InvalidCertificate: .*CERT_HAS_EXPIRED/,
  })
  t.equal(asked, 0)
  t.match(await node.node.auth.admit({ ...credentials, certificate: { der: new Uint8Array(1) } }, 'read', '/x'), { principal: 'ann' })
})

t.test('observers get every decision, with the stage that denied and what was known by then', async (t) => {
  const seen: string[] = []
  const { get } = await start(t, (auth) => {
    auth.limiter({
      arrival: ({ header }) => (header('x-early') === undefined ? undefined : new SvcError('RATE_LIMITED', 'early')),
      admitted: ({ context }) => (context.principal === 'greedy' ? new SvcError('RATE_LIMITED', 'late') : undefined),
    })
    auth.authenticator((credentials) => {
      const known = byToken(credentials)
      return known === undefined ? undefined : { ...known, namespaces: ['red'] }
    })
    auth.authorizer(({ context }) => (context.principal === 'mallory' ? new SvcError('FORBIDDEN', 'no') : undefined))
    auth.observer(async (d) => {
      await new Promise((resolve) => setImmediate(resolve))
      seen.push(`${d.outcome} ${d.stage} ${d.action} ${d.resource} ${d.identity?.principal} ${d.context?.namespace} ${d.error?.code}`)
    })
  })
  await get('/who', { 'x-early': '1' })
  await get('/who')
  await get('/who', { authorization: 'ann', 'x-namespace': 'blue' })
  await get('/who', { authorization: 'greedy' })
  await get('/who', { authorization: 'mallory' })
  await get('/admin', { authorization: 'ann' }, 'POST')
  await get('/who', { authorization: 'ann' })
  await get('/open')
  t.same(seen, [
    'deny arrival read /who undefined undefined RATE_LIMITED',
    'deny authentication read /who undefined undefined UNAUTHORIZED',
    'deny namespace read /who ann undefined FORBIDDEN',
    'deny limit read /who greedy red RATE_LIMITED',
    'deny authorization read /who mallory red FORBIDDEN',
    'deny authorization admin /admin ann red FORBIDDEN',
    'allow authorization read /who ann red undefined',
  ])
})

t.test('an observer that throws has the call refused, allowed or not', async (t) => {
  let handled = 0
  const { get } = await start(t, (auth) => {
    auth.authenticator(byToken)
    auth.observer(async () => {
      throw new SvcError('STORAGE_FULL', 'cannot keep the audit entry: the disk is full')
    })
    auth.observer(() => void handled++)
  })
  t.match(await get('/who', { authorization: 'ann' }), { status: 507, code: 'STORAGE_FULL' })
  t.match(await get('/who'), { status: 507 })
  t.equal(handled, 0)
})

t.test('an authenticator that throws lets nobody in, and does not tell why', async (t) => {
  const { get } = await start(t, (auth) => {
    auth.authenticator(async () => {
      throw new Error('secret reason')
    }, AUTH_RANK.token)
    auth.authenticator(() => identity('anybody', { admin: true }))
  })
  const answer = await get('/who')
  t.match(answer, { status: 500, code: 'INTERNAL_ERROR' })
  t.notMatch(answer.error, 'secret')
})

t.test('authorizers that nobody would be brought before stop the setup', async (t) => {
  const lonely = definePlugin({ id: 'lonely', summary: 's', stability: 'stable', setup: (svc) => svc.auth.authorizer(() => undefined) })
  await t.rejects(boot({ plugins: [lonely] }), { message: /cannot authorize callers that nothing authenticates: select a plugin that does/ })
})

t.test('everything is declared in setup', async (t) => {
  let later: PluginAuth | undefined
  await start(t, (auth) => {
    later = auth
  })
  for (const add of ['source', 'limiter', 'authenticator', 'authorizer', 'observer'] as const)
    t.throws(() => later?.[add]((() => undefined) as never), /everything is declared in setup/, add)
})

t.test('the token of an Authorization header', async (t) => {
  const token = (authorization: string | undefined) => tokenOf({ header: (name) => (name === 'authorization' ? authorization : undefined) })
  const basic = (text: string) => `Basic ${Buffer.from(text).toString('base64')}`
  for (const [given, expected] of [
    ['Bearer abc', 'abc'],
    ['bearer abc', 'abc'],
    ['BEARER   a.b-c_d~e/f+g==', 'a.b-c_d~e/f+g=='],
    ['Token abc', 'abc'],
    ['tOkEn abc ', 'abc'],
    ['Token user:abc', 'abc'],
    ['token :a:b', 'a:b'],
    ['Token user:', undefined],
    ['Bearer user:abc', 'user:abc'],
    [basic('user:abc'), 'abc'],
    [basic(':abc'), 'abc'],
    [basic('user:a:b'), 'a:b'],
    [`bAsIc ${basic('u:abc').slice(6)}`, 'abc'],
    [undefined, undefined],
    ['', undefined],
    ['Bearer', undefined],
    ['Bearer ', undefined],
    ['Bearerabc', undefined],
    ['abc', undefined],
    ['Bearer a b', undefined],
    ['Bearer\tabc', undefined],
    [' Bearer abc', undefined],
    ['Bearer a\u0000b', undefined],
    ['Bearer \u00e4', undefined],
    ['Digest abc', undefined],
    ['Bearer abc, Bearer def', undefined],
    [basic('user'), undefined],
    [basic('user:'), undefined],
    [basic('user:a b'), undefined],
    [basic('user:a\nb'), undefined],
    [basic('user:\u00e4'), undefined],
    ['Basic !!!!', undefined],
    ['Basic', undefined],
  ] as const)
    t.equal(token(given), expected, JSON.stringify(given))
})

t.test('an admin of some namespaces administers nothing that is about all, where they are kept apart', async (t) => {
  const declare = (auth: PluginAuth) => {
    auth.authenticator(({ header }) => (header('authorization') === 'root' ? identity('root', { admin: true }) : undefined))
    auth.authenticator(() => identity('red', { admin: true, namespaces: ['red'] }))
    auth.scoped('/scoped')
  }
  const routes = definePlugin({
    id: 'routes',
    summary: 'r',
    stability: 'stable',
    setup: (svc) => svc.http.get('/scoped', { config: { action: 'admin' } }, async () => ({})),
  })
  const apart = await start(t, declare, { server: { multi_tenancy: true } }, [routes])
  t.match(await apart.get('/admin', {}, 'POST'), { status: 403, error: 'cannot call "/admin" as "red": an admin credential for all namespaces is needed' })
  t.match(await apart.get('/admin', { authorization: 'root' }, 'POST'), { status: 200 }, 'one of all is')
  t.match(await apart.get('/scoped'), { status: 200 })
  t.match(await apart.get('/who'), { status: 200 })
  const together = await start(t, declare, {}, [routes])
  t.match(await together.get('/admin', {}, 'POST'), { status: 200 })
})
