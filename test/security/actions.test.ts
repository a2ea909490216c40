/** What each route and method is to authorizers, and that a caller whose policies permit one action has no way to the others. On all listeners. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { definePlugin } from 'svcdb'
import { boot, builtinPlugins } from 'svcdb/testkit'
import t from 'tap'
import { command, descriptor, field, message } from '../../plugins/flight_sql/testing.ts'
import { clientsOf } from '../support/clients.ts'
import { httpRoutes, urlOf } from './routes.ts'
import { LET_ALONE } from './sections.ts'

/** Certificates need TLS, the archive a place of its own. */
const LEFT_OUT = ['mtls', 'cold_archive']
const PERMISSION_DENIED = 7

/** All that is not `GET` and `read`: a new route has to be put here by somebody who has thought about it. Those of the catalog only answer 405. */
const ACTIONS: Record<string, string> = {
  'POST /query': 'write',
  'POST /write': 'write',
  'POST /api/v2/write': 'write',
  'POST /api/v3/write_lp': 'write',
  'POST /api/v1/write/influx': 'write',
  'POST /api/v1/write': 'write',
  'POST /api/v1/prom/write': 'write',
  'POST /v1/metrics': 'write',
  'POST /api/v1/otlp/metrics': 'write',
  'POST /api/v1/measurements/:name/schema/fields': 'write',
  'POST /api/v1/measurements/:name/restore': 'write',
  'POST /api/v1/rollups': 'write',
  'POST /api/v1/analytics/derived': 'write',
  'DELETE /api/v1/analytics/derived/:name': 'delete',
  'POST /api/v1/rollups/:name/refresh': 'write',
  'DELETE /api/v1/rollups/:name': 'delete',
  'POST /api/v1/delete': 'delete',
  'POST /api/v1/delete_batch': 'delete',
  'DELETE /api/v1/measurements/:name': 'delete',
  'POST /api/v2/delete': 'delete',
  'POST /api/v1/admin/tsdb/delete_series': 'delete',
  'PUT /api/v1/admin/tsdb/delete_series': 'delete',
  'POST /api/v1/prom/admin/tsdb/delete_series': 'delete',
  'PUT /api/v1/prom/admin/tsdb/delete_series': 'delete',
  'POST /api/v1/svc/sql': 'read',
  'POST /api/v1/svc/query': 'read',
  'POST /api/v1/svc/query/explain': 'read',
  // What it answers is where the file lies: nothing is changed but the folder of exports.
  'POST /api/v1/export/parquet': 'read',
  'POST /api/v1/analytics/anomalies': 'read',
  'POST /api/v1/prom/read': 'read',
  'POST /api/v1/read': 'read',
  ...Object.fromEntries(
    ['/api/v1', '/api/v1/prom'].flatMap((prefix) =>
      ['query', 'query_range', 'query_exemplars', 'format_query', 'parse_query', 'labels', 'label/:name/values', 'series'].map((path) => [
        `POST ${prefix}/${path}`,
        'read',
      ]),
    ),
  ),
}
const ADMINS = /^\w+ \/api\/v1\/((prom\/)?admin\/(?!tsdb\/delete_series)|namespaces)/
const CATALOG = /^\w+ \/(v1\/(config|namespaces)|auth\/context)/
const EXEMPT = /^\w+ \/(health|healthz|ready|readyz|ping|settings|-\/healthy|-\/ready)?$/

const names = ['reader', 'writer', 'remover', 'operator'] as const
const keyOf = (name: string) => `svc_${name.padEnd(43, 'k')}`
const bearer = (name: string) => ({ authorization: `Bearer ${keyOf(name)}` })
const POLICIES = `
permit (principal in Svc::Role::"reader", action == Svc::Action::"Read", resource == Svc::Namespace::"default");
permit (principal in Svc::Role::"writer", action == Svc::Action::"Write", resource == Svc::Namespace::"default");
permit (principal in Svc::Role::"remover", action == Svc::Action::"Delete", resource == Svc::Namespace::"default");
permit (principal in Svc::Role::"operator", action in Svc::Action::"Admin", resource);
`

