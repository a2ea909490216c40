/** What a node keeps in memory for a namespace is forgotten when that is deleted on another node: whoever has the name next begins with nothing. */
import { compressSync } from 'snappy'
import { SharedState, type TestNode } from 'svcdb/testkit'
import t, { type Test } from 'tap'
import { until } from '../../test/support/until.ts'
import { command, FlightClient } from '../flight_sql/testing.ts'
import { point, start, TestClient } from '../grpc/testing.ts'
import { writeRequest } from '../remote_write/testing-wire.ts'

const PLUGINS = ['namespaces', 'native', 'remote_write', 'exemplars', 'promql', 'line_protocol', 'flight_sql']
const HEADERS = { 'content-type': 'application/x-protobuf', 'content-encoding': 'snappy', 'x-namespace': 'acme' }
const OF_ACME = { metadata: { 'x-namespace': 'acme' } }

interface Peer {
  node: TestNode
  client: TestClient
  flight: FlightClient
  /** Keeps back what it hears of others' changes of namespaces. @returns has it hear all of it at once. */
  hold(): () => void
}

/** A node with points of its own. */
async function peer(t: Test, shared: SharedState): Promise<Peer> {
  const storage = await shared.engine(() => true, true)
  const state = storage.state
  let held: (() => void)[] | undefined
  storage.state = (owner) => {
    const store = state(owner)
    const { watch } = store
    if (owner !== 'namespaces' || watch === undefined) return store
    return { ...store, watch: (prefixes, hear) => watch(prefixes, (keys) => (held === undefined ? hear(keys) : void held.push(() => hear(keys)))) }
  }
  const config = { server: { multi_tenancy: true }, remote_write: { metadata_save_secs: 3600 }, flight_sql: { addr: '127.0.0.1:0' } }
  const { node, port } = await start({ plugins: PLUGINS, storage, config })
  const client = new TestClient(port)
  const flight = new FlightClient(node.port('flight_sql'))
  t.teardown(async () => {
    client.close()
    flight.close()
    await node.stop()
  })
  const hold = () => {
    const kept: (() => void)[] = []
    held = kept
    return () => {
      held = undefined
      for (const hear of kept) hear()
    }
  }
  return { node, client, flight, hold }
}

async function write({ node }: Peer): Promise<void> {
  const exemplars = [{ labels: [['trace_id', 'secret']] as [string, string][], value: 1, ms: Date.now() }]
  const labels: [string, string][] = [['__name__', 'm']]
  const body = writeRequest([{ labels, samples: [{ ms: Date.now(), value: 1 }], exemplars }], [{ type: 1, metric: 'm', help: 'secret', unit: '' }])
  const answer = await node.inject({ method: 'POST', url: '/api/v1/prom/write', headers: HEADERS, payload: Buffer.from(compressSync(body)) })
  if (answer.statusCode !== 204) throw new Error(answer.body)
}

/** By gRPC, under a key. @returns whether it was left out. */
async function send({ client }: Peer): Promise<boolean> {
  return (await client.call('Write', { points: [point('sent', BigInt(Date.now()) * 1_000_000n, {}, { v: 1 })], dedup_key: 'once' }, OF_ACME)).duplicate
}

/** By HTTP, under a key. */
async function post({ node }: Peer): Promise<number> {
  const headers = { 'content-type': 'text/plain', 'x-namespace': 'acme', 'idempotency-key': 'once' }
  return (await node.inject({ method: 'POST', url: '/write', payload: 'posted v=1', headers })).statusCode
}

const prepare = ({ flight }: Peer) => flight.action('CreatePreparedStatement', command('ActionCreatePreparedStatementRequest', { 1: 'sent' }), OF_ACME.metadata)

const ask = async ({ node }: Peer, url: string) => (await node.inject({ url, headers: { 'x-namespace': 'acme' } })).json()
const exemplars = async (at: Peer) => (await ask(at, '/api/v1/query_exemplars?query=m')).data
const metadata = async (at: Peer) => (await ask(at, '/api/v1/metadata')).data
const prepared = async ({ node }: Peer) => Number(/^svc_flight_sql_prepared_statements (\d+)$/m.exec((await node.inject('/metrics')).body)?.[1])
const measurements = async ({ node }: Peer) => (await node.storage.measurements('acme')).map(({ name }) => name).sort()

for (const atOnce of [false, true])
  t.test(atOnce ? 'it hears of the deletion and of the next one at once' : 'it hears of the deletion, then of the next one', async (t) => {
    const shared = new SharedState()
    const [a, b] = [await peer(t, shared), await peer(t, shared)]
    await write(b)
    t.equal(await send(b), false)
    t.equal(await post(b), 204)
    t.same([await send(b), await post(b)], [true, 409])
    await prepare(b)
    t.same([(await exemplars(b)).length, Object.keys(await metadata(b)), await prepared(b)], [1, ['m'], 1])
    await until('both know it', async () => (await a.node.inject('/api/v1/namespaces/acme')).statusCode === 200)

    const release = b.hold()
    if (!atOnce) release()
    t.equal((await a.node.inject({ method: 'DELETE', url: '/api/v1/namespaces/acme' })).statusCode, 200)
    if (!atOnce) await until('the other hears of it', async () => (await b.node.inject('/api/v1/namespaces/acme')).statusCode === 404)
    t.equal((await a.node.inject({ method: 'POST', url: '/api/v1/namespaces', payload: { name: 'acme', description: 'next' } })).statusCode, 201)
    if (atOnce) release()
    await until('the other knows the next one', async () => (await b.node.inject('/api/v1/namespaces/acme')).json().description === 'next')

    t.same([await exemplars(b), await metadata(b), await prepared(b), await measurements(b)], [[], {}, 0, []])
    t.same([await send(b), await post(b)], [false, 204])
    t.same(await measurements(b), ['posted', 'sent'])
    await b.node.stop()
    t.same(await metadata(a), {}, 'nor is it put away later')
  })
