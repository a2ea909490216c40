/** What needs no credentials, and what the namespace of a call is. */
import { request } from 'node:http'
import t, { type Test } from 'tap'
import { definePlugin } from '../plugin.ts'
import { type BootOptions, boot } from '../testkit/index.ts'
import type { CallContext, Identity } from './auth.ts'

const tokens: Record<string, Partial<Identity>> = {
  root: { admin: true },
  all: {},
  one: { namespaces: ['red'] },
  two: { namespaces: ['red', 'blue'] },
}

const guard = definePlugin({
  id: 'guard',
  summary: 'Knows tokens',
  stability: 'stable',
  setup(svc) {
    svc.auth.authenticator(({ header }) => {
      const principal = header('authorization') ?? ''
      return principal in tokens ? { principal, method: 'test', claims: {}, namespaces: [], admin: false, ...tokens[principal] } : undefined
    })
    const seen = async (request: Parameters<typeof svc.context>[0]) => svc.context(request)
    svc.http.get('/who', seen)
    svc.http.get('/api/a/:name', seen)
    svc.http.get('/api/b', seen)
    svc.http.get('/files/*', seen)
  },
})

async function start(t: Test, config: BootOptions['config'] = {}) {
  const node = await boot({ plugins: [guard], config })
  t.teardown(() => node.stop())
  const get = (url: string, authorization?: string, more: Record<string, string> = {}) =>
    node.inject({ url, headers: { ...(authorization === undefined ? {} : { authorization }), ...more } })
  return { node, get, status: async (url: string, authorization?: string) => (await get(url, authorization)).statusCode }
}

const PROBES = ['/health', '/healthz', '/ready', '/readyz', '/ping']

t.test('by default the probes are exempt and nothing else is', async (t) => {
  const { status } = await start(t)
  for (const url of PROBES) t.ok([200, 204].includes(await status(url)), url)
  for (const url of ['/metrics', '/who', '/api/v1/openapi.json', '/api/v1/docs', '/api/a/x']) t.equal(await status(url), 401, url)
})

t.test('an empty list exempts nothing', async (t) => {
  const { status } = await start(t, { auth: { exempt_paths: [] } })
  for (const url of PROBES) {
    t.equal(await status(url), 401, url)
    t.ok([200, 204].includes(await status(url, 'all')), url)
  }
})

t.test('paths are those of routes; "*" stands for anything, at the end only', async (t) => {
  const { status, get } = await start(t, { auth: { exempt_paths: ['/api/*', '/wh*o'] } })
  t.equal(await status('/api/a/x'), 200)
  t.equal(await status('/api/b'), 200)
  t.equal(await status('/who'), 401)
  t.equal(await status('/health'), 401, 'the list replaces the default')
  const stem = await start(t, { auth: { exempt_paths: ['/api/a*'] } })
  t.equal(await stem.status('/api/a/x'), 200)
  t.equal(await stem.status('/api/b'), 401, 'all of what stands before the "*" counts')
  t.match((await get('/api/b', 'root')).json(), { principal: 'anonymous', admin: false }, 'no credentials are looked at')
  const parameter = await start(t, { auth: { exempt_paths: ['/api/a/:name', '/api/a/x', '/files'] } })
  t.equal(await parameter.status('/api/a/y'), 200, 'a parameter stands for its values')
  t.equal(await parameter.status('/files/x'), 401)
})

t.test('no spelling of another path becomes exempt', async (t) => {
  const { node } = await start(t, { auth: { exempt_paths: ['/health', '/health*', '/files/public*'] } })
  // Over a socket: as it is, without a client that tidies it up.
  const raw = (path: string): Promise<number> =>
    new Promise((resolve, reject) => {
      const { hostname, port } = new URL(node.url)
      request({ host: hostname, port, path, agent: false }, (answer) => {
        answer.resume()
        resolve(answer.statusCode ?? 0)
      })
        .on('error', reject)
        .end()
    })
  t.equal(await raw('/health'), 200)
  for (const path of [
    '/health/../who',
    '/health/%2e%2e/who',
    '/health/%2E%2E%2Fwho',
    '/health%2f..%2fwho',
    '//health',
    '//who',
    '/./who',
    '/%2e/who',
    '/who/../health',
    '/who;/health',
    '/who?/health',
    '/who%3f/health',
    '/who#/health',
    '/health/',
    '/HEALTH/../who',
    '/health\\..\\who',
    '/files/public/../private',
    '/files/%70ublic',
    '/files/public',
    'http://x/who',
    'http://x/health/../who',
  ]) {
    const status = await raw(path)
    t.ok([400, 401, 404].includes(status), `${path}: ${status}`)
  }
  t.equal(await raw('/%77ho'), 401, 'an encoded letter is the letter')
  t.equal(await raw('/%68ealth'), 200)
})

