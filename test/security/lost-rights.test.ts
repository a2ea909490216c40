/**
 * Whatever is open or half sent when a caller loses the right to it ends, however the right is lost: every route and method that takes a request, and every
 * stream, against every way to lose a right. Nothing is written then, and nothing more is read.
 */
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { Float64 } from 'apache-arrow'
import { boot, builtinPlugins, type TestNode, temporaryFolder } from 'svcdb/testkit'
import t, { type Test } from 'tap'
import { newKey } from '../../plugins/api_keys/new-key.ts'
import { keyText } from '../../plugins/api_keys/testing.ts'
import { EventClient } from '../../plugins/cdc/testing.ts'
import { command, descriptor, FlightClient } from '../../plugins/flight_sql/testing.ts'
import { flightStream } from '../../plugins/flight_sql/testing-stream.ts'
import { point, TestClient } from '../../plugins/grpc/testing.ts'
import { claimsOf, jwkOf, makeKey, sign, startIssuer, TestClock, type TestIssuer } from '../../plugins/jwt/testing.ts'
import { until } from '../support/until.ts'
import { type LateRequest, lateGrpc, lateHttp } from './late-requests.ts'
import { type Ask, asksOf } from './requests.ts'
import { grpcMethods } from './routes.ts'
import { LET_ALONE } from './sections.ts'

t.setTimeout(300_000)

/** What needs TLS, another process or a place elsewhere. */
const LEFT_OUT = ['mtls', 'cold_archive', 'kafka', 'mqtt', 'sparkplug_b', 'operator_api', 'agent_plane', 'cluster', 'tracing', 'connectors']
const root = keyText()
const asRoot = { authorization: `Bearer ${root}`, 'x-namespace': 'acme' }
const KEYS = '/api/v1/admin/auth/keys'

interface World {
  node: TestNode
  clock: TestClock
  grpc: TestClient
  flight: FlightClient
  policies: string
  issuer: TestIssuer
}

interface Loss {
  how: string
  /** An admin of the namespace, with the right that is lost. @returns its header. */
  credential(world: World): Promise<string>
  lose(world: World): Promise<unknown>
  /** What the node is set to, beside the rest. */
  auth?: Record<string, unknown>
}

const key =
  (given: Record<string, unknown> = {}) =>
  async ({ node }: World): Promise<string> => {
    const answer = await node.inject({ method: 'POST', url: KEYS, headers: asRoot, payload: { name: 'mallory', namespaces: ['acme'], admin: true, ...given } })
    if (answer.statusCode !== 201) throw new Error(answer.body)
    return `Bearer ${answer.json().key}`
  }
const KEYS_SECS = 60
const signing = makeKey('ES256')
const token = async (): Promise<string> => `Bearer ${await sign(signing, claimsOf({ namespaces: ['acme'], admin: true }))}`
const idOf = async ({ node }: World): Promise<string> => {
  const { items, keys } = (await node.inject({ url: KEYS, headers: asRoot })).json()
  return (items ?? keys).find(({ name }: { name: string }) => name === 'mallory').id
}
const put = async ({ node }: World, file: string, text: string): Promise<void> => {
  const folder = join(node.dataDir, 'auth/keys')
  await mkdir(folder, { recursive: true })
  await writeFile(join(folder, file), text)
  // The list has it taken up.
  await node.inject({ url: KEYS, headers: asRoot })
}
const removeNamespace = async ({ node }: World): Promise<void> => {
  const { statusCode, body } = await node.inject({ method: 'DELETE', url: '/api/v1/namespaces/acme', headers: asRoot })
  if (statusCode !== 200) throw new Error(body)
}

const PERMIT = 'permit (principal, action, resource);'
const LOSSES: readonly Loss[] = [
  { how: 'the key is revoked', credential: key(), lose: ({ node }) => node.inject({ method: 'DELETE', url: `${KEYS}/mallory`, headers: asRoot }) },
  { how: 'the key is revoked by a file', credential: key(), lose: async (world) => put(world, `${await idOf(world)}.revoked`, '') },
  {
    how: 'the key is put anew, disabled',
    auth: { persistent_api_keys: true },
    credential: key(),
    async lose(world) {
      const { record } = await newKey({ name: 'mallory', namespaces: ['acme'], roles: [], admin: true }, 'svc_', Date.now())
      const id = await idOf(world)
      await put(world, `${id}.json`, JSON.stringify({ version: 1, ...record, id, enabled: false }))
    },
  },
  { how: 'the key has expired', credential: key({ expires_at: Math.floor(Date.now() / 1000) + 3600 }), lose: async ({ clock }) => clock.forward(3600 + 62) },
  { how: 'its namespace is deleted', credential: key(), lose: removeNamespace },
  { how: 'one of its namespaces is deleted', credential: key({ namespaces: ['acme', 'other'] }), lose: removeNamespace },
  {
    how: 'the token has expired',
    credential: token,
    lose: async ({ clock }) => clock.forward(3600 + 62),
  },
  {
    how: 'the issuer withdraws the key of the token',
    credential: token,
    async lose({ clock, issuer }) {
      const { fetches } = issuer
      issuer.keys = [jwkOf(makeKey('ES256'))]
      clock.forward(KEYS_SECS + 1)
      // By what is open: nobody calls.
      await until('the keys are fetched', () => issuer.fetches > fetches)
      await sleep(300)
    },
  },
  {
    how: 'the policies forbid it',
    credential: key(),
    async lose({ policies, clock, node }) {
      await writeFile(join(policies, 'all.cedar'), `${PERMIT}\nforbid (principal == Svc::User::"mallory", action, resource);`)
      await until('the policies are read', async () => {
        const { statusCode } = await node.inject({ url: '/api/v1/measurements', headers: asMallory() })
        return statusCode === 403
      })
      // Policies are asked once a second.
      clock.forward(1.1)
    },
  },
]
let mallory = ''
const asMallory = () => ({ authorization: mallory, 'x-namespace': 'acme' })

