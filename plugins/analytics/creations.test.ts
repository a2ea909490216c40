/** Models and derived series that are being created while their namespace is deleted. */
import { definePlugin, MODEL_KINDS, type ModelKinds } from 'svcdb'
import { boot, loadEngine, MetricsRegistry, SharedState, type TestNode, temporaryFolder } from 'svcdb/testkit'
import t, { type Test } from 'tap'
import { until } from '../../test/support/until.ts'
import { call, lines, MODELS, model, node, write } from './models/testing.ts'
import { BEGUN } from './models/testing-slow.ts'
import { tenants } from './testing-tenants.ts'

const kinds = definePlugin({
  id: 'brings_kinds',
  summary: 'Registers a kind for the test',
  stability: 'experimental',
  requires: [MODEL_KINDS],
  setup(svc) {
    svc.use<ModelKinds>(MODEL_KINDS).register('slow', new URL('./models/testing-slow.ts', import.meta.url))
  },
})
const root = definePlugin({
  id: 'test_root',
  summary: 'Lets an admin of all namespaces in',
  stability: 'experimental',
  setup(svc) {
    svc.auth.authenticator(({ header }) =>
      header('x-root') === undefined ? undefined : { principal: 'root', method: 'test', claims: {}, namespaces: [], admin: true },
    )
  },
})
const bearer = (name: string) => ({ authorization: `Bearer ${name}` })

t.test('a model in training ends with its namespace, and is not there for the next one of its name', async (t) => {
  const one = await node(t, { plugins: [kinds, 'namespaces', tenants, root], config: { server: { multi_tenancy: true } }, analytics: { compute_threads: 2 } })
  const [blue, red] = ['blue', 'red'].map(bearer)
  for (const who of [blue, red]) await write(one, lines(0, 60), who)
  const channel = new BroadcastChannel(BEGUN)
  const bothBegun = Promise.withResolvers<void>()
  let begun = 0
  channel.onmessage = () => void (++begun === 2 && bothBegun.resolve())
  t.teardown(() => channel.close())
  const [ofBlue, ofRed] = [blue, red].map((who) => call(one, 'POST', MODELS, model({ model_type: 'slow', params: {} }), who))
  await bothBegun.promise
  const deleted = await one.inject({ method: 'DELETE', url: '/api/v1/namespaces/red', headers: { 'x-root': '1' } })
  t.equal(deleted.statusCode, 200, deleted.body)
  t.match(await ofRed, { status: 404, body: { code: 'NOT_FOUND', error: /^cannot create model "load" on "cpu": the namespace was deleted meanwhile/ } })
  t.equal((await ofBlue).status, 201, 'that of others goes on')
  const kept = (await one.storage.state('analytics').list()).map(({ key }) => key)
  t.same(
    kept.filter((key) => key.includes('/red/')),
    [],
  )
})

const QUIET = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} }

/** A node with points of its own beside a state that nodes share. */
async function peer(t: Test, shared: SharedState, dataDir: string): Promise<TestNode> {
  const { state } = await shared.engine(() => true, true)
  const { createEngine, capabilities } = await loadEngine('embedded', process.cwd())
  const metrics = new MetricsRegistry()
  t.teardown(() => metrics.close())
  const engine = createEngine({ config: { data_dir: dataDir }, log: QUIET, metrics: metrics.child('storage'), now: Date.now })
  const storage = Object.assign(engine, { capabilities: new Set([...capabilities, 'shared_state']), state })
  const config = { analytics: { watch_interval_secs: 86_400 }, server: { multi_tenancy: true, sql_query_timeout_secs: 300 } }
  const node = await boot({ plugins: ['line_protocol', 'sql', 'analytics', 'namespaces', kinds, tenants, root], storage: storage as never, config })
  t.teardown(() => node.stop())
  return node
}

for (const isAnother of [false, true])
  t.test(`so does one on another node${isAnother ? ', where the next one of its name is there by then' : ''}`, async (t) => {
    const shared = new SharedState()
    const dir = temporaryFolder(t)
    const [a, b] = [await peer(t, shared, `${dir}/a`), await peer(t, shared, `${dir}/b`)]
    const red = bearer('red')
    await write(b, lines(0, 60), red)
    const channel = new BroadcastChannel(BEGUN)
    t.teardown(() => channel.close())
    const begun = new Promise((resolve) => {
      channel.onmessage = resolve
    })
    const created = call(b, 'POST', MODELS, model({ model_type: 'slow', params: {} }), red)
    await begun
    const headers = { 'x-root': '1' }
    const deleted = await a.inject({ method: 'DELETE', url: '/api/v1/namespaces/red', headers })
    t.equal(deleted.statusCode, 200, deleted.body)
    if (isAnother) {
      await write(a, lines(0, 60), red)
      await until('the other hears of it', async () => (await b.inject({ url: '/api/v1/namespaces/red', headers })).statusCode === 200)
    }
    t.match(await created, { status: 404, body: { code: 'NOT_FOUND', error: /^cannot create model "load" on "cpu": the namespace was deleted meanwhile/ } })
    t.same(await shared.of('analytics').list(), [])
  })