t.test('the metrics are exempt where server.metrics_require_auth is false', async (t) => {
  const server = { metrics_require_auth: false, metrics_path: '/figures' }
  const { status } = await start(t, { server })
  t.equal(await status('/figures'), 200)
  t.equal(await status('/who'), 401)
  const kept = await start(t, { server: { metrics_path: '/figures' } })
  t.equal(await kept.status('/figures'), 401)
  t.equal(await kept.status('/figures', 'all'), 200)
})

t.test('under multi_tenancy the metrics, which are about all, are for admins', async (t) => {
  const { status, get } = await start(t, { server: { multi_tenancy: true } })
  t.equal(await status('/metrics', 'one'), 403)
  t.match((await get('/metrics', 'one')).json(), { error: 'cannot call "/metrics" as "one": an admin credential is needed' })
  t.equal(await status('/metrics', 'root'), 200)
})

t.test('the namespace of a call', async (t) => {
  const plain = await start(t)
  const apart = await start(t, { server: { multi_tenancy: true } })
  const answer = async ({ get }: typeof plain, token: string, asked?: string): Promise<Partial<CallContext> & { error?: string }> =>
    (await get('/who', token, asked === undefined ? {} : { 'x-namespace': asked })).json()
  t.match(await answer(plain, 'one'), { namespace: 'red', dataNamespace: '' }, 'the only one of the credential')
  t.match(await answer(apart, 'one'), { namespace: 'red', dataNamespace: 'red' })
  t.match(await answer(apart, 'one', ''), { namespace: 'red' }, 'an empty header is none')
  t.match(await answer(apart, 'one', ' red '), { namespace: 'red' })
  t.match(await answer(apart, 'one', 'blue'), { code: 'FORBIDDEN', error: /cannot use namespace "blue" as "one"/ })
  t.match(await answer(apart, 'two', 'blue'), { namespace: 'blue' })
  t.match(await answer(apart, 'two'), { code: 'FORBIDDEN', error: /namespace "default".*name one of them in X-Namespace/ }, 'of two none is meant')
  t.match(await answer(plain, 'all', 'green'), { namespace: 'green', dataNamespace: '' })
  t.match(await answer(apart, 'all', 'green'), { code: 'FORBIDDEN', error: /the credential is for no namespace/ })
  t.match(await answer(apart, 'all'), { code: 'FORBIDDEN' })
  t.match(await answer(apart, 'root', 'green'), { namespace: 'green', dataNamespace: 'green' })
  t.match(await answer(apart, 'root'), { namespace: 'default', dataNamespace: 'default' })
})

t.test('names of namespaces are checked, without credentials too', async (t) => {
  const { get } = await start(t)
  for (const name of ['Red', '1red', '-red', 'red-', 'red_1', 'r.d', '../red', 'red/blue', 'red,blue', '*', 'r d', 'x'.repeat(64), 'r\u00e4d', '\u0000']) {
    t.match((await get('/who', 'root', { 'x-namespace': name })).json(), { code: 'BAD_REQUEST', error: /cannot use namespace/ }, JSON.stringify(name))
  }
  t.equal((await get('/health', undefined, { 'x-namespace': '..' })).statusCode, 400)
  for (const name of ['r', 'red', 'r2', 'red-2', 'x'.repeat(63)]) t.match((await get('/who', 'root', { 'x-namespace': name })).json(), { namespace: name })
})
