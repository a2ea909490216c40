import t from 'tap'
import { bearer, bootCatalog, Directory } from './testing.ts'

const envelope = (status: number, type: string, message: RegExp) => ({ error: { message, type, code: status } })

t.test('config says which endpoints there are', async (t) => {
  const node = await bootCatalog()
  t.teardown(() => node.stop())
  const answer = await node.inject({ url: '/v1/config?warehouse=s3://x/', headers: bearer('red', { 'x-request-id': 'r-1' }) })
  t.equal(answer.statusCode, 200)
  t.same(answer.json(), {
    defaults: {},
    overrides: {},
    endpoints: ['GET /v1/{prefix}/namespaces', 'GET /v1/{prefix}/namespaces/{namespace}', 'HEAD /v1/{prefix}/namespaces/{namespace}'],
  })
  t.equal(answer.headers['x-request-id'], 'r-1')
  t.equal(answer.headers['cache-control'], 'no-store')
})

t.test('a caller sees the namespaces of its credential, and of others not even whether they exist', async (t) => {
  const directory = new Directory(['default', 'red', 'blue', 'green'])
  for (const multi_tenancy of [false, true]) {
    const node = await bootCatalog({ directory, server: { multi_tenancy } })
    t.teardown(() => node.stop())
    const call = (token: string, url: string, headers: Record<string, string> = {}) => node.inject({ url, headers: bearer(token, headers) })
    const names = async (token: string, headers: Record<string, string> = {}) => (await call(token, '/v1/namespaces', headers)).json().namespaces?.flat()
    t.same(await names('red'), ['red'])
    t.same(await names('two', { 'x-namespace': 'red' }), ['blue', 'red'], 'one that is not defined is left out')
    t.same(await names('two'), ['blue', 'red'], 'no namespace in particular has to be named')
    t.equal((await call('two', '/v1/namespaces', { 'x-namespace': 'green' })).statusCode, 403)
    t.same(await names('root'), ['blue', 'default', 'green', 'red'])
    if (multi_tenancy) t.equal((await call('any', '/v1/namespaces')).statusCode, 403, 'a credential for no namespace')
    else t.same(await names('any'), ['blue', 'default', 'green', 'red'])

    const shown = await call('red', '/v1/namespaces/red')
    t.same(shown.json(), {
      namespace: ['red'],
      properties: {
        description: 'about red',
        owner: 'owner of red',
        max_series_count: '1000000',
        max_ingestion_rate: '100000',
        max_storage_bytes: '107374182400',
        max_measurements: '1000',
        max_models: '0',
        max_request_rps: '0',
        max_request_burst: '0',
      },
    })
    t.equal((await call('two', '/v1/namespaces/red')).statusCode, 200, 'the path says which of its namespaces is meant')
    t.equal((await call('red', '/v1/namespaces/red', { 'x-namespace': 'blue' })).statusCode, 200, 'whatever the header says')
    t.equal((await call('red', '/v1/namespaces/re%64')).statusCode, 200, 'however it is encoded')
    t.equal((await call('root', '/v1/n%61mespaces/blue')).statusCode, 404, 'a path spelt otherwise: the call was let in for another namespace')
    t.equal((await call('root', '/v1/n%61mespaces/blue', { 'x-namespace': 'blue' })).statusCode, 200)

    const hidden = async (token: string, name: string, headers: Record<string, string> = {}) => {
      const answer = await call(token, `/v1/namespaces/${name}`, headers)
      const { date, 'content-length': _length, 'x-request-id': _id, ...rest } = answer.headers
      t.ok(date)
      return { status: answer.statusCode, headers: rest, body: answer.body.replace(`namespace \\"${name}`, 'namespace \\"NAME') }
    }
    const unknown = await hidden('red', 'nowhere')
    t.match(JSON.parse(unknown.body), envelope(404, 'NoSuchNamespaceException', /^cannot find namespace "NAME"/))
    t.same(await hidden('red', 'blue'), unknown, 'as if it were not there')
    t.same(await hidden('red', 'blue', { 'x-namespace': 'red' }), unknown)
    t.same(await hidden('red', 'blue', { 'x-namespace': 'blue' }), unknown)
    t.same(await hidden('two', 'gone'), unknown, 'a namespace of the credential that is not defined')
    t.same(await hidden('root', 'nowhere'), unknown)
    t.same(await hidden('denied', 'red'), unknown, 'what a policy forbids')
    for (const name of ['red%1Fchild', 'RED', 'red.child', '%20', 'x'.repeat(64), '__proto__', 're%2564']) {
      const answer = await call('root', `/v1/namespaces/${name}`)
      t.match(answer.json(), envelope(404, 'NoSuchNamespaceException', /^cannot find namespace/), name)
    }
    for (const [token, name, status] of [
      ['red', 'red', 204],
      ['red', 'blue', 404],
      ['red', 'nowhere', 404],
      ['root', 'blue', 204],
    ] as const) {
      const answer = await node.inject({ method: 'HEAD', url: `/v1/namespaces/${name}`, headers: bearer(token) })
      t.equal(answer.statusCode, status)
      t.equal(answer.body, '')
    }
  }
})

