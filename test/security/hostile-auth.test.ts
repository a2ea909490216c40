/** Attempts to get in, to reach further, to stay in, and to lock others out, against one node with all that decides who may do what. */
import { createHmac, randomBytes } from 'node:crypto'
import { mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Client, credentials, Metadata } from '@grpc/grpc-js'
import { Float64, TimestampNanosecond } from 'apache-arrow'
import { boot, builtinPlugins } from 'svcdb/testkit'
import t from 'tap'
import { collect, command, descriptor, field, infoOf, message, one, SERVICE } from '../../plugins/flight_sql/testing.ts'
import { flightStream } from '../../plugins/flight_sql/testing-stream.ts'
import { point } from '../../plugins/grpc/testing.ts'
import { clientsOf } from '../support/clients.ts'
import { until } from '../support/until.ts'
import { LET_ALONE } from './sections.ts'

const UNAUTHENTICATED = 16
const KEYS = '/api/v1/admin/auth/keys'
const key = () => `svc_${randomBytes(32).toString('base64url')}`
const [ROOT, RED_ADMIN, RED, BLUE] = [key(), key(), key(), key()]
const SECRET = `the secret of tokens, of more than 32 bytes: ${randomBytes(8).toString('hex')}`

const folder = await mkdtemp(join(tmpdir(), 'svc-hostile-'))
t.teardown(() => rm(folder, { recursive: true, force: true }))
await writeFile(join(folder, 'all.cedar'), 'permit (principal, action, resource);')
const lines: string[] = []
const node = await boot({
  plugins: builtinPlugins().filter((id) => !['mtls', 'cold_archive'].includes(id)),
  storage: 'embedded',
  log: (line) => lines.push(line),
  config: {
    server: { multi_tenancy: true },
    auth: {
      api_keys: [
        { name: 'root', key: ROOT, admin: true, namespaces: ['*'] },
        { name: 'red-admin', key: RED_ADMIN, admin: true, namespaces: ['red'], roles: ['operator'] },
        { name: 'red', key: RED, namespaces: ['red'] },
        { name: 'blue', key: BLUE, namespaces: ['blue'] },
      ],
      api_key: { max_failures: 0 },
      jwt: { secret: SECRET },
    },
    authorization: { policy_dir: folder },
    ...LET_ALONE,
    grpc: { addr: '127.0.0.1:0' },
    flight_sql: { addr: '127.0.0.1:0' },
    otlp_grpc: { addr: '127.0.0.1:0' },
  },
})
const { grpc, flight } = clientsOf(t, node)

const bearer = (token: string) => ({ authorization: `Bearer ${token}` })
type Method = 'GET' | 'POST' | 'PUT' | 'DELETE'
const ask = (token: string, url: string, method: Method = 'GET', payload?: object, more: Record<string, string> = {}) =>
  node.inject({ method, url, headers: { ...bearer(token), ...more }, ...(payload === undefined ? {} : { payload }) })
const write = (token: string, payload: string) =>
  node.inject({ method: 'POST', url: '/write', headers: { ...bearer(token), 'content-type': 'text/plain' }, payload })
const nowNanos = () => BigInt(Date.now()) * 1_000_000n

/** Makes a key over HTTP. */
async function made(name: string, more: object = { namespaces: ['red'] }): Promise<string> {
  const answer = await ask(ROOT, KEYS, 'POST', { name, ...more })
  if (answer.statusCode !== 201) throw new Error(answer.body)
  return answer.json().key
}
const revoke = async (name: string) => t.equal((await ask(ROOT, `${KEYS}/${name}`, 'DELETE')).statusCode, 204, `${name} is revoked`)

