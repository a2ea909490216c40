/**
 * Two tenants on one node. A asks every route of every plugin, every method of gRPC and every command of Flight SQL, with many a trick, and looks for
 * anything of B in what it is answered: names, values, counts. What it guesses must be answered as what there is not. And B's data stays as it is.
 */
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { boot, builtinPlugins, type TestNode } from 'svcdb/testkit'
import t, { type Test } from 'tap'
import { command, descriptor, type FlightClient, field, infoOf, message, one } from '../../plugins/flight_sql/testing.ts'
import type { TestClient } from '../../plugins/grpc/testing.ts'
import { minimalConfig } from '../../scripts/minimal-config.ts'
import { lines } from '../../storage/conformance/points.ts'
import { clientsOf } from '../support/clients.ts'
import { type Ask, asksOf, otlp } from './requests.ts'
import { COMMON, leaks, MARK, METRIC, NAMESPACE, secretLines, VALUE, WIDE } from './secrets.ts'
import keys from './tenant-keys.ts'
import { SQL } from './tricks.ts'

t.setTimeout(300_000)

/** Certificates need TLS. */
const NOT_HERE = ['mtls']
const PLUGINS = builtinPlugins().filter((id) => !NOT_HERE.includes(id))
const A = 'acme'
const alice = { authorization: 'Bearer alice' }
const bob = { authorization: 'Bearer bob' }

const least = await minimalConfig(PLUGINS)
t.teardown(() => least.remove())
const config = {
  ...least.config,
  server: { multi_tenancy: true },
  rate_limit: { requests_per_second: 0, default_rps: 0, track_auth_failures: false },
  grpc: { addr: '127.0.0.1:0' },
  flight_sql: { addr: '127.0.0.1:0' },
  promql: { admin_api: 'on' },
  // Tricks do not count.
  namespaces: { default_max_ingestion_rate: 0 },
}

interface Listeners {
  node: TestNode
  grpc: TestClient
  flight: FlightClient
}

async function started(t: Test): Promise<Listeners> {
  const node = await boot({ plugins: [keys, ...PLUGINS], storage: 'embedded', config: config as never })
  const listeners = { node, ...clientsOf(t, node) }
  const own = `${COMMON},host=a value=1\n${COMMON},host=b value=2\nmem used=3,free=4`
  const [first, second] = secretLines()
  await write(node, bob, first)
  await write(node, alice, own)
  await node.storage.flush()
  await write(node, bob, second)
  await write(node, alice, own.split('\n').slice(0, 2).join('\n'))
  const query = `CREATE TRIGGER hidden ON ${COMMON} WHEN ${MARK}_field > 0 OR value > 0`
  const made = await node.inject({ method: 'POST', url: '/api/v1/triggers', payload: { query }, headers: bob })
  if (made.statusCode !== 200) throw new Error(made.body)
  const sent = await node.inject({ method: 'POST', url: '/v1/metrics', payload: otlp(`${MARK}_otel`, `${MARK} help`), headers: bob })
  if (sent.statusCode >= 300) throw new Error(`${sent.statusCode} ${sent.body}`)
  return listeners
}

async function write(node: TestNode, headers: Record<string, string>, payload: string): Promise<void> {
  const written = await node.inject({ method: 'POST', url: '/write', payload, headers: { 'content-type': 'text/plain', ...headers } })
  if (written.statusCode !== 204) throw new Error(written.body)
}

async function routes(node: TestNode): Promise<Record<string, Record<string, unknown>>> {
  return (await node.inject({ url: '/api/v1/openapi.json', headers: { authorization: 'Bearer root' } })).json().paths
}

async function ask(node: TestNode, { method, url, headers, payload }: Ask, more: Record<string, string>) {
  return node.inject({ method, url, headers: { ...headers, ...more }, ...(payload === undefined ? {} : { payload }) } as never)
}

