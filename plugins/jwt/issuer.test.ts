import { AUDIT_LOG, type AuditLog, type AuditRecord, definePlugin, type Plugin } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import { boot } from 'svcdb/testkit'
import t from 'tap'
import { eventually } from '../../test/support/until.ts'
import jwt from './index.ts'
import { claimsOf, jwkOf, makeKey, sign, startIssuer, startNode, type TestIssuer, type TestKey } from './testing.ts'

const HOUR = 3600
const [first, second, third] = ['first', 'second', 'third'].map((kid) => makeKey('ES256', kid))

function startFailure(section: Record<string, unknown>): Promise<string> {
  return boot({ plugins: [jwt], config: { auth: { jwt: section } } }).then(
    async (node) => {
      await node.stop()
      return 'it started'
    },
    (error: Error) => error.message,
  )
}

function auditLog(): { plugin: Plugin; records: AuditRecord[]; fail: boolean } {
  const state = { records: [] as AuditRecord[], fail: false }
  const service: AuditLog = {
    async record(entry) {
      if (state.fail) throw new SvcError('IO_ERROR', 'no disk')
      state.records.push(entry)
    },
  }
  const plugin = definePlugin({
    id: 'audit_log',
    summary: 'An audit log for the tests',
    stability: 'experimental',
    provides: [AUDIT_LOG],
    setup: (svc) => svc.provide(AUDIT_LOG, service),
  })
  return Object.assign(state, { plugin })
}

t.test('discovery', async (t) => {
  const issuer = await startIssuer(t, jwkOf(first))
  const { who, metric } = await startNode(t, { issuer: issuer.url, audience: 'svc' })
  t.match(await who(await sign(first, claimsOf({ iss: issuer.url, aud: 'svc' }))), { status: 200 })
  t.same([issuer.discoveries, issuer.fetches], [1, 1])
  t.equal(await metric('svc_jwt_keys'), 1)
  t.equal(await metric('svc_jwt_key_refreshes_total{result="done"}'), 1)
  t.ok(((await metric('svc_jwt_keys_age_seconds')) as number) < 60)

  await t.test('the document must be the issuer’s own, and lead to keys', async (t) => {
    const cases: [(right: Record<string, unknown>) => unknown, RegExp][] = [
      [
        (right) => ({ ...right, issuer: `${issuer.url}/` }),
        /document of issuer "http:\/\/127.0.0.1:\d+\/", not of auth.jwt.issuer "http:\/\/127.0.0.1:\d+"; they must be the same/,
      ],
      [(right) => ({ ...right, issuer: undefined }), /document of issuer null/],
      [(right) => ({ ...right, jwks_uri: undefined }), /jwks_uri is no http or https URL/],
      [(right) => ({ ...right, jwks_uri: 'file:///etc/passwd' }), /jwks_uri is no http or https URL/],
      [(right) => ({ ...right, jwks_uri: `${issuer.url}/nothing` }), /cannot fetch the key set "http:.*\/nothing": it answered 404/],
      [() => [], /document of issuer null/],
      [() => null, /document of issuer null/],
    ]
    t.teardown(() => {
      issuer.document = (right) => right
    })
    for (const [document, error] of cases) {
      issuer.document = document
      t.match(await startFailure({ issuer: issuer.url }), error)
    }
  })
  await t.test('one slash at the end of the issuer is left out of the URL', async (t) => {
    issuer.document = (right) => ({ ...right, issuer: `${issuer.url}/` })
    const { who } = await startNode(t, { issuer: `${issuer.url}/` })
    t.match(await who(await sign(first, claimsOf({ iss: `${issuer.url}/` }))), { status: 200 })
    issuer.document = (right) => right
  })
  await t.test('with jwks_url nothing is discovered', async (t) => {
    const before = issuer.discoveries
    const { who } = await startNode(t, { issuer: 'https://elsewhere.example', jwks_url: issuer.jwksUrl })
    t.match(await who(await sign(first, claimsOf({ iss: 'https://elsewhere.example' }))), { status: 200 })
    t.equal(issuer.discoveries, before)
  })
})

