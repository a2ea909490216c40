/** Keys that are made, listed and revoked over HTTP, and what is kept of them. */
import { mkdir, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { seeded } from 'svcdb/lib/random'
import { ManualClock, temporaryFolder } from 'svcdb/testkit'
import t from 'tap'
import { newKey } from './new-key.ts'
import { faultyState, keyText, legacyFile, PATH, start } from './testing.ts'

t.setTimeout(120_000)
const ADMIN = keyText()
const admin = { name: 'root', key: ADMIN, admin: true }
const FILE = join('auth', 'api_keys.json')

t.test('a key is made, works, is listed and revoked', async (t) => {
  const dir = temporaryFolder(t)
  const node = await start({ keys: [admin], dir })
  t.teardown(() => node.stop())
  const expires_at = Math.floor(Date.now() / 1000) + 1000
  const made = await node.call('POST', ADMIN, '', { name: '  ci/1 ü ', namespaces: ['red', 'red'], roles: ['writer'], expires_at })
  t.match(made, { status: 201, headers: { 'cache-control': 'no-store' } })
  const { key, ...record } = made.body
  t.match(key, /^svc_[\w-]{43}$/)
  const view = {
    name: 'ci/1 ü',
    source: 'runtime',
    enabled: true,
    tenant_id: 'red',
    namespaces: ['red'],
    roles: ['writer'],
    admin: false,
    expires_at,
    usage_count: 0,
  }
  t.match(record, { ...view, id: /^[0-9a-f-]{36}$/, created_at: Number, last_used_at: null })
  t.match(await node.who(key), {
    status: 200,
    principal: 'ci/1 ü',
    roles: ['writer'],
    claims: { key_id: record.id, tenant_id: 'red' },
    expiresAt: expires_at * 1000,
  })
  const list = await node.call('GET', ADMIN)
  t.match(list.body, {
    items: [
      { ...view, last_used_at: Number, usage_count: 1 },
      { name: 'root', source: 'config' },
    ],
    total: 2,
    offset: 0,
    limit: 100,
  })
  t.notOk(/hash|prefix|argon|svc_/.test(JSON.stringify(list.body)), 'the list has no text and no hash')
  t.match((await node.call('GET', ADMIN, '?offset=1&limit=1')).body, { items: [{ name: 'root' }], total: 2, offset: 1, limit: 1 })
  t.equal((await stat(join(dir, 'catalog'))).mode & 0o777, 0o700)
  const files = (await readdir(dir, { recursive: true, withFileTypes: true })).filter((file) => file.isFile() && !file.name.endsWith('.os'))
  for (const { parentPath, name } of files) t.notOk((await readFile(join(parentPath, name), 'latin1')).includes(key), `the text is not kept: ${name}`)

  t.match(await node.call('POST', ADMIN, '', { name: 'ci/1 ü' }), { status: 409, body: { code: 'CONFLICT', error: /the name is in use/ } })
  t.match(await node.call('POST', ADMIN, '', { name: 'root' }), { status: 409 })
  t.equal((await node.who(key)).status, 200)
  t.match(await node.call('DELETE', ADMIN, `/${encodeURIComponent('ci/1 ü')}`), { status: 204 })
  t.match(await node.who(key), { status: 401 }, 'at once, though it was cached')
  t.match(await node.call('DELETE', ADMIN, `/${encodeURIComponent('ci/1 ü')}`), { status: 404, body: { error: /there is no such key/ } })
  const again = await node.call('POST', ADMIN, '', { name: 'ci/1 ü' })
  t.equal(again.status, 201, 'the name is free again')
  t.not(again.body.id, record.id)
  t.equal((await node.who(key)).status, 401)
})

t.test('what is refused', async (t) => {
  const user = keyText()
  const node = await start({ keys: [admin, { name: 'user', key: user, namespaces: ['red'] }] })
  t.teardown(() => node.stop())
  const refused = async (payload: object, status: number, error: RegExp) =>
    t.match(await node.call('POST', ADMIN, '', payload), { status, body: { error } }, JSON.stringify(payload).slice(0, 60))
  await refused({}, 422, /name/)
  await refused({ name: '   ' }, 400, /it has 0 characters/)
  await refused({ name: 'x'.repeat(129) }, 400, /it has 129 characters/)
  await refused({ name: 'a\u0000b' }, 400, /cannot be printed/)
  await refused({ name: 'a\u202eb' }, 400, /cannot be printed/)
  await refused({ name: '..' }, 400, /path/)
  await refused({ name: 'x', key: 'mine' }, 422, /key is not a known member/)
  await refused({ name: 'x', expires_at: 5 }, 400, /expires_at has passed/)
  await refused({ name: 'x', expires_at: Date.now() }, 422, /expires_at/)
  await refused({ name: 'x', expires_at: '2100-01-01' }, 422, /expires_at/)
  await refused({ name: 'x', namespaces: 'red' }, 422, /namespaces/)
  await refused({ name: 'x', namespaces: ['Red'] }, 400, /namespace "Red"/)
  await refused({ name: 'x', namespaces: [''] }, 400, /namespace ""/)
  await refused({ name: 'x', roles: [''] }, 422, /roles/)
  await refused({ name: 'x', admin: 'true' }, 422, /admin/)
  t.equal((await node.call('POST', ADMIN, '', { name: '𝕏'.repeat(128) })).status, 201, 'characters are counted, not their halves')
  t.equal((await node.call('DELETE', ADMIN, `/${encodeURIComponent('𝕏'.repeat(128))}`)).status, 204)
  for (const method of ['GET', 'POST', 'DELETE'] as const) {
    const path = method === 'DELETE' ? '/root' : ''
    t.match(await node.call(method, user, path, method === 'POST' ? { name: 'mine', admin: true } : undefined), { status: 403, body: { code: 'FORBIDDEN' } })
    t.equal((await node.call(method, keyText(), path, method === 'POST' ? { name: 'mine' } : undefined)).status, 401)
  }
  t.equal((await node.call('GET', ADMIN)).body.total, 2)
})

t.test('a path without credentials still asks for an admin', async (t) => {
  const node = await start({ keys: [admin], auth: { exempt_paths: ['/api/*'] } })
  t.teardown(() => node.stop())
  t.match(await node.call('POST', '', '', { name: 'x' }), { status: 403 })
  t.equal((await node.call('GET', '')).status, 403)
  t.equal((await node.call('DELETE', '', '/root')).status, 403)
})

t.test('multi_tenancy needs namespaces', async (t) => {
  const node = await start({ keys: [{ ...admin, namespaces: ['*'] }], config: { server: { multi_tenancy: true } } })
  t.teardown(() => node.stop())
  for (const payload of [
    { name: 'x' },
    { name: 'x', namespaces: [] },
    { name: 'x', admin: true },
    { name: 'x', admin: true, namespaces: [] },
    { name: 'x', namespaces: ['*'] },
  ])
    t.match(await node.call('POST', ADMIN, '', payload), { status: 400, body: { error: /multi_tenancy needs namespaces/ } })
  t.equal((await node.call('POST', ADMIN, '', { name: 'x', namespaces: ['red'] })).status, 201)
  t.equal((await node.call('POST', ADMIN, '', { name: 'y', namespaces: ['*'], admin: true })).status, 201)
  t.match(await node.call('POST', ADMIN, '', { name: 'z', namespaces: ['*', 'red'], admin: true }), { status: 400, body: { error: /"\*" beside others/ } })
})

t.test('an admin of some namespaces stays within them', async (t) => {
  const [red, plain] = [keyText(), keyText()]
  const keys = [
    admin,
    { name: 'red', key: red, admin: true, namespaces: ['red', 'pink'], roles: ['painter'] },
    { name: 'wide', key: keyText(), namespaces: ['red', 'blue'] },
    { name: 'plain', key: plain, admin: true, namespaces: ['green'] },
  ]
  const node = await start({ keys })
  t.teardown(() => node.stop())
  const make = (payload: object) =>
    node.inject({ method: 'POST', url: '/api/v1/admin/auth/keys', payload, headers: { authorization: `Bearer ${red}`, 'x-namespace': 'red' } })
  const call = async (method: 'GET' | 'DELETE', path = '') =>
    node.inject({ method, url: `/api/v1/admin/auth/keys${path}`, headers: { authorization: `Bearer ${red}`, 'x-namespace': 'red' } })
  for (const payload of [{ name: 'x' }, { name: 'x', namespaces: [] }, { name: 'x', namespaces: ['red', 'blue'] }, { name: 'x', admin: true }]) {
    const answer = await make(payload)
    t.match({ status: answer.statusCode, error: answer.json().error }, { status: 403, error: /must be among those of your own/ })
  }
  t.match((await make({ name: 'x', namespaces: ['red'], roles: ['king'] })).json(), { code: 'FORBIDDEN', error: /lacks the role "king"/ })
  t.equal((await make({ name: 'x', namespaces: ['red'], roles: ['painter'], admin: true })).statusCode, 201)
  const headers = { authorization: `Bearer ${plain}`, 'x-namespace': 'green' }
  const payload = { name: 'y', namespaces: ['green'], roles: ['king'] }
  const byPlain = await node.inject({ method: 'POST', url: '/api/v1/admin/auth/keys', payload, headers })
  t.match(byPlain.json(), { code: 'FORBIDDEN', error: /lacks the role "king"/ }, 'nor does one without roles give any')
  t.same(
    (await call('GET')).json().items.map(({ name }: { name: string }) => name),
    ['red', 'x'],
    'it sees those that reach no further',
  )
  for (const name of ['root', 'wide', 'nobody']) t.equal((await call('DELETE', `/${name}`)).statusCode, 404, name)
  t.equal((await call('DELETE', '/x')).statusCode, 204)
})

t.test('the last admin over everything stays', async (t) => {
  const red = keyText()
  const node = await start({ keys: [admin, { name: 'red', key: red, admin: true, namespaces: ['red'] }] })
  t.teardown(() => node.stop())
  t.match(await node.call('DELETE', ADMIN, '/root'), { status: 409, body: { code: 'CONFLICT', error: /it is the last .*make another admin key first/ } })
  const other = (await node.call('POST', ADMIN, '', { name: 'second', admin: true })).body.key
  const both = await Promise.all([node.call('DELETE', other, '/root'), node.call('DELETE', other, '/second')])
  t.same(both.map(({ status }) => status).sort(), [204, 409], 'one of two that come at once')

  const clock = new ManualClock(Date.now())
  const later = await start({ keys: [admin], clock })
  t.teardown(() => later.stop())
  const expires_at = Math.floor(clock.now() / 1000) + 60
  t.equal((await later.call('POST', ADMIN, '', { name: 'second', admin: true, expires_at })).status, 201)
  clock.skip(61_000)
  t.equal((await later.call('DELETE', ADMIN, '/root')).status, 409, 'beside one that has expired')
})

for (const persistent_api_keys of [false, true]) {
  t.test(`of keys that are made and revoked nothing stays, ${persistent_api_keys ? 'as objects' : 'as records'}`, async (t) => {
    const node = await start({ keys: [admin], dir: temporaryFolder(t), auth: { persistent_api_keys } })
    t.teardown(() => node.stop())
    const state = node.storage.state('api_keys')
    const entries = async () => (await state.list()).map(({ key }) => key)
    const before = await entries()
    for (let i = 0; i < 3; i++) {
      t.match(await node.call('POST', ADMIN, '', { name: 'ci', namespaces: ['red'] }), { status: 201 })
      t.ok((await entries()).length > before.length)
      t.match(await node.call('DELETE', ADMIN, '/ci'), { status: 204 })
    }
    t.same(await entries(), before)
  })
}

t.test('keys that are kept as objects let nobody in while that is off, and a start says so', async (t) => {
  const dir = temporaryFolder(t)
  const lines: string[] = []
  const later = (persistent_api_keys: boolean) => start({ keys: [admin], dir, auth: { persistent_api_keys }, log: (line) => lines.push(line) })
  const told = (): string[] => lines.splice(0).filter((line) => line.includes('let nobody in as this is set now'))
  let node = await later(true)
  const { key } = (await node.call('POST', ADMIN, '', { name: 'made', namespaces: ['red'] })).body
  await node.stop()
  t.same(told(), [])
  node = await later(false)
  t.equal((await node.who(key)).status, 401)
  t.equal(told().length, 1)
  await node.stop()
  node = await later(true)
  t.teardown(() => node.stop())
  t.equal((await node.who(key)).status, 200)
  t.same(told(), [])
})

t.test('keys and revocations outlast a restart', async (t) => {
  const dir = temporaryFolder(t)
  const user = keyText()
  const keys = [admin, { name: 'user', key: user }]
  const lines: string[] = []
  let node = await start({ keys, dir })
  const made = (await node.call('POST', ADMIN, '', { name: 'made', namespaces: ['red'], roles: ['r'], admin: true })).body
  const gone = (await node.call('POST', ADMIN, '', { name: 'gone' })).body
  t.equal((await node.call('DELETE', ADMIN, '/gone')).status, 204)
  t.equal((await node.who(user)).status, 200)
  t.equal((await node.call('DELETE', ADMIN, '/user')).status, 204)
  t.equal((await node.who(user)).status, 401, 'a key of the config is revoked as well')
  t.equal((await node.call('POST', ADMIN, '', { name: 'user' })).status, 409, 'and its name stays its')
  await node.stop()

  node = await start({ keys, dir, log: (line) => lines.push(line) })
  t.match(await node.who(made.key), { status: 200, principal: 'made', namespaces: ['red'], roles: ['r'], admin: true, claims: { key_id: made.id } })
  for (const key of [gone.key, user]) t.equal((await node.who(key)).status, 401)
  t.same(
    (await node.call('GET', ADMIN)).body.items.map(({ name }: { name: string }) => name),
    ['made', 'root'],
  )
  t.ok(lines.some((line) => /a key of auth\.api_keys is revoked/.test(line) && JSON.parse(line).key_name === 'user'))
  t.match(await node.call('GET', ADMIN, ''), { status: 200 })
  await node.stop()

  await t.rejects(start({ keys: [...keys, { name: 'made', key: keyText() }], dir }), /two keys with the name "made", of the config and the runtime/)
  await t.rejects(start({ keys: [{ name: 'user', key: user }], dir: join(dir, 'no', 'such'), config: { server: { multi_tenancy: true } } }), /"user"/)
})

t.test("a tenant's admin takes no name from others, and does not learn which there are", async (t) => {
  const [red, blue, both] = [keyText(), keyText(), keyText()]
  const dir = temporaryFolder(t)
  const keys = [
    { ...admin, namespaces: ['*'] },
    { name: 'red-admin', key: red, admin: true, namespaces: ['red'] },
    { name: 'blue-admin', key: blue, admin: true, namespaces: ['blue'] },
    { name: 'both-admin', key: both, admin: true, namespaces: ['blue', 'red'] },
    { name: 'shared', key: keyText(), namespaces: ['blue'] },
  ]
  const options = { keys, dir, config: { server: { multi_tenancy: true } } }
  const node = await start(options)
  const asBoth = (method: 'POST' | 'DELETE', path: string, payload?: object) =>
    node.inject({
      method,
      url: PATH + path,
      headers: { authorization: `Bearer ${both}`, 'x-namespace': 'red' },
      ...(payload === undefined ? {} : { payload }),
    })
  const make = (by: string, name: string, namespaces: string[]) => node.call('POST', by, '', { name, namespaces })
  const names = async (by: string): Promise<string[]> => (await node.call('GET', by)).body.items.map(({ name }: { name: string }) => name)
  t.match(await make(ADMIN, 'global', ['red']), { status: 201 })
  const ofRed = await make(red, 'ci', ['red'])
  t.match(ofRed, { status: 201, body: { name: 'ci' } })
  for (const name of ['ci', 'shared', 'root', 'red-admin', 'global']) t.match(await make(blue, name, ['blue']), { status: name === 'shared' ? 409 : 201 }, name)
  t.match(await make(red, 'shared', ['red']), { status: 201, body: { name: 'shared' } })
  for (const name of ['ci', 'global', 'red-admin'])
    t.match(await make(red, name, ['red']), { status: 409, body: { error: new RegExp(`"${name}": the name is in use`) } })
  t.match(await node.who(ofRed.body.key, { 'x-namespace': 'red' }), { principal: 'red/ci' }, 'nobody is taken for another')
  t.same(await names(red), ['ci', 'global', 'red-admin', 'shared'])
  t.match(await names(ADMIN), ['blue-admin', 'blue/ci', 'blue/global'])
  t.match(await asBoth('POST', '', { name: 'ci', namespaces: ['red', 'blue'] }), { statusCode: 409 }, 'who sees the key may know of its name')
  t.equal((await asBoth('POST', '', { name: 'wide', namespaces: ['red', 'blue'] })).json().name, 'blue/wide')
  t.match(await make(red, 'x'.repeat(126), ['red']), { status: 400, body: { error: /130 characters; 1 to 128/ } })

  t.equal((await node.call('DELETE', blue, '/root')).status, 204, "blue's own")
  t.equal((await node.call('DELETE', blue, '/root')).status, 404, 'not that of the server')
  t.equal((await asBoth('DELETE', '/blue%2Fwide')).statusCode, 204)
  t.equal((await node.call('DELETE', red, '/global')).status, 204, "a key of red that the server's admin has made")
  t.equal((await node.call('DELETE', ADMIN, '/blue%2Fci')).status, 204)
  await node.stop()
  const again = await start(options)
  t.teardown(() => again.stop())
  t.match(await again.who(ofRed.body.key, { 'x-namespace': 'red' }), { status: 200, principal: 'red/ci' })
  t.equal((await again.call('DELETE', red, '/ci')).status, 204)
})

t.test('a key made before multi_tenancy was switched on is refused at start', async (t) => {
  const dir = temporaryFolder(t)
  const node = await start({ keys: [admin], dir })
  await node.call('POST', ADMIN, '', { name: 'homeless' })
  await node.stop()
  await t.rejects(
    start({ keys: [{ ...admin, namespaces: ['*'] }], dir, config: { server: { multi_tenancy: true } } }),
    /cannot use key "homeless" with server\.multi_tenancy/,
  )
})

t.test('only revoked keys let nobody in', async (t) => {
  const dir = temporaryFolder(t)
  const node = await start({ keys: [admin, { name: 'user', key: keyText() }], dir })
  await node.call('DELETE', ADMIN, '/user')
  await node.stop()
  await t.rejects(start({ keys: [{ name: 'user', key: keyText() }], dir }), /cannot let anybody in: there is no API key/)
})

t.test('the file of an older version is imported, once, and revoked keys stay revoked', async (t) => {
  const dir = temporaryFolder(t)
  const path = join(dir, FILE)
  const made = await Promise.all(['one', 'two'].map((name) => newKey({ name, namespaces: ['red'], roles: [], admin: false }, 'svc_', Date.now())))
  const user = keyText()
  const keys = [admin, { name: 'user \u{1f600}', key: user }]
  const good = Buffer.from(
    legacyFile(
      made.map(({ record }) => record),
      [{ name: 'user \u{1f600}', revoked_at: 1 }],
    ),
  )
  await mkdir(join(dir, 'auth'))
  const random = seeded(7)
  for (let i = 0; i < 4; i++) {
    const bad = Buffer.from(good)
    const at = Math.floor(random() * bad.length)
    if (i % 2 === 0) bad[at] ^= 1 << Math.floor(random() * 8)
    await writeFile(path, i % 2 === 0 ? bad : bad.subarray(0, at))
    const error = await start({ keys, dir }).then(
      (started) => started.stop().then(() => new Error(`started with byte ${at} damaged`)),
      (failure: Error) => failure,
    )
    t.match(error.message, /cannot start plugin "api_keys": cannot import API keys ".*auth\/api_keys\.json": it/, `byte ${at}`)
    t.notMatch(error.message, /argon2/)
  }
  await rm(path)
  await mkdir(path)
  await t.rejects(start({ keys, dir }), /cannot import API keys ".*auth\/api_keys\.json": it is no file/)
  await rm(path, { recursive: true })

  await writeFile(path, good)
  let node = await start({ keys, dir })
  t.same(await readdir(join(dir, 'auth')), ['api_keys.json.imported'])
  for (const { text } of made) t.match(await node.who(text), { status: 200 })
  t.equal((await node.who(user)).status, 401)
  t.equal((await node.call('DELETE', ADMIN, '/one')).status, 204)
  await node.stop()
  await rename(`${path}.imported`, path) // as a power cut may leave it
  node = await start({ keys, dir })
  t.match([await node.who(made[0].text), await node.who(made[1].text), await node.who(user)], [{ status: 401 }, { status: 200 }, { status: 401 }])
  await node.stop()
  await writeFile(path, legacyFile(made.map(({ record }) => record)))
  await t.rejects(start({ keys, dir }), /cannot import API keys .*: this database has a state of its own, and the file would bring back what was removed/)
})

t.test('an entry that cannot be read stops the start, and can be revoked by a file', async (t) => {
  const dir = temporaryFolder(t)
  const id = '6f1c2a52-7c0e-4e9b-9c55-0d6d0f6a4b11'
  let node = await start({ keys: [admin], dir })
  await node.storage.state('api_keys').transaction((tx) => tx.put(`runtime/${id}`, { id, color: 'red' }))
  await node.stop()
  await t.rejects(
    start({ keys: [admin], dir }),
    new RegExp(`cannot read API key "${id}" of the state store: .*revoke it with an empty file "auth/keys/${id}.revoked"`),
  )
  await mkdir(join(dir, 'auth', 'keys'), { recursive: true })
  await writeFile(join(dir, 'auth', 'keys', `${id}.revoked`), '')
  node = await start({ keys: [admin], dir })
  t.teardown(() => node.stop())
  t.same(await readdir(join(dir, 'auth', 'keys')), [])
  t.equal((await node.who(ADMIN)).status, 200)
})

t.test('a key that was made can be revoked by a file, while the server runs or not', async (t) => {
  const dir = temporaryFolder(t)
  const revoke = (id: string) => writeFile(join(dir, 'auth', 'keys', `${id}.revoked`), '')
  let node = await start({ keys: [admin], dir, tuning: { max_failures: 0 } })
  const [first, second] = [(await node.call('POST', ADMIN, '', { name: 'first' })).body, (await node.call('POST', ADMIN, '', { name: 'second' })).body]
  t.equal((await node.who(first.key)).status, 200)
  await mkdir(join(dir, 'auth', 'keys'), { recursive: true })
  await revoke(first.id)
  t.equal((await node.call('GET', ADMIN)).body.total, 2)
  t.equal((await node.who(first.key)).status, 401)
  t.equal((await node.who(second.key)).status, 200)
  await node.stop()
  await revoke(second.id)
  node = await start({ keys: [admin], dir })
  t.teardown(() => node.stop())
  for (const { key } of [first, second]) t.equal((await node.who(key)).status, 401)
  t.same(await readdir(join(dir, 'auth', 'keys')), [])
})

t.test('there is a limit', async (t) => {
  const dir = temporaryFolder(t)
  const { record } = await newKey({ name: 'x', namespaces: [], roles: [], admin: false }, 'svc_', Date.now())
  const records = Array.from({ length: 9999 }, (_, i) => ({ ...record, id: crypto.randomUUID(), name: `k${i}` }))
  await mkdir(join(dir, 'auth'))
  await writeFile(join(dir, FILE), legacyFile(records))
  const node = await start({ keys: [admin], dir })
  t.teardown(() => node.stop())
  t.equal((await node.call('POST', ADMIN, '', { name: 'last' })).status, 201)
  t.match(await node.call('POST', ADMIN, '', { name: 'more' }), { status: 409, body: { error: /there are 10000, which is the limit; revoke some/ } })
  t.equal((await node.call('DELETE', ADMIN, '/k7')).status, 204)
  t.equal((await node.call('POST', ADMIN, '', { name: 'more' })).status, 201)
})

t.test('admins of a namespace leave room for others', async (t) => {
  const [red, both] = [keyText(), keyText()]
  const keys = [
    { ...admin, namespaces: ['*'] },
    { name: 'red-admin', key: red, admin: true, namespaces: ['red'] },
    { name: 'both-admin', key: both, admin: true, namespaces: ['blue', 'red'] },
  ]
  const node = await start({ keys, tuning: { max_keys_per_namespace: 3 }, config: { server: { multi_tenancy: true } } })
  t.teardown(() => node.stop())
  const make = (by: string, name: string, namespaces: string[]) =>
    node.inject({ method: 'POST', url: PATH, headers: { authorization: `Bearer ${by}`, 'x-namespace': namespaces[0] }, payload: { name, namespaces } })
  for (let i = 0; i < 3; i++) t.equal((await make(red, `k${i}`, ['red'])).statusCode, 201)
  const full = await make(red, 'k3', ['red'])
  t.equal(full.statusCode, 409)
  t.match(full.json().error, /API key "k3": namespace "red" has 3, which is auth.api_key.max_keys_per_namespace; revoke some/)
  t.equal((await make(both, 'of-both', ['blue', 'red'])).statusCode, 409)
  t.equal((await make(both, 'of-blue', ['blue'])).statusCode, 201)
  t.equal((await make(ADMIN, 'of-root', ['red'])).statusCode, 201, 'who administers everything is not held back')
  t.equal((await node.call('DELETE', red, '/k0')).status, 204)
  t.equal((await make(red, 'k3', ['red'])).statusCode, 409, 'three are left')
  t.equal((await node.call('DELETE', red, '/k1')).status, 204)
  t.equal((await make(red, 'k3', ['red'])).statusCode, 201)
})

t.test('what cannot be kept has not happened', async (t) => {
  const dir = temporaryFolder(t)
  const state = faultyState()
  const node = await start({ keys: [admin, { name: 'user', key: keyText() }], dir, before: [state.plugin] })
  t.teardown(() => node.stop())
  const kept = (await node.call('POST', ADMIN, '', { name: 'kept' })).body.key
  state.failure = new Error('the disk is gone')
  t.match(await node.call('POST', ADMIN, '', { name: 'lost' }), { status: 500, body: { code: 'IO_ERROR', error: 'IO_ERROR: an internal error occurred' } })
  for (const name of ['kept', 'user']) t.match(await node.call('DELETE', ADMIN, `/${name}`), { status: 500 })
  t.equal((await node.who(kept)).status, 200, 'it stands')
  t.same(
    (await node.call('GET', ADMIN)).body.items.map(({ name }: { name: string }) => name),
    ['kept', 'root', 'user'],
  )
  state.failure = undefined
  t.equal((await node.call('DELETE', ADMIN, '/kept')).status, 204)
  t.equal((await node.call('POST', ADMIN, '', { name: 'lost' })).status, 201)
})

t.test('many at once: each happens once, and what is kept is what the answers say', async (t) => {
  const dir = temporaryFolder(t)
  let node = await start({ keys: [admin], dir })
  const names = Array.from({ length: 6 }, (_, i) => `k${i}`)
  const made = await Promise.all([...names, ...names].map((name) => node.call('POST', ADMIN, '', { name })))
  t.same(made.map(({ status }) => status).sort(), [...names.map(() => 201), ...names.map(() => 409)])
  const texts = new Map(made.filter(({ status }) => status === 201).map(({ body }) => [body.name as string, body.key as string]))
  const removed = names.slice(0, 3)
  // Verification, use and revocation of the same keys at the same time.
  const answers = await Promise.all([
    ...removed.flatMap((name) => [node.call('DELETE', ADMIN, `/${name}`), node.call('DELETE', ADMIN, `/${name}`)]),
    ...names.map((name) => node.who(texts.get(name)).then(({ status }) => ({ status, body: undefined }))),
  ])
  t.same(
    answers
      .slice(0, 6)
      .map(({ status }) => status)
      .sort(),
    [204, 204, 204, 404, 404, 404],
  )
  for (const round of ['before', 'after']) {
    for (const name of names) t.equal((await node.who(texts.get(name))).status, removed.includes(name) ? 401 : 200, `${name} ${round} the restart`)
    if (round === 'before') {
      await node.stop()
      node = await start({ keys: [admin], dir })
    }
  }
  await node.stop()
})