/** What a connection answers to bytes as they are; the last request closes it. */
function raw(bytes: string): Promise<{ statuses: number[]; text: string }> {
  return new Promise((resolve) => {
    const socket = connect(Number(new URL(node.url).port), '127.0.0.1')
    let text = ''
    socket.on('data', (data) => {
      text += data.toString('latin1')
    })
    socket.on('error', () => {})
    socket.on('close', () => resolve({ statuses: [...text.matchAll(/HTTP\/1\.1 (\d+)/g)].map(([, status]) => Number(status)), text }))
    // A request that cannot be told from an unfinished one has no answer.
    socket.setTimeout(1000, () => socket.destroy())
    socket.write(bytes, 'latin1')
  })
}
const request = (headers: string, path = '/api/v1/measurements', version = '1.1') =>
  `GET ${path} HTTP/${version}\r\nHost: x\r\n${headers}Connection: close\r\n\r\n`

t.before(async () => {
  for (const [token, line] of [
    [RED, 'mine v=1'],
    [BLUE, 'theirs v=1'],
  ])
    if ((await write(token, line)).statusCode !== 204) throw new Error('cannot write')
})

t.test('headers that are almost right', async (t) => {
  const base64 = (text: string | Buffer) => Buffer.from(text).toString('base64')
  const cases: [string, string, number][] = [
    ['two, the right one first', `Authorization: Bearer ${RED}\r\nAuthorization: Bearer x\r\n`, 400],
    ['the wrong one first', `Authorization: Bearer x\r\nAuthorization: Bearer ${RED}\r\n`, 400],
    ['blanks', `Authorization: bEaReR      ${RED}    \r\n`, 200],
    ['a tab', `Authorization: Bearer\t${RED}\r\n`, 401],
    ['folded', `Authorization: Bearer\r\n ${RED}\r\n`, 400],
    ['a bare line feed', `Authorization: Bearer ${RED}\nX: y\r\n`, 400],
    ['a blank before the colon', `Authorization : Bearer ${RED}\r\n`, 400],
    ['NUL', `Authorization: Bearer ${RED}\0\r\n`, 400],
    ['a byte behind it', `Authorization: Bearer ${RED}\xa0\r\n`, 401],
    ['a list', `Authorization: Bearer ${RED}, Bearer ${RED}\r\n`, 401],
    ['no scheme', `Authorization: ${RED}\r\n`, 401],
    ['another scheme', `Authorization: Digest ${RED}\r\n`, 401],
    ['blanks only', `Authorization: Bearer${' '.repeat(15_000)}\r\n`, 401],
    ['long', `Authorization: Bearer ${'a'.repeat(15_000)}\r\n`, 401],
    ['long, with dots', `Authorization: Bearer a.${'a'.repeat(15_000)}.a\r\n`, 401],
    ['too long', `Authorization: Bearer ${'a'.repeat(20_000)}\r\n`, 431],
    ['Basic without a colon', `Authorization: Basic ${base64(RED)}\r\n`, 401],
    ['the key as the user', `Authorization: Basic ${base64(`${RED}:`)}\r\n`, 401],
    ['two colons', `Authorization: Basic ${base64(`a:b:${RED}`)}\r\n`, 401],
    ['Basic that is no UTF-8', `Authorization: Basic ${base64(Buffer.from([0x61, 0x3a, 0xff]))}\r\n`, 401],
    ['other headers', `X-API-Key: ${RED}\r\nProxy-Authorization: Bearer ${RED}\r\nCookie: token=${RED}\r\n`, 401],
    ['a certificate told by a header', 'X-Forwarded-Client-Cert: Subject="CN=root"\r\nX-SSL-Client-S-DN: CN=root\r\n', 401],
    ['two namespaces', `Authorization: Bearer ${RED}\r\nX-Namespace: red\r\nX-Namespace: blue\r\n`, 400],
  ]
  for (const [name, headers, status] of cases) t.same((await raw(request(headers))).statuses, [status], name)
  t.same((await raw(request('', '/api/v1/measurements', '1.0'))).statuses, [401], 'HTTP/1.0')
  t.same((await raw(request('', `/api/v1/measurements?token=${RED}&u=x&p=${RED}`))).statuses, [401], 'in the URL')
  t.same((await raw(request('', 'http://x/api/v1/measurements'))).statuses, [401], 'a whole URL as the path')
  t.same((await raw(request('Upgrade: websocket\r\n'))).statuses, [401], 'an upgrade')
})