t.test('an issuer that gives no keys ends the start', async (t) => {
  const issuer = await startIssuer(t)
  const section = { jwks_url: issuer.jwksUrl }
  t.match(await startFailure(section), /cannot start plugin "jwt": cannot fetch the key set "http:.*\/keys": the key set is empty/)
  const keys: [unknown[], RegExp][] = [
    [[{ kty: 'oct', k: 'c2VjcmV0', kid: 'a', use: 'sig' }], /empty: none of its 1 keys/],
    [
      [jwkOf(first, { use: 'enc' }), jwkOf(first, { key_ops: ['encrypt'] }), jwkOf(first, { alg: 'ECDH-ES' }), jwkOf(first, { alg: 'HS256' })],
      /none of its 4 keys/,
    ],
    [[{ ...jwkOf(first), ...first.privateKey.export({ format: 'jwk' }) }], /none of its 1 keys/],
    [[null, 7, 'x', [], {}, { kty: 'RSA' }, { kty: 'EC', crv: 'P-256', x: 'AA', y: 'AA' }, { kty: 'EC', crv: 'P-256', x: 1, y: {} }], /none of its 8 keys/],
    [Array.from({ length: 101 }, () => jwkOf(first)), /has 101 keys, and 100 are the limit/],
  ]
  for (const [set, error] of keys) {
    issuer.keys = set
    t.match(await startFailure(section), error)
  }
  const answers: [TestIssuer['answer'], RegExp][] = [
    [(_, response) => response.end('<html>not keys</html>'), /the answer is not JSON/],
    [(_, response) => response.end('{"keys": {}}'), /no list "keys"/],
    [(_, response) => response.end('null'), /no list "keys"/],
    [(_, response) => response.end(Buffer.from([0x7b, 0xff, 0x7d])), /not JSON/],
    [(_, response) => response.end(), /not JSON/],
    [(_, response) => response.writeHead(500).end('secret stack'), /it answered 500$/],
    [
      (_, response) => response.writeHead(302, { location: 'http://127.0.0.1:1/else' }).end(),
      /a redirect to "http:\/\/127.0.0.1:1\/else", and redirects are not followed/,
    ],
    [(request) => request.socket.destroy(), /cannot fetch the key set .*: (other side closed|read ECONNRESET|socket hang up)/],
    [(_, response) => response.end(`{"keys": [], "padding": "${'x'.repeat(1_100_000)}"}`), /more than 1048576 bytes/],
  ]
  for (const [answer, error] of answers) {
    issuer.answer = answer
    t.match(await startFailure(section), error)
  }
  await t.test('an answer without end is cut', async (t) => {
    const closed = new Promise((resolve) => {
      issuer.answer = (_, response) => {
        response.on('close', resolve)
        const more = (): void => {
          if (response.destroyed) return
          response.write('x'.repeat(65_536))
          setImmediate(more)
        }
        more()
      }
    })
    t.match(await startFailure(section), /more than 1048576 bytes/)
    await closed
  })
  await issuer.close()
  t.match(await startFailure(section), /cannot fetch the key set .*: connect ECONNREFUSED/)
  t.match(
    await startFailure({ issuer: issuer.url }),
    /cannot discover the keys of the issuer at ".*\/.well-known\/openid-configuration": connect ECONNREFUSED .*; see that the issuer answers there, and that auth\.jwt\.issuer is its address$/m,
  )
})

t.test('an issuer that does not answer is waited for ten seconds', async (t) => {
  const issuer = await startIssuer(t)
  issuer.answer = (_, response) => response.write('{')
  t.match(await startFailure({ jwks_url: issuer.jwksUrl }), /there was no answer within 10 s/)
})

t.test('a start that is given up does not wait for the issuer', async (t) => {
  const issuer = await startIssuer(t)
  const asked = new Promise<void>((resolve) => {
    issuer.answer = () => resolve()
  })
  const { SvcNode } = await import('svcdb/testkit')
  const { resolveConfig } = await import('svcdb/testkit')
  const tree = { server: { http_addr: '127.0.0.1:0', log_level: 'error' }, auth: { jwt: { jwks_url: issuer.jwksUrl } } }
  const node = new SvcNode(await resolveConfig({ tree, file: 'the test', folder: '.', overrides: new Map() }, { plugins: [jwt] }))
  await node.setup()
  const started = node.start().catch((error: Error) => error.message)
  await asked
  await node.stop()
  t.match(await started, /the server is stopping|was stopped/)
})

