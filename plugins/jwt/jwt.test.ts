import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Secret } from 'svcdb'
import { boot, Logs, type NodeConfig, readConfig, resolveConfig, SvcNode, temporaryFolder } from 'svcdb/testkit'
import t from 'tap'
import jwt from './index.ts'
import { claimsOf, forge, makeKey, SECRET, sign, startNode } from './testing.ts'

const now = (): number => Math.floor(Date.now() / 1000)

t.test('a good token is who it says', async (t) => {
  const { who, metric } = await startNode(t, { secret: SECRET, issuer: 'https://issuer.example', audience: 'svc' })
  const claims = claimsOf({
    iss: 'https://issuer.example',
    aud: ['other', 'svc'],
    namespaces: ['red', 'blue'],
    roles: ['reader'],
    admin: true,
    extra: { deep: 1 },
  })
  const token = await sign(SECRET, claims)
  const expected = {
    status: 200,
    principal: 'ann',
    method: 'jwt',
    claims,
    roles: ['reader'],
    namespaces: ['red', 'blue'],
    admin: true,
    expiresAt: (claims.exp as number) * 1000,
  }
  t.match(await who(token, { 'x-namespace': 'red' }), expected)
  t.match(await who(token, { 'x-namespace': 'red' }), expected, 'the same from the cache')
  t.match(await who(token, { 'x-namespace': 'green' }), { status: 403, code: 'FORBIDDEN' })
  t.equal(await metric('svc_jwt_verifications_total{result="ok"}'), 1)
  t.equal(await metric('svc_jwt_verifications_total{result="cached"}'), 2)
})

t.test('tokens come as Bearer in any case, as Token, and as the password of Basic', async (t) => {
  const { who } = await startNode(t, { secret: SECRET })
  const token = await sign(SECRET)
  const basic = Buffer.from(`anybody:${token}`).toString('base64')
  for (const authorization of [`Bearer ${token}`, `bEARER  ${token}`, `Token ${token}`, `Basic ${basic}`]) {
    t.match(await who(undefined, { authorization }), { status: 200, principal: 'ann' }, authorization.slice(0, 7))
  }
  t.match(await who(undefined, { authorization: `Digest ${token}` }), { status: 401 })
  t.match(await who(undefined), { status: 401, error: /no credentials/ })
})

t.test('the text of a refusal tells the cause and nothing of the token', async (t) => {
  const { who, node, lines } = await startNode(t, { secret: SECRET, issuer: 'https://issuer.example', audience: 'svc', clock_skew_secs: 10 })
  const good = { iss: 'https://issuer.example', aud: 'svc' }
  const refused = async (claims: Record<string, unknown>, error: RegExp) => {
    const token = await sign(SECRET, claims)
    const answer = await who(token)
    t.match(answer, { status: 401, code: 'UNAUTHORIZED', error })
    for (const part of token.split('.')) t.notOk(JSON.stringify([answer, lines]).includes(part))
  }
  t.match(await who(await sign(SECRET, claimsOf(good))), { status: 200 })
  await refused({ ...claimsOf(good), exp: now() - 11 }, /it has expired/)
  await refused({ ...claimsOf(good), nbf: now() + 60 }, /not valid yet/)
  await refused({ ...claimsOf(good), iss: 'https://other.example' }, /another issuer/)
  await refused({ ...claimsOf(good), iss: 'https://issuer.example/' }, /another issuer/)
  await refused({ ...claimsOf(good), iss: ['https://issuer.example'] }, /another issuer/)
  await refused({ ...claimsOf(), aud: 'svc' }, /claim iss is missing/)
  await refused({ ...claimsOf(good), aud: 'svc2' }, /another audience/)
  await refused({ ...claimsOf(good), aud: ['a', 'b'] }, /another audience/)
  await refused({ ...claimsOf(good), aud: { svc: true } }, /another audience/)
  await refused(claimsOf({ iss: good.iss }), /claim aud is missing/)
  await refused({ ...good, sub: 'ann' }, /claim exp is missing/)
  await refused({ ...good, exp: now() + 60 }, /claim sub is missing/)
  await refused({ ...claimsOf(good), exp: String(now() + 60) }, /claim exp must be a number/)
  await refused({ ...claimsOf(good), nbf: 'now' }, /claim nbf must be a number/)
  t.match(await who(await sign('another secret, as long as needed!', claimsOf(good))), { status: 401, error: /signature is wrong/ })
  const answer = await node.inject({ url: '/who', headers: { authorization: 'Bearer a.b.c' } })
  t.equal(answer.headers['www-authenticate'], 'Bearer error="invalid_token"')
})