t.test('namespaces have one level', async (t) => {
  const node = await bootCatalog()
  t.teardown(() => node.stop())
  const list = (query: string) => node.inject({ url: `/v1/namespaces?${query}`, headers: bearer('red') })
  t.same((await list('parent=red')).json(), { namespaces: [], 'next-page-token': null })
  t.same((await list('parent=')).json(), { namespaces: [['red']], 'next-page-token': null })
  const unknown = (await list('parent=nowhere')).json()
  t.match(unknown, envelope(404, 'NoSuchNamespaceException', /^cannot find namespace "nowhere"/))
  t.same((await list('parent=blue')).json(), JSON.parse(JSON.stringify(unknown).replace('nowhere', 'blue')))
  t.equal((await list('parent=red%1Fchild')).statusCode, 404)
  const chief = await node.inject({ url: '/v1/namespaces?parent=blue', headers: bearer('chief') })
  t.equal(chief.statusCode, 404, 'an admin of some namespaces is none of the others')
})

t.test('pages', async (t) => {
  const all = Array.from({ length: 250 }, (_, i) => `n${String(i).padStart(4, '0')}`)
  const directory = new Directory([...all, 'a-b', 'a0', 'ab'])
  directory.list = () => t.fail('all are gone through for a page') as never
  const node = await bootCatalog({ directory })
  t.teardown(() => node.stop())
  const page = async (query: string) => (await node.inject({ url: `/v1/namespaces?${query}`, headers: bearer('root') })).json()
  const walk = async (size: string, visit: (names: string[]) => void = () => {}): Promise<string[]> => {
    const found: string[] = []
    for (let token: string | null = ''; token !== null; ) {
      const { namespaces, 'next-page-token': next }: { namespaces: string[][]; 'next-page-token': string | null } = await page(`${size}&pageToken=${token}`)
      found.push(...namespaces.flat())
      visit(found)
      token = next
    }
    return found
  }
  const expected = ['a-b', 'a0', 'ab', ...all]
  t.equal((await page('')).namespaces.length, 100, 'the default')
  for (const size of ['', 'pageSize=1', 'pageSize=7', 'pageSize=253', 'pageSize=252', 'pageSize=254', 'pageSize=999999999'])
    t.same(await walk(size), expected, size)
  t.same((await page('pageSize=253'))['next-page-token'], null, 'a page that is just full is the last')

  t.test('what comes and goes between pages moves nothing else', async (t) => {
    const found = await walk('pageSize=10', (names) => {
      const at = names.at(-1) as string
      directory.remove(at)
      directory.add(`a${names.length}`)
      directory.remove('n0249')
    })
    t.same(
      found.filter((name) => name.startsWith('n')),
      all.slice(0, -1),
    )
    t.equal(new Set(found).size, found.length, 'nothing is there twice')
  })

  t.test('parameters that are no good', async (t) => {
    const token = (await page('pageSize=1'))['next-page-token'] as string
    const forged = (text: string) => Buffer.from(text).toString('base64url')
    const bad = [
      'pageSize=0',
      'pageSize=-1',
      'pageSize=1.5',
      'pageSize=x',
      'pageSize=',
      'pageSize=1&pageSize=2',
      'parent=a&parent=b',
      `pageToken=${token}&pageToken=${token}`,
    ]
    bad.push(
      'pageToken=x',
      `pageToken=${token}!`,
      `pageToken=${token}%3D`,
      `pageToken=${'A'.repeat(5000)}`,
      `pageToken=${forged('2.red')}`,
      `pageToken=${forged('1.')}`,
    )
    bad.push(`pageToken=${forged('1.\u0000')}`, `pageToken=${forged('1.RED')}`)
    for (const query of bad) t.match(await page(query), envelope(400, 'BadRequestException', /^cannot (use|read) (the |parameter )?/), query.slice(0, 40))
  })
})