t.test('keys of other uses are left aside, and the algorithm of a key counts', async (t) => {
  const rsa = makeKey('RS256', 'rsa')
  const issuer = await startIssuer(t, jwkOf(rsa), jwkOf(first, { use: 'enc' }), jwkOf(second, { alg: undefined, use: undefined, key_ops: ['verify'] }))
  const { who, metric } = await startNode(t, { jwks_url: issuer.jwksUrl })
  t.equal(await metric('svc_jwt_keys'), 2)
  t.match(await who(await sign(rsa)), { status: 200 })
  t.match(await who(await sign({ ...rsa, alg: 'PS256' })), { status: 401, error: /its algorithm/ })
  t.match(await who(await sign(second)), { status: 200 })
  t.match(await who(await sign(first)), { status: 401, error: /no key that this server trusts/ })
})

t.test('algorithm confines the keys of a set', async (t) => {
  const rsa = makeKey('RS256')
  const issuer = await startIssuer(t, jwkOf(rsa, { alg: undefined }), jwkOf(first))
  const any = await startNode(t, { jwks_url: issuer.jwksUrl })
  const one = await startNode(t, { jwks_url: issuer.jwksUrl, algorithm: 'RS256' })
  for (const { alg, key } of [
    { alg: 'RS512', key: rsa },
    { alg: 'PS256', key: rsa },
    { alg: 'ES256', key: first },
  ]) {
    const token = await sign({ ...key, alg })
    t.match(await any.who(token), { status: 200 }, alg)
    t.match(await one.who(token), { status: 401, error: /its algorithm/ }, alg)
  }
  t.match(await one.who(await sign(rsa)), { status: 200 })
})

t.test('which key: by its name, else all', async (t) => {
  const issuer = await startIssuer(t, jwkOf(first), jwkOf(second), jwkOf(third, { kid: undefined }))
  const { who } = await startNode(t, { jwks_url: issuer.jwksUrl })
  for (const key of [first, second, third]) {
    t.match(await who(await sign(key, claimsOf(), { kid: undefined })), { status: 200 }, `${key.kid}, and the token names none`)
    t.match(await who(await sign(key, claimsOf(), { kid: 'unknown' })), { status: 200 }, `${key.kid}, and the token names another`)
  }
  t.match(await who(await sign(first, claimsOf(), { kid: 'second' })), { status: 401, error: /signature is wrong/ })
  t.equal(issuer.fetches, 1, 'what an old key verifies is no reason to fetch')
  const twins = await startIssuer(t, jwkOf(first, { kid: 'twin' }), jwkOf(second, { kid: 'twin' }), jwkOf(makeKey('RS256', 'twin')))
  const two = await startNode(t, { jwks_url: twins.jwksUrl })
  for (const key of [first, second]) t.match(await two.who(await sign(key, claimsOf(), { kid: 'twin' })), { status: 200 })
})

t.test('a key of a file goes before the key set', async (t) => {
  const { mkdtemp, rm, writeFile } = await import('node:fs/promises')
  const { tmpdir } = await import('node:os')
  const folder = await mkdtemp(`${tmpdir()}/svc-jwt-`)
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  await writeFile(`${folder}/key.pem`, first.pem)
  const rsa = makeKey('RS256')
  const issuer = await startIssuer(t, jwkOf(second), jwkOf(rsa))
  const { who } = await startNode(t, { public_key_pem_file: `${folder}/key.pem`, jwks_url: issuer.jwksUrl })
  for (const key of [first, second, rsa]) t.match(await who(await sign(key)), { status: 200 })
  t.match(await who(await sign(third)), { status: 401, error: /no key that this server trusts/ })
})