async function begun(t: Test, { auth = {} }: Loss): Promise<World> {
  const policies = temporaryFolder(t)
  await writeFile(join(policies, 'all.cedar'), PERMIT)
  const clock = new TestClock()
  const issuer = await startIssuer(t, jwkOf(signing))
  const node = await boot({
    storage: 'embedded',
    clock,
    plugins: (await builtinPlugins()).filter((id) => !LEFT_OUT.includes(id)),
    config: {
      ...LET_ALONE,
      server: { multi_tenancy: true },
      auth: {
        api_keys: [{ name: 'root', key: root, admin: true, namespaces: ['*'] }],
        jwt: { jwks_url: issuer.jwksUrl, jwks_cache_ttl_secs: KEYS_SECS },
        chain_auth: true,
        ...auth,
      },
      authorization: { policy_dir: policies, hot_reload_interval_secs: 1 },
      grpc: { addr: '127.0.0.1:0' },
      flight_sql: { addr: '127.0.0.1:0' },
      otlp_grpc: { addr: '127.0.0.1:0' },
      triggers: {},
    },
  })
  const [grpc, flight] = [new TestClient(node.port('grpc')), new FlightClient(node.port('flight_sql'))]
  t.teardown(async () => {
    grpc.close()
    flight.close()
    await node.stop()
  })
  return { node, clock, grpc, flight, policies, issuer }
}

/** Requests of routes and methods that need credentials, each admitted and lacking its last byte. */
async function lateRequests({ node }: World): Promise<Map<string, LateRequest>> {
  const headers = asMallory()
  const late = new Map<string, LateRequest>()
  const { paths } = (await node.inject({ url: '/api/v1/openapi.json', headers: asRoot })).json()
  for (const ask of asksOf(paths, 'm')) {
    const name = `${ask.method} ${ask.url.split('?')[0]}`
    if (ask.method === 'GET' || late.has(name)) continue
    late.set(name, await lateHttp(node, headers, ask.url, ask.headers?.['content-type'] ?? 'application/json', textOf(ask), ask.method))
  }
  const message = Buffer.from([0x0a, 1, 0x61])
  const { grpc, flight } = grpcMethods()
  for (const path of grpc) if (path.startsWith('/svc.') && !STREAMS.test(path)) late.set(path, await lateGrpc(node, headers, path, message))
  for (const path of flight) if (!STREAMS.test(path)) late.set(path, await lateGrpc(node, headers, path, message, 'flight_sql'))
  const exports = '/opentelemetry.proto.collector.metrics.v1.MetricsService/Export'
  for (const listener of ['grpc', 'otlp_grpc']) late.set(`${listener} ${exports}`, await lateGrpc(node, headers, exports, message, listener))
  return late
}

/** Methods that take streams: see `openStreams`. A login has no credentials yet, and what is exchanged is nothing. */
const STREAMS = /\/(StreamWrite|DoPut|DoExchange|Handshake)$/

const textOf = ({ payload = {} }: Ask): string => (typeof payload === 'string' ? payload : JSON.stringify(payload))

interface Stream {
  name: string
  /** What it has read. */
  count?(): number
  /** Goes on, and resolves with how it ended. */
  goOn(): Promise<string>
}

const batch = (v: number) => [{ name: 'v', type: new Float64(), values: [v] }]
const UNAUTHENTICATED = 16
const PERMISSION_DENIED = 7
const refused = (code: number | undefined): string => (code === UNAUTHENTICATED || code === PERMISSION_DENIED ? 'refused' : `code ${code}`)