t.test('a page token shows nothing that the credential does not', async (t) => {
  const node = await bootCatalog({ directory: new Directory(['blue', 'green', 'red']) })
  t.teardown(() => node.stop())
  const first = (await node.inject({ url: '/v1/namespaces?pageSize=1', headers: bearer('root') })).json()
  const other = await node.inject({ url: `/v1/namespaces?pageToken=${first['next-page-token']}`, headers: bearer('red') })
  t.same(other.json(), { namespaces: [['red']], 'next-page-token': null })
})

t.test('context says who calls', async (t) => {
  const node = await bootCatalog()
  t.teardown(() => node.stop())
  const context = async (token: string, headers: Record<string, string> = {}) =>
    (await node.inject({ url: '/auth/context', headers: bearer(token, headers) })).json()
  const shows = { list: true, read: true, create: false, update: false, delete: false, manage: false }
  const nothing = { ...shows, list: false, read: false }
  t.same(await context('red'), {
    principal: { id: 'ann', name: 'ann', principal_type: 'api_key', tenant_id: 'red', roles: ['reader'], auth_method: 'api_key' },
    capabilities: { catalog: shows, namespaces: shows, tables: nothing, is_admin: false },
  })
  t.same((await context('user')).principal, {
    id: 'u-17',
    name: 'Uma',
    principal_type: 'user',
    tenant_id: 'acme',
    roles: ['catalog-admin'],
    auth_method: 'jwt',
    expires_at: '2030-01-02T00:00:00.000Z',
  })
  t.equal((await context('user')).capabilities.is_admin, true, 'by its role')
  t.match(await context('root'), { principal: { tenant_id: 'default' }, capabilities: { is_admin: true } })
  t.match((await context('machine')).principal, { principal_type: 'service', auth_method: 'mtls', tenant_id: 'blue' })
  t.match((await context('any')).principal, { id: 'k-5', name: 'eve', tenant_id: 'default' })
  t.match((await context('two', { 'x-namespace': 'blue' })).principal, { tenant_id: 'blue' })
  t.same((await context('strange')).principal, { id: 's', name: 's', principal_type: 'user', tenant_id: 'default', roles: [], auth_method: 'internal' })
})

t.test('what a role opens in the answer, it opens nowhere', async (t) => {
  const node = await bootCatalog()
  t.teardown(() => node.stop())
  const answer = await node.inject({ method: 'PUT', url: '/api/v1/admin/log-level', payload: { level: 'info' }, headers: bearer('user') })
  t.equal(answer.statusCode, 403)
})

