import { createHmac, generateKeyPairSync } from 'node:crypto'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { boot } from 'svcdb/testkit'
import t, { type Test } from 'tap'
import jwt from './index.ts'
import { ASYMMETRIC, claimsOf, forge, jwkOf, makeKey, SECRET, sign, startIssuer, startNode, type TestKey } from './testing.ts'
import { fuzz } from './token.fuzz.ts'

const keys = new Map(ASYMMETRIC.map((alg): [string, TestKey] => [alg, makeKey(alg)]))
const keyOf = (alg: string): TestKey => keys.get(alg) as TestKey
const UNSUPPORTED = ['none', 'ES512', 'HS1', 'RSA-OAEP', 'rs256', '']

async function pemFile(t: Test, text: string): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'svc-jwt-'))
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  const file = join(folder, 'key.pem')
  await writeFile(file, text)
  return file
}

t.test('HMAC with a secret', async (t) => {
  for (const algorithm of ['HS256', 'HS384', 'HS512']) {
    const { who } = await startNode(t, { secret: SECRET, algorithm })
    t.match(await who(await sign(SECRET, claimsOf(), { alg: algorithm })), { status: 200 }, algorithm)
    t.match(await who(await sign(`${SECRET}x`, claimsOf(), { alg: algorithm })), { status: 401, error: /signature/ })
  }
})

for (const alg of ASYMMETRIC) {
  t.test(`${alg} with a file and with a key set`, async (t) => {
    const key = keyOf(alg)
    const stranger = { ...makeKey(alg), kid: key.kid }
    const issuer = await startIssuer(t, jwkOf(key))
    const sections = [
      { public_key_pem_file: await pemFile(t, key.pem), algorithm: alg },
      { jwks_url: issuer.jwksUrl },
      { jwks_url: issuer.jwksUrl, algorithm: alg },
      { issuer: issuer.url },
    ]
    for (const section of sections) {
      const { who } = await startNode(t, section)
      const claims = claimsOf({ iss: issuer.url })
      t.match(await who(await sign(key, claims)), { status: 200, principal: 'ann' }, Object.keys(section).join())
      t.match(await who(await sign(stranger, claims)), { status: 401, error: /signature is wrong/ })
      const [header, body, signature] = (await sign(key, claims)).split('.')
      t.match(await who(`${header}.${Buffer.from(JSON.stringify({ ...claims, admin: true })).toString('base64url')}.${signature}`), {
        status: 401,
        error: /signature is wrong/,
      })
      t.match(await who(`${header}.${body}.`), { status: 401, error: /signature is wrong/ })
      for (const other of ASYMMETRIC.filter((name) => name !== alg).slice(0, 3))
        t.match(await who(await sign(keyOf(other), claims, { kid: key.kid })), { status: 401, error: /its algorithm/ }, `${other} with the name of the key`)
    }
  })
}

t.test('Ed25519 is EdDSA', async (t) => {
  const key = keyOf('EdDSA')
  const issuer = await startIssuer(t, jwkOf(key, { alg: 'Ed25519' }))
  const { who } = await startNode(t, { jwks_url: issuer.jwksUrl, algorithm: 'EdDSA' })
  for (const alg of ['EdDSA', 'Ed25519']) t.match(await who(await sign(key, claimsOf(), { alg })), { status: 200 }, alg)
})

t.test('a public key is never the secret of an HMAC', async (t) => {
  for (const alg of ['RS256', 'ES256', 'EdDSA']) {
    const key = keyOf(alg)
    const issuer = await startIssuer(t, jwkOf(key))
    const der = key.publicKey.export({ type: 'spki', format: 'der' })
    const jwk = jwkOf(key)
    const secrets = [key.pem, key.pem.trim(), der, der.toString('base64'), JSON.stringify(jwk), Buffer.from(String(jwk.n ?? jwk.x), 'base64url'), '']
    for (const section of [{ public_key_pem_file: await pemFile(t, key.pem), algorithm: alg }, { jwks_url: issuer.jwksUrl }]) {
      const { who } = await startNode(t, section)
      t.match(await who(await sign(key)), { status: 200 })
      for (const secret of secrets) {
        for (const hmac of ['HS256', 'HS384', 'HS512']) {
          const input = forge({ alg: hmac, kid: key.kid }, claimsOf({ admin: true }))
            .split('.')
            .slice(0, 2)
            .join('.')
          const signature = createHmac(`sha${hmac.slice(2)}`, secret)
            .update(input)
            .digest('base64url')
          t.match(await who(`${input}.${signature}`), { status: 401, error: /its algorithm/ }, hmac)
        }
      }
    }
  }
})

t.test('none and what is not in the list are refused, whatever the keys are', async (t) => {
  const key = keyOf('RS256')
  const issuer = await startIssuer(t, jwkOf(key))
  const file = await pemFile(t, key.pem)
  for (const section of [{ secret: SECRET }, { public_key_pem_file: file, algorithm: 'RS256' }, { jwks_url: issuer.jwksUrl }]) {
    const { who } = await startNode(t, section)
    for (const alg of [...UNSUPPORTED, 'None', 'NONE', 'nOnE', null, 7, ['RS256'], { name: 'RS256' }]) {
      for (const signature of ['', undefined]) {
        t.match(
          await who(forge({ alg, kid: key.kid }, claimsOf(), { secret: SECRET, signature })),
          { status: 401, error: /its algorithm/ },
          JSON.stringify(alg),
        )
      }
    }
    t.match(await who(forge({ kid: key.kid }, claimsOf())), { status: 401, error: /its algorithm/ }, 'none at all')
  }
})