t.test('credentials do not stick to a connection', async (t) => {
  const get = (headers: string) => `GET /api/v1/measurements HTTP/1.1\r\nHost: x\r\n${headers}\r\n`
  const right = `Authorization: Bearer ${RED}\r\n`
  t.same((await raw(get(right) + get('') + get(right) + get('Authorization: Bearer x\r\n') + request(''))).statuses, [200, 401, 200, 401, 401], 'HTTP')
  const inner = request(right)
  const outer = `POST /write HTTP/1.1\r\nHost: x\r\nContent-Length: ${inner.length}\r\n\r\n${inner}`
  t.same((await raw(outer + request(''))).statuses, [401, 401], 'a body that looks like a request is a body')
  const codes = await Promise.all(
    Array.from({ length: 60 }, (_, i) =>
      grpc.call('ListMeasurements', {}, { metadata: [bearer(RED), {}, bearer(BLUE), bearer('a.b.c')][i % 4] as Record<string, string> }).then(
        ({ measurements }) => JSON.stringify(measurements),
        ({ code }) => code,
      ),
    ),
  )
  for (const [i, found] of codes.entries()) {
    if (i % 2 === 1) t.equal(found, UNAUTHENTICATED)
    else t.ok(found.includes(i % 4 === 0 ? 'mine' : 'theirs') && !found.includes(i % 4 === 0 ? 'theirs' : 'mine'), found)
  }
})

t.test('shapes of request smuggling end the connection', async (t) => {
  const post = (headers: string, body: string) => `POST /write HTTP/1.1\r\nHost: x\r\n${headers}\r\n${body}${request('', '/health')}`
  for (const [headers, body] of [
    ['Content-Length: 6\r\nTransfer-Encoding: chunked\r\n', '0\r\n\r\nG'],
    ['Content-Length: 6\r\nContent-Length: 5\r\n', '0\r\n\r\nG'],
    ['Content-Length: +6\r\n', 'abcdef'],
    ['Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n', '0\r\n\r\n'],
    ['Transfer-Encoding: xchunked\r\n', ''],
    ['Transfer-Encoding: chunked\r\n', '0\nx\r\n\r\n'],
  ])
    t.notOk((await raw(post(headers, body))).statuses.includes(200), headers)
})

t.test('an admin of some namespaces does not reach beyond them', async (t) => {
  const beyond: [Method, string, object?][] = [
    ['GET', '/metrics'],
    ['GET', '/api/v1/namespaces'],
    ['GET', '/api/v1/namespaces/blue'],
    ['POST', '/api/v1/namespaces', { name: 'green' }],
    ['PUT', '/api/v1/namespaces/blue/quota', { max_series: 1 }],
    ['PUT', '/api/v1/namespaces/red/quota', { max_series: 1_000_000 }],
    ['DELETE', '/api/v1/namespaces/blue'],
    ['POST', '/api/v1/admin/backup', { target_dir: 'x' }],
    ['POST', '/api/v1/admin/backup/verify', { backup_dir: 'x' }],
    ['POST', '/api/v1/admin/restore', { backup_dir: 'x', target_dir: 'y' }],
    ['PUT', '/api/v1/admin/log-level', { level: 'error' }],
    ['GET', '/api/v1/admin/audit'],
    ['GET', '/api/v1/admin/rate-limit/bans'],
    ['DELETE', '/api/v1/admin/rate-limit/bans/192.0.2.1'],
  ]
  for (const [method, url, payload] of beyond)
    t.match((await ask(RED_ADMIN, url, method, payload)).json(), { code: 'FORBIDDEN', error: /for all namespaces is needed/ }, `${method} ${url}`)
  t.equal((await ask(RED_ADMIN, '/api/v1/namespaces/red/usage')).statusCode, 200, 'its own usage')
  t.equal((await ask(RED_ADMIN, '/api/v1/namespaces/blue/usage')).statusCode, 404)
  t.match((await ask(BLUE, '/api/v1/measurements')).json(), { items: [{ name: 'theirs' }] }, 'the data of others is there')
})