const READING =
  /^(GET|POST) \/(api\/v1\/(prom\/)?(query|labels|label|series|metadata|status|measurements$|measurements\/[^/]+\/schema$|svc|format|parse)|query)/
const reads = ({ method, url }: Ask): boolean => READING.test(`${method} ${url.split('?')[0]}`)

/** Everything that B holds. */
async function heldByB({ storage }: TestNode): Promise<Record<string, string[]>> {
  const held: Record<string, string[]> = {}
  for (const { name } of await storage.measurements(NAMESPACE)) held[name] = (await lines(storage, { namespace: NAMESPACE, measurement: name })).sort()
  return { ...held, schema: [JSON.stringify(await storage.measurements(NAMESPACE))] }
}

t.test('B finds what the test looks for', async (t) => {
  const { node } = await started(t)
  for (const [url, what] of [
    ['/api/v1/measurements', 'a name'],
    ['/api/v1/label/__name__/values', 'a name'],
    ['/api/v1/metadata', 'a name'],
    [`/api/v1/query?query=${METRIC}`, 'a value'],
    ['/api/v1/status/tsdb?limit=1000', 'the count'],
  ])
    t.match(leaks((await node.inject({ url, headers: bob })).body).join('\n'), new RegExp(what), url)
  const double = Buffer.alloc(9)
  double.writeDoubleLE(VALUE, 1)
  t.same(leaks(double), ['a value, in binary'])
})

t.test('no route shows anything of another tenant', async (t) => {
  const { node } = await started(t)
  const before = await heldByB(node)
  const paths = await routes(node)
  const changed = new Set<string>()
  const cursor = node.storage.changes()
  t.teardown(cursor.close)
  const following = (async () => {
    for await (const change of cursor) changed.add(change.kind === 'gap' ? 'a gap' : change.namespace)
  })()
  // What is written changes counts: first what reads.
  const asks = asksOf(paths, COMMON).sort((a, b) => Number(reads(b)) - Number(reads(a)))
  let asked = 0
  const statuses = new Map<number, number>()
  for (const namespace of [undefined, A]) {
    for (const each of asks) {
      const answer = await ask(node, each, { ...alice, ...(namespace === undefined ? {} : { 'x-namespace': namespace }) })
      asked++
      statuses.set(answer.statusCode, (statuses.get(answer.statusCode) ?? 0) + 1)
      const found = [...leaks(answer.rawPayload), ...leaks(JSON.stringify({ ...answer.headers, 'content-length': '', date: '' }))]
      for (const path of [node.dataDir, process.cwd()]) if (answer.rawPayload.includes(path)) found.push(`where things lie on the machine: ${path}`)
      if (found.length > 0) t.fail(`${each.method} ${each.url} ${JSON.stringify(each.payload)?.slice(0, 200)}: ${found.join('; ')}`)
      if (answer.statusCode >= 500)
        t.fail(`${each.method} ${each.url} ${JSON.stringify(each.payload)?.slice(0, 200)}: ${answer.statusCode} ${answer.body.slice(0, 200)}`)
    }
  }
  t.ok(asked > 500, `${asked} requests: ${[...statuses].map(([status, count]) => `${count} of ${status}`).join(', ')}`)
  t.ok((statuses.get(200) ?? 0) > 100, 'some are answered')
  t.same(await heldByB(node), before, 'B has what it had')
  while (cursor.behind > 0) await setTimeout(5)
  cursor.close()
  await following
  t.same([...changed], [A], 'changes say whose they are')
})