t.test('every failure has the shape of the catalog', async (t) => {
  const lines: string[] = []
  const node = await bootCatalog({ log: (line) => lines.push(line) })
  t.teardown(() => node.stop())
  for (const url of ['/v1/config', '/v1/namespaces', '/v1/namespaces/red', '/auth/context']) {
    const call = (headers: Record<string, string>, method: 'GET' | 'POST' | 'DELETE' | 'PUT' | 'OPTIONS' = 'GET') => node.inject({ method, url, headers })
    const none = await call({})
    t.match(none.json(), envelope(401, 'NotAuthenticatedException', /no credentials/), url)
    t.equal(none.statusCode, 401)
    t.equal(none.headers['www-authenticate'], 'Bearer')
    t.match((await call(bearer('nobody'))).json(), envelope(401, 'NotAuthenticatedException', /not accepted/))
    t.match((await call(bearer('late'))).json(), envelope(401, 'NotAuthenticatedException', /expired/))
    const limited = await call(bearer('greedy'))
    t.match(limited.json(), envelope(429, 'TooManyRequestsException', /too many/))
    t.match(limited.headers, { 'retry-after': '7', 'x-ratelimit-limit': '5' })
    t.match((await call(bearer('broken'))).json(), envelope(500, 'ServiceException', /^IO_ERROR: an internal error occurred$/))
    for (const method of ['POST', 'PUT', 'DELETE', 'OPTIONS'] as const) {
      const refused = await call(bearer('red'), method)
      t.match(refused.json(), envelope(405, 'UnsupportedOperationException', /^cannot (POST|PUT|DELETE|OPTIONS) /), `${method} ${url}`)
      t.equal(refused.headers.allow, 'GET, HEAD')
      t.equal((await call({}, method)).statusCode, 401)
    }
    if (url === '/v1/namespaces/red') continue
    t.match((await call(bearer('denied'))).json(), envelope(403, 'NotAuthorizedException', /no policy permits/))
    t.match((await call(bearer('red', { 'x-namespace': 'blue' }))).json(), envelope(403, 'NotAuthorizedException', /cannot use namespace "blue"/))
    t.match((await call(bearer('red', { 'x-namespace': 'No Name' }))).json(), envelope(400, 'BadRequestException', /cannot use namespace/))
  }
  t.match((await node.inject({ url: '/v1/namespaces/%ff', headers: bearer('red') })).json(), envelope(400, 'BadRequestException', /./))
  t.equal((await node.inject({ method: 'HEAD', url: '/v1/namespaces/red' })).statusCode, 401)
  const unknown = await node.inject({ url: '/v1/namespaces/red/tables', headers: bearer('red') })
  t.match(unknown.json(), envelope(404, 'NotFoundException', /no such path/), 'a path that no route has, below /v1/')
  t.equal(unknown.statusCode, 404)
  t.match((await node.inject('/v1/%zz')).json(), envelope(400, 'BadRequestException', /cannot decode the path/))
  t.match((await node.inject('/v2/namespaces')).json(), { error: /no such path/, code: 'NOT_FOUND' }, 'and no other')
  t.match((await node.inject('/elsewhere')).json(), { code: 'UNAUTHORIZED' }, 'other routes keep their shape')
  t.ok(
    lines.some((line) => line.includes('cannot read the keys')),
    'what the caller is not told is in the log',
  )
})

t.test('nobody is let in without credentials, unless the config says so', async (t) => {
  const closed = await bootCatalog({ plugins: [] })
  t.teardown(() => closed.stop())
  const refused = await closed.inject('/v1/namespaces')
  t.match(refused.json(), envelope(401, 'NotAuthenticatedException', /require_authentication/))
  t.equal((await closed.inject({ method: 'HEAD', url: '/v1/namespaces/red' })).statusCode, 401)

  const open = await bootCatalog({ plugins: [], auth: { require_authentication: false } })
  t.teardown(() => open.stop())
  t.same((await open.inject('/v1/namespaces')).json().namespaces.flat(), ['blue', 'default', 'green', 'red'])
  t.match((await open.inject('/auth/context')).json().principal, { id: 'anonymous', principal_type: 'anonymous', auth_method: 'none' })

  const exempt = { exempt_paths: ['/v1/*'] }
  const half = await bootCatalog({ auth: exempt })
  t.teardown(() => half.stop())
  t.match((await half.inject('/v1/namespaces')).json(), envelope(401, 'NotAuthenticatedException', /require_authentication/), 'an exempt path does not open it')
  const both = await bootCatalog({ auth: { ...exempt, require_authentication: false } })
  t.teardown(() => both.stop())
  t.equal((await both.inject('/v1/namespaces/red')).statusCode, 200)
  t.equal((await both.inject('/auth/context')).statusCode, 401)
  const tenants = await bootCatalog({ auth: { ...exempt, require_authentication: false }, server: { multi_tenancy: true } })
  t.teardown(() => tenants.stop())
  t.same((await tenants.inject('/v1/namespaces')).json().namespaces, [], 'nobody has authority over none')
  t.equal((await tenants.inject('/v1/namespaces/red')).statusCode, 404)
})

t.test('the OpenAPI description has the routes, and the shape of their failures', async (t) => {
  const node = await bootCatalog()
  t.teardown(() => node.stop())
  const { paths } = (await node.inject({ url: '/api/v1/openapi.json', headers: bearer('root') })).json()
  for (const path of ['/v1/config', '/v1/namespaces', '/v1/namespaces/{namespace}', '/auth/context']) {
    t.same(
      Object.keys(paths[path]).filter((method) => !['get', 'head'].includes(method)),
      [],
      path,
    )
    t.ok(paths[path].get.responses.default.content['application/json'].schema.properties.error.properties.type, path)
  }
})
