/** Why a token is not accepted: a word for the metric, a text for the caller. Neither has any part of the token but names of claims. */
import { SvcError } from 'svcdb/lib/errors'

const CAUSES = {
  malformed: 'it is no signed token of three parts; check that it was copied whole',
  algorithm: 'its algorithm is not one that this server takes for the key; have it signed with another',
  bad_signature: 'its signature is wrong; get it from the issuer that this server trusts',
  unknown_key: 'no key that this server trusts verifies it; get it from the issuer that this server trusts',
  no_keys: 'the keys of its issuer could not be fetched for a day; retry when the issuer can be reached',
  expired: 'it has expired; get a new one',
  not_yet_valid: 'it is not valid yet (claim nbf); retry later, and compare the clocks of the issuer and of this server',
  wrong_issuer: 'it is of another issuer (claim iss) than this server trusts; get it from that one',
  wrong_audience: 'it is for another audience (claim aud) than this server; request one for this server',
  claims: 'a claim is missing or wrong; have it issued with the claims that the server needs',
  replayed: 'it was used before (claim jti), and each token is for one call; get a new one',
  too_many: 'as many tokens as are remembered are in use (claim jti); retry when some have expired',
} as const

type RefusalKind = keyof typeof CAUSES

export class TokenRefused extends Error {
  readonly kind: RefusalKind

  /** @param cause in place of the kind's own, with its hint. */
  constructor(kind: RefusalKind, cause: string = CAUSES[kind]) {
    super(`cannot accept the token: ${cause}`)
    this.name = 'TokenRefused'
    this.kind = kind
  }

  toSvcError(): SvcError {
    if (this.kind === 'too_many') return new SvcError('RATE_LIMITED', this.message)
    return new SvcError('UNAUTHORIZED', this.message, { headers: { 'www-authenticate': 'Bearer error="invalid_token"' } })
  }
}