t.test('nobody makes or takes a key that reaches further than their own', async (t) => {
  const wanted: [object, number][] = [
    [{ name: 'k', namespaces: [], admin: true }, 400],
    [{ name: 'k', namespaces: ['*'], admin: true }, 403],
    [{ name: 'k', admin: true }, 400],
    [{ name: 'k', namespaces: ['red', 'blue'] }, 403],
    [{ name: 'k', namespaces: ['red'], roles: ['superuser'] }, 403],
    [{ name: 'k', namespaces: ['red'], admin: 'true' }, 422],
    [{ name: 'k', namespaces: ['red'], tenant: 'blue' }, 422],
    [{ name: 'k', namespaces: { 0: 'red', length: 1 } }, 422],
    [{ name: 'red', namespaces: ['red'] }, 409],
  ]
  for (const [body, status] of wanted) t.equal((await ask(RED_ADMIN, KEYS, 'POST', body)).statusCode, status, JSON.stringify(body))
  for (const name of ['root', 'blue', 'nobody']) t.equal((await ask(RED_ADMIN, `${KEYS}/${name}`, 'DELETE')).statusCode, 404, name)
  t.equal((await ask(RED_ADMIN, KEYS, 'POST', { name: 'root', namespaces: ['red'] })).statusCode, 201, 'a name below its own namespace, whoever else has it')
  t.equal((await ask(RED_ADMIN, `${KEYS}/root`, 'DELETE')).statusCode, 204, 'its own')
  t.equal((await ask(ROOT, '/api/v1/measurements')).statusCode, 200, 'that of the server stands')
  const seen = (await ask(RED_ADMIN, KEYS)).json().items.map(({ name }: { name: string }) => name)
  t.same(seen, ['red', 'red-admin'])
  for (const method of ['GET', 'POST'] as const) t.equal((await ask(RED, KEYS, method, method === 'POST' ? { name: 'k' } : undefined)).statusCode, 403)
})

t.test('claims of tokens', async (t) => {
  const part = (value: unknown) => Buffer.from(typeof value === 'string' ? value : JSON.stringify(value)).toString('base64url')
  const token = (claims: unknown, header: object = { alg: 'HS256' }, secret = SECRET) => {
    const signed = `${part(header)}.${part(claims)}`
    return `${signed}.${createHmac('sha256', secret).update(signed).digest('base64url')}`
  }
  const exp = Math.floor(Date.now() / 1000) + 600
  const red = { sub: 'eve', exp, namespaces: ['red'] }
  const status = async (text: string, url = '/api/v1/measurements') => (await ask(text, url)).statusCode
  t.equal(await status(token(red)), 200)
  for (const claims of [
    ...['true', 1, [true], {}].map((admin) => ({ ...red, admin })),
    ...['', null, ['*'], [''], 'RED', [['red']]].map((namespaces) => ({ ...red, namespaces })),
    ...['', 'RED', ['red']].map((tenant_id) => ({ ...red, tenant_id })),
    { sub: 'eve', exp },
    { ...red, exp: undefined },
    { ...red, exp: String(exp) },
    { ...red, sub: 'a\nb' },
  ])
    t.equal(await status(token(claims)), 401, JSON.stringify(claims))
  t.equal(await status(token({ ...red, namespaces: [] })), 401)
  t.equal(await status(token({ sub: 'eve', exp, admin: true }), KEYS), 401, 'an admin of all namespaces says so')
  const all = { sub: 'eve', exp, admin: true, namespaces: '*' }
  t.equal(await status(token(all), KEYS), 200)
  for (const forged of [
    `${part({ alg: 'none' })}.${part(all)}.`,
    token(all, undefined, ''),
    token(all, { alg: 'HS512' }),
    token(all, { alg: 'HS256', jwk: { kty: 'oct', k: part('abc') } }, 'abc'),
    token(all, { alg: 'HS256', kid: '../../dev/null' }, ''),
    token(all, { alg: 'HS256', b64: false, crit: ['b64'] }),
  ])
    t.equal(await status(forged, KEYS), 401, forged.slice(0, 40))
  for (const role of ['admin', 'system', 'catalog-admin', 'operator']) t.equal(await status(token({ ...red, roles: [role] }), KEYS), 403, role)
  t.equal(await status(token({ ...all, namespaces: ['red'] }), '/metrics'), 403, 'an admin of a namespace')
})

