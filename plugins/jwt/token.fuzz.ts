/**
 * Random and damaged tokens, headers and key sets: a token is accepted only if it was signed, and everything else is refused in the way it should be.
 * node plugins/jwt/token.fuzz.ts [seconds] [seed]
 */
import { deepStrictEqual, ok } from 'node:assert'
import { isJwtShaped, namespaceProblem, Secret, tokenOf } from 'svcdb'
import { type Random, seeded } from 'svcdb/lib/random'
import { identityOf } from './identity.ts'
import { IssuerKeys } from './issuer-keys.ts'
import { parseKeySet } from './key-set.ts'
import { TokenRefused } from './refusal.ts'
import { secretKey } from './static-key.ts'
import { forge, jwkOf, makeKey, SECRET, sign } from './testing.ts'
import { Verifier } from './verifier.ts'

const NOW = 1_700_000_000
const KEYS = [makeKey('ES256', 'ec'), makeKey('EdDSA', 'ed'), makeKey('RS256', 'rsa')]
const pick = <T>(random: Random, list: readonly T[]): T => list[Math.floor(random() * list.length)]
const TEXTS = ['', 'red', 'a-b', 'Ünï', '\u0000', '__proto__', 'x'.repeat(600), 'sub', 'none', 'ec', 'rsa', 'ES256', '../x']
const CLAIMS = ['sub', 'exp', 'nbf', 'iat', 'iss', 'aud', 'jti', 'namespaces', 'tenant_id', 'admin', 'roles', 'realm_access', '__proto__', 'constructor']
const HEADERS = ['alg', 'kid', 'typ', 'crit', 'b64', 'jwk', 'jku', 'x5c', 'x5u', 'cty', 'zip', 'enc', '__proto__']
const MEMBERS = ['kty', 'use', 'alg', 'kid', 'crv', 'x', 'y', 'n', 'e', 'd', 'k', 'key_ops', 'ext']

function value(random: Random, depth = 0): unknown {
  switch (Math.floor(random() * (depth > 2 ? 6 : 8))) {
    case 0:
      return null
    case 1:
      return random() < 0.5
    case 2:
      return pick(random, [0, -1, NOW, NOW + 60, NOW - 3600, 1e300, -1e300, 0.5, Number.MAX_SAFE_INTEGER])
    case 6:
      return Array.from({ length: Math.floor(random() * 4) }, () => value(random, depth + 1))
    case 7:
      return object(random, [...TEXTS, 'roles'], depth + 1)
    default:
      return pick(random, TEXTS)
  }
}

function object(random: Random, names: readonly string[], depth = 0): Record<string, unknown> {
  // JSON.parse makes own members of any name.
  return JSON.parse(
    `{${Array.from({ length: Math.floor(random() * 5) }, () => `${JSON.stringify(pick(random, names))}:${JSON.stringify(value(random, depth))}`).join()}}`,
  )
}

function corruption(random: Random, text: string): string {
  const at = Math.floor(random() * text.length)
  switch (Math.floor(random() * 5)) {
    case 0:
      return text.slice(0, at)
    case 1:
      return text.slice(0, at) + pick(random, ['.', '=', 'A', '-', '_', '+', '/', '!', '~']) + text.slice(at)
    case 2:
      return text.slice(0, at) + String.fromCharCode(0x21 + Math.floor(random() * 94)) + text.slice(at + 1)
    case 3:
      return text.split('.').reverse().join('.')
    default:
      return text.slice(0, at) + text.slice(at + 1 + Math.floor(random() * 5))
  }
}

interface Fixture {
  verifiers: Verifier[]
  /** What was signed: header and body as they are sent, with the verifier that takes it. */
  signed: Map<string, Verifier>
  tokens: string[]
}

async function fixture(): Promise<Fixture> {
  const now = () => NOW * 1000
  const common = { clockSkewSecs: 30, now }
  const set = parseKeySet({ keys: KEYS.map((key) => jwkOf(key)) })
  const issuerKeys = new IssuerKeys({
    load: async () => set,
    ttlMs: 3.6e6,
    waitMs: 2000,
    unknownMs: 10_000,
    monotonic: () => 0,
    rotating: async () => {},
    refreshed() {},
    failed() {},
  })
  await issuerKeys.open()
  const hmac = new Verifier({ ...common, algorithms: new Set(['HS256']), staticKey: await secretKey(new Secret(SECRET), 'HS256') })
  const asymmetric = new Verifier({ ...common, algorithms: new Set(['ES256', 'EdDSA', 'RS256']), issuerKeys })
  const claims = { sub: 'ann', exp: NOW + 3600, namespaces: ['red'] }
  const signed = new Map<string, Verifier>()
  const tokens: string[] = []
  for (const key of [SECRET, ...KEYS]) {
    const token = await sign(key, claims)
    signed.set(token.slice(0, token.lastIndexOf('.')), typeof key === 'string' ? hmac : asymmetric)
    tokens.push(token)
  }
  return { verifiers: [hmac, asymmetric], signed, tokens }
}

