/** From a token to its claims: which key, the signature, then the claims that say when, by whom and for whom. */
import { errors, jwtVerify } from 'jose'
import type { Algorithm } from './algorithms.ts'
import type { IssuerKeys } from './issuer-keys.ts'
import type { KeySet, VerificationKey } from './key-set.ts'
import { TokenRefused } from './refusal.ts'
import { readHeader, type TokenHeader } from './token.ts'

interface VerifierOptions {
  /** Nothing else is taken, whatever the keys could verify. */
  algorithms: ReadonlySet<Algorithm>
  staticKey?: VerificationKey
  issuerKeys?: IssuerKeys
  issuer?: string
  audience?: string
  clockSkewSecs: number
  /** Wall clock, milliseconds. */
  now(): number
}

interface Verified {
  claims: Record<string, unknown>
  key: VerificationKey
}

export class Verifier {
  private readonly options: VerifierOptions

  constructor(options: VerifierOptions) {
    this.options = options
  }

  /** @throws TokenRefused */
  async verify(token: string): Promise<Verified> {
    const header = readHeader(token)
    const { algorithms, staticKey, issuerKeys } = this.options
    if (!algorithms.has(header.algorithm)) throw new TokenRefused('algorithm')
    if (staticKey?.algorithms.has(header.algorithm)) {
      const verified = await this.tryKeys(token, header, [staticKey])
      if (verified !== undefined) return verified
      if (issuerKeys === undefined) throw new TokenRefused('bad_signature')
    }
    if (issuerKeys === undefined) throw new TokenRefused('algorithm')
    const set = await issuerKeys.current()
    const verified = await this.trySet(token, header, set)
    if (verified !== undefined) return verified
    // A key that is new at the issuer: named in the token, or the token names none.
    const newer = await issuerKeys.sought(header.kid)
    const late = newer === undefined || newer === set ? undefined : await this.trySet(token, header, newer)
    if (late !== undefined) return late
    throw new TokenRefused('unknown_key')
  }

  /** Undefined when another set might verify it. */
  private async trySet(token: string, header: TokenHeader, set: KeySet): Promise<Verified | undefined> {
    const named = set.named(header.kid)
    const fitting = (named ?? set.keys).filter(({ algorithms }) => algorithms.has(header.algorithm))
    if (named !== undefined && fitting.length === 0) throw new TokenRefused('algorithm')
    const verified = await this.tryKeys(token, header, fitting)
    if (verified === undefined && named !== undefined) throw new TokenRefused('bad_signature')
    return verified
  }

  /** By the first key whose signature it is; undefined for none. */
  private async tryKeys(token: string, { alg }: TokenHeader, keys: readonly VerificationKey[]): Promise<Verified | undefined> {
    const { issuer, audience, clockSkewSecs, now } = this.options
    const rules = { algorithms: [alg], issuer, audience, requiredClaims: ['exp', 'sub'], clockTolerance: clockSkewSecs, currentDate: new Date(now()) }
    for (const key of keys) {
      try {
        return { claims: (await jwtVerify(token, key.key, rules)).payload, key }
      } catch (error) {
        if (!(error instanceof errors.JWSSignatureVerificationFailed)) throw refusalOf(error)
      }
    }
    return undefined
  }
}

function refusalOf(error: unknown): unknown {
  if (error instanceof errors.JWTExpired) return new TokenRefused('expired')
  if (error instanceof errors.JWTClaimValidationFailed) {
    const { claim, reason } = error
    if (reason === 'missing') return new TokenRefused('claims', `the claim ${claim} is missing; have it issued with it`)
    if (claim === 'nbf' && reason === 'check_failed') return new TokenRefused('not_yet_valid')
    if (claim === 'iss') return new TokenRefused('wrong_issuer')
    if (claim === 'aud') return new TokenRefused('wrong_audience')
    return new TokenRefused('claims', `the claim ${claim} must be a number; have it issued so`)
  }
  return error instanceof errors.JOSEError ? new TokenRefused('malformed') : error
}
