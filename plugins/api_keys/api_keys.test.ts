import { hash } from 'argon2'
import { definePlugin } from 'svcdb'
import { ManualClock, temporaryFolder } from 'svcdb/testkit'
import t from 'tap'
import flightSql from '../flight_sql/index.ts'
import { command, FlightClient } from '../flight_sql/testing.ts'
import grpc from '../grpc/index.ts'
import { TestClient } from '../grpc/testing.ts'
import { keyText, PATH, start } from './testing.ts'

const ADMIN = keyText()
const admin = { name: 'root', key: ADMIN, admin: true }
const phcOf = (text: string, m = 19_456) => hash(text, { memoryCost: m, timeCost: 2, parallelism: 1 })
const basic = (password: string) => `Basic ${Buffer.from(`anybody:${password}`).toString('base64')}`

/** Stands for a plugin that gives the service. */
const service = (name: string) =>
  definePlugin({
    id: `gives_${name}`,
    summary: 'Gives a service',
    stability: 'experimental',
    provides: [name],
    setup: (svc) => {
      svc.provide(name, {})
      svc.auth.authenticator(({ header }) =>
        header('x-other') === undefined ? undefined : { principal: 'other', method: 'jwt', claims: {}, namespaces: [], admin: true },
      )
    },
  })

t.test('keys of the config: plain, of a variable, hashed; and who they stand for', async (t) => {
  const [plain, variable, hashed, indexed, odd] = [keyText(), keyText(), keyText(), keyText(), 'an-odd.key-of.two-dots']
  process.env.API_KEYS_TEST = variable
  t.teardown(() => delete process.env.API_KEYS_TEST)
  const expires_at = Math.floor(Date.now() / 1000) + 1000
  const node = await start({
    keys: [
      { name: ' plain ', key: plain, namespaces: ['red', 'blue'], roles: ['writer'], tenant: 'green', expires_at },
      { name: 'variable', key: '$API_KEYS_TEST', namespaces: ['red'] },
      { name: 'hashed', key: await phcOf(hashed, 1024), tenant: 'red', admin: true },
      { name: 'indexed', key: await phcOf(indexed), key_prefix: indexed.slice(4, 12) },
      { name: 'odd', key: odd },
    ],
  })
  t.teardown(() => node.stop())
  const claims = { key_id: 'plain', tenant_id: 'green' }
  const expected = {
    principal: 'plain',
    method: 'api_key',
    roles: ['writer'],
    namespaces: ['red', 'blue', 'green'],
    admin: false,
    claims,
    expiresAt: expires_at * 1000,
  }
  t.match(await node.who(plain, { 'x-namespace': 'blue' }), { status: 200, ...expected, namespace: 'blue' })
  t.match(await node.who(plain, { 'x-namespace': 'black' }), { status: 403, code: 'FORBIDDEN' })
  t.match(await node.who(variable), { status: 200, principal: 'variable', namespace: 'red', claims: { key_id: 'variable', tenant_id: 'red' } })
  t.match(await node.who(hashed), { status: 200, principal: 'hashed', admin: true, namespaces: ['red'], roles: [] })
  t.match(await node.who(hashed), { status: 200, principal: 'hashed' }, 'and again, out of the cache')
  t.match(await node.who(indexed), { status: 200, principal: 'indexed' })
  t.match(await node.who(odd), { status: 200, principal: 'odd' })
  t.match(await node.who(await phcOf(plain)), { status: 401 }, 'a hash is no key')
})