t.test('a withdrawn key is refused within one time to live, and a new one taken at once', async (t) => {
  const audit = auditLog()
  const issuer = await startIssuer(t, jwkOf(first))
  const { who, clock, metric } = await startNode(t, { jwks_url: issuer.jwksUrl, jwks_cache_ttl_secs: HOUR }, { others: [audit.plugin] })
  const claims = claimsOf({ exp: Math.floor(Date.now() / 1000) + 100 * HOUR })
  const [old, young] = [await sign(first, claims), await sign(second, claims)]
  t.match(await who(old), { status: 200 })
  t.match(await who(young), { status: 401, error: /no key that this server trusts/ })
  t.equal(issuer.fetches, 2)
  issuer.keys = [jwkOf(second)]
  clock.forward(11)
  t.match(await who(old), { status: 200 }, 'the cached set is good for now')
  t.match(await who(young), { status: 200 }, 'its name is unknown, so that the set is fetched')
  t.match(await who(old), { status: 401, error: /no key that this server trusts/ }, 'a refresh replaces the whole set, and forgets what was verified')
  t.equal(issuer.fetches, 3)
  t.equal(await metric('svc_jwt_keys'), 1)
  t.match(audit.records, [{ action: 'key_rotation', resource: 'auth.jwt', decision: 'allow', metadata: { added: 'second', removed: 'first', keys: '1' } }])

  issuer.keys = [jwkOf(third)]
  clock.forward(HOUR - 30)
  t.match(await who(young), { status: 200 })
  clock.forward(31)
  t.match(await who(young), { status: 401 }, 'the time to live is over, and the token was verified 31 seconds ago')
  t.equal(audit.records.length, 2)
  clock.forward(HOUR)
  t.match(await who(await sign(third, claims)), { status: 200 })
  t.equal(audit.records.length, 2, 'a refresh that changes nothing is not recorded')

  issuer.keys = [jwkOf(third), jwkOf(first)]
  t.match(await who(await sign(first, claims)), { status: 200 })
  t.match(audit.records.slice(2), [{ metadata: { added: 'first', removed: '', keys: '2' } }], 'a key that only joins the others is')
})

t.test('an unknown name leads to one fetch in ten seconds, however many ask', async (t) => {
  const issuer = await startIssuer(t, jwkOf(first))
  const { who, clock } = await startNode(t, { jwks_url: issuer.jwksUrl })
  const strangers = async (count: number) => Promise.all(Array.from({ length: count }, async () => who(await sign(makeKey('ES256')))))
  for (const answer of await strangers(20)) t.match(answer, { status: 401, error: /no key that this server trusts/ })
  t.equal(issuer.fetches, 2)
  clock.forward(9)
  await strangers(5)
  t.equal(issuer.fetches, 2)
  clock.forward(2)
  await strangers(5)
  t.equal(issuer.fetches, 3)
})

t.test('while the issuer hangs nobody waits for longer than jwks_wait_secs from the beginning of the one fetch', async (t) => {
  const issuer = await startIssuer(t, jwkOf(first))
  const { who, clock, metric } = await startNode(t, { jwks_url: issuer.jwksUrl, jwks_wait_secs: 0.2 })
  const known = async () => sign(first, claimsOf({ jti: String(Math.random()), exp: Date.now() / 1000 + 100 * HOUR }))
  let release = (): void => {}
  let givenUp = false
  issuer.answer = (_, response) => {
    response.on('close', () => {
      givenUp ||= !response.writableFinished
    })
    release = () => void response.end(JSON.stringify({ keys: [jwkOf(first), jwkOf(second)] }))
  }
  const stranger = await sign(second)
  const refused = { status: 401, error: /no key that this server trusts/ }
  t.match(await who(stranger), refused)
  for (let i = 0; i < 20; i++) t.match(await who(await sign({ ...third, kid: `stranger ${i}` })), refused)
  t.match(await who(await known()), { status: 200 })
  clock.forward(HOUR + 1)
  t.match(await who(await known()), { status: 200 }, 'also when the time to live of the keys is over')
  t.equal(issuer.fetches, 2, 'there is one fetch at a time')
  t.equal(givenUp, false, 'which is still under way')
  t.equal(await metric('svc_jwt_unknown_keys'), 21)
  release()
  await eventually(async () => (await metric('svc_jwt_keys')) === 2)
  t.match(await who(stranger), { status: 200 }, 'what was unknown is known now')
})

t.test('all who wait for a refresh share one fetch', async (t) => {
  const issuer = await startIssuer(t, jwkOf(first))
  const { who, clock } = await startNode(t, { jwks_url: issuer.jwksUrl })
  const tokens = await Promise.all(Array.from({ length: 30 }, (_, i) => sign(first, claimsOf({ sub: `user ${i}`, exp: Date.now() / 1000 + 3 * HOUR }))))
  let release = (): void => {}
  issuer.answer = (_, response) => {
    release = () => void response.end(JSON.stringify({ keys: [jwkOf(first)] }))
  }
  clock.forward(HOUR + 1)
  const answers = tokens.map((token) => who(token))
  await eventually(() => issuer.fetches === 2)
  release()
  for (const { status } of await Promise.all(answers)) t.equal(status, 200)
  t.equal(issuer.fetches, 2)
})