t.test('clocks may differ by the skew, in both directions', async (t) => {
  const { who } = await startNode(t, { secret: SECRET, clock_skew_secs: 30 })
  t.match(await who(await sign(SECRET, claimsOf({ exp: now() - 20 }))), { status: 200 })
  t.match(await who(await sign(SECRET, claimsOf({ exp: now() - 31 }))), { status: 401 })
  t.match(await who(await sign(SECRET, claimsOf({ nbf: now() + 20 }))), { status: 200 })
  t.match(await who(await sign(SECRET, claimsOf({ nbf: now() + 40 }))), { status: 401 })
})

t.test('a token that was verified counts no longer than it lives', async (t) => {
  const { who, clock } = await startNode(t, { secret: SECRET, clock_skew_secs: 0 })
  const token = await sign(SECRET, claimsOf({ exp: now() + 40 }))
  t.match(await who(token), { status: 200 })
  clock.forward(30)
  t.match(await who(token), { status: 200 })
  clock.forward(11)
  t.match(await who(token), { status: 401, error: /expired/ })
})

t.test('claims of wrong types or values refuse the token', async (t) => {
  const { who } = await startNode(t, { secret: SECRET })
  const cases: [Record<string, unknown>, RegExp][] = [
    [{ sub: '' }, /claim sub/],
    [{ sub: 7 }, /claim sub/],
    [{ sub: 'a\nb' }, /claim sub/],
    [{ sub: 'x'.repeat(513) }, /claim sub/],
    [{ admin: 'true' }, /claim admin/],
    [{ admin: 1 }, /claim admin/],
    [{ admin: null }, /claim admin/],
    [{ roles: { reader: true } }, /claim roles/],
    [{ roles: ['reader', 1] }, /claim roles/],
    [{ roles: null }, /claim roles/],
    [{ roles: ['reader\u0000'] }, /claim roles/],
    [{ namespaces: null }, /claim namespaces/],
    [{ namespaces: 3 }, /claim namespaces/],
    [{ namespaces: [['red']] }, /claim namespaces/],
    [{ namespaces: '' }, /claim namespaces/],
    [{ namespaces: ['Red'] }, /cannot use namespace "Red"/],
    [{ namespaces: 'a b' }, /cannot use namespace "a b"/],
    [{ tenant_id: ['red'] }, /claim tenant_id/],
    [{ tenant_id: '' }, /cannot use namespace ""/],
  ]
  for (const [claims, error] of cases) t.match(await who(await sign(SECRET, claimsOf(claims))), { status: 401, error }, JSON.stringify(claims).slice(0, 60))
  for (const body of ['[]', '"text"', 'null', '7', '{', '\u0000']) {
    t.match(await who(forge({ alg: 'HS256' }, body, { secret: SECRET })), { status: 401, error: /no signed token/ }, body)
  }
})

t.test('roles, namespaces, tenants and admins', async (t) => {
  const { who } = await startNode(t, { secret: SECRET })
  const identity = async (claims: Record<string, unknown>) => who(await sign(SECRET, claimsOf(claims)))
  t.match(await identity({}), { status: 200, roles: [], namespaces: [], admin: false })
  t.match(await identity({ roles: 'reader', namespaces: 'red' }), { roles: ['reader'], namespaces: ['red'], namespace: 'red' })
  t.match(await identity({ roles: ['a', 'b', 'a'] }), { roles: ['a', 'b'] })
  t.match(await identity({ tenant_id: 'red' }), { namespaces: ['red'], namespace: 'red' })
  t.match(await who(await sign(SECRET, claimsOf({ tenant_id: 'red', namespaces: ['blue'] })), { 'x-namespace': 'red' }), { namespaces: ['blue', 'red'] })
  t.match(await identity({ admin: false }), { admin: false })
})