t.test('ways to present a key, and what is no key', async (t) => {
  const node = await start({ keys: [admin], tuning: { max_failures: 0 } })
  t.teardown(() => node.stop())
  const status = async (authorization: string) => (await node.inject({ url: '/who', headers: { authorization } })).statusCode
  for (const good of [`Bearer ${ADMIN}`, `bEARER   ${ADMIN} `, `Token ${ADMIN}`, `token ${ADMIN}`, `Token user:${ADMIN}`, basic(ADMIN)])
    t.equal(await status(good), 200, good.slice(0, 8))
  const swapped = `${ADMIN.slice(0, -1)}${ADMIN.endsWith('A') ? 'B' : 'A'}`
  const bad = [
    ADMIN,
    `Bearer ${swapped}`,
    `Bearer ${ADMIN}x`,
    `Bearer ${ADMIN.slice(4)}`,
    'Bearer',
    'Bearer ',
    `Digest ${ADMIN}`,
    `Bearer ${ADMIN} ${ADMIN}`,
    'Basic !!!',
    basic(''),
    `Bearer ${'a'.repeat(5000)}`,
    `Bearer ${ADMIN.toUpperCase()}`,
  ]
  for (const each of bad) t.equal(await status(each), 401, each.slice(0, 20))
  t.match(await node.who(undefined), { status: 401, error: /^no credentials were given in the header Authorization; send "Authorization: Bearer <token>"$/ })
  t.match(await node.who(swapped), { status: 401, code: 'UNAUTHORIZED', error: /unknown, wrong or revoked/, headers: { 'www-authenticate': 'Bearer' } })
  t.equal((await node.inject('/health')).statusCode, 200)
  // As clients of InfluxDB 1 may send them: what is said has to be true of them.
  t.match((await node.inject(`/who?u=me&p=${ADMIN}`)).json(), { error: /given in the header Authorization;/ })
  t.match((await node.inject({ url: '/who', headers: { authorization: ADMIN } })).json(), {
    error: /are not accepted; check the token, and that "Bearer" is before it/,
  })
})

t.test('a JSON web token is left to others, unless it has the prefix of keys', async (t) => {
  const node = await start({ keys: [admin], others: [service('jwt')] })
  t.teardown(() => node.stop())
  const hashed = () => node.metric(ADMIN, 'api_key_verification_seconds_count')
  t.match(await node.who('a.b.c'), { status: 401, error: /the credentials are not accepted/ }, 'the text of the kernel')
  t.match(await node.who(`${'a'.repeat(3000)}.b.c`), { status: 401, error: /the credentials are not accepted/ })
  t.equal(await hashed(), 0, 'it costs no hash')
  t.match(await node.who('svc_a.b.c'), { status: 401, error: /unknown, wrong or revoked/ })
  t.match(await node.who('a.b'), { status: 401, error: /unknown, wrong or revoked/ })
  t.equal(await hashed(), 2)
  t.match(await node.who(undefined, { 'x-other': '1' }), { status: 200, principal: 'other' })
})

t.test('a key that has expired says so to whoever has it, and to nobody else', async (t) => {
  const clock = new ManualClock(Date.now())
  const [plain, hashed] = [keyText(), keyText()]
  const expires_at = Math.floor(clock.now() / 1000) + 100
  const keys = [admin, { name: 'plain', key: plain, expires_at }, { name: 'hashed', key: await phcOf(hashed), key_prefix: hashed.slice(4, 12), expires_at }]
  const node = await start({ keys, clock })
  t.teardown(() => node.stop())
  for (const key of [plain, hashed]) t.equal((await node.who(key)).status, 200)
  clock.skip(101_000)
  for (const [name, key] of Object.entries({ plain, hashed })) {
    t.match(await node.who(key), { status: 401, error: `the API key "${name}" has expired; have another one made` }, 'where it was cached')
    t.match(await node.who(key), { status: 401, error: /has expired/ }, 'and where it was not')
    t.match(await node.who(`${key.slice(0, -2)}xx`), { status: 401, error: /unknown, wrong or revoked/ })
  }
})

t.test('clients that go on with an expired key do not have it hashed with each call, which would keep others from being let in', async (t) => {
  const clock = new ManualClock(Date.now())
  const text = keyText()
  const expires_at = Math.floor(clock.now() / 1000) + 100
  const hashed = { name: 'hashed', key: await phcOf(text), key_prefix: text.slice(4, 12), expires_at }
  const node = await start({ keys: [admin, hashed], clock })
  t.teardown(() => node.stop())
  clock.skip(101_000)
  for (let i = 0; i < 5; i++) t.match(await node.who(text), { status: 401, error: /"hashed" has expired/ })
  t.equal(await node.metric(ADMIN, 'api_key_verification_seconds_count'), 1)
  t.equal(await node.metric(ADMIN, 'api_key_verifications_total{result="expired"}'), 1)
})