async function outcome<T>(run: () => T | Promise<T>): Promise<T | undefined> {
  try {
    return await run()
  } catch (error) {
    if (error instanceof TokenRefused) return undefined
    throw error
  }
}

/** Damaged and forged tokens: nothing but what was signed gets through. */
async function attack(random: Random, { verifiers, signed, tokens }: Fixture): Promise<void> {
  let token = pick(random, tokens)
  if (random() < 0.5) {
    for (let i = 1 + Math.floor(random() * 3); i > 0; i--) token = corruption(random, token)
  } else {
    const header = { ...object(random, HEADERS), ...(random() < 0.7 && { alg: pick(random, ['HS256', 'none', 'ES256', 'EdDSA', 'RS256', 'HS512']) }) }
    const secret = pick(random, ['', ...KEYS.map(({ pem }) => pem), 'x'])
    token = forge(header, object(random, CLAIMS), { secret, ...(random() < 0.3 && { signature: token.slice(token.lastIndexOf('.') + 1) }) })
  }
  for (const verifier of verifiers) {
    const verified = await outcome(() => verifier.verify(token))
    if (verified !== undefined) deepStrictEqual(signed.get(token.slice(0, token.lastIndexOf('.'))), verifier, `accepted ${token}`)
  }
}

/** Tokens that are signed, with any claims: an identity is a whole one. */
async function claim(random: Random, { verifiers }: Fixture): Promise<void> {
  const given = { ...object(random, CLAIMS), ...(random() < 0.8 && { sub: 'ann', exp: NOW + 60 }), ...object(random, CLAIMS.slice(7)) }
  const token = forge({ alg: 'HS256' }, given, { secret: SECRET })
  const verified = await outcome(() => verifiers[0].verify(token))
  if (verified === undefined) return
  const { claims } = verified
  const multiTenancy = random() < 0.5
  const roleClaim = pick(random, ['roles', 'realm_access.roles', '__proto__.roles', 'constructor.name'])
  const identity = await outcome(() => identityOf(claims, { roleClaim, principalClaim: pick(random, ['sub', 'jti']), multiTenancy, clockSkewMs: 0 }))
  if (identity === undefined) return
  ok(typeof identity.principal === 'string' && identity.principal.length > 0 && identity.principal.length <= 512, token)
  for (const name of identity.namespaces) deepStrictEqual(namespaceProblem(name), undefined, token)
  for (const role of identity.roles ?? []) ok(typeof role === 'string', token)
  deepStrictEqual(identity.admin, claims.admin === true, token)
  ok(!multiTenancy || identity.admin || identity.namespaces.length > 0 || Array.isArray(claims.namespaces), token)
  ok(!Number.isNaN(new Date(identity.expiresAt as number).getTime()), token)
}

/** Key sets: only public keys come out of them. */
function keySet(random: Random): void {
  const keys = Array.from({ length: Math.floor(random() * 4) }, () =>
    random() < 0.2 ? value(random) : { ...(random() < 0.8 && jwkOf(pick(random, KEYS))), ...object(random, MEMBERS) },
  )
  try {
    for (const { key } of parseKeySet(random() < 0.1 ? value(random) : { keys }).keys) deepStrictEqual(key.type, 'public')
  } catch (error) {
    if (!/^the (key set|answer)/.test((error as Error).message)) throw error
  }
}

/** Headers: what comes out is text without spaces, whatever goes in. */
function header(random: Random, { tokens }: Fixture): void {
  const scheme = pick(random, ['Bearer', 'bearer', 'Token', 'Basic', 'Digest', '', 'Bearer\t', 'bea rer'])
  const text = random() < 0.5 ? pick(random, tokens) : pick(random, TEXTS)
  const value = corruption(random, `${scheme} ${random() < 0.3 ? Buffer.from(`x:${text}`).toString('base64') : text}`)
  const token = tokenOf({ header: () => value })
  if (token !== undefined) isJwtShaped(token)
}

/** Runs while `goesOn(rounds)` holds; returns how many rounds. @throws when something is accepted that should not be, or fails otherwise than by being refused. */
export async function fuzz(seed: number, goesOn: (rounds: number) => boolean): Promise<number> {
  const random = seeded(seed)
  const given = await fixture()
  for (const token of given.tokens) {
    const verifier = given.signed.get(token.slice(0, token.lastIndexOf('.'))) as Verifier
    deepStrictEqual((await verifier.verify(token)).claims.sub, 'ann')
  }
  let rounds = 0
  for (; goesOn(rounds); rounds++) {
    try {
      await attack(random, given)
      await claim(random, given)
      keySet(random)
      header(random, given)
    } catch (error) {
      throw new Error(`seed ${seed}, round ${rounds}`, { cause: error })
    }
  }
  return rounds
}

if (process.argv[1] === import.meta.filename) {
  const seed = Number(process.argv[3] ?? Date.now() % 1e9)
  const until = Date.now() + Number(process.argv[2] ?? 10) * 1000
  console.log(`seed ${seed}: ${await fuzz(seed, () => Date.now() < until)} rounds, nothing got through`)
}