t.test('naming the other namespace is refused on every route', async (t) => {
  const { node } = await started(t)
  const before = await heldByB(node)
  for (const each of asksOf(await routes(node), COMMON)) {
    const { statusCode, body } = await ask(node, each, { ...alice, 'x-namespace': NAMESPACE })
    const isPublic = /^\/(health|healthz|ready|readyz|ping|settings|-\/healthy|-\/ready)?$/.test(each.url)
    // In the catalog the namespace is the path's, and one that is another's is one that there is not.
    const expected = each.url.startsWith('/v1/namespaces/') ? 404 : 403
    if (!isPublic && statusCode !== expected) t.fail(`${each.method} ${each.url}: ${statusCode} ${body.slice(0, 100)}`)
    t.same(leaks(body.replaceAll(NAMESPACE, '')), [])
  }
  t.same(await heldByB(node), before)
})

t.test('what is guessed is answered as what there is not', async (t) => {
  const { node } = await started(t)
  const paths = await routes(node)
  const answers = async (name: string) => {
    const out: string[] = []
    for (const each of asksOf(paths, name)) {
      // Writing to a name makes it one's own.
      // Only what names it can tell.
      if (!reads(each) || !decodeURIComponent(JSON.stringify(each)).includes(name.slice(0, -1))) continue
      const { statusCode, body } = await ask(node, each, alice)
      const explains = JSON.stringify(each.payload ?? '').includes('EXPLAIN')
      // Clocks and durations differ, and what a plan measures.
      const told = body
        .replaceAll(name, 'NAME')
        .replaceAll(name.slice(0, -1), 'NAM')
        .replace(/"\w+Time":"?[\d.e:TZ-]+"?|\d{9,}(\.\d+)?/g, '')
      const asked = JSON.stringify(each)
        .replaceAll(name, 'NAME')
        .replaceAll(name.slice(0, -1), 'NAM')
        .replace(/\d{9,}/g, '')
      out.push(`${asked}: ${statusCode} ${explains ? '' : told}`)
    }
    return out
  }
  for (const real of [WIDE, METRIC, `${MARK}_otel`]) {
    const fake = `${real.slice(0, -2)}xx`
    const [there, not] = [await answers(real), await answers(fake)]
    t.equal(there.length, not.length)
    for (const [i, each] of there.entries()) if (each !== not[i]) t.equal(each, not[i])
  }
})

t.test("another's namespace is answered as one of nobody's", async (t) => {
  const { node } = await started(t)
  const nobodys = NAMESPACE.replace(MARK, 'zz7')
  const tell = async (method: Ask['method'] | 'HEAD', url: string, name: string, header?: string) => {
    const headers = { ...alice, ...(header === undefined ? {} : { 'x-namespace': header }) }
    const { statusCode, body, headers: got } = await node.inject({ method, url: url.replace('NAME', name), headers })
    return [statusCode, body.replaceAll(name, 'NAME').replaceAll(encodeURIComponent(name), 'NAME'), { ...got, date: '', 'x-request-id': '' }]
  }
  for (const [method, url] of [
    ['GET', '/v1/namespaces/NAME'],
    ['HEAD', '/v1/namespaces/NAME'],
    ['DELETE', '/v1/namespaces/NAME'],
    ['GET', '/v1/namespaces/NAME?token=alice'],
    ['GET', '/v1/namespaces/%7AX'],
    ['GET', '/v1/namespaces?parent=NAME'],
    ['GET', '/api/v1/namespaces/NAME'],
    ['GET', '/api/v1/namespaces/NAME/usage'],
    ['DELETE', '/api/v1/namespaces/NAME'],
    ['GET', '/api/v1/measurements'],
    ['GET', '/auth/context'],
    ['GET', '/v1/config'],
  ] as const) {
    for (const header of [false, true])
      t.same(
        await tell(method, url, NAMESPACE, header ? NAMESPACE : undefined),
        await tell(method, url, nobodys, header ? nobodys : undefined),
        `${method} ${url}`,
      )
  }
  // An admin of some namespaces is none of the others.
  const own = { authorization: 'Bearer own' }
  const usage = async (name: string) => {
    const { statusCode, body } = await node.inject({ url: `/api/v1/namespaces/${name}/usage`, headers: own })
    return [statusCode, body.replaceAll(name, 'NAME')]
  }
  t.equal((await usage(A))[0], 200)
  t.same(await usage(NAMESPACE), await usage(nobodys))
  for (const [method, url] of [
    ['GET', '/api/v1/namespaces'],
    ['GET', '/metrics'],
    ['GET', '/api/v1/admin/audit'],
    ['GET', `/api/v1/namespaces/${A}`],
  ] as const)
    t.equal((await node.inject({ method, url, headers: own })).statusCode, 403, url)
  t.match((await node.inject({ url: '/api/v1/admin/auth/keys', headers: own })).json(), { items: [], total: 0 })
  const made = { method: 'POST', url: '/api/v1/admin/auth/keys', headers: own } as const
  for (const namespaces of [[], [NAMESPACE], [A, NAMESPACE], [nobodys]])
    t.ok((await node.inject({ ...made, payload: { name: 'more', namespaces, admin: true } })).statusCode >= 400, `a key for ${namespaces}`)
  t.equal((await node.inject({ method: 'DELETE', url: '/api/v1/admin/auth/keys/least', headers: own })).statusCode, 404)
})