t.test('refused at start', async (t) => {
  const refused = async (options: Parameters<typeof start>[0], text: RegExp, secret?: string) => {
    const error = await start(options).then(
      (node) => node.stop().then(() => new Error('it started')),
      (failure: Error) => failure,
    )
    t.match(error.message, text)
    if (secret !== undefined) t.notMatch(error.message, secret)
  }
  const tenancy = { server: { multi_tenancy: true } }
  await refused(
    {
      keys: [admin, { name: 'a', key: keyText() }, { name: 'b c', key: keyText(), namespaces: ['*'] }, { name: 'ok', key: keyText(), namespaces: ['red'] }],
      config: tenancy,
    },
    /cannot use keys "root", "a", "b c" with server\.multi_tenancy: no namespaces are given; .* namespaces = \["\*"\]/,
  )
  await refused({ keys: [admin, { ...admin, name: 'root ' }] }, /cannot use key "root" of auth\.api_keys: another key has the name/)
  await refused({ keys: [admin, { name: 'same', key: ADMIN }] }, /cannot use keys "root" and "same" of auth\.api_keys: they are the same key/, ADMIN)
  await refused(
    { keys: [{ name: 'x', key: '$argon2id$v=19$m=19456,t=2$c2FsdHNhbHQ$aGFzaA' }] },
    /cannot use key "x" of auth\.api_keys: it is no Argon2 PHC string/,
  )
  await refused({ keys: [{ name: 'x', key: (await phcOf('x')).replace('m=19456', 'm=999999999') }] }, /its m is 999999999; 8 to 262144/)
  await refused({ keys: [{ name: 'x', key: ADMIN, namespaces: ['Red'] }] }, /cannot use key "x" .*namespace "Red"/)
  await refused({ keys: [{ name: 'x', key: ADMIN, namespaces: ['*', 'red'] }] }, /cannot use key "x" .*"\*" beside others/)
  await refused({ keys: [{ name: 'x', key: ADMIN, namespaces: ['*'], tenant: 'red' }] }, /cannot use key "x" .*"\*" beside others/)
  await refused({ keys: [{ name: 'x', key: ADMIN, tenant: 'a/b' }] }, /cannot use key "x" .*namespace "a\/b"/)
  await refused({ keys: [{ name: 'x\ny', key: ADMIN }] }, /cannot use key name "x\\ny": it has characters that cannot be printed/)
  await refused({ keys: [{ name: 'n'.repeat(129), key: ADMIN }] }, /it has 129 characters; 1 to 128/)
  await refused({ keys: [{ name: 'x', key: '$API_KEYS_UNSET' }] }, /cannot use key "x" of auth\.api_keys: it names an environment variable/, 'API_KEYS_UNSET')
  await refused({ keys: [{ name: 'x', key: 'a key' }] }, /blanks/, 'a key')
  await refused({ keys: [{ name: 'x', key: '' }] }, /auth\.api_keys\[0\]\.key/)
  await refused({ keys: [{ name: 'x', key: ADMIN, key_prefix: 'abcdefgh' }] }, /key_prefix goes with a PHC string/, ADMIN)
  await refused({ keys: [{ name: 'x', key: ADMIN, kind: 'y' }] }, /there is no such key/)
  await refused({}, /cannot let anybody in: there is no API key; run `svc generate-key --name admin --admin` and put/)
  await refused({ keys: [admin], tuning: { enabled: false } }, /cannot let anybody in: auth\.api_key\.enabled is false/)
  await refused({ keys: [admin], auth: { persistent_api_keys: true } }, /no data directory; set storage\.object_store_url/)
  const url = (object_store_url: string) => ({ keys: [admin], auth: { persistent_api_keys: true }, config: { storage: { object_store_url } } })
  await refused(url('s3://bucket/secret'), /its scheme "s3" is not supported; memory:\/\/ and file:\/\/\/absolute\/path/, 'secret')
  await refused(url('nowhere'), /it is no URL; memory:/)
  await refused(url('file://host/path'), /cannot use storage\.object_store_url: .*memory:/)
  await refused({ ...url('memory://'), config: { storage: { object_store_url: 'gs://x' } }, auth: {} }, /its scheme "gs"/)
})

t.test('another way in takes the place of keys', async (t) => {
  for (const name of ['jwt', 'mtls', 'badges']) {
    const node = await start({ others: [service(name)] })
    t.equal((await node.inject({ url: PATH, headers: { 'x-other': '1' } })).statusCode, 200)
    await node.stop()
  }
  const off = await start({ keys: [admin], tuning: { enabled: false }, others: [service('jwt')] })
  t.teardown(() => off.stop())
  t.match(await off.who(ADMIN), { status: 401, error: /the credentials are not accepted/ })
})