t.test('keys that a token brings along are not looked at', async (t) => {
  const [key, own] = [keyOf('RS256'), makeKey('RS256', 'evil')]
  const evil = await startIssuer(t, jwkOf(own))
  const issuer = await startIssuer(t, jwkOf(key))
  const { who } = await startNode(t, { jwks_url: issuer.jwksUrl })
  const jwk = jwkOf(own)
  for (const header of [
    { jwk },
    { jku: evil.jwksUrl },
    { x5u: evil.jwksUrl },
    { x5c: [own.publicKey.export({ type: 'spki', format: 'der' }).toString('base64')] },
  ]) {
    t.match(await who(await sign(own, claimsOf(), header)), { status: 401, error: /no key that this server trusts/ })
    t.match(await who(await sign(own, claimsOf(), { ...header, kid: key.kid })), { status: 401, error: /signature is wrong/ })
  }
  t.equal(evil.fetches, 0)
})

t.test('headers that must be understood, and names of keys that are none', async (t) => {
  const key = keyOf('RS256')
  const issuer = await startIssuer(t, jwkOf(key))
  const { who } = await startNode(t, { jwks_url: issuer.jwksUrl })
  const input = forge({ alg: 'RS256', kid: key.kid, crit: ['b64'], b64: false }, claimsOf())
  t.match(await who(input), { status: 401, error: /critical extensions/ })
  for (const crit of [[], ['exp'], 'exp', null, true]) t.match(await who(forge({ alg: 'RS256', crit }, claimsOf())), { status: 401 })
  for (const kid of [7, null, ['a'], {}, 'k'.repeat(1025)])
    t.match(await who(forge({ alg: 'RS256', kid }, claimsOf())), { status: 401, error: /no signed token/ })
  for (const kid of ['', '../../etc/passwd', "' OR 1=1 --", '__proto__', 'constructor', '\u0000', key.kid.toUpperCase()])
    t.match(await who(await sign(makeKey('RS256', kid))), { status: 401, error: /no key that this server trusts/ }, kid)
  for (const typ of ['logout+jwt', 'application/dpop+jwt', 'secevent+JWT', 'xat+jwt'])
    t.match(await who(await sign(key, claimsOf(), { typ })), { status: 401, error: /for another use/ })
  for (const typ of ['JWT', 'jwt', 'at+jwt', 'application/at+jwt', 'JOSE']) t.match(await who(await sign(key, claimsOf(), { typ })), { status: 200 }, typ)
})

t.test('what is corrupted is refused', async (t) => {
  const { who } = await startNode(t, { secret: SECRET })
  const token = await sign(SECRET)
  const [header, body, signature] = token.split('.')
  const corrupted = [
    `${token}.`,
    `.${token}`,
    `${header}.${body}.${signature}=`,
    `${header}..${signature}`,
    `.${body}.${signature}`,
    `${header}.${body}`,
    `${token}é`,
  ]
  for (const text of corrupted) t.match(await who(text), { status: 401 }, text.length.toString())
  t.match(await who(`${header}.${body}.${signature.replaceAll(/./g, 'A')}`), { status: 401, error: /signature/ })
})

t.test('files of keys', async (t) => {
  const start = async (file: string, algorithm: string) =>
    (await boot({ plugins: [jwt], config: { auth: { jwt: { public_key_pem_file: file, algorithm } } } })).stop()
  const [rsa, small] = [keyOf('RS256'), generateKeyPairSync('rsa', { modulusLength: 1024 }).publicKey.export({ type: 'spki', format: 'pem' }) as string]
  const pkcs1 = rsa.publicKey.export({ type: 'pkcs1', format: 'pem' }) as string
  await t.resolves(start(await pemFile(t, pkcs1), 'PS256'))
  const certificate = new URL('../../test/support/certificates/first.pem', import.meta.url).pathname
  await t.resolves(start(certificate, 'ES256'))
  const cases: [string, string, RegExp][] = [
    ['/does/not/exist.pem', 'RS256', /auth.jwt.public_key_pem_file "\/does\/not\/exist.pem": ENOENT/],
    [await pemFile(t, rsa.privateKey.export({ type: 'pkcs8', format: 'pem' }) as string), 'RS256', /holds a private key/],
    [await pemFile(t, rsa.privateKey.export({ type: 'pkcs1', format: 'pem' }) as string), 'RS256', /holds a private key/],
    [await pemFile(t, 'nonsense'), 'RS256', /holds 0 PEM blocks/],
    [await pemFile(t, rsa.pem + pkcs1), 'RS256', /holds 2 PEM blocks/],
    [await pemFile(t, '-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n'), 'RS256', /holds no public key/],
    [await pemFile(t, rsa.pem + ' '.repeat(70_000)), 'RS256', /more than 65536 bytes/],
    [await pemFile(t, rsa.pem), 'ES256', /does not go with auth.jwt.algorithm "ES256"; set one of RS256/],
    [await pemFile(t, keyOf('ES384').pem), 'ES256', /does not go with auth.jwt.algorithm "ES256"; set one of ES384/],
    [await pemFile(t, small), 'RS256', /of no kind that verifies tokens/],
    [await pemFile(t, generateKeyPairSync('x25519').publicKey.export({ type: 'spki', format: 'pem' }) as string), 'EdDSA', /of no kind/],
  ]
  for (const [file, algorithm, error] of cases) await t.rejects(start(file, algorithm), error)
})

t.test('random and damaged tokens, as the fuzzer makes them', async (t) => {
  const seed = Date.now() % 1e9
  t.comment(`seed ${seed}`)
  t.ok((await fuzz(seed, (rounds) => rounds < 500)) >= 500)
})