t.test('the catalog shows no other namespace, whatever the header and the path say', async (t) => {
  const url = (path: string) => raw(request(`Authorization: Bearer ${RED}\r\nX-Namespace: red\r\n`, path))
  t.same((await url('/v1/namespaces/red')).statuses, [200])
  for (const path of ['/v1/namespaces/blue', '/v1/namespaces/%62lue', 'http://x/v1/namespaces/blue', '/v1/namespaces/red%2f..%2fblue', '/v1/namespaces/nobody'])
    t.same((await url(path)).statuses, [404], path)
  const both = await raw(request(`Authorization: Bearer ${RED}\r\n`, `/auth/context?token=${ROOT}`))
  t.match(both.text, /"id":"red"/, 'the header counts before the URL')
  t.same((await raw(request('', `/auth/context?token=${RED}&token=${ROOT}`))).statuses, [401], 'of two tokens none')
  const broken = await raw(request('', `/v1/namespaces/%zz?token=${RED}`))
  t.ok(broken.statuses[0] === 400 && !broken.text.includes(RED))
})

t.test('handles and tickets of Flight SQL are of whoever made them', async (t) => {
  const select = (query: string) => descriptor(command('CommandStatementQuery', { 1: query }))
  const info = infoOf(one(await flight.call('GetFlightInfo', select('SELECT * FROM mine'), bearer(RED))))
  t.match((await flight.call('DoGet', message({ 1: info.tickets[0] }), bearer(BLUE))).error?.details, /there is none of that name in namespace "blue"/)
  const [prepared] = await flight.action('CreatePreparedStatement', command('ActionCreatePreparedStatementRequest', { 1: 'SELECT * FROM mine' }), bearer(RED))
  const handle = field(field(prepared, 2) as Uint8Array, 1) as Uint8Array
  const use = async (token: string) =>
    (await flight.call('GetFlightInfo', descriptor(command('CommandPreparedStatementQuery', { 1: handle })), bearer(token))).error?.code
  t.equal(await use(RED), undefined)
  await flight.action('ClosePreparedStatement', command('ActionClosePreparedStatementRequest', { 1: handle }), bearer(RED_ADMIN))
  t.same([await use(RED_ADMIN), await use(BLUE), await use(ROOT), await use(RED)], [5, 5, 5, undefined])
})

t.test('a login ends with its key, and says no more than the key', async (t) => {
  const token = await made('login')
  const { header } = await flight.put('Handshake', [], { authorization: `Basic ${Buffer.from(`u:${token}`).toString('base64')}` })
  const authorization = String(header.get('authorization')[0])
  const code = async (metadata: Record<string, string>) =>
    (await flight.call('GetFlightInfo', descriptor(command('CommandStatementQuery', { 1: 'select 1' })), metadata)).error?.code
  const old = { 'auth-token-bin': Buffer.from(authorization.slice(7)) as never }
  t.same([await code({ authorization }), await code(old)], [undefined, undefined])
  t.equal(await code({ authorization, 'x-namespace': 'blue' }), 7)
  t.equal(await code({ authorization: `${authorization.slice(0, -1)}_` }), UNAUTHENTICATED)
  t.equal((await ask(authorization.slice(7), '/api/v1/measurements')).statusCode, 401, 'it is of no use elsewhere')
  t.match(await grpc.call('ListMeasurements', {}, { metadata: { authorization } }).catch((error) => error), { code: UNAUTHENTICATED })
  await revoke('login')
  t.same([await code({ authorization }), await code(old)], [UNAUTHENTICATED, UNAUTHENTICATED])
})

