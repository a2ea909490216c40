/** The core: tokens made and read. `signed_<claims>.<signature>`, both in base64url; the signature is HMAC-SHA-256 of all before the dot. No clock, no config. */
import { createHmac, timingSafeEqual } from 'node:crypto'
import { declareErrors, SvcError } from 'svcdb'

export const errors = declareErrors({ SIGNED_TOKEN_EXPIRED: { http: 401, grpc: 16, text: 'A token of signed_tokens whose time is over' } })

const PREFIX = 'signed_'
const MAX_LENGTH = 2048

export interface Claims {
  subject: string
  /** Milliseconds since the Unix epoch. */
  expiresAt: number
}

function signatureOf(text: string, key: string): string {
  return createHmac('sha256', key).update(text).digest('base64url')
}

export function makeToken({ subject, expiresAt }: Claims, key: string): string {
  const text = PREFIX + Buffer.from(JSON.stringify({ subject, expiresAt })).toString('base64url')
  return `${text}.${signatureOf(text, key)}`
}

/** @returns the claims, why they do not count, or undefined for what is no token of this kind. @param now milliseconds since the Unix epoch. */
export function readToken(token: string, key: string, now: number): Claims | SvcError | undefined {
  if (!token.startsWith(PREFIX)) return undefined
  const dot = token.lastIndexOf('.')
  if (token.length > MAX_LENGTH || dot < 0) return forged()
  // The texts are compared, not what they decode to: a signature has one form. Only its length, which all know, shows in the time.
  const given = Buffer.from(token.slice(dot + 1))
  const expected = Buffer.from(signatureOf(token.slice(0, dot), key))
  if (given.length !== expected.length || !timingSafeEqual(given, expected)) return forged()
  const claims = JSON.parse(Buffer.from(token.slice(PREFIX.length, dot), 'base64url').toString()) as Claims
  if (claims.expiresAt <= now) return new SvcError(errors.SIGNED_TOKEN_EXPIRED, 'the token has expired; make a new one by "svc make-token"')
  return claims
}

function forged(): SvcError {
  return new SvcError('UNAUTHORIZED', 'the token is not accepted: it was not signed with the key of this server')
}