t.test('what A removes is its own', async (t) => {
  const { node } = await started(t)
  await node.inject({ method: 'POST', url: '/v1/metrics', payload: otlp('mem', 'of the first'), headers: alice })
  t.match((await node.inject({ url: '/api/v1/metadata', headers: alice })).body, /of the first/)
  const before = await heldByB(node)
  for (const name of [COMMON, WIDE, METRIC]) {
    for (const each of [
      { method: 'POST', url: '/api/v1/delete', payload: { measurement: name } },
      { method: 'POST', url: '/api/v1/delete_batch', payload: { deletes: [{ measurement: name }] } },
      { method: 'DELETE', url: `/api/v1/measurements/${name}` },
      { method: 'DELETE', url: `/api/v1/measurements/${name}` },
      { method: 'POST', url: `/api/v1/measurements/${name}/restore` },
    ] as Ask[]) {
      const { statusCode, body } = await ask(node, each, alice)
      if (name !== COMMON) t.match([statusCode, body], [/delete_batch/.test(each.url) ? 200 : 404, /./], `${each.method} ${each.url}`)
    }
  }
  t.same(
    (await node.storage.measurements(A)).map(({ name }) => name),
    ['mem'],
  )
  t.same(await heldByB(node), before)
  await node.storage.flush()
  t.same(await heldByB(node), before)
  const gone = await node.inject({ method: 'DELETE', url: `/api/v1/namespaces/${A}`, headers: { authorization: 'Bearer root' } })
  t.equal(gone.statusCode, 200, gone.body)
  t.same((await node.inject({ url: '/api/v1/metadata', headers: alice })).json().data, {}, 'a new namespace of the name knows nothing of the old one')
  t.same(await heldByB(node), before)
})

t.test('files of exports do not meet', async (t) => {
  const { node } = await started(t)
  const paths: string[] = []
  for (const headers of [bob, alice]) {
    const { statusCode, body } = await node.inject({
      method: 'POST',
      url: '/api/v1/export/parquet',
      payload: { measurement: COMMON, output_path: 'shared' },
      headers,
    })
    t.equal(statusCode, 200, 'a name that another tenant has used is free')
    paths.push(JSON.parse(body).path)
    if (headers === alice) t.same(leaks(body), [])
  }
  t.same(paths, ['shared.parquet', 'shared.parquet'], 'where they lie on the machine is for its admins')
  t.same(readdirSync(join(node.dataDir, 'exports'), { recursive: true }).sort(), [A, join(A, 'shared.parquet'), NAMESPACE, join(NAMESPACE, 'shared.parquet')])
})

