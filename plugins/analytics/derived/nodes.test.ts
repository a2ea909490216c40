/** Nodes that share their state, each with points of its own: each evaluates its own, and none takes over how far another is. */
import { boot, loadEngine, MetricsRegistry, SharedState, type TestNode, temporaryFolder } from 'svcdb/testkit'
import t, { type Test } from 'tap'
import { until } from '../../../test/support/until.ts'

const PATH = '/api/v1/analytics/derived'
const QUIET = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} }

async function peer(t: Test, shared: SharedState, dataDir: string): Promise<TestNode> {
  const { state } = await shared.engine(() => true, true)
  const { createEngine, capabilities } = await loadEngine('embedded', process.cwd())
  const metrics = new MetricsRegistry()
  t.teardown(() => metrics.close())
  const engine = createEngine({ config: { data_dir: dataDir }, log: QUIET, metrics: metrics.child('storage'), now: Date.now })
  const storage = Object.assign(engine, { capabilities: new Set([...capabilities, 'shared_state']), state })
  const config = { analytics: { derived_interval_secs: 1, derived_timeout_secs: 300 }, server: { sql_query_timeout_secs: 300 } }
  const node = await boot({ plugins: ['line_protocol', 'sql', 'analytics'], storage: storage as never, config })
  t.teardown(() => node.stop())
  return node
}

async function write(node: TestNode, host: string): Promise<void> {
  const answer = await node.inject({ method: 'POST', url: '/write', headers: { 'content-type': 'text/plain' }, payload: `mem,host=${host} used=1` })
  if (answer.statusCode !== 204) throw new Error(answer.body)
}

async function hosts(node: TestNode): Promise<string[]> {
  const answer = await node.inject({ method: 'POST', url: '/api/v1/svc/sql', payload: { query: 'SELECT DISTINCT host FROM twice ORDER BY host' } })
  return (answer.json().rows ?? []).flat()
}

t.test('each node has what the statement comes to over its own points', async (t) => {
  const shared = new SharedState()
  const dir = temporaryFolder(t)
  const a = await peer(t, shared, `${dir}/a`)
  let b = await peer(t, shared, `${dir}/b`)
  const has = (node: TestNode, wanted: string[]) => until(`${wanted}`, async () => JSON.stringify(await hosts(node)) === JSON.stringify(wanted))
  await write(b, 'b1')
  const payload = { name: 'twice', query: 'SELECT _time, host, used * 2 AS used FROM mem WHERE _time >= $1 AND _time < $2', every_secs: 1 }
  const made = await b.inject({ method: 'POST', url: PATH, payload })
  t.equal(made.statusCode, 201, made.body)
  await has(b, ['b1'])
  await write(a, 'a1')
  await has(a, ['a1'])
  const evaluated = async (node: TestNode) => /"evaluated_until":(\d+)/.exec((await node.inject(PATH)).body)?.[1]
  await b.stop()
  const keys = (await shared.of('analytics').list<{ until: string }>({ prefix: 'evaluated/' })).map(({ value }) => value.until)
  t.equal(keys.length, 2)
  b = await peer(t, shared, `${dir}/b`)
  await write(b, 'b2')
  await has(b, ['b1', 'b2'])
  t.ok(await evaluated(b))
  t.equal((await a.inject({ method: 'DELETE', url: `${PATH}/twice` })).statusCode, 200)
  await until('nothing is kept of it', async () => (await shared.of('analytics').list({ prefix: 'evaluated/' })).length === 0)
  await Promise.all([a.stop(), b.stop()])
})