t.test('under multi_tenancy keys with namespaces, and admins of all, are taken', async (t) => {
  const red = keyText()
  const node = await start({
    keys: [
      { ...admin, namespaces: ['*'] },
      { name: 'red', key: red, namespaces: ['red'] },
    ],
    config: { server: { multi_tenancy: true } },
  })
  t.teardown(() => node.stop())
  t.match(await node.who(red), { status: 200, namespace: 'red', dataNamespace: 'red' })
  t.match(await node.who(red, { 'x-namespace': 'blue' }), { status: 403 })
  t.match(await node.who(ADMIN, { 'x-namespace': 'blue' }), { status: 200, dataNamespace: 'blue' })
})

t.test('over gRPC and Flight SQL', async (t) => {
  const ports = new Map<string, number>()
  const log = (line: string): void => {
    const { name, port } = JSON.parse(line) as { name: string; port?: number }
    if (port !== undefined) ports.set(name, port)
  }
  const hashed = keyText()
  const keys = [admin, { name: 'hashed', key: await phcOf(hashed), key_prefix: hashed.slice(4, 12), namespaces: ['red'] }]
  const listeners = { grpc: { addr: '127.0.0.1:0' }, flight_sql: { addr: '127.0.0.1:0' } }
  const node = await start({ keys, others: [grpc, flightSql], storage: 'embedded', config: listeners, log })
  const client = new TestClient(ports.get('grpc') as number)
  const flight = new FlightClient(ports.get('flight_sql') as number)
  t.teardown(async () => {
    client.close()
    flight.close()
    await node.stop()
  })
  const point = { measurement: 'm', timestamp: String(BigInt(Date.now()) * 1_000_000n), tags: [], fields: [{ key: 'v', value: { float64: 1 } }] }
  for (const key of [ADMIN, hashed]) {
    for (const authorization of [`Bearer ${key}`, `Token ${key}`, basic(key)]) {
      const metadata = { authorization }
      await t.resolves(client.call('Write', { points: [point] }, { metadata }), `gRPC, ${authorization.slice(0, 6)}`)
      t.same((await flight.sql('select 1', metadata)).rows, [{ 1: 1n }], `Flight SQL, ${authorization.slice(0, 6)}`)
    }
  }
  const wrong = { authorization: `Bearer ${keyText()}` }
  await t.rejects(client.call('Write', { points: [point] }, { metadata: wrong }), { code: 16, details: /unknown, wrong or revoked/ })
  await t.rejects(client.call('Write', { points: [point] }), { code: 16 })
  await t.rejects(flight.sql('select 1', wrong), { code: 16, details: /unknown, wrong or revoked/ })
  await t.rejects(flight.sql('select 1', { authorization: `Bearer ${hashed}`, 'x-namespace': 'blue' }), { code: 7 })
  const login = await flight.put('Handshake', [], { authorization: basic(hashed) }, true)
  t.equal(login.error, undefined)
  const session = { authorization: String(login.header.get('authorization')[0]) }
  t.same((await flight.read(command('CommandStatementQuery', { 1: 'select 1' }), session)).rows, [{ 1: 1n }])
  t.equal((await node.call('DELETE', ADMIN, '/hashed')).status, 204)
  await t.rejects(flight.sql('select 1', session), { code: 16 }, 'a login ends with its key')
  await t.rejects(client.call('Write', { points: [point] }, { metadata: { authorization: basic(hashed) } }), { code: 16 })
})

t.test('no secret is logged, whatever is done', async (t) => {
  const lines: string[] = []
  const dir = temporaryFolder(t)
  const hashed = keyText()
  const phc = await phcOf(hashed)
  const node = await start({ keys: [admin, { name: 'hashed', key: phc }, { name: 'weak', key: 'hunter2' }], dir, log: (line) => lines.push(line) })
  const made = (await node.call('POST', ADMIN, '', { name: 'made' })).body.key as string
  const wrong = keyText()
  for (const token of [made, hashed, wrong, ADMIN, 'hunter2', `${made}x`]) await node.who(token)
  await node.call('POST', ADMIN, '', { name: 'made', key: wrong })
  await node.call('POST', ADMIN, '', { name: '' })
  await node.call('GET', ADMIN)
  await node.call('DELETE', ADMIN, '/made')
  await node.call('DELETE', ADMIN, `/${wrong}`)
  await node.who(made)
  await node.stop()
  const text = lines.join('')
  t.match(text, /key \\"weak\\" of auth\.api_keys has only 7 characters/)
  for (const secret of [ADMIN, hashed, made, 'hunter2', phc, phc.split('$')[5], '$argon2id$']) t.notOk(text.includes(secret), 'not in any line')
})