t.test('role_claim and principal_claim lead into objects; a name with dots goes first', async (t) => {
  const nested = await startNode(t, { secret: SECRET, role_claim: 'realm_access.roles', principal_claim: 'user.name' })
  const claims = { user: { name: 'Ann' }, realm_access: { roles: ['reader'] } }
  t.match(await nested.who(await sign(SECRET, claimsOf(claims))), { status: 200, principal: 'Ann', roles: ['reader'] })
  t.match(await nested.who(await sign(SECRET, claimsOf({ ...claims, realm_access: 'none' }))), { status: 200, roles: [] })
  t.match(await nested.who(await sign(SECRET, claimsOf({ user: 'Ann' }))), { status: 401, error: /claim user.name/ })
  t.match(await nested.who(await sign(SECRET, claimsOf({ ...claims, sub: ' ' }))), { status: 401, error: /claim sub/ })
  const dotted = await startNode(t, { secret: SECRET, role_claim: 'https://example.com/roles' })
  t.match(await dotted.who(await sign(SECRET, claimsOf({ 'https://example.com/roles': ['r'] }))), { roles: ['r'] })
  for (const role_claim of ['constructor', 'constructor.name', '__proto__.constructor']) {
    const inherited = await startNode(t, { secret: SECRET, role_claim })
    t.match(await inherited.who(await sign(SECRET)), { status: 200, roles: [] }, role_claim)
  }
})

