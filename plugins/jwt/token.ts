/** What can be told of a token before any key is looked at. Pure. */
import { decodeProtectedHeader } from 'jose'
import { type Algorithm, algorithmOf } from './algorithms.ts'
import { TokenRefused } from './refusal.ts'

const MAX_TOKEN_LENGTH = 16_384
const MAX_KID_LENGTH = 1024

export interface TokenHeader {
  /** As it is written, which is what the signature is checked by. */
  alg: string
  algorithm: Algorithm
  kid: string | undefined
}

/** @throws TokenRefused for what is no token, and for the algorithms and extensions that are never taken. */
export function readHeader(token: string): TokenHeader {
  if (token.length > MAX_TOKEN_LENGTH) throw new TokenRefused('malformed', `it has more than ${MAX_TOKEN_LENGTH} characters; have it issued with fewer claims`)
  const parts = token.split('.')
  if (parts.length === 5) throw new TokenRefused('malformed', 'it is encrypted; have it issued as a signed one')
  if (parts.length !== 3 || parts.some((part) => !/^[\w-]*$/.test(part))) throw new TokenRefused('malformed')
  let header: Record<string, unknown>
  try {
    header = decodeProtectedHeader(token) as Record<string, unknown>
  } catch {
    throw new TokenRefused('malformed')
  }
  const { alg, kid, crit, typ } = header
  // An extension that must be understood, and none is. Keys that a header brings along (jwk, jku, x5c, x5u) are not looked at.
  if (crit !== undefined) throw new TokenRefused('malformed', 'it has critical extensions, and this server knows none; have it issued without')
  if (kid !== undefined && (typeof kid !== 'string' || kid.length > MAX_KID_LENGTH)) throw new TokenRefused('malformed')
  if (isOfAnotherUse(typ)) throw new TokenRefused('malformed', 'its type is that of tokens for another use (header typ); send an access token')
  const algorithm = algorithmOf(alg)
  if (algorithm === undefined) throw new TokenRefused('algorithm')
  return { alg: alg as string, algorithm, kid }
}

/** Explicit types (RFC 8725, 3.11), such as `logout+jwt` or `dpop+jwt`, which an issuer signs with the same keys. */
function isOfAnotherUse(typ: unknown): boolean {
  return typeof typ === 'string' && /\+jwt$/i.test(typ) && !/^(application\/)?at\+jwt$/i.test(typ)
}
