import t, { type Test } from 'tap'
import { turnsDuring } from '../../test/support/turns-during.ts'
import { definePlugin } from '../plugin.ts'
import { type BootOptions, boot } from '../testkit/index.ts'

const routes = definePlugin({
  id: 'routes',
  summary: 'Routes',
  stability: 'stable',
  setup(svc) {
    svc.http.get('/closed/:name', async () => ({}))
    svc.http.get('/public', { config: { action: 'public' } }, async () => ({}))
  },
})
const guard = definePlugin({
  id: 'guard',
  summary: 'Lets all in',
  stability: 'stable',
  setup: (svc) => svc.auth.authenticator(() => ({ principal: 'ann', method: 'test', claims: {}, namespaces: [], admin: true })),
})

interface Description {
  security?: unknown
  components: { securitySchemes: Record<string, unknown> }
  paths: Record<string, { get: { security?: unknown } }>
}

async function describe(t: Test, options: BootOptions): Promise<Description> {
  const node = await boot(options)
  t.teardown(() => node.stop())
  return (await node.inject('/api/v1/openapi.json')).json()
}

t.test('says that a bearer token is needed, and where it is not', async (t) => {
  const { security, components, paths } = await describe(t, { plugins: [routes, guard], config: { server: { metrics_require_auth: false } } })
  t.match(components.securitySchemes, { bearer: { type: 'http', scheme: 'bearer' } })
  t.same(security, [{ bearer: [] }])
  t.equal(paths['/closed/{name}'].get.security, undefined)
  t.same(paths['/public'].get.security, [])
  t.same(paths['/health'].get.security, [])
  t.same(paths['/metrics'].get.security, [])
  t.equal(paths['/api/v1/openapi.json'].get.security, undefined)
})

t.test('follows auth.exempt_paths', async (t) => {
  const { paths } = await describe(t, { plugins: [routes, guard], config: { auth: { exempt_paths: ['/closed/*'] } } })
  t.same(paths['/closed/{name}'].get.security, [])
  t.equal(paths['/health'].get.security, undefined)
})

t.test('says nothing of it where nothing authenticates', async (t) => {
  const { security, paths } = await describe(t, { plugins: [routes] })
  t.equal(security, undefined)
  t.equal(paths['/health'].get.security, undefined)
})

t.test('the description is made in turns of the event loop, and is the same', async (t) => {
  const count = 100
  const many = definePlugin({
    id: 'many_routes',
    summary: 'Many routes',
    stability: 'stable',
    setup(svc) {
      for (let i = 0; i < count; i++) {
        const schema = { summary: `the ${i}th`, tags: ['many'] }
        svc.http.get(`/api/v1/many/${i}`, { schema }, async () => ({}))
        svc.http.post(`/api/v1/many/${i}`, { schema }, async () => ({}))
      }
    },
  })
  const node = await boot({ plugins: [many] })
  t.teardown(() => node.stop())
  let paths: Record<string, Record<string, { summary: string }>> = {}
  const turns = await turnsDuring(async () => {
    paths = (await node.inject('/api/v1/openapi.json')).json().paths
  })
  t.ok(turns > (2 * count) / 12, `${turns} turns`)
  for (let i = 0; i < count; i++) t.same([paths[`/api/v1/many/${i}`].get.summary, Object.keys(paths[`/api/v1/many/${i}`])], [`the ${i}th`, ['get', 'post']])
})