t.test('gRPC', async (t) => {
  const { node, grpc } = await started(t)
  const before = await heldByB(node)
  const options = { metadata: alice }
  const seen = async (what: string, call: () => Promise<unknown>): Promise<string> => {
    const answer = await call().then(
      (value) => JSON.stringify(value),
      (error) => `${error.code} ${error.details} ${JSON.stringify(error.metadata?.getMap())}`,
    )
    t.same(leaks(answer), [], what)
    return answer
  }
  const point = (measurement: string) => ({ measurement, tags: [{ key: 'host', value: 'a' }], fields: [{ key: 'value', value: { float64: 1 } }] })
  const query = (measurement: string) => ({ measurement })
  const methods: [method: string, request: (name: string) => object][] = [
    ['GetSchema', (measurement) => ({ measurement })],
    ['ListMeasurements', () => ({})],
    ['ServerInfo', () => ({})],
    ['Write', (name) => ({ points: [point(name)] })],
    ['Delete', (measurement) => ({ measurement })],
    ['DropMeasurement', (measurement) => ({ measurement })],
    ['Health/Check', () => ({ service: '' })],
  ]
  t.match(await seen('ServerInfo', () => grpc.call('ServerInfo', {}, options)), /2/)
  for (const sql of SQL) await seen(sql, () => grpc.call('ExecuteSql', { query: sql }, options))
  for (const name of [COMMON, 'nothing']) {
    await seen(`Query ${name}`, () => grpc.query(query(name), options))
    await seen(`StreamWrite ${name}`, () => {
      const { stream, answer } = grpc.streamWrite(options)
      stream.write({ points: [point(name)], dedup_key: 'same' })
      stream.end()
      return answer
    })
    for (const [method, request] of methods) await seen(`${method} ${name}`, () => grpc.call(method, request(name), options))
  }
  const guessed = async (name: string) => [
    await grpc.query(query(name), options).catch((error) => error.details.replaceAll(name, 'NAME')),
    ...(await Promise.all(
      (['GetSchema', 'Delete', 'DropMeasurement'] as const).map((method) =>
        grpc.call(method, { measurement: name }, options).catch((error) => error.details.replaceAll(name, 'NAME')),
      ),
    )),
  ]
  t.same(await guessed(WIDE), await guessed(`${MARK}_wixx`))
  const other = { metadata: { ...alice, 'x-namespace': NAMESPACE } }
  for (const [method, request] of methods) if (!method.startsWith('Health')) await t.rejects(grpc.call(method, request(COMMON), other), { code: 7 }, method)
  await t.rejects(grpc.query(query(COMMON), other), { code: 7 })
  t.same(await heldByB(node), before)
})

t.test('a key of one tenant does not keep the other from writing', async (t) => {
  const { node, grpc } = await started(t)
  const payload = 'idem value=1'
  for (const headers of [bob, alice]) {
    const written = await node.inject({
      method: 'POST',
      url: '/write',
      payload,
      headers: { 'content-type': 'text/plain', 'idempotency-key': 'same', ...headers },
    })
    t.equal(written.statusCode, 204)
    const { stream, answer } = grpc.streamWrite({ metadata: headers })
    stream.write({ points: [{ measurement: 'streamed', fields: [{ key: 'value', value: { float64: 1 } }] }], dedup_key: 'same' })
    stream.end()
    t.match(await answer, { total_written: '1' })
  }
})