t.test('while refreshing fails the old keys serve for a day, without holding calls up', async (t) => {
  const issuer = await startIssuer(t, jwkOf(first))
  const { who, clock, metric, lines } = await startNode(t, { jwks_url: issuer.jwksUrl })
  const token = async (key: TestKey = first) => sign(key, claimsOf({ jti: String(Math.random()), exp: Date.now() / 1000 + 100 * HOUR }))
  issuer.answer = (_, response) => response.writeHead(503).end()
  clock.forward(HOUR + 1)
  t.match(await who(await token()), { status: 200 })
  t.equal(await metric('svc_jwt_key_refreshes_total{result="failed"}'), 1)
  t.ok(
    lines.some(
      ({ level, msg, cause }) => level === 'warn' && /was not refreshed; the old keys stay/.test(String(msg)) && /it answered 503/.test(String(cause)),
    ),
  )
  t.match(await who(await token()), { status: 200 })
  t.equal(issuer.fetches, 2, 'not again within ten seconds')

  issuer.answer = () => {} // it hangs
  clock.forward(11)
  t.match(await who(await token()), { status: 200 }, 'it is tried in the background')
  await eventually(() => issuer.fetches === 3)
  t.match(await who(await token()), { status: 200 })
  t.equal(await metric('svc_jwt_key_refreshes_total{result="failed"}'), 1, 'and these calls were answered before it was over')
  await issuer.close()
  await eventually(() => lines.filter(({ msg }) => /was not refreshed/.test(String(msg))).length === 2)

  clock.forward(22 * HOUR)
  const cached = await token()
  t.match(await who(cached), { status: 200 })
  t.match(await who(cached), { status: 200 })
  clock.forward(HOUR)
  t.match(await who(await token()), { status: 401, error: /could not be fetched for a day/ })
  t.match(await who(cached), { status: 401, error: /could not be fetched for a day/ })

  issuer.answer = undefined
  issuer.keys = [jwkOf(second)]
  await issuer.open()
  clock.forward(11)
  t.match(await who(await token(second)), { status: 200 }, 'the issuer is back')
  t.match(await who(await token()), { status: 401 })
  t.ok(lines.some(({ msg }) => /is fetched again/.test(String(msg))))
})

t.test('what answers garbage for a while does not cost the keys', async (t) => {
  const issuer = await startIssuer(t, jwkOf(first))
  const { who, clock } = await startNode(t, { jwks_url: issuer.jwksUrl })
  const token = await sign(first, claimsOf({ exp: Date.now() / 1000 + 100 * HOUR }))
  for (const answer of ['{"keys": []}', 'garbage', `[${'['.repeat(1000)}`]) {
    issuer.answer = (_, response) => response.end(answer)
    clock.forward(HOUR + 1)
    t.match(await who(token), { status: 200 }, answer.slice(0, 20))
  }
})

t.test('a failure that is long past is no reason to serve old keys', async (t) => {
  const issuer = await startIssuer(t, jwkOf(first))
  const { who, clock } = await startNode(t, { jwks_url: issuer.jwksUrl })
  const token = await sign(first, claimsOf({ exp: Date.now() / 1000 + 100 * HOUR }))
  issuer.answer = (_, response) => response.writeHead(503).end()
  clock.forward(HOUR + 1)
  t.match(await who(token), { status: 200 })
  issuer.answer = undefined
  issuer.keys = [jwkOf(second)]
  clock.forward(5 * HOUR)
  t.match(await who(token), { status: 401 })
})

t.test('a failure before the time was over is no reason either', async (t) => {
  const issuer = await startIssuer(t, jwkOf(first))
  const { who, clock } = await startNode(t, { jwks_url: issuer.jwksUrl })
  const token = await sign(first, claimsOf({ exp: Date.now() / 1000 + 100 * HOUR }))
  clock.forward(HOUR - 2)
  issuer.answer = (_, response) => response.writeHead(503).end()
  t.match(await who(await sign(second)), { status: 401 })
  t.match(await who(token), { status: 200 })
  issuer.answer = undefined
  issuer.keys = [jwkOf(second)]
  clock.forward(3)
  t.match(await who(token), { status: 401 })
})