t.test('under multi_tenancy a token names a namespace, and an admin of all says so', async (t) => {
  const { who } = await startNode(t, { secret: SECRET }, { server: { multi_tenancy: true } })
  t.match(await who(await sign(SECRET)), { status: 401, error: /names no namespace/ })
  t.match(await who(await sign(SECRET, claimsOf({ tenant_id: 'red' }))), { status: 200, dataNamespace: 'red' })
  t.match(await who(await sign(SECRET, claimsOf({ namespaces: ['red'] })), { 'x-namespace': 'blue' }), { status: 403 })
  for (const claims of [{ namespaces: [] }, { admin: true }, { admin: true, namespaces: [] }])
    t.match(await who(await sign(SECRET, claimsOf(claims))), { status: 401, error: /names no namespace.*for an admin of all of them "\*"/ })
  for (const namespaces of ['*', ['*']]) {
    const everywhere = await sign(SECRET, claimsOf({ admin: true, namespaces }))
    t.match(await who(everywhere, { 'x-namespace': 'blue' }), { status: 200, dataNamespace: 'blue', namespaces: [] })
    t.match(await who(await sign(SECRET, claimsOf({ namespaces }))), { status: 401, error: /no admin's/ })
  }
  t.match(await who(await sign(SECRET, claimsOf({ admin: true, namespaces: ['*', 'red'] }))), { status: 401, error: /"\*" beside others/ })
})

t.test('what has two dots or more is a token and nothing else; chain_auth tries it as a key', async (t) => {
  const alone = await startNode(t, { secret: SECRET })
  t.match(await alone.who('key'), { status: 200, method: 'api_key' })
  t.match(await alone.who('one.dot'), { status: 401, error: /not accepted; check the token/ })
  for (const token of ['a.key.too', 'a.b.c.d', '..', `${'a.'.repeat(5)}b`])
    t.match(await alone.who(token), { status: 401, error: /cannot accept the token/ }, token)
  t.match(await alone.who(`a.b.c.d.e`), { status: 401, error: /encrypted/ })
  const chained = await startNode(t, { secret: SECRET }, { auth: { chain_auth: true } })
  t.match(await chained.who('a.key.too'), { status: 200, method: 'api_key' })
  t.match(await chained.who(await sign(SECRET)), { status: 200, method: 'jwt' })
  t.match(await chained.who(await sign(SECRET, claimsOf({ exp: 1 }))), { status: 401, error: /not accepted; check the token/ })
  t.equal(await chained.metric('svc_jwt_verifications_total{result="expired"}'), 1)
})

t.test('long tokens are refused before they are looked into', async (t) => {
  // Over gRPC and with a larger --max-http-header-size more fits into a header than the HTTP default.
  const { openJwt } = await import('./service.ts')
  let authenticate: ReturnType<typeof openJwt>['authenticator'] | undefined
  const { definePlugin } = await import('svcdb')
  const { configSchema } = await import('./config.ts')
  const probe = definePlugin({
    id: 'probe',
    summary: 'Hands out its authenticator',
    stability: 'experimental',
    section: '',
    config: configSchema,
    setup(svc, { auth }) {
      const { authenticator, start } = openJwt(svc, auth)
      authenticate = authenticator
      svc.start(start)
    },
  })
  const node = await boot({ plugins: [probe], config: { auth: { jwt: { secret: SECRET } } } })
  t.teardown(() => node.stop())
  const header = (token: string) => ({ header: (name: string) => (name === 'authorization' ? `Bearer ${token}` : undefined) }) as never
  t.match(await authenticate?.authenticate(header(await sign(SECRET, claimsOf({ padding: 'x'.repeat(12_000) })))), { principal: 'ann' })
  t.match(await authenticate?.authenticate(header(await sign(SECRET, claimsOf({ padding: 'x'.repeat(16_384) })))), { message: /more than 16384 characters/ })
})

t.test('reject_replayed_jti takes each token once', async (t) => {
  const { who, clock } = await startNode(t, { secret: SECRET, reject_replayed_jti: true })
  const token = await sign(SECRET, claimsOf({ jti: 'one' }))
  t.match(await who(token), { status: 200 })
  t.match(await who(token), { status: 401, error: /used before/ })
  t.match(await who(await sign(SECRET, claimsOf({ jti: 'one', extra: 1 }))), { status: 401, error: /used before/ })
  t.match(await who(await sign(SECRET, claimsOf({ jti: 'one', iss: 'other' }))), { status: 200 })
  t.match(await who(await sign(SECRET, claimsOf({ jti: 'two' }))), { status: 200 })
  t.match(await who(await sign(SECRET)), { status: 401, error: /claim jti/ })
  t.match(await who(await sign(SECRET, claimsOf({ jti: 3 }))), { status: 401, error: /claim jti/ })
  clock.forward(10)
  t.match(await who(token), { status: 401, error: /used before/ })
  const many = await sign(SECRET, claimsOf({ jti: 'many' }))
  const answers = await Promise.all(Array.from({ length: 10 }, () => who(many)))
  t.equal(answers.filter(({ status }) => status === 200).length, 1, 'of calls at one time too')
})

t.test('a token is for one call until it is taken no more, also where its exp has a fraction', async (t) => {
  const { who, clock } = await startNode(t, { secret: SECRET, reject_replayed_jti: true, clock_skew_secs: 30 })
  const exp = Math.floor(Date.now() / 1000) + 60.5
  const [token, next] = [await sign(SECRET, claimsOf({ jti: 'one', exp })), await sign(SECRET, claimsOf({ jti: 'next', exp: exp + 60 }))]
  t.match(await who(token), { status: 200 })
  // Whole seconds count where exp is looked at: it is taken until the next one begins.
  Object.assign(clock, { now: () => (exp + 30.2) * 1000 })
  t.match(await who(next), { status: 200 }, 'by which those that have ended are forgotten')
  t.match(await who(token), { status: 401, error: /used before/ })
  Object.assign(clock, { now: () => (exp + 30.5) * 1000 })
  t.match(await who(token), { status: 401, error: /has expired/ })
})

t.test('used tokens of one namespace leave room for those of another', async (t) => {
  const { who, clock } = await startNode(t, { secret: SECRET, reject_replayed_jti: true, max_used_tokens: 8 })
  const exp = Math.floor(Date.now() / 1000) + 60
  let made = 0
  const use = async (namespaces: string[]) => who(await sign(SECRET, claimsOf({ jti: `t${made++}`, namespaces, exp })))
  for (let i = 0; i < 6; i++) t.match(await use(['default']), { status: 200 })
  for (const namespaces of [['default'], ['default', 'blue']])
    t.match(await use(namespaces), { status: 429, error: /as many tokens as are remembered are in use/ })
  for (let i = 0; i < 2; i++) t.match(await use(['blue']), { status: 200 }, 'of another')
  t.match(await use(['blue']), { status: 429 })
  clock.forward(120)
  const later = await sign(SECRET, claimsOf({ jti: 'later', namespaces: ['default'] }))
  t.match(await who(later), { status: 200 }, 'those that have expired leave their room')
  t.match(await who(later), { status: 401, error: /used before/ })
})

t.test('the plugin needs its section', async (t) => {
  await t.rejects(boot({ plugins: [jwt] }), /cannot set up plugin "jwt": it needs a section \[auth.jwt\]/)
  await t.rejects(boot({ plugins: [jwt], config: { auth: { chain_auth: true } } }), /it needs a section \[auth.jwt\]/)
})

t.test('keys that do not go together are refused at start, naming them', async (t) => {
  const start = async (section: Record<string, unknown>) => (await boot({ plugins: [jwt], config: { auth: { jwt: section } } })).stop()
  const cases: [Record<string, unknown>, RegExp][] = [
    [{}, /\[auth.jwt\] has no key; set one of "auth.jwt.secret", "auth.jwt.public_key_pem_file" and "auth.jwt.jwks_url"/],
    [{ secret: SECRET, algorithm: 'RS256' }, /"auth.jwt.algorithm" "RS256" with "auth.jwt.secret"/],
    [{ public_key_pem_file: 'x.pem' }, /"auth.jwt.algorithm" "HS256" with "auth.jwt.public_key_pem_file"/],
    [{ public_key_pem_file: 'x.pem', algorithm: 'HS512' }, /"auth.jwt.algorithm" "HS512" with "auth.jwt.public_key_pem_file"/],
    [{ jwks_url: 'http://localhost/keys', algorithm: 'HS256' }, /"auth.jwt.algorithm" "HS256" with "auth.jwt.jwks_url"/],
    [{ issuer: 'http://localhost', algorithm: 'HS256' }, /"auth.jwt.algorithm" "HS256" with "auth.jwt.issuer"/],
    [{ secret: SECRET, public_key_pem_file: 'x.pem' }, /"auth.jwt.secret" together with "auth.jwt.public_key_pem_file"/],
    [{ secret: SECRET, jwks_url: 'http://localhost/keys' }, /"auth.jwt.secret" together with "auth.jwt.jwks_url"/],
    [{ secret: 'short' }, /less than 16 bytes/],
    [{ jwks_url: 'http://user:pass@localhost/keys' }, /user name or password/],
    [{ jwks_url: 'ftp://localhost/keys' }, /auth.jwt.jwks_url/],
    [{ issuer: 'not a url' }, /"auth.jwt.issuer" "not a url"/],
    [{ issuer: 'https://localhost/?a=b' }, /no query/],
    [{ secret: SECRET, algorithm: 'none' }, /must be one of HS256/],
    [{ secret: SECRET, algorithm: 'ES512' }, /must be one of HS256/],
  ]
  for (const [section, error] of cases) {
    const failure = await start(section).then(
      () => undefined,
      (reason: Error) => reason,
    )
    t.match(failure?.message, error, JSON.stringify(Object.keys(section)))
    t.notMatch(String(failure?.message), SECRET)
    t.notMatch(String(failure?.message), 'user:pass')
  }
  await t.test('a short secret is told of', async (t) => {
    const { lines } = await startNode(t, { secret: 'x'.repeat(20) })
    t.ok(lines.some(({ level, msg }) => level === 'warn' && /fewer bytes than HS256 should have/.test(String(msg))))
  })
})

t.test('SVC_JWT_SECRET goes before the file, and needs the section', async (t) => {
  const folder = temporaryFolder(t)
  const files = {
    'secret.toml': `plugins = ["jwt"]\n[auth.jwt]\nsecret = "${SECRET}"\n`,
    'url.toml': 'plugins = ["jwt"]\n[auth.jwt]\njwks_url = "http://localhost/keys"\n',
    'other.toml': 'plugins = ["line_protocol"]\n[auth]\nexempt_paths = ["/health"]\n',
  }
  for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text)
  const other = 'f'.repeat(64)
  const resolved = (file: string, secret: string) => resolveConfig(readConfig({ config: join(folder, file) }, { SVC_JWT_SECRET: secret }))
  const secretOf = (config: NodeConfig) => (config.sections.get('jwt') as { auth: { jwt: { secret: Secret } } }).auth.jwt.secret
  t.equal(secretOf(await resolved('secret.toml', other)).reveal(), other)
  t.equal(secretOf(await resolved('secret.toml', '')).reveal(), SECRET, 'an empty one is none')
  await t.rejects(
    resolved('other.toml', other),
    /^cannot use the environment variable "SVC_JWT_SECRET": there is no section \[auth\.jwt\] in .*other\.toml; add it/,
  )
  const both = new SvcNode(await resolved('url.toml', other), { logs: new Logs({ level: 'error', format: 'json', destination: { write: () => {} } }) })
  await t.rejects(both.setup(), /"auth\.jwt\.secret" together with "auth\.jwt\.jwks_url".*SVC_JWT_SECRET/)
})

t.test('a token of another kind of key is refused', async (t) => {
  const { who } = await startNode(t, { secret: SECRET })
  t.match(await who(await sign(makeKey('ES256'))), { status: 401, error: /its algorithm/ })
  t.match(await who(await sign(SECRET, claimsOf(), { alg: 'HS384' })), { status: 401, error: /its algorithm/ })
})