const folder = await mkdtemp(join(tmpdir(), 'svc-actions-'))
t.teardown(() => rm(folder, { recursive: true, force: true }))
await writeFile(join(folder, 'all.cedar'), POLICIES)
const asked: string[] = []
const watch = definePlugin({
  id: 'watch',
  summary: 'Notes what is asked',
  stability: 'experimental',
  setup(svc) {
    svc.auth.observer(({ action, resource }) => void asked.push(`${action} ${resource}`))
  },
})
const node = await boot({
  plugins: [...builtinPlugins().filter((id) => !LEFT_OUT.includes(id)), watch],
  storage: 'embedded',
  config: {
    // All may administer, as far as their credentials go: the policies alone decide.
    auth: {
      api_keys: names.map((name) => ({ name, key: keyOf(name), roles: [name], admin: true })),
      jwt: { secret: 'a secret of more than thirty-two bytes' },
    },
    authorization: { policy_dir: folder },
    agent_plane: {},
    ...LET_ALONE,
    promql: { admin_api: 'on' },
    grpc: { addr: '127.0.0.1:0' },
    flight_sql: { addr: '127.0.0.1:0' },
    otlp_grpc: { addr: '127.0.0.1:0' },
  },
})
const { grpc, flight } = clientsOf(t, node)

const ask = (method: string, path: string, headers: Record<string, string>) => node.inject({ method: method as 'GET', url: urlOf(path, 'x'), headers })

t.test('HTTP: the action of each route, and who gets in', async (t) => {
  const routes = httpRoutes(node.app)
  for (const known of Object.keys(ACTIONS))
    t.ok(
      routes.some(({ method, path }) => `${method} ${path}` === known),
      known,
    )
  for (const { method, path } of routes) {
    const route = `${method} ${path}`
    if (EXEMPT.test(route)) continue
    const expected = ADMINS.test(route) ? 'admin' : CATALOG.test(route) || /^(GET|HEAD) /.test(route) ? 'read' : ACTIONS[route]
    const before = asked.length
    // The metrics are about the server, whatever it takes to see them.
    const permitted = path === '/metrics' || expected === 'admin' ? 'operator' : { read: 'reader', write: 'writer', delete: 'remover' }[expected]
    for (const name of names) {
      const { statusCode, body } = await ask(method, path, bearer(name))
      const refused = statusCode === 403 || (statusCode === 404 && CATALOG.test(route))
      if (name !== permitted) t.ok(refused, `${route} as ${name}: ${statusCode} ${body.slice(0, 100)}`)
      else t.not(statusCode, 403, `${route} as ${name}`)
    }
    t.equal(asked[before], `${expected} ${path}`, route)
  }
})

t.test('HTTP: a namespace that no policy names', async (t) => {
  for (const [method, path, name] of [
    ['GET', '/api/v1/measurements', 'reader'],
    ['POST', '/api/v1/query', 'reader'],
    ['POST', '/write', 'writer'],
    ['DELETE', '/api/v1/measurements/cpu', 'remover'],
  ] as const) {
    t.not((await ask(method, path, bearer(name))).statusCode, 403)
    for (const namespace of ['other', 'default-b']) t.equal((await ask(method, path, { ...bearer(name), 'x-namespace': namespace })).statusCode, 403, path)
  }
  t.equal((await ask('GET', '/v1/namespaces/default', bearer('reader'))).statusCode, 200)
  t.equal((await ask('GET', '/v1/namespaces/other', bearer('reader'))).statusCode, 404)
})

const point = { measurement: 'cpu', tags: [{ key: 'host', value: 'a' }], fields: [{ key: 'value', value: { float64: 1 } }] }
const codeOf = (call: Promise<unknown>): Promise<number> => call.then(() => 0).catch(({ code }) => code as number)

t.test('gRPC: each method', async (t) => {
  const streamWrite = (metadata: Record<string, string>) => {
    const { stream, answer } = grpc.streamWrite({ metadata })
    stream.on('error', () => {}) // told by the answer
    stream.write({ points: [point] })
    stream.end()
    return answer
  }
  const methods: [string, string, (metadata: Record<string, string>) => Promise<unknown>][] = [
    ['Write', 'writer', (metadata) => grpc.call('Write', { points: [point] }, { metadata })],
    ['StreamWrite', 'writer', streamWrite],
    ['Query', 'reader', (metadata) => grpc.query({ measurement: 'cpu' }, { metadata })],
    ['ExecuteSql', 'reader', (metadata) => grpc.call('ExecuteSql', { query: 'SELECT * FROM cpu' }, { metadata })],
    ['GetSchema', 'reader', (metadata) => grpc.call('GetSchema', { measurement: 'cpu' }, { metadata })],
    ['ListMeasurements', 'reader', (metadata) => grpc.call('ListMeasurements', {}, { metadata })],
    ['ServerInfo', 'reader', (metadata) => grpc.call('ServerInfo', {}, { metadata })],
    ['Delete', 'remover', (metadata) => grpc.call('Delete', { measurement: 'cpu', end: '1' }, { metadata })],
    ['DropMeasurement', 'remover', (metadata) => grpc.call('DropMeasurement', { measurement: 'cpu' }, { metadata })],
  ]
  for (const [method, permitted, call] of methods)
    for (const name of [...names.filter((each) => each !== permitted), permitted])
      t.equal(await codeOf(call(bearer(name))), name === permitted ? 0 : PERMISSION_DENIED, `${method} as ${name}`)
})

