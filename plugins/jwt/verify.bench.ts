/** Calls a second that one core authenticates, by algorithm: tokens that were verified before, and new ones: node plugins/jwt/verify.bench.ts [seconds] */

import { Secret } from 'svcdb'
import { MetricsRegistry, systemClock } from 'svcdb/testkit'
import { Value } from 'typebox/value'
import type { Algorithm } from './algorithms.ts'
import { TokenAuthenticator } from './authenticator.ts'
import { type JwtConfig, jwtSchema } from './config.ts'
import { IssuerKeys } from './issuer-keys.ts'
import { type KeySet, parseKeySet } from './key-set.ts'
import { jwtMetrics } from './metrics.ts'
import { secretKey } from './static-key.ts'
import { ASYMMETRIC, claimsOf, jwkOf, makeKey, SECRET, sign } from './testing.ts'

const seconds = Number(process.argv[2] ?? 1)
const CONCURRENT = 16
const registry = new MetricsRegistry()

async function authenticatorOf(algorithm: Algorithm, set?: KeySet): Promise<TokenAuthenticator> {
  const config = Value.Default(jwtSchema, {}) as JwtConfig
  const metrics = jwtMetrics(registry.child('jwt'), () => undefined)
  const svc = { clock: systemClock, log: { debug() {} }, server: { multi_tenancy: false } }
  const authenticator = new TokenAuthenticator(svc as never, { config, settings: { algorithms: new Set([algorithm]) }, chained: false, metrics })
  if (set === undefined) {
    authenticator.open({ staticKey: await secretKey(new Secret(SECRET), 'HS256') })
    return authenticator
  }
  const issuerKeys = new IssuerKeys({
    load: async () => set,
    waitMs: 2000,
    unknownMs: 10_000,
    ttlMs: 3.6e6,
    monotonic: systemClock.monotonic,
    rotating: async () => {},
    refreshed() {},
    failed() {},
  })
  await issuerKeys.open()
  authenticator.open({ issuerKeys })
  return authenticator
}

async function run(authenticator: TokenAuthenticator, token: string, fresh: boolean): Promise<number> {
  const credentials = { header: (name: string) => (name === 'authorization' ? `Bearer ${token}` : undefined) } as never
  const one = async () => {
    if (fresh) authenticator.forget()
    const answer = authenticator.authenticate(credentials)
    const identity = answer instanceof Promise ? await answer : answer
    if (identity === undefined || identity instanceof Error) throw new Error('the token was not accepted', { cause: identity })
  }
  for (let i = 0; i < 200; i++) await one()
  let calls = 0
  const start = performance.now()
  const lane = async () => {
    for (; performance.now() - start < seconds * 1000; calls++) await one()
  }
  await Promise.all(Array.from({ length: fresh ? CONCURRENT : 1 }, lane))
  return calls / ((performance.now() - start) / 1000)
}

const shown = (rate: number): string => `${Math.round(rate).toLocaleString('en').padStart(9)}/s ${(1e6 / rate).toFixed(1).padStart(7)} µs`
console.log(`${'algorithm'.padEnd(10)} ${'verified before'.padStart(22)} ${'new'.padStart(22)}   (new ones: ${CONCURRENT} at a time)`)
for (const alg of ['HS256', ...ASYMMETRIC]) {
  const key = alg === 'HS256' ? undefined : makeKey(alg)
  const set = key === undefined ? undefined : parseKeySet({ keys: [jwkOf(key)] })
  const token = await sign(key ?? SECRET, claimsOf({ iss: 'https://issuer.example', aud: 'svc', namespaces: ['red'], roles: ['reader'] }))
  const authenticator = await authenticatorOf(alg as Algorithm, set)
  const [cached, fresh] = [await run(authenticator, token, false), await run(authenticator, token, true)]
  console.log(`${alg.padEnd(10)} ${shown(cached).padStart(22)} ${shown(fresh).padStart(22)}`)
}
registry.close()
