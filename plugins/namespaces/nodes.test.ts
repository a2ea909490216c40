/** Nodes that share their state, each with points of its own: a namespace that goes on one of them goes on all, before its name is another's. */
import { boot, loadEngine, MetricsRegistry, SharedState, type TestNode, temporaryFolder } from 'svcdb/testkit'
import t, { type Test } from 'tap'
import { until } from '../../test/support/until.ts'

const QUIET = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} }

/** @param dataDir of a database that outlives the node; undefined = points are in memory. */
async function peer(t: Test, shared: SharedState, dataDir?: string): Promise<TestNode> {
  const memory = await shared.engine(() => true, true)
  let storage = memory
  if (dataDir !== undefined) {
    const { createEngine, capabilities } = await loadEngine('embedded', process.cwd())
    const metrics = new MetricsRegistry()
    t.teardown(() => metrics.close())
    const engine = createEngine({ config: { data_dir: dataDir }, log: QUIET, metrics: metrics.child('storage'), now: Date.now })
    storage = Object.assign(engine, { capabilities: new Set([...capabilities, 'shared_state']), state: memory.state })
  }
  const node = await boot({ plugins: ['namespaces', 'native', 'line_protocol'], storage, config: { server: { multi_tenancy: true } } })
  t.teardown(() => node.stop())
  return node
}

async function write(node: TestNode, measurement: string, namespace = 'acme', key?: string): Promise<void> {
  const headers = { 'content-type': 'text/plain', 'x-namespace': namespace, ...(key === undefined ? {} : { 'idempotency-key': key }) }
  const answer = await node.inject({ method: 'POST', url: '/write', payload: `${measurement} v=1`, headers })
  if (answer.statusCode !== 204) throw new Error(answer.body)
}

const remove = async (node: TestNode): Promise<number> => (await node.inject({ method: 'DELETE', url: '/api/v1/namespaces/acme' })).statusCode
const measurements = async (node: TestNode, namespace = 'acme'): Promise<string[]> =>
  (await node.storage.measurements(namespace)).map(({ name }) => name).sort()
const known = async (node: TestNode): Promise<string[]> =>
  (await node.inject('/api/v1/namespaces'))
    .json()
    .namespaces.map(({ name }: { name: string }) => name)
    .sort()

t.test('a namespace that is deleted on one node has no points on the other either', async (t) => {
  const shared = new SharedState()
  const [a, b] = [await peer(t, shared), await peer(t, shared)]
  for (const node of [a, b]) for (const namespace of ['acme', 'other']) await write(node, 'secret', namespace)
  t.equal(await remove(a), 200)
  await until('they go', async () => (await measurements(b)).length === 0)
  await write(b, 'next')
  await until('both know the next one', async () => (await known(a)).includes('acme'))
  t.same(await measurements(b), ['next'], 'what the next of that name writes stays')
  t.same(await measurements(b, 'other'), ['secret'])
})

t.test('what was written under a key is forgotten with the namespace, on the other node too', async (t) => {
  const shared = new SharedState()
  const nodes = [await peer(t, shared), await peer(t, shared)]
  for (const node of nodes) await write(node, 'old', 'acme', 'once')
  for (const node of nodes) await t.rejects(write(node, 'old', 'acme', 'once'), /once/)
  t.equal(await remove(nodes[0]), 200)
  await until('the other hears of it', async () => !(await known(nodes[1])).includes('acme'))
  for (const node of nodes) {
    await write(node, 'new', 'acme', 'once')
    t.same(await measurements(node), ['new'])
  }
})

t.test('of writes on the other node at that time nothing is left behind, nor lost of the next of that name', async (t) => {
  const shared = new SharedState()
  const [a, b] = [await peer(t, shared), await peer(t, shared)]
  for (let round = 0; round < 20; round++) {
    await Promise.all([write(a, 'm'), ...Array.from({ length: 20 }, (_, i) => write(b, `old${i}`))])
    t.equal(await remove(a), 200)
    await until('the other hears of it', async () => !(await known(b)).includes('acme'))
    // It is made anew by the next write, as soon as its name is free.
    await until('it is there again', () =>
      write(b, 'next').then(
        () => true,
        () => false,
      ),
    )
    t.same(await measurements(b), ['next'])
    t.equal(await remove(b), 200)
  }
})

t.test('a node that was away removes what is left of it at its start, and does not bring it back', async (t) => {
  const shared = new SharedState()
  const dataDir = temporaryFolder(t)
  const a = await peer(t, shared)
  let b = await peer(t, shared, dataDir)
  for (const node of [a, b]) await write(node, 'secret')
  await write(b, 'kept', 'other')
  await b.stop()
  t.equal(await remove(a), 200)
  b = await peer(t, shared, dataDir)
  t.same([await measurements(b), await measurements(b, 'other')], [[], ['kept']])
  for (const node of [a, b]) t.same(await known(node), ['default', 'other'])
  await write(b, 'next')
  await b.stop()
  b = await peer(t, shared, dataDir)
  t.same(await measurements(b), ['next'], 'once')
})