/** Each has begun, and those that write have written. */
async function openStreams({ node, grpc, flight }: World): Promise<Stream[]> {
  const headers = asMallory()
  const streams: Stream[] = []
  for (const [name, first] of [
    ['StreamWrite', true],
    ['StreamWrite without a message', false],
  ] as const) {
    const { stream, answer } = grpc.streamWrite({ metadata: headers })
    stream.on('error', () => {})
    if (first) stream.write({ points: [point('by_stream', nanos(), {}, { v: 1 })] })
    const goOn = async () => {
      stream.write({ points: [point('by_stream', nanos(), {}, { v: 2 })] })
      const timer = setInterval(() => stream.write({ points: [point('by_stream', nanos(), {}, { v: 2 })] }), 20)
      const ended = await Promise.race([
        answer.then(
          () => 'answered',
          ({ code }) => refused(code),
        ),
        sleep(WAIT_MS, 'open'),
      ])
      clearInterval(timer)
      return ended
    }
    streams.push({ name, goOn })
  }
  for (const [name, first] of [
    ['DoPut', 2],
    ['DoPut of a schema', 1],
    ['DoPut without a message', 0],
  ] as const) {
    const messages = flightStream(descriptor(command('CommandStatementUpdate', { 1: 'by_put' })), [batch(1), batch(2)])
    const { call, answer } = flight.openPut(headers)
    for (const message of messages.slice(0, first)) call.write(message)
    const goOn = async () => {
      for (const message of messages.slice(first)) call.write(message)
      return Promise.race([answer.then(({ error }) => refused(error?.code)), sleep(WAIT_MS, 'open')])
    }
    streams.push({ name, goOn })
  }
  const subscription = await grpc.subscribe({}, { metadata: headers }).begun()
  const events = await EventClient.open(`${node.url}/api/v1/cdc/stream`, headers)
  const annotations = await fetch(`${node.url}/api/v1/annotations/stream`, { headers })
  let annotated = ''
  const allAnnotated = (async () => {
    for await (const bytes of annotations.body as ReadableStream<Uint8Array>) annotated += Buffer.from(bytes)
  })()
  // Each has begun when it has told of a write.
  await write(node, headers, '_alerts value=1')
  await Promise.all([subscription.until((changes) => changes.length > 0), events.until(1), until('an annotation', () => annotated.includes('"_alerts"'))])
  const rows = () => subscription.messages.filter(({ kind }) => kind === 'ROWS_WRITTEN').length
  const points = () => events.events.filter(({ event }) => event !== 'end').length
  const texts = () => annotated.split('\ndata: {"text"').length
  const reading: [string, Promise<string>, () => number][] = [
    ['Subscribe', subscription.ended.then(({ code }) => refused(code)), rows],
    ['cdc', events.ended.then(() => (events.events.at(-1)?.data.reason === 'credential' ? 'refused' : 'ended')), points],
    ['annotations', allAnnotated.then(() => (annotated.includes('event: error\n') ? 'refused' : 'ended')), texts],
  ]
  for (const [name, over, count] of reading) streams.push({ name, count, goOn: () => Promise.race([over, sleep(WAIT_MS, 'open')]) })
  return streams
}

const nanos = (): bigint => BigInt(Date.now()) * 1_000_000n
const WAIT_MS = 5000

async function write(node: TestNode, headers: Record<string, string>, payload: string): Promise<void> {
  const { statusCode, body } = await node.inject({ method: 'POST', url: '/write', payload, headers: { 'content-type': 'text/plain', ...headers } })
  if (statusCode !== 204) throw new Error(body)
}

for (const loss of LOSSES)
  t.test(loss.how, async (t) => {
    const world = await begun(t, loss)
    const { node } = world
    mallory = await loss.credential(world)
    const streams = await openStreams(world)
    const late = await lateRequests(world)
    const count = async (name: string) => {
      const payload = { query: `SELECT count(*) FROM "${name}"` }
      const { statusCode, body } = await node.inject({ method: 'POST', url: '/api/v1/svc/sql', headers: asRoot, payload })
      return statusCode === 200 ? JSON.parse(body).rows[0][0] : 0
    }
    await until('what was written before', async () => (await count('by_stream')) === 1 && (await count('by_put')) === 1)
    // Those that read are told of all that.
    await sleep(300)
    const read = streams.map(({ count }) => count?.())
    await loss.lose(world)
    // Whoever has the name now.
    await write(node, asRoot, '_alerts,host=secret value=42')
    const written = await Promise.all(['by_stream', 'by_put', 'm'].map(count))
    for (const { name, goOn } of streams) t.equal(await goOn(), 'refused', name)
    t.same(
      streams.map(({ count }) => count?.()),
      read,
      'nothing more is read',
    )
    for (const [what, request] of late) t.match(await Promise.race([request.finish(), sleep(WAIT_MS, 'open')]), /^(401|403|16|7)$/, what)
    t.same(await Promise.all(['by_stream', 'by_put', 'm'].map(count)), written, 'nothing is written')
  })