t.test('keys that the audit log cannot record do not count', async (t) => {
  const audit = auditLog()
  const issuer = await startIssuer(t, jwkOf(first))
  const { who, clock } = await startNode(t, { jwks_url: issuer.jwksUrl }, { others: [audit.plugin] })
  issuer.keys = [jwkOf(second)]
  audit.fail = true
  t.match(await who(await sign(second)), { status: 401 })
  t.match(await who(await sign(first)), { status: 200 })
  audit.fail = false
  clock.forward(11)
  t.match(await who(await sign(second)), { status: 200 })
  t.equal(audit.records.length, 1)
})

t.test('a token that was verified with keys that are replaced meanwhile is not kept', async (t) => {
  const { TokenCache } = await import('./token-cache.ts')
  const cache = new TokenCache({ clockSkewMs: 0, now: () => 0, monotonic: () => 0 })
  const identity = { principal: 'ann', method: 'jwt', claims: {}, namespaces: [], admin: false, expiresAt: 1e6 }
  const [early, late] = [cache.admission('early'), () => cache.admission('late')]
  cache.drop()
  early(identity, 1000)
  t.equal(cache.get('early'), undefined)
  late()(identity, 1000)
  t.equal(cache.get('late'), identity)
  for (let i = 0; i < 10_050; i++) cache.admission(`token ${i}`)(identity, 1000)
  t.equal(cache.size, 10_000)
  t.equal(cache.get('late'), undefined, 'the oldest goes')
})

t.test('used tokens: none is forgotten early', async (t) => {
  const { UsedTokens } = await import('./used-tokens.ts')
  let now = 0
  const used = new UsedTokens({ clockSkewMs: 1000, now: () => now, max: 2 })
  used.use({ jti: 'a' }, 5000)
  used.use({ jti: 'b' }, 60_000)
  t.throws(() => used.use({ jti: 'c' }, 60_000), /as many tokens as are remembered/)
  now = 5999
  t.throws(() => used.use({ jti: 'c' }, 60_000), /as many tokens/)
  now = 7000
  used.use({ jti: 'c' }, 60_000)
  t.throws(() => used.use({ jti: 'b' }, 60_000), /used before/)
  t.equal(used.size, 2)
})

t.test('used tokens: what has expired goes a little with each call', async (t) => {
  const { UsedTokens } = await import('./used-tokens.ts')
  let now = 0
  const most = 20_000
  const used = new UsedTokens({ clockSkewMs: 0, now: () => now, max: most })
  for (let i = 0; i < most; i++) used.use({ jti: `${i}` }, i % 2 === 0 ? 1000 : 100_000)
  t.throws(() => used.use({ jti: 'more' }, 100_000), /as many tokens/)
  now = 1000
  for (let i = 0, before = used.size; i < most / 2; i++, before = used.size) {
    used.use({ jti: `later ${i}` }, 100_000)
    if (before - used.size > 1000) t.fail(`${before - used.size} went with one call`)
  }
  t.equal(used.size, most, 'each found room')
  t.throws(() => used.use({ jti: '1' }, 100_000), /used before/)
  t.throws(() => used.use({ jti: 'more' }, 100_000), /as many tokens/)
})

t.test('warnings of what is open', async (t) => {
  const issuer = await startIssuer(t, jwkOf(first))
  const { lines } = await startNode(t, { jwks_url: issuer.jwksUrl })
  const warned = lines.filter(({ level, name }) => level === 'warn' && name === 'jwt').map(({ msg }) => String(msg))
  t.match(warned, [/auth.jwt.audience is not set/])
  const { settingsOf } = await import('./settings.ts')
  const { Value } = await import('typebox/value')
  const { jwtSchema } = await import('./config.ts')
  const settings = (section: object) => settingsOf(Value.Default(jwtSchema, section) as never)
  t.match(settings({ issuer: 'http://keycloak.example/realms/a', audience: 'svc' }).warnings, [/auth.jwt.issuer is fetched in plain text/])
  t.same(settings({ issuer: 'https://keycloak.example/realms/a', audience: 'svc' }).warnings, [])
  t.same(settings({ issuer: 'http://[::1]:8080', audience: 'svc' }).warnings, [])
  t.equal(
    String((settings({ issuer: 'https://a.example/x/' }).keys as { keySet: { discoveryUrl: URL } }).keySet.discoveryUrl),
    'https://a.example/x/.well-known/openid-configuration',
  )
})