t.test('a stream that is open when its key is revoked takes nothing more', async (t) => {
  const token = await made('streamer')
  const count = async (name: string) => (await flight.sql(`SELECT count(*) AS n FROM "${name}"`, bearer(RED)).catch(() => undefined))?.rows[0].n
  const arrives = (name: string) => until(`the point of ${name}`, async () => (await count(name)) === 1n)
  const written = grpc.streamWrite({ metadata: bearer(token) })
  written.stream.on('error', () => {})
  const points = (v: number) => ({ points: [point('by_stream', nowNanos(), {}, { v })] })
  written.stream.write(points(1))
  const client = new Client(`127.0.0.1:${node.port('flight_sql')}`, credentials.createInsecure())
  t.teardown(() => client.close())
  const metadata = new Metadata()
  metadata.set('authorization', `Bearer ${token}`)
  const same = (bytes: Uint8Array) => Buffer.from(bytes)
  const put = client.makeBidiStreamRequest(`${SERVICE}DoPut`, same, same, metadata)
  const answer = collect(put)
  const batch = (v: number) => [
    { name: '_time', type: new TimestampNanosecond(), values: [nowNanos()] },
    { name: 'v', type: new Float64(), values: [v] },
  ]
  const [schema, first, second] = flightStream(descriptor(command('CommandStatementUpdate', { 1: 'by_put' })), [batch(1), batch(2)])
  put.write(schema)
  put.write(first)
  await Promise.all([arrives('by_stream'), arrives('by_put')])
  await revoke('streamer')
  written.stream.write(points(2))
  put.write(second)
  t.match(await written.answer.catch((error) => error), { code: UNAUTHENTICATED, details: /revoked or has expired since/ })
  t.match((await answer).error, { code: UNAUTHENTICATED, details: /revoked or has expired since/ })
  t.same([await count('by_stream'), await count('by_put')], [1n, 1n])
})

t.test('once a revocation is answered no use of the key is accepted, however many are under way', async (t) => {
  const token = await made('busy')
  let revoked = false
  const late: number[] = []
  const use = async () => {
    for (let i = 0; i < 25; i++) {
      const begunAfter = revoked
      const { statusCode } = await ask(token, '/api/v1/measurements')
      if (begunAfter) late.push(statusCode)
    }
  }
  const users = Promise.all(Array.from({ length: 8 }, use))
  await revoke('busy')
  revoked = true
  await users
  late.push((await ask(token, '/api/v1/measurements')).statusCode)
  t.same([...new Set(late)], [401])
})

t.test('wrong keys, many and at once, do not hold up a key that is known', async (t) => {
  const token = await made('writer')
  t.equal((await write(token, 'load v=1')).statusCode, 204)
  const wrong = Promise.all(Array.from({ length: 70 }, () => ask(key(), '/api/v1/measurements')))
  let done = false
  void wrong.then(() => {
    done = true
  })
  const writes = new Set<number>()
  do writes.add((await write(token, 'load v=1')).statusCode)
  while (!done)
  t.same([...writes], [204])
  const statuses = new Set((await wrong).map(({ statusCode }) => statusCode))
  t.same([...statuses].sort(), [401, 503], 'hashed, or not looked at')
})

t.test('no secret is in what the server says, logs or keeps', async (t) => {
  const kept = await readdir(node.dataDir, { recursive: true, withFileTypes: true })
  const files = await Promise.all(kept.filter((file) => file.isFile()).map((file) => readFile(join(file.parentPath, file.name), 'latin1')))
  const urls = ['/metrics', '/api/v1/openapi.json', '/api/v1/status/flags', '/api/v1/status/config', '/api/v1/status/runtimeinfo', '/api/v1/admin/audit', KEYS]
  const answers = await Promise.all(urls.map(async (url) => (await ask(ROOT, url)).body))
  const all = [...lines, ...files, ...answers].join('\n')
  t.ok(all.includes('red-admin'))
  for (const secret of [ROOT, RED_ADMIN, RED, BLUE, SECRET]) t.notOk(all.includes(secret))
  for (const name of ['catalog', 'audit.jsonl']) t.equal((await stat(join(node.dataDir, name))).mode & 0o077, 0, `${name} is its owner's`)
})