t.test('Flight SQL: each method', async (t) => {
  const written = await node.inject({
    method: 'POST',
    url: '/write',
    payload: 'cpu,host=a value=1',
    headers: { ...bearer('writer'), 'content-type': 'text/plain' },
  })
  t.equal(written.statusCode, 204)
  const query = command('CommandStatementQuery', { 1: 'SELECT * FROM cpu' })
  const prepare = message({ 1: 'CreatePreparedStatement', 2: command('ActionCreatePreparedStatementRequest', { 1: 'SELECT * FROM cpu' }) })
  const reading: [string, Uint8Array][] = [
    ['GetFlightInfo', descriptor(query)],
    ['PollFlightInfo', descriptor(query)],
    ['GetSchema', descriptor(query)],
    ['DoGet', message({ 1: query })],
    ['DoGet', message({ 1: command('CommandGetTables') })],
    ['ListFlights', message({ 1: '' })],
    ['ListActions', new Uint8Array(0)],
    ['DoAction', prepare],
    ['DoAction', message({ 1: 'GetSessionOptions', 2: new Uint8Array(0) })],
  ]
  for (const [method, request] of reading)
    for (const name of names)
      t.equal((await flight.call(method, request, bearer(name))).error?.code, name === 'reader' ? undefined : PERMISSION_DENIED, `${method} as ${name}`)

  const [prepared] = await flight.action(
    'CreatePreparedStatement',
    command('ActionCreatePreparedStatementRequest', { 1: 'SELECT * FROM cpu' }),
    bearer('reader'),
  )
  const handle = field(field(prepared, 2) as Uint8Array, 1) as Uint8Array
  const put = (of: Uint8Array, name: string) => flight.put('DoPut', [message({ 1: descriptor(of) })], bearer(name))
  const bind = command('CommandPreparedStatementQuery', { 1: handle })
  const update = command('CommandStatementUpdate', { 1: 'cpu' })
  for (const name of names) {
    const [values, points] = [(await put(bind, name)).error, (await put(update, name)).error]
    t.equal(values?.code === PERMISSION_DENIED, name !== 'reader', `values as ${name}: ${values?.details}`)
    t.equal(points?.code === PERMISSION_DENIED, name !== 'writer', `points as ${name}: ${points?.details}`)
  }
})

t.test('writing tells nothing of what there is but its own faults', async (t) => {
  const secret = 'secret_host'
  const line = (payload: string, headers = bearer('writer')) =>
    node.inject({ method: 'POST', url: '/write', payload, headers: { ...headers, 'content-type': 'text/plain' } })
  t.equal((await line(`hidden,host=${secret} value=1,other_field="x"`)).statusCode, 204)
  const answers = [
    await line('hidden value="text"'),
    await line('hidden value="text"\nhidden value=1'),
    await line('hidden value=1'),
    await node.inject({ method: 'POST', url: '/api/v1/write', payload: [{ measurement: 'hidden', fields: { value: 'x' } }], headers: bearer('writer') }),
    await node.inject({ method: 'POST', url: '/query?q=SHOW+MEASUREMENTS', headers: bearer('writer') }),
    await node.inject({ method: 'POST', url: '/query?q=SHOW+DATABASES', headers: bearer('writer') }),
    await node.inject({ method: 'POST', url: '/api/v1/measurements/hidden/restore', headers: bearer('writer') }),
    await node.inject({
      method: 'POST',
      url: '/api/v1/measurements/hidden/schema/fields',
      payload: { name: 'value', type: 'bool' },
      headers: bearer('writer'),
    }),
  ]
  for (const { statusCode, body, headers } of answers)
    t.notMatch(`${body} ${JSON.stringify(headers)}`, new RegExp(`${secret}|other_field`), `${statusCode} ${body.slice(0, 80)}`)
  t.equal(answers[0].statusCode >= 400, true)
})