t.test('Flight SQL', async (t) => {
  const { node, flight } = await started(t)
  const before = await heldByB(node)
  const seen = async (what: string, method: string, request: Uint8Array, metadata: Record<string, string> = alice) => {
    const answer = await flight.call(method, request, metadata)
    const told = Buffer.concat(answer.messages)
    t.same([...leaks(told), ...leaks(`${answer.error?.details} ${JSON.stringify(answer.header.getMap())}`)], [], what)
    return answer
  }
  const commands: [string, Record<number, string | boolean>][] = [
    ['CommandGetCatalogs', {}],
    ['CommandGetDbSchemas', {}],
    ['CommandGetDbSchemas', { 1: '', 2: '%' }],
    ['CommandGetTables', { 5: true }],
    ['CommandGetTables', { 3: '%', 5: true }],
    ['CommandGetTables', { 3: '_%' }],
    ['CommandGetTables', { 2: '%', 3: '%' }],
    ['CommandGetTables', { 1: '' }],
    ['CommandGetTableTypes', {}],
    ['CommandGetSqlInfo', {}],
    ['CommandGetXdbcTypeInfo', {}],
    ['CommandGetPrimaryKeys', { 3: COMMON }],
    ['CommandGetExportedKeys', { 3: COMMON }],
    ['CommandGetImportedKeys', { 3: COMMON }],
    ['CommandGetCrossReference', { 3: COMMON, 6: COMMON }],
    ...SQL.map((query): [string, Record<number, string>] => ['CommandStatementQuery', { 1: query }]),
  ]
  let rows = 0
  for (const [name, fields] of commands) {
    const body = command(name, fields)
    const what = `${name} ${JSON.stringify(fields)}`
    await seen(what, 'GetSchema', descriptor(body))
    await seen(what, 'DoGet', message({ 1: body }))
    const info = await seen(what, 'GetFlightInfo', descriptor(body))
    if (info.error !== undefined) continue
    const ticket = infoOf(one(info)).tickets[0]
    rows += (await seen(what, 'DoGet', message({ 1: ticket }))).messages.length
  }
  t.ok(rows > 50, `${rows} messages`)
  for (const expression of ['', '%', '_%', 'c%']) await seen(`ListFlights ${expression}`, 'ListFlights', message({ 1: expression }))
  await seen('ListActions', 'ListActions', new Uint8Array(0))
  await seen('GetSessionOptions', 'DoAction', message({ 1: 'GetSessionOptions', 2: new Uint8Array(0) }))
  for (const name of [COMMON, 'nothing']) await seen(`path ${name}`, 'GetFlightInfo', descriptor(name))

  // What B was given opens nothing for A: both have one name, and the namespaces tell them apart.
  const prepare = command('ActionCreatePreparedStatementRequest', { 1: `SELECT * FROM ${WIDE}` })
  const [prepared] = await flight.action('CreatePreparedStatement', prepare, bob)
  const handle = field(field(prepared, 2) as Uint8Array, 1) as Uint8Array
  const info = infoOf(one(await flight.call('GetFlightInfo', descriptor(command('CommandPreparedStatementQuery', { 1: handle })), bob)))
  const foreign = await flight.call('DoGet', message({ 1: info.tickets[0] }), alice)
  t.match(foreign.error?.details, /cannot find prepared statement/)
  t.match(
    (await flight.call('GetFlightInfo', descriptor(command('CommandPreparedStatementQuery', { 1: handle })), alice)).error?.details,
    /cannot find prepared statement/,
  )
  const plain = infoOf(one(await flight.call('GetFlightInfo', descriptor(command('CommandStatementQuery', { 1: `SELECT * FROM ${COMMON}` })), bob)))
  await seen("B's ticket", 'DoGet', message({ 1: plain.tickets[0] }))
  await flight.action('ClosePreparedStatement', command('ActionClosePreparedStatementRequest', { 1: handle }), alice)
  t.equal((await flight.call('DoGet', message({ 1: info.tickets[0] }), bob)).error, undefined, 'A cannot close what B has prepared')

  for (const method of ['GetFlightInfo', 'GetSchema'])
    t.equal((await flight.call(method, descriptor(command('CommandGetTables')), { ...alice, 'x-namespace': NAMESPACE })).error?.code, 7, method)
  for (const method of ['DoGet', 'ListFlights', 'DoAction', 'ListActions']) {
    const { error } = await flight.call(method, message({ 1: command('CommandGetTables') }), { ...alice, 'x-namespace': NAMESPACE })
    t.equal(error?.code, 7, method)
  }
  t.same(await heldByB(node), before)
})
